//! `command:<name>` of files with fixed content: orch writes them itself, without a process.

use crate::step::{Code, Params, Places, Step, StepKind, Work};

pub struct Write;
pub static WRITE: Write = Write;

impl StepKind for Write {
    known_as!("write": Rust "step/write.rs");

    fn lower(&self, step: &Step, _: &Places) -> anyhow::Result<Work> {
        let Params::Files(files) = &step.params else {
            panic!("BUG: {} has no files", step.name)
        };
        Ok(Work::Files(
            files
                .0
                .iter()
                .map(|(path, text)| (path.to_string(), text.as_bytes().to_vec()))
                .collect(),
        ))
    }
}
