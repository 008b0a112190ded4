//! ONNX Runtime: its CPU provider, its plugins (QNN, WebGPU) and its builds for GPUs, from libraries that the job names by
//! path.
//!
//! The only home of the ort crate. It knows nothing of the spec: paths, options and the order of tensors come with the
//! job and its trees. A provider that could not take the whole model is an error here, never a quiet run on the CPU
//! (docs/design/jobs.md).

mod compile;
mod declared;
mod decoder;
mod gpu;
mod casts;
mod host;
mod infer;
mod lowering;
mod options;
mod place;
mod placement;
mod profile;
pub mod qnn;
mod refusal;
mod run;
mod source;
mod webgpu;

use std::path::Path;

use anyhow::{Context, Result, anyhow};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::measure::MeasureParams;
use super::refusal::answer;
use super::{InstalledPath, Job, JobOutput, JobStatus};
use crate::device::Lease;

type Op = fn(&Job, &Params) -> Result<JobOutput>;

/// What `orch worker ort` can do.
const OPS: &[(&str, Op)] = &[
    ("run", run::run),
    ("reference", run::reference),
    ("compile", compile::compile),
    ("half", casts::half),
    ("profile", profile::profile),
];

pub fn execute(job: &Job, progress: &dyn Fn(&str)) -> JobOutput {
    let Some((name, op)) = OPS.iter().find(|(name, _)| *name == job.op) else {
        let hint = crate::base::suggest::hint(&job.op, OPS.iter().map(|(name, _)| *name));
        return JobOutput::failed(
            JobStatus::Error,
            format!("ort has no operation `{}`; {hint}", job.op),
        );
    };
    progress(name);
    answer(Params::of(&job.params).and_then(|params| op(job, &params)))
}

/// The parameters of all operations; each operation needs some of them.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// libonnxruntime.so
    #[serde(skip_serializing_if = "InstalledPath::is_open")]
    pub library: InstalledPath,
    /// The execution provider; None is the CPU's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ep: Option<String>,
    /// The library of a plugin, e.g. libonnxruntime_providers_qnn.so
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ep_library: Option<InstalledPath>,
    /// The provider's own name of the device, where it has several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// The GPU that this process has for itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease: Option<Lease>,
    /// A folder with a Vulkan loader and a driver in software; None leaves it to the system's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vulkan: Option<InstalledPath>,
    /// The provider's own options, checked against its table.
    #[serde(default)]
    pub options: Map<String, Value>,
    /// How much `run` and `half` measure.
    #[serde(default, with = "super::measure::wanted")]
    pub measure: Option<MeasureParams>,
    /// Threads within one operator; None leaves it to ONNX Runtime: one for each physical core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<usize>,
    /// The precision that `compile` makes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub precision: Option<String>,
    /// File name of the compiled model without its ending.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stem: Option<String>,
    /// Whether the compiler gets operators in terms of others; None: it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rewrites: Option<bool>,
}

impl Params {
    fn of(params: &Value) -> Result<Self> {
        Self::deserialize(params).map_err(|e| anyhow!("bad params of an ort job: {e}"))
    }

    fn ep_library(&self) -> Result<&Path> {
        self.ep_library
            .as_deref()
            .context("a plugin provider needs `ep_library`: the path of its library")
    }
}

/// Whether the worker has an execution provider of this name.
#[cfg(test)]
pub fn is_provider(name: &str) -> bool {
    place::PLACES.iter().any(|(known, _)| *known == name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::runtime::refusal::Refusal;

    fn refused(op: &str, params: Value) -> (JobStatus, String) {
        let output = execute(
            &Job {
                op: op.to_owned(),
                params,
                ..Job::default()
            },
            &|_| (),
        );
        (output.status, output.reason.unwrap())
    }

    #[test]
    fn an_unknown_operation_names_the_known_ones() {
        let message = "ort has no operation `compyle`; did you mean `compile`?";
        assert_eq!(
            refused("compyle", json!({})),
            (JobStatus::Error, message.to_owned())
        );
    }

    #[test]
    fn unknown_params_are_errors() {
        let (status, reason) = refused("run", json!({"library": "/x", "treads": 2}));
        assert_eq!(status, JobStatus::Error);
        assert!(
            reason.starts_with("bad params of an ort job: unknown field `treads`"),
            "{reason}"
        );
    }

    #[test]
    fn a_missing_library_is_unavailable_and_named() {
        let (status, reason) = refused("half", json!({"library": "/nowhere/libonnxruntime.so"}));
        assert_eq!(status, JobStatus::Unavailable);
        assert!(reason.contains("`/nowhere/libonnxruntime.so`"), "{reason}");
    }

    #[test]
    fn what_onnx_runtime_lacks_is_its_refusal() {
        let words = [
            "Could not find an implementation for Det(11) node with name 'd'",
            "Failed to find kernel for Cast(24) (node:'' ep:'CPUExecutionProvider').",
            "Load model from m.onnx failed:Fatal error: ai.onnx.preview.training:Adam(-1) is not a registered function/op",
            "Batchwise recurrent operations (layout == 1) are not supported. If you need support create a github issue with \
             justification.",
        ];
        let status = |not_implemented, words: &str| {
            Refusal::status_of(
                &host::refusal_or_error(not_implemented, words)
                    .context("failed to load model.onnx"),
            )
        };
        for words in words {
            assert_eq!(status(false, words), JobStatus::Unsupported, "{words}");
        }
        assert_eq!(status(true, "no kernel"), JobStatus::Unsupported);
        assert_eq!(status(false, "Invalid input name: x"), JobStatus::Error);
    }

    #[test]
    fn exhausted_memory_is_distinguished_from_other_errors() {
        for (text, status) in [
            (
                "BFCArena: Failed to allocate memory for requested buffer of size 9",
                JobStatus::Oom,
            ),
            ("std::bad_alloc", JobStatus::Oom),
            (
                "CUDA failure 2: out of memory ; GPU=0 ; hostname=h",
                JobStatus::Oom,
            ),
            (
                "CUBLAS failure 3: CUBLAS_STATUS_ALLOC_FAILED ; GPU=0",
                JobStatus::Oom,
            ),
            (
                "Available memory of 10 is smaller than requested bytes of 20",
                JobStatus::Oom,
            ),
            (
                "CUDA failure 209: no kernel image is available",
                JobStatus::Error,
            ),
            ("no such node", JobStatus::Error),
        ] {
            assert_eq!(
                Refusal::status_of(&host::refusal_or_error(false, text)),
                status,
                "{text}"
            );
        }
    }
}
