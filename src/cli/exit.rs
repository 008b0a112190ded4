//! Exit codes. Scripts rely on them; `docs/reference.md` shows the doc comments of [`Exit`].

use std::process::ExitCode;

use crate::base::Bug;

/// How the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[repr(u8)]
pub enum Exit {
    /// Everything passed, failed as expected, or passed on a fallback; or nothing was to do (no difference from the revision, an
    /// empty part).
    Success = 0,
    /// A case or a step failed, a case passed unexpectedly, `compare --gate` found something worse, or a requested check failed
    /// (`doctor`, `cache verify`, `cache remote`, `bench --strict`, `site --contrib`).
    Failed = 1,
    /// Bad usage, a spec with errors, an unreadable file, an unwritable folder, a failed installation. `run` checks `--out-dir`,
    /// `--trace` and `--cache-dir` before the first step; `plan` exits with 2 if a file that a step reads is missing.
    Usage = 2,
    /// Nothing ran: no case passed and none failed, e.g. since every target is unavailable, or the machine stayed busy for
    /// `bench --strict`.
    NothingRan = 3,
    /// A bug in orch; unaffected steps ended normally.
    Bug = 70,
    /// Interrupted (`--watch` always ends this way); finished results are kept.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// The exit code of a command that ended with an error. It is never [`Exit::Failed`]: what a command finds out is no error of its
/// own, and a gate must not take a mistyped name for a regression.
pub(super) fn of_error(error: &anyhow::Error) -> Exit {
    if Bug::is_in(error) {
        Exit::Bug
    } else {
        Exit::Usage
    }
}
