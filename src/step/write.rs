//! `command:<name>` of files with fixed content: orch writes them itself, without a process.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use crate::step::{Code, Part, Places, Step, StepKind, Work};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WriteParams {
    /// Text by path, relative to the step's output.
    pub write: IndexMap<String, String>,
}

pub struct Write;
pub static WRITE: Write = Write;

impl StepKind for Write {
    fn name(&self) -> &'static str {
        "write"
    }

    fn code(&self, _: &Step) -> &Code {
        static CODE: Code = Code::of(&[&[Part::Rust("step/write.rs")]]);
        &CODE
    }

    fn lower(&self, step: &Step, places: &Places) -> anyhow::Result<Work> {
        let params: WriteParams = serde_json::from_value(step.params.clone())?;
        let out = places.out.clone();
        Ok(Work::Pure(Box::new(move || {
            for (path, text) in params.write {
                let path = out.join(path);
                if let Some(folder) = path.parent().filter(|folder| *folder != out) {
                    std::fs::create_dir_all(folder)?;
                }
                std::fs::write(path, text)?;
            }
            Ok(())
        })))
    }
}
