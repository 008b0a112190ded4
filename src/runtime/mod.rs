//! Runtimes: what can execute a converted model on a device, each behind one function and in a child process.
//!
//! A runtime knows nothing of steps, keys or the store: it gets a [`Job`] with absolute paths and answers a [`JobOutput`]
//! (docs/design/jobs.md).

pub mod android;
pub mod browser;
pub mod control;
mod cpu;
pub mod foreign;
pub mod generation;
pub mod half;
pub mod ir_file;
pub mod libtorch;
pub mod litert;
pub mod loops;
pub mod manifest;
pub mod measure;
pub mod onnx_external;
pub mod onnx_file;
pub mod onnx_change;
mod onnx_proto;
pub mod openvino;
pub mod ort;
pub mod profile;
pub mod refusal;
pub mod serve;
pub mod tensors;
pub mod torch;
pub mod tract;
pub mod transformers_js;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::base::suggest;
use crate::confine::Grants;
use crate::device::Conditions;
use crate::device::conditions::DeviceState;

/// One piece of work for a worker.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Job {
    pub id: u32,
    /// What to do: `run`, `compile`, `probe`, … of the worker's own list.
    pub op: String,
    #[serde(default)]
    pub params: Value,
    /// Input trees by name, absolute.
    #[serde(default)]
    pub inputs: BTreeMap<String, PathBuf>,
    /// An empty folder for what the job makes.
    pub out: PathBuf,
    /// The file to which a server's forked child writes its stdout and stderr.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<PathBuf>,
    /// What a worker, or a server's forked child, has in its environment: which device it was given.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// What it may write to and reach. The process is held to it before it reads the job; what a server forks holds itself
    /// to it. Orch always says so; a generated test that starts a worker by itself does not.
    #[serde(default)]
    pub sandbox: Grants,
}

impl Job {
    /// Its params, of which none may be unknown.
    pub fn params<P: DeserializeOwned>(&self) -> anyhow::Result<P> {
        P::deserialize(&self.params).with_context(|| format!("bad params of `{}`", self.op))
    }

    /// The tree with the model.
    pub fn artefact(&self) -> anyhow::Result<&Path> {
        let tree = self.inputs.get("artefact");
        tree.map(PathBuf::as_path)
            .with_context(|| format!("job `{}` has no input tree `artefact`", self.op))
    }

    pub fn perform(
        &self,
        worker: &str,
        known: &[(&str, Operation)],
        progress: &dyn Fn(&str),
    ) -> JobOutput {
        let Some((_, operation)) = known.iter().find(|(name, _)| *name == self.op) else {
            let hint = suggest::hint(&self.op, known.iter().map(|(name, _)| *name));
            return JobOutput::failed(
                JobStatus::Error,
                format!("{worker} has no operation `{}`; {hint}", self.op),
            );
        };
        refusal::answer(operation(self, progress))
    }
}

/// The path of something that is installed, absolute. The plan leaves it open ([`InstalledPath::LATER`]), and whoever starts
/// the worker fills it in: until then it is not known where the thing lies.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct InstalledPath(PathBuf);

impl InstalledPath {
    pub const LATER: Self = Self(PathBuf::new());

    fn is_open(&self) -> bool {
        self.0.as_os_str().is_empty()
    }
}

impl std::ops::Deref for InstalledPath {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

/// What a worker can do with a job. `progress` reports a line to the waiting process.
pub type Operation = fn(&Job, progress: &dyn Fn(&str)) -> anyhow::Result<JobOutput>;

/// What a worker says on its result descriptor.
#[expect(
    clippy::large_enum_variant,
    reason = "one at a time exists, and only for a moment"
)]
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Reply {
    Progress {
        id: u32,
        text: String,
    },
    Result {
        id: u32,
        output: JobOutput,
    },
    /// A server has forked this process for the job.
    Started {
        id: u32,
        pid: i32,
    },
    /// A download of the job began or ended. Its time is no part of the job's.
    Download {
        id: u32,
        begins: bool,
    },
    /// A server's forked child ended without a result.
    Died {
        id: u32,
        signal: Option<i32>,
        code: Option<i32>,
    },
}

impl Reply {
    /// The job that it is about.
    pub fn id(&self) -> u32 {
        let (Self::Progress { id, .. }
        | Self::Result { id, .. }
        | Self::Started { id, .. }
        | Self::Download { id, .. }
        | Self::Died { id, .. }) = self;
        *id
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct JobOutput {
    pub status: JobStatus,
    /// One specific sentence; required unless `ok`.
    pub reason: Option<String>,
    /// What belongs into the record and not into the tree: versions, attempts, seconds by phase.
    #[serde(default)]
    pub facts: Value,
    pub measure: Option<RawMeasure>,
    /// What a failure came of, where that decides whether another attempt is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<FailureCause>,
    /// The peak resident set of all processes of the job, bytes; None where it was not watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_rss_bytes: Option<u64>,
}

/// What a failed job came to grief over, as far as its status does not say so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureCause {
    /// The user's program ended with this code.
    ExitCode(i32),
    /// The user's program was ended by this signal.
    Signal(i32),
    /// The system could not read or write a file, which says nothing about the step.
    System,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobStatus {
    Ok,
    /// The vendor's tool itself refuses this model (it lacks an operator, say), or orch has no tensor type for an input.
    Unsupported,
    /// The device or library is not there.
    Unavailable,
    Error,
    /// It ran, and its outputs are wrong.
    Numerics,
    /// Nothing can be compared with what it gave: it is other each time, or no number.
    Indecisive,
    Oom,
    /// A process that the worker started for the work died; the worker itself lived to tell.
    Crash,
}

/// What was seen of one run; statistics are made in `report`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct RawMeasure {
    /// None of a run that was not to be timed: it shared the machine, so its times would say nothing.
    #[serde(flatten)]
    pub times: Option<Times>,
    /// Peak resident set of the process, bytes.
    pub peak_rss_bytes: Option<u64>,
    /// Most of a GPU's own memory that the process held, bytes; None where no driver tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_device_bytes: Option<u64>,
    /// The thread that infers and those that it and its libraries started; None where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// What the machine did meanwhile; filled in by orch, not by workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Conditions>,
    /// What the device did meanwhile, where its driver tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<DeviceState>,
    /// The round's place in the order, of a round of several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<Order>,
    pub requested_device: String,
    pub actual_device: String,
    /// Nodes (or subgraphs, where a runtime does not tell nodes) per place that executed them.
    #[serde(default)]
    pub placement: BTreeMap<String, u64>,
}

/// What a process did while it took samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct UseOfCpu {
    /// How often the kernel took the CPU from the inferring thread.
    pub involuntary_switches: u64,
    /// How often that thread waited for something: another thread, or a device.
    pub voluntary_switches: u64,
    /// CPU time of the inferring thread, ms.
    pub own_ms: f64,
    /// CPU time of all other threads of the process, ms.
    pub others_ms: f64,
}

/// The place of a round among those of all cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Order {
    /// The seed of the random order.
    pub seed: u64,
    /// Counted from 0.
    pub place: u32,
}

/// Raw times of one run, milliseconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// Load in a fresh process: from the file to a session that can infer.
    pub load_ms: f64,
    pub first_ms: f64,
    #[serde(default)]
    pub warmup_ms: Vec<f64>,
    pub samples_ms: Vec<f64>,
    /// How many of them were taken at each of several moments, in their order; empty where all were taken at one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moments: Vec<u32>,
    /// CPU time of the inferring thread in each sample; empty where it is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpu_ms: Vec<f64>,
    /// The use of the CPU beside the samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub use_of_cpu: Option<UseOfCpu>,
    /// How the device is waited for before the clock is read, e.g. `synchronous call`. A page does not say it.
    #[serde(default)]
    pub sync: String,
    /// The decoding of a model that generates with a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decoding: Option<Decoding>,
}

/// Raw times of greedy decoding with a cache, milliseconds. What is timed ends when the token is known.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decoding {
    /// Texts that are decoded at once.
    pub rows: u32,
    /// Tokens of each one's prompt.
    pub prompt: u32,
    /// The times from the prompt to the first token, one for each time that the text was decoded.
    pub first_token_ms: Vec<f64>,
    /// The times from each token to the next.
    pub next_token_ms: Vec<f64>,
}

impl JobOutput {
    pub fn ok(facts: Value, measure: Option<RawMeasure>) -> Self {
        Self {
            status: JobStatus::Ok,
            reason: None,
            facts,
            measure,
            cause: None,
            peak_rss_bytes: None,
        }
    }

    pub fn failed(status: JobStatus, reason: impl Into<String>) -> Self {
        Self {
            status,
            reason: Some(reason.into()),
            facts: Value::Null,
            measure: None,
            cause: None,
            peak_rss_bytes: None,
        }
    }
}

/// What `orch worker <runtime>` does: one job, in a process of its own.
pub type Execute = fn(&Job, progress: &dyn Fn(&str)) -> JobOutput;
