//! An error that carries a job status, so that a runtime can report "unavailable" through `?`.

use serde_json::Value;

use super::{JobOutput, JobStatus};

/// Why a job ended without a result. Every other error of a job is [`JobStatus::Error`].
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub struct Refusal {
    pub status: JobStatus,
    pub reason: String,
    /// What was seen until then.
    facts: Value,
}

impl Refusal {
    pub fn because(status: JobStatus, reason: impl Into<String>) -> anyhow::Error {
        Self::with_facts(status, reason, Value::Null)
    }

    pub fn with_facts(status: JobStatus, reason: impl Into<String>, facts: Value) -> anyhow::Error {
        Self {
            status,
            reason: reason.into(),
            facts,
        }
        .into()
    }

    /// The status of the refusal in an error's chain.
    pub fn status_of(error: &anyhow::Error) -> JobStatus {
        error
            .downcast_ref::<Self>()
            .map_or(JobStatus::Error, |refusal| refusal.status)
    }

    pub fn unavailable(reason: impl Into<String>) -> anyhow::Error {
        Self::because(JobStatus::Unavailable, reason)
    }
}

/// What ONNX Runtime's WebGPU says, in a browser and without one, of a shader that the adapter cannot compile.
const NO_F16: &str = "requires f16 but the device does not support it";

/// The reason, where an error says that a WebGPU adapter has no half precision: the model is not at fault.
pub fn without_f16(error: &str) -> Option<String> {
    error
        .contains(NO_F16)
        .then(|| format!("the WebGPU adapter does not compute in fp16 (no `shader-f16`): {error}"))
}

/// The reason where a model has no node left to run: a run of it would show nothing of the provider.
pub fn folds_to_constants(provider: &str) -> String {
    format!("the graph folds to constants: nothing is left for {provider} to run")
}

/// The answer to a job: what it made, or its whole chain of errors under the status that the chain names.
pub fn answer(result: anyhow::Result<JobOutput>) -> JobOutput {
    result.unwrap_or_else(|error| {
        let facts = error
            .downcast_ref::<Refusal>()
            .map_or(Value::Null, |refusal| refusal.facts.clone());
        JobOutput {
            facts,
            ..JobOutput::failed(Refusal::status_of(&error), format!("{error:#}"))
        }
    })
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn context_keeps_the_status_and_a_plain_error_is_an_error() {
        let refused: anyhow::Result<JobOutput> =
            Err(Refusal::unavailable("no GPU")).context("failed to compile");
        let output = answer(refused);
        assert_eq!(output.status, JobStatus::Unavailable);
        assert_eq!(output.reason.as_deref(), Some("failed to compile: no GPU"));
        assert_eq!(answer(Err(anyhow::anyhow!("odd"))).status, JobStatus::Error);
    }

    #[test]
    fn an_adapter_without_half_precision_is_distinguished_from_a_broken_model() {
        let message = "shader_helper.cc:416 GenerateSourceCode Program Gather requires f16 but the device does not support it.";
        let reason = without_f16(message).unwrap();
        assert!(
            reason.starts_with("the WebGPU adapter does not compute in fp16")
                && reason.ends_with(message),
            "{reason}"
        );
        assert_eq!(without_f16("Program Gather failed to compile"), None);
    }
}
