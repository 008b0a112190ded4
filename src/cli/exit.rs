//! Exit codes. They are documented in `docs/results.md`, and scripts rely on them.

use std::process::ExitCode;

use crate::base::Bug;

/// How the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// All that ran passed.
    Success = 0,
    /// A case, a step or a check failed.
    Failed = 1,
    /// It could not be done: bad usage, a spec with errors, a file that cannot be read or written, something that cannot be installed.
    Usage = 2,
    /// Nothing ran: no case passed and none failed.
    NothingRan = 3,
    /// A bug in orch.
    Bug = 70,
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
