//! Tries half precision: a small computation on a device, by the runtime and the worker that run models there.
//!
//! It is a run like any other, in a child process, so a driver that crashes is a reason. Only what the device itself
//! answered is worth keeping; whoever asks decides where.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::json;

use crate::base::fs as bfs;
use crate::device::half::HalfQuestion;
use crate::device::{Backend, candidates, lease};
use crate::exec::outcome::{Judged, judge};
use crate::exec::setup::Servers;
use crate::matrix::Computes;
use crate::provision::Provision;
use crate::record::Outcome;
use crate::runtime::tensors::Element;
use crate::runtime::{Job, half};
use crate::spec::Precision;
use crate::step::{
    Access, Places, RUN, Requirement, RunParams, Stage, Step, StepKind, TestMeasure, Work, Worker, WorkerCall,
};
use crate::toolchain::{EnvName, Tool};
use crate::worker::{self, Cancel, Limits, grants};

/// A browser's software adapter compiles shaders for up to a minute.
const TIMEOUT: u64 = 90;

/// What trying needs.
pub struct Bench<'a> {
    pub provision: &'a Provision,
    pub inventory: &'a [Backend],
    pub cancel: &'a Cancel,
    /// An empty folder.
    pub scratch: &'a Path,
}

/// What came out, and whether the device would say the same again.
pub struct Tried {
    pub computes: Computes,
    pub lasts: bool,
}

/// What must be installed to ask.
pub fn requirements(question: &HalfQuestion) -> Vec<Requirement> {
    let step = step(question);
    RUN.requires(&step)
}

/// The packages that would compute.
pub fn tools(question: &HalfQuestion) -> Vec<Tool> {
    RUN.tools(&step(question))
}

/// The libraries that would be loaded, as far as they are installed.
pub fn libraries(question: &HalfQuestion, provision: &Provision) -> Vec<PathBuf> {
    let places =
        Places { inputs: BTreeMap::new(), trees: BTreeMap::new(), out: PathBuf::new(), scratch: PathBuf::new() };
    let named = call(question, &places).map(|call| call.libraries).unwrap_or_default();
    named.into_iter().filter_map(|(_, library)| provision.library(library).ok()).collect()
}

/// Whether trying would show anything; else why not.
pub fn is_open(question: &HalfQuestion) -> Result<(), String> {
    match (question.runtime.as_str(), question.backend.as_str()) {
        ("ort", "cpu" | "cuda" | "rocm" | "webgpu") | ("openvino" | "python", _) | ("browser", "webgpu-browser") => {
            Ok(())
        }
        ("browser", backend) => Err(format!("a browser does not tell what {backend} computes in")),
        (runtime, backend) => Err(format!("orch has no probe of half precision for {runtime} on {backend}")),
    }
}

impl Bench<'_> {
    /// Everything that it requires must be installed.
    pub fn ask(&self, question: &HalfQuestion) -> Tried {
        if let Err(why) = is_open(question) {
            return Tried { computes: Computes::No(why), lasts: false };
        }
        self.attempt(question).unwrap_or_else(|e| Tried { computes: Computes::No(format!("{e:#}")), lasts: false })
    }

    fn attempt(&self, question: &HalfQuestion) -> anyhow::Result<Tried> {
        let precision = question.precision.word();
        let [tree, out, scratch] = ["artefact", "out", "scratch"].map(|name| self.scratch.join(name));
        for folder in [&tree, &out, &scratch] {
            bfs::remove_dir(folder)?;
            std::fs::create_dir_all(folder)?;
        }
        // OpenVINO is told what to compute an fp32 model in; the others compute in the model's own types.
        half::lay(&tree, if question.runtime == "openvino" { Element::F32 } else { Element::F16 })?;
        let judged = self.run(question, &tree, &out, &scratch)?;
        let place = format!("{} on {}", question.runtime, question.device);
        Ok(match judged.outcome {
            Outcome::Pass => {
                let shown = match judged.facts["kernel"].as_str() {
                    Some(kernel) => {
                        let off = judged.facts["max_abs"].as_f64().context("BUG: the op `half` tells no error")?;
                        Ok(format!("off by {off:.1e} from fp64, by {kernel}"))
                    }
                    None => half::judge(&out, question.precision)?.map(|off| format!("off by {off:.1e} from fp64")),
                };
                let computes = match shown {
                    Ok(how) => Computes::Yes(format!(
                        "{place} computed a matrix product and a layer norm in {precision}, {how}"
                    )),
                    Err(why) => Computes::No(format!("{place}: {why}")),
                };
                Tried { computes, lasts: true }
            }
            outcome => {
                let reason = judged.reason.unwrap_or_else(|| "no reason was given".to_owned());
                let lasts = matches!(outcome, Outcome::SkipUnsupported | Outcome::Numerics);
                Tried { computes: Computes::No(format!("{place} at {precision}: {reason}")), lasts }
            }
        })
    }

    fn run(&self, question: &HalfQuestion, tree: &Path, out: &Path, scratch: &Path) -> anyhow::Result<Judged> {
        let inputs = BTreeMap::from([("artefact".to_owned(), tree.to_owned())]);
        let places = Places { inputs, trees: BTreeMap::new(), out: out.to_owned(), scratch: scratch.to_owned() };
        let call = call(question, &places)?;
        let lent = candidates::candidates(self.inventory, &question.backend, &question.device);
        let lent = lent.first().map(|device| lease::lend(device, |name| std::env::var(name).ok()));
        let mut params = call.params;
        for (name, library) in &call.libraries {
            let path: PathBuf = self.provision.library(*library)?;
            params[*name] = path.to_str().context("a library's path is not valid UTF-8")?.into();
        }
        if let Some(lease) = lent.as_ref().filter(|lease| !lease.env.is_empty()) {
            params["lease"] = serde_json::to_value(lease)?;
        }
        let log = self.scratch.join("log");
        let env = lent.map(|lease| lease.env).unwrap_or_default();
        let job = Job {
            id: 1,
            op: call.op.into(),
            params,
            inputs: places.inputs,
            out: out.to_owned(),
            log: Some(log.clone()),
            env,
            sandbox: Some(grants(&call.access, &[out, scratch])?),
        };
        let timeout = Duration::from_secs(TIMEOUT);
        let limits = Limits { timeout, memory: None, cancel: self.cancel, log: &log, progress: &|_| {} };
        let ended = match call.worker {
            Worker::Orch(runtime) => {
                let mut command = Command::new(worker::own_program()?);
                command.args(["worker", runtime]).current_dir(scratch);
                worker::run_oneshot(command, &job, &limits)
            }
            Worker::Python(env) => {
                let servers = Servers::default();
                servers.start(env, self.provision, self.provision.dir())?;
                servers.run(env, &job, &limits, self.provision, self.provision.dir())?
            }
            Worker::Torch => anyhow::bail!("BUG: {} has a probe in Python", question.runtime),
        };
        Ok(judge(ended, TIMEOUT, &[]))
    }
}

/// The run of a model there, which here is the small one.
fn step(question: &HalfQuestion) -> Step {
    let params = RunParams {
        runtime: question.runtime.clone(),
        backend: question.backend.clone(),
        device: question.device.clone(),
        precision: question.precision.word().to_owned(),
        options: Default::default(),
        measure: TestMeasure { warmup: 0, samples: 1, max_seconds: 1.0 },
        computes: match (question.runtime.as_str(), question.precision) {
            ("openvino", Precision::Bf16) => Some("bf16".to_owned()),
            ("openvino", _) => Some("f16".to_owned()),
            _ => None,
        },
        test: None,
    };
    let name = format!("half:{}:{}:{}", question.runtime, question.device, question.precision.word());
    let params = json!(params).into();
    Step {
        name,
        stage: Stage::Run,
        kind: &RUN,
        params,
        inputs: vec![],
        timeout_seconds: TIMEOUT,
        retries: None,
        memory: None,
    }
}

fn call(question: &HalfQuestion, places: &Places) -> anyhow::Result<WorkerCall> {
    if question.runtime == "python" {
        let params = json!({"device": question.device, "precision": question.precision});
        let worker = Worker::Python(EnvName::Torch);
        return Ok(WorkerCall { worker, op: "half", params, libraries: vec![], access: Access::default() });
    }
    match RUN.lower(&step(question), places)? {
        // The CPU's kernels are looked at more closely.
        Work::Worker(call) if question.runtime == "ort" => Ok(WorkerCall { op: "half", ..call }),
        Work::Worker(call) => Ok(call),
        _ => anyhow::bail!("BUG: a run is done by a worker"),
    }
}
