//! `command:<name>`: a user's own program, keyed, cached and isolated like every other step.

use crate::step::{Access, Code, CommandCall, Params, Places, Step, StepKind, Work};

pub struct Command;
pub static COMMAND: Command = Command;

impl StepKind for Command {
    known_as!("command": Rust "step/command.rs", "worker/command.rs", "worker/inputs.rs", "worker/outputs.rs",
        "worker/sandbox.rs", "worker/project.rs", "confine");

    /// A program of unknown make may produce native code.
    fn is_native(&self) -> bool {
        true
    }

    /// A folder between the store and the working folder would cost more than many a program.
    fn lays_in(&self) -> bool {
        true
    }

    fn lower(&self, step: &Step, places: &Places) -> anyhow::Result<Work> {
        let Params::Program(program) = &step.params else {
            panic!("BUG: {} has no program", step.name)
        };
        let owned =
            |texts: &[std::sync::Arc<str>]| texts.iter().map(|text| text.to_string()).collect();
        Ok(Work::Command(CommandCall {
            argv: owned(&program.argv),
            inputs: places.inputs.clone(),
            trees: places.trees.clone(),
            outputs: owned(&program.outputs),
            env: owned(&program.env),
            access: Access {
                network: program.network,
                write: program
                    .writable
                    .iter()
                    .map(|(_, folder)| folder.to_path_buf())
                    .collect(),
                shared: Vec::new(),
                home: false,
            },
        }))
    }
}
