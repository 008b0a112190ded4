//! Transformers.js in a real browser: a whole task, from the text or image to the embedding or the scores.
//!
//! While `browser` runs a graph, this runs what the author of a web page writes: `pipeline(task)(input)`. What is timed
//! is that call, with what comes before and after the model. The artefact holds model, tokenizer or image processor,
//! the task's input, and what Python's transformers answers to the same task; nothing else is served, and nothing is
//! fetched from elsewhere. Placement is judged as for `browser`. Which tasks there are is decided where the artefact is
//! made.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use serde_json::{Value, json};

use super::browser::{self as page, Options, Params};
use super::manifest::Manifest;
use super::refusal::Refusal;
use super::{Job, JobOutput, tensors};
use crate::browser::{Api, Page, Served};

/// Transformers.js for the web, below the folder of npm's packages.
pub const SCRIPT: &str = "@huggingface/transformers/dist/transformers.web.min.js";
/// The folder of ONNX Runtime Web's bundles there.
pub const ORT_WEB: &str = "onnxruntime-web/dist";
/// The bundle that Transformers.js imports, and what that loads.
pub const ORT_FILES: [&str; 3] = [
    "ort.webgpu.min.mjs",
    "ort-wasm-simd-threaded.asyncify.mjs",
    "ort-wasm-simd-threaded.asyncify.wasm",
];

const PAGE: &str = include_str!("transformers_js/page.mjs");
/// Transformers.js imports by bare names what a bundler would put in their place. Both are one bundle here, because tensors
/// are recognised by their class.
const IMPORTS: &[(&str, &str)] = &[
    ("onnxruntime-web/webgpu", "ort/ort.webgpu.min.mjs"),
    ("onnxruntime-common", "ort/ort.webgpu.min.mjs"),
];
/// What is timed, and how the page knows that the device is done.
const SYNC: &str =
    "whole task: preprocessing, inference and postprocessing; the call resolves with the result";

pub fn execute(job: &Job, progress: &dyn Fn(&str)) -> JobOutput {
    job.perform("transformers-js", &[("run", run)], progress)
}

fn options(params: &Params) -> anyhow::Result<Options> {
    match params.backend.as_str() {
        "cpu" => Options::wasm(&params.device, &params.options),
        backend => Options::of(backend, &params.device, &params.options),
    }
}

fn run(job: &Job, progress: &dyn Fn(&str)) -> anyhow::Result<JobOutput> {
    let params: Params = job.params()?;
    let options = options(&params)?;
    let artefact = job.artefact()?;
    let manifest = Manifest::read(artefact)?;
    let inputs = tensors::read(&artefact.join("inputs.safetensors"))?;
    let (bytes, described) = page::packed(&inputs);
    let task = &manifest.rest;
    let settings = json!({
        "task": task.get("task").context("the artefact's manifest names no task")?,
        "call": task.get("call").context("the artefact's manifest does not say what the task is asked for")?,
        "labels": task.get("labels"),
        "device": options.device(),
        "provider": options.provider(),
        "provider_name": options.provider_name(),
        "device_type": params.device,
        "script": file_name(SCRIPT),
        "inputs": described,
        "free_dimensions": {},
        "session": session(options.api),
        "measure": params.measure,
    });
    let files = files(&params, artefact, bytes)?;
    let page = Page {
        script: PAGE,
        params: &settings,
        files,
        imports: IMPORTS,
    };
    let talk = page::open(&params, &options, &page, progress)?;
    let mut facts = json!({
        "task": settings["task"], "call": settings["call"], "session_options": settings["session"],
    });
    if params.measure.is_some() {
        facts["timed"] =
            json!("the whole call of the pipeline: preprocessing, inference and postprocessing");
    }
    page::finish(
        job,
        &manifest,
        &options,
        talk,
        facts,
        params.measure.map(|_| SYNC),
    )
}

/// Options of the session: a verbose log, which shows where nodes went, and no fallback to the CPU. All others are the
/// defaults of Transformers.js.
fn session(api: Api) -> Value {
    let mut options = json!({"logSeverityLevel": 0});
    // On the CPU there is no fallback, and ONNX Runtime refuses the option.
    if api != Api::Wasm {
        options["extra"] = json!({"session": {"disable_cpu_ep_fallback": "1"}});
    }
    options
}

/// What the page fetches: the scripts, the runtime, the artefact's files but for tensors, the inputs.
fn files(
    params: &Params,
    artefact: &Path,
    inputs: Vec<u8>,
) -> anyhow::Result<BTreeMap<String, Served>> {
    let mut files = page::shared();
    files.insert("inputs".to_owned(), Served::Bytes(inputs));
    let bundles = ORT_FILES
        .iter()
        .map(|name| ("ort", format!("{ORT_WEB}/{name}")));
    for (folder, name) in bundles.chain([("transformers", SCRIPT.to_owned())]) {
        let path = params.scripts.join(&name);
        if !path.is_file() {
            let reason = format!(
                "Transformers.js lacks `{}`: run `orch setup transformers-js`",
                path.display()
            );
            return Err(Refusal::unavailable(reason));
        }
        files.insert(format!("{folder}/{}", file_name(&name)), Served::File(path));
    }
    for folder in ["", "onnx"] {
        let place = artefact.join(folder);
        let entries = std::fs::read_dir(&place)
            .with_context(|| format!("failed to list `{}`", place.display()))?;
        for path in entries
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| is_served(path))
        {
            let name = path
                .strip_prefix(artefact)
                .unwrap_or(&path)
                .display()
                .to_string();
            files.insert(format!("model/{name}"), Served::File(path));
        }
    }
    Ok(files)
}

fn is_served(path: &Path) -> bool {
    path.is_file()
        && path
            .extension()
            .is_some_and(|extension| extension != "safetensors")
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;
    use crate::runtime::{InstalledPath, JobStatus};

    fn params(backend: &str, device: &str, options: Value) -> Params {
        let packages = "/nowhere/node_modules";
        Params::deserialize(&json!({
            "browser": "/bin/false", "packages": packages, "backend": backend, "device": device, "options": options,
            "measure": {"warmup": 0, "samples": 1, "max_seconds": 1.0},
        }))
        .unwrap()
    }

    #[test]
    fn a_device_is_what_was_requested_and_the_cpu_is_no_fallback() {
        for (backend, requested, device, provider) in [
            (
                "webgpu-browser",
                "webgpu",
                "webgpu",
                "WebGpuExecutionProvider",
            ),
            ("webnn", "cpu", "webnn-cpu", "WebNNExecutionProvider"),
            ("cpu", "wasm", "wasm", "CPUExecutionProvider"),
        ] {
            let options = super::options(&params(backend, requested, json!({}))).unwrap();
            assert_eq!(
                (options.device(), options.provider_name()),
                (device, provider)
            );
            let fallback =
                session(options.api)["extra"]["session"]["disable_cpu_ep_fallback"].clone();
            assert_eq!(
                fallback,
                if backend == "cpu" {
                    Value::Null
                } else {
                    json!("1")
                },
                "{backend}"
            );
        }
        let error = |backend, device, options| {
            super::options(&params(backend, device, options))
                .err()
                .unwrap()
                .to_string()
        };
        assert!(error("cpu", "cpu", json!({})).contains("write `device: wasm`, not `cpu`"));
        assert!(error("cpu", "wasm", json!({"threads": 4})).contains("takes no option `threads`"));
        assert!(error("cuda", "cuda", json!({})).contains("no backend `cuda`"));
        assert!(error("webnn", "npu", json!({})).contains("orch claims no NPU"));
    }

    #[test]
    fn a_page_is_served_the_model_and_no_reference() {
        let artefact = tempfile::tempdir().unwrap();
        let packages = tempfile::tempdir().unwrap();
        std::fs::create_dir(artefact.path().join("onnx")).unwrap();
        for name in [
            "config.json",
            "tokenizer.json",
            "reference.safetensors",
            "inputs.safetensors",
            "onnx/model.onnx",
        ] {
            std::fs::write(artefact.path().join(name), "").unwrap();
        }
        let mut params = params("cpu", "wasm", json!({}));
        params.scripts = InstalledPath(packages.path().to_owned());
        let missing = files(&params, artefact.path(), vec![]).unwrap_err();
        assert_eq!(
            missing.downcast_ref::<Refusal>().unwrap().status,
            JobStatus::Unavailable
        );
        assert!(
            missing.to_string().contains("orch setup transformers-js"),
            "{missing}"
        );
        for name in ORT_FILES
            .iter()
            .map(|name| format!("{ORT_WEB}/{name}"))
            .chain([SCRIPT.to_owned()])
        {
            let path = packages.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let served = files(&params, artefact.path(), vec![]).unwrap();
        let model: Vec<_> = served
            .keys()
            .filter_map(|name| name.strip_prefix("model/"))
            .collect();
        assert_eq!(model, ["config.json", "onnx/model.onnx", "tokenizer.json"]);
        for (_, file) in IMPORTS {
            assert!(served.contains_key(*file), "{file}");
        }
    }
}
