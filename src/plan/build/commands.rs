//! Steps of the user's own: one for each entry of `commands:`.

use super::Builder;
use crate::plan::build::BuildError;
use crate::spec::{Command, CommandInput, Does};
use crate::step::{self, Params, Source, Stage, Step, StepKind};

impl Builder<'_> {
    pub(super) fn commands(&mut self) -> Result<(), BuildError> {
        let first = self.steps.len();
        // Two passes, because a command may read one that is declared below it.
        for command in self.spec.commands.values() {
            let (kind, params): (&'static dyn StepKind, _) = match &command.does {
                Does::Run(program) => (&step::COMMAND, Params::Program(program.clone())),
                Does::Write(files) => (&step::WRITE, Params::Files(files.clone())),
            };
            let name = ["command:", &command.name].concat();
            let Command {
                memory,
                retries,
                timeout_seconds,
                ..
            } = *command;
            let step = Step::new(name, Stage::Command, kind, params, vec![], timeout_seconds);
            self.add_new(Step {
                memory,
                retries,
                ..step
            });
        }
        for (number, command) in self.spec.commands.values().enumerate() {
            let mut inputs = Vec::with_capacity(command.inputs.len());
            for (label, input) in &command.inputs {
                let source = match input {
                    CommandInput::File(path) => Source::File(path.clone()),
                    CommandInput::Step(name) => Source::Step(
                        self.find(name)
                            .ok_or_else(|| self.no_such_step(command, name))?,
                    ),
                };
                inputs.push((label.clone(), source));
            }
            self.steps[first + number].inputs = inputs;
        }
        Ok(())
    }

    fn no_such_step(&self, command: &Command, name: &str) -> BuildError {
        let mut known: Vec<&str> = self.steps.iter().map(|step| step.name.as_str()).collect();
        known.sort_unstable();
        BuildError::NoSuchStep {
            loc: command.loc.to_string(),
            command: command.name.to_string(),
            step: name.to_owned(),
            hint: crate::base::suggest::hint(name, known),
        }
    }
}
