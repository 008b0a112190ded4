//! `command:<name>`: a user's own program, keyed, cached and isolated like every other step.

use serde::{Deserialize, Serialize};

use crate::step::{Code, CommandCall, Part, Places, Step, StepKind, Work};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CommandParams {
    pub argv: Vec<String>,
    pub outputs: Vec<String>,
    /// Names of the variables passed through; their values enter the key as `env.…`.
    pub env: Vec<String>,
}

pub struct Command;
pub static COMMAND: Command = Command;

impl StepKind for Command {
    fn name(&self) -> &'static str {
        "command"
    }

    fn code(&self, _: &Step) -> &Code {
        static CODE: Code = Code::of(&[&[
            Part::Rust("step/command.rs"),
            Part::Rust("worker/command.rs"),
            Part::Rust("worker/goods.rs"),
            Part::Rust("worker/sandbox.rs"),
            Part::Rust("worker/spawn"),
        ]]);
        &CODE
    }

    /// A program of unknown make may produce native code.
    fn is_native(&self) -> bool {
        true
    }

    fn lower(&self, step: &Step, places: &Places) -> anyhow::Result<Work> {
        let params: CommandParams = serde_json::from_value(step.params.clone())?;
        Ok(Work::Command(CommandCall {
            argv: params.argv,
            inputs: places.inputs.clone(),
            outputs: params.outputs,
            env: params.env,
        }))
    }
}
