//! `convert:<model>:<artefact>`: the model in the form that a runtime loads. Of what and by whom, the artefact's row says.

use crate::catalogue::{
    Code, Conversion, Converter, MemoryGuess, Places, Requirement, Worker, WorkerCall,
};
use crate::step::{Step, StepKind, Work};
use crate::toolchain::{EnvName, Tool};

/// A Python with its packages; the weights as they are read, as the converter holds them, and as they are written.
const GUESS: MemoryGuess = MemoryGuess {
    base: 768 << 20,
    factor: 4,
};

fn env(conversion: &Conversion, step: &Step) -> EnvName {
    (conversion.env)(step.params.json())
}

impl StepKind for Conversion {
    fn name(&self) -> &'static str {
        self.name
    }

    fn code(&self, _: &Step) -> &Code {
        &self.code
    }

    fn tools(&self, step: &Step) -> Vec<Tool> {
        let env = env(self, step);
        (self.packages)(step.params.json())
            .iter()
            .map(|package| Tool { env, package })
            .collect()
    }

    fn is_native(&self) -> bool {
        matches!(self.by, Converter::Worker { .. })
    }

    fn requires(&self, step: &Step) -> Vec<Requirement> {
        vec![Requirement::Env(env(self, step))]
    }

    fn memory(&self) -> Option<MemoryGuess> {
        Some(GUESS)
    }

    fn server(&self, step: &Step) -> Option<EnvName> {
        matches!(self.by, Converter::Python(_)).then(|| env(self, step))
    }

    fn lower(&self, step: &Step, _: &Places) -> anyhow::Result<Work> {
        let (worker, op, libraries) = match &self.by {
            Converter::Python(op) => (Worker::Python(env(self, step)), *op, vec![]),
            Converter::Worker {
                runtime,
                op,
                libraries,
            } => (Worker::Orch(runtime.name), *op, libraries.to_vec()),
        };
        Ok(Work::Worker(WorkerCall {
            libraries,
            ..WorkerCall::of(worker, op, step.params.json())
        }))
    }
}
