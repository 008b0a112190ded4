//! `run:<model>:<variant>`: loads the artefact on a device, infers, and takes the times if it is to. How, its runtime's row says; its outputs are
//! compared with the reference elsewhere.

use crate::catalogue::{Code, MemoryGuess, Needs, Places, Requirement, RunRequest};
use crate::step::{Step, StepKind, Work};
use crate::toolchain::{EnvName, Tool};

pub struct Run;
pub static RUN: Run = Run;

impl StepKind for Run {
    fn name(&self) -> &'static str {
        "run"
    }

    fn code(&self, step: &Step) -> &Code {
        &step.run().runtime.code
    }

    fn tools(&self, step: &Step) -> Vec<Tool> {
        (step.run().runtime.tools)(step.run())
    }

    fn runs_on_device(&self) -> bool {
        true
    }

    fn is_timed(&self, step: &Step) -> bool {
        step.run().measure.is_timed()
    }

    fn needs(&self, step: &Step) -> Needs {
        (step.run().runtime.needs)(step.run())
    }

    /// A runtime with its libraries; the artefact as it is read and as the runtime lays it out.
    fn memory(&self) -> Option<MemoryGuess> {
        Some(MemoryGuess {
            base: 512 << 20,
            factor: 2,
        })
    }

    /// A driver's context with its kernels, and the room in which libraries work; the weights, and as much again for what
    /// allocators keep: ONNX Runtime's doubles what it asks for.
    fn device_memory(&self) -> Option<MemoryGuess> {
        Some(MemoryGuess {
            base: 1 << 30,
            factor: 2,
        })
    }

    fn requires(&self, step: &Step) -> Vec<Requirement> {
        (step.run().runtime.requires)(step.run())
    }

    fn server(&self, step: &Step) -> Option<EnvName> {
        step.run().runtime.server
    }

    fn lower(&self, step: &Step, places: &Places) -> anyhow::Result<Work> {
        let run = step.run();
        let call = (run.runtime.lower)(&RunRequest {
            run,
            timeout_seconds: step.timeout_seconds,
            places,
        })?;
        Ok(Work::Worker(call))
    }
}
