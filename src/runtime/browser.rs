//! ONNX Runtime Web in a real browser: WebGPU by its native provider, WebNN by its own.
//!
//! It knows nothing of the spec: the browser, the bundle and the options come with the job. The page
//! (`browser/page.mjs`) makes a session that may not fall back to the CPU, and returns ONNX Runtime's log of where each
//! node went; here that is compared with what was requested (docs/design/honesty.md).

mod answer;
mod options;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use super::manifest::Manifest;
use super::measure::MeasureParams;
use super::refusal::Refusal;
use super::tensors::Tensors;
use super::{
    InstalledPath, Job, JobOutput, JobStatus, RawMeasure, onnx_change, onnx_file, tensors,
};
use crate::base::lock;
use crate::browser::{self, Adapter, Api, Launch, Page, Pages, Served, Talk, Trouble};

use answer::Answer;
pub(super) use options::Options;

const SCRIPT: &str = include_str!("browser/page.mjs");
/// What every page here imports.
const COMMON: &str = include_str!("browser/common.mjs");
/// The bundle with the native WebGPU provider and WebNN, and what it loads. Its siblings use an older WebGPU provider.
const BUNDLE: &str = "ort.webgpu.min.mjs";
const LOADED: [&str; 2] = [
    "ort-wasm-simd-threaded.asyncify.mjs",
    "ort-wasm-simd-threaded.asyncify.wasm",
];
/// The level of graph optimisation, as in every other session of ONNX Runtime here.
const OPTIMISATION: &str = "all";
/// How a run here knows that the device is done.
const SYNC: &str = "session.run resolves when the outputs are in the page's memory";

pub fn execute(job: &Job, progress: &dyn Fn(&str)) -> JobOutput {
    job.perform("browser", &[("run", run)], progress)
}

/// The parameters of `run`, and of Transformers.js's.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// The browser's executable.
    #[serde(skip_serializing_if = "InstalledPath::is_open")]
    pub browser: InstalledPath,
    /// The folder of ONNX Runtime Web's bundles, or that of npm's packages.
    #[serde(
        alias = "ort_web",
        alias = "packages",
        skip_serializing_if = "InstalledPath::is_open"
    )]
    pub scripts: InstalledPath,
    /// `webgpu-browser`, `webnn`; `cpu` where a runtime offers it
    pub backend: String,
    /// `webgpu`; of WebNN `cpu`, `gpu`, `npu`; of the CPU `wasm`
    pub device: String,
    #[serde(default)]
    pub options: Map<String, Value>,
    #[serde(with = "super::measure::wanted")]
    pub measure: Option<MeasureParams>,
    /// Other jobs follow in this process, so the browser stays open.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kept: bool,
}

fn run(job: &Job, progress: &dyn Fn(&str)) -> anyhow::Result<JobOutput> {
    let params: Params = job.params()?;
    let options = Options::of(&params.backend, &params.device, &params.options)?;
    let artefact = job.artefact()?;
    let manifest = Manifest::read(artefact)?;
    let inputs = tensors::read(&artefact.join("inputs.safetensors"))?;
    let model = artefact.join("model.onnx");
    let external = onnx_file::facts(&model)?.external;
    let closed = onnx_change::closed(&model, &inputs)?;
    let (bytes, described) = packed(&inputs);
    let (control, described_control) = tensors::control_inputs(artefact)?
        .map(|control| packed(&control))
        .unzip();
    let settings = json!({
        "provider": options.provider(),
        "provider_name": options.provider_name(),
        "device_type": params.device,
        "bundle": BUNDLE,
        "model": "model.onnx",
        "external": external,
        "inputs": described,
        "control": described_control,
        // WebNN takes no open sizes; on WebGPU, known shapes let nodes be folded that would run on the CPU.
        "free_dimensions": closed.named,
        "optimisation": OPTIMISATION,
        "without_fusions": options.without_fusions(),
        "measure": params.measure,
    });
    let mut files = files(&params, artefact, &external, bytes)?;
    files.extend(control.map(|bytes| ("control".to_owned(), Served::Bytes(bytes))));
    if let Some(model) = closed.model {
        files.insert("model/model.onnx".to_owned(), Served::Bytes(model));
    }
    let page = Page {
        script: SCRIPT,
        params: &settings,
        files,
        imports: &[],
    };
    let talk = open(&params, &options, &page, progress)?;
    let facts =
        json!({"graph_optimisation": OPTIMISATION, "without_fusions": options.without_fusions()});
    finish(
        job,
        &manifest,
        &options,
        talk,
        facts,
        params.measure.map(|_| SYNC),
    )
}

/// The browser of a worker that is kept, between its jobs.
static KEPT: Mutex<Option<Kept>> = Mutex::new(None);

struct Kept {
    // Ended before its folder is removed.
    pages: Pages,
    _scratch: TempDir,
    is_for: (PathBuf, Api, Adapter),
}

/// Opens the page in the browser and waits for its answer. A worker that is kept keeps its browser.
pub(super) fn open(
    params: &Params,
    options: &Options,
    page: &Page<'_>,
    progress: &dyn Fn(&str),
) -> anyhow::Result<Talk> {
    let Options { api, adapter } = *options;
    let program = &*params.browser;
    let folder = || {
        let scratch = tempfile::Builder::new()
            .prefix("browser-")
            .tempdir_in(".")
            .context("failed to make a folder")?;
        progress("starting the browser");
        anyhow::Ok(scratch)
    };
    if !params.kept {
        let scratch = folder()?;
        let launch = Launch {
            program,
            api,
            adapter,
            scratch: scratch.path(),
        };
        return browser::open(&launch, page, progress).map_err(refused);
    }
    let mut place = lock(&KEPT);
    let is_for = (program.to_owned(), api, adapter);
    let mut kept = match place.take().filter(|kept| kept.is_for == is_for) {
        Some(kept) => kept,
        None => {
            let scratch = folder()?;
            let pages = Pages::start(&Launch {
                program,
                api,
                adapter,
                scratch: scratch.path(),
            })
            .map_err(refused)?;
            Kept {
                pages,
                _scratch: scratch,
                is_for,
            }
        }
    };
    // Only a browser whose page answered shows another one.
    let talk = kept.pages.show(page, progress).map_err(refused)?;
    *place = Some(kept);
    Ok(talk)
}

/// The files that every page imports.
pub(super) fn shared() -> BTreeMap<String, Served> {
    BTreeMap::from([(
        "common.mjs".to_owned(),
        Served::Bytes(COMMON.as_bytes().to_vec()),
    )])
}

/// What the page fetches: the bundle, the model with its data, the inputs.
fn files(
    params: &Params,
    artefact: &Path,
    external: &[String],
    inputs: Vec<u8>,
) -> anyhow::Result<BTreeMap<String, Served>> {
    let mut files = shared();
    files.insert("inputs".to_owned(), Served::Bytes(inputs));
    for name in [BUNDLE].iter().chain(&LOADED) {
        let path = params.scripts.join(name);
        if !path.is_file() {
            let reason = format!(
                "ONNX Runtime Web is not at `{}`: run `orch setup browser`",
                path.display()
            );
            return Err(Refusal::unavailable(reason));
        }
        files.insert(format!("ort/{name}"), Served::File(path));
    }
    let model = Served::File(artefact.join("model.onnx"));
    files.insert("model/model.onnx".to_owned(), model);
    // By number: a name may hold what an address cannot.
    for (at, name) in external.iter().enumerate() {
        files.insert(format!("external/{at}"), Served::File(artefact.join(name)));
    }
    Ok(files)
}

/// All tensors as one block, and where each lies in it. Each begins at a multiple of eight.
pub(super) fn packed(tensors: &Tensors) -> (Vec<u8>, Vec<Value>) {
    let mut bytes = Vec::new();
    let mut described = Vec::new();
    for (name, tensor) in tensors {
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        described.push(json!({
            "name": name,
            "dtype": tensor.element().word(),
            "shape": tensor.shape(),
            "offset": bytes.len(),
            "length": tensor.bytes().len(),
        }));
        bytes.extend_from_slice(tensor.bytes());
    }
    (bytes, described)
}

fn refused(trouble: Trouble) -> anyhow::Error {
    let status = match trouble {
        Trouble::Unavailable { .. } => JobStatus::Unavailable,
        Trouble::Died(_) => JobStatus::Crash,
        Trouble::Broken(_) => JobStatus::Error,
    };
    Refusal::because(status, trouble.to_string())
}

/// Turns the page's answer into the job's output. `more` are facts besides the page's own; `sync` says
/// how it waits for the device; None of a run that is not timed.
pub(super) fn finish(
    job: &Job,
    manifest: &Manifest,
    options: &Options,
    talk: Talk,
    more: Value,
    sync: Option<&str>,
) -> anyhow::Result<JobOutput> {
    let answer = Answer::of(&talk.answer)?;
    let mut facts = answer.facts.clone();
    for (name, value) in more.as_object().into_iter().flatten() {
        facts[name] = value.clone();
    }
    facts["versions"]["chromium"] = json!(talk.version);
    facts["flags"] = json!(talk.flags);
    // What was started for this page: the browser, or in one that had shown others the page.
    let started = if talk.before.is_some_and(|before| before > 0) {
        "page_start_ms"
    } else {
        "browser_start_ms"
    };
    facts[started] = json!(super::measure::millis(talk.start));
    if let Some(before) = talk.before {
        facts["pages_before"] = json!(before);
    }
    facts["processes"] = json!(talk.processes.kinds);
    facts["adapter_asked_for"] = json!(options.adapter);
    facts["cpu_fallback"] = json!(if options.api == Api::Wasm {
        "asked for the CPU"
    } else {
        "disabled"
    });
    facts["placement"] = json!(answer.placement);
    facts["partitions"] = answer.partitions.clone();
    if !answer.complaints.is_empty() {
        facts["complaints"] = json!(answer.complaints);
    }
    let judged = answer.judge(options, sync).and_then(|measured| {
        let (outputs, control) = answer.outputs(
            talk.outputs.as_deref().unwrap_or_default(),
            &manifest.outputs,
        )?;
        tensors::write(&job.out.join(tensors::OUTPUTS), &outputs)?;
        if let Some(control) = control {
            tensors::write(&job.out.join(tensors::CONTROL_OUTPUTS), &control)?;
        }
        let peak_rss_bytes = talk.processes.peak_rss_bytes;
        Ok(JobOutput::ok(
            Value::Null,
            Some(RawMeasure {
                peak_rss_bytes,
                ..measured
            }),
        ))
    });
    Ok(JobOutput {
        facts,
        ..super::refusal::answer(judged)
    })
}
