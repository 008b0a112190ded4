//! Arguments of `orch bench`.

use clap::Args as ClapArgs;

use super::RunArgs;
use crate::session::{Request, Settings};

/// How many rounds tell an unchanged model from one that became slower.
const ROUNDS: u32 = 5;

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct BenchArgs {
    #[command(flatten)]
    pub(in crate::cli) run: RunArgs,
    /// Wait up to a minute for a quiet machine before the first round, measure nothing if it stays busy, and fail if a
    /// round was disturbed
    #[arg(long, help_heading = "Measuring")]
    pub(in crate::cli) strict: bool,
    /// The seed for the random order of rounds, to repeat an order [default: a new one each time]
    #[arg(long, value_name = "N", help_heading = "Measuring")]
    seed: Option<u64>,
}

impl BenchArgs {
    /// Everything that is timed, anew.
    pub(in crate::cli) fn request(&self) -> Request {
        let request = self.run.request();
        Request { rounds: request.rounds.or(Some(ROUNDS)), anew: true, ..request }
    }

    pub(in crate::cli) fn settings(&self, command: String) -> Settings {
        Settings { seed: self.seed, ..self.run.settings(command) }
    }
}
