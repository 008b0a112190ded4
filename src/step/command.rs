//! `command:<name>`: a user's own program, keyed, cached and isolated like every other step.

use crate::base::Digest;
use crate::step::{CommandCall, Params, Places, Step, StepKind, Work, code_digest};

pub struct Command;
pub static COMMAND: Command = Command;

impl StepKind for Command {
    fn name(&self) -> &'static str {
        "command"
    }

    fn code(&self) -> Digest {
        code_digest!("step/command.rs", "worker/command.rs")
    }

    /// A program of unknown make may produce native code.
    fn is_native(&self) -> bool {
        true
    }

    fn lower(&self, step: &Step, places: &Places) -> anyhow::Result<Work> {
        let Params::Program(program) = &step.params else { panic!("BUG: {} has no program", step.name) };
        let owned = |texts: &[std::sync::Arc<str>]| texts.iter().map(|text| text.to_string()).collect();
        Ok(Work::Command(CommandCall {
            argv: owned(&program.argv),
            inputs: places.inputs.clone(),
            outputs: owned(&program.outputs),
            env: owned(&program.env),
        }))
    }
}
