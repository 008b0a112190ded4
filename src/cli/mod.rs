//! The command line: arguments in, pages and exit codes out.

mod args;
mod cmd;
mod console;
mod estimate;
mod exit;
mod github;
mod groups;
mod printer;
#[cfg(test)]
mod reference_tests;
mod serving;
mod table;
mod waiting;

use std::process::ExitCode;

use args::Args;
pub use exit::Exit;
use printer::Printer;

/// Parses the arguments, does what they say, and gives the exit code.
pub fn main() -> ExitCode {
    args::answer();
    let args = match groups::parse() {
        Ok(args) => args,
        Err(error) => {
            let _ = error.print();
            if let Some(hint) = args::hint(&error) {
                Printer::new(Default::default()).note(&format!("  hint: {hint}"));
            }
            return if error.use_stderr() {
                Exit::Usage.into()
            } else {
                Exit::Success.into()
            };
        }
    };
    args.apply_color();
    let printer = Printer::new(args.verbosity());
    let outcome = std::panic::catch_unwind(|| cmd::dispatch(&args, &printer));
    match outcome {
        Ok(Ok(exit)) => exit.into(),
        Ok(Err(error)) => {
            printer.error(&error);
            if cmd::is_interrupted() {
                Exit::Interrupted.into()
            } else {
                exit::of_error(&error).into()
            }
        }
        // The panic's own message is on stderr already.
        Err(_) => {
            printer.note("this is a bug in orch; please report it with the lines above");
            Exit::Bug.into()
        }
    }
}
