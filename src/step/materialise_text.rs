//! `generate:<model>` of a row that says its text once: the tokenizer also fills the mask and the type ids that the class takes.
//!
//! A kind of its own, so that the keys of rows which name every input hold nothing of it.

use crate::step::{Code, MATERIALISE, MemoryGuess, Places, Requirement, Step, StepKind, Work, WorkerCall};
use crate::toolchain::{EnvName, Tool};

pub struct MaterialiseText;
pub static MATERIALISE_TEXT: MaterialiseText = MaterialiseText;

impl StepKind for MaterialiseText {
    known_as!("materialise-text": Rust "step/materialise_text.rs", "step/materialise.rs"; Python "materialise_text");

    fn tools(&self, step: &Step) -> Vec<Tool> {
        MATERIALISE.tools(step)
    }

    fn requires(&self, step: &Step) -> Vec<Requirement> {
        MATERIALISE.requires(step)
    }

    fn server(&self, step: &Step) -> Option<EnvName> {
        MATERIALISE.server(step)
    }

    fn memory(&self) -> Option<MemoryGuess> {
        MATERIALISE.memory()
    }

    fn lower(&self, step: &Step, places: &Places) -> anyhow::Result<Work> {
        Ok(match MATERIALISE.lower(step, places)? {
            Work::Worker(call) => Work::Worker(WorkerCall { op: "materialise_text", ..call }),
            other => other,
        })
    }
}
