//! `command:<name>` of files with fixed content: orch writes them itself, without a process.

use crate::step::{Code, Params, Part, Places, Step, StepKind, Work};

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
        let Params::Files(files) = &step.params else { panic!("BUG: {} has no files", step.name) };
        let files = files.clone();
        let out = places.out.clone();
        Ok(Work::Pure(Box::new(move || {
            for (path, text) in &files.0 {
                let path = out.join(&**path);
                if let Some(folder) = path.parent().filter(|folder| *folder != out) {
                    std::fs::create_dir_all(folder)?;
                }
                std::fs::write(path, text)?;
            }
            Ok(())
        })))
    }
}
