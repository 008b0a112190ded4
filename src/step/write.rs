//! `command:<name>` of files with fixed content: orch writes them itself, without a process.

use crate::base::Digest;
use crate::step::{Params, Places, Step, StepKind, Work, code_digest};

pub struct Write;
pub static WRITE: Write = Write;

impl StepKind for Write {
    fn name(&self) -> &'static str {
        "write"
    }

    fn code(&self) -> Digest {
        code_digest!("step/write.rs")
    }

    fn lower(&self, step: &Step, places: &Places) -> anyhow::Result<Work> {
        let Params::Files(files) = &step.params else { panic!("BUG: {} has no files", step.name) };
        let files = files.clone();
        let out = places.out.clone();
        Ok(Work::Pure(Box::new(move || {
            for (path, text) in &files.0 {
                let path = out.join(&**path);
                std::fs::create_dir_all(path.parent().unwrap_or(&out))?;
                std::fs::write(path, text)?;
            }
            Ok(())
        })))
    }
}
