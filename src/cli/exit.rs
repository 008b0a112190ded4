//! Exit codes. They are documented in `docs/results.md`, and scripts rely on them.

use std::process::ExitCode;

use crate::session::UsageError;
use crate::store::StoreError;

/// How the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// All that ran passed.
    Success = 0,
    /// A case, a step or a check failed.
    Failed = 1,
    /// Bad usage, or a spec with errors.
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

pub(super) fn of_error(error: &anyhow::Error) -> Exit {
    let is_foreign = |cause: &(dyn std::error::Error + 'static)| {
        matches!(cause.downcast_ref(), Some(StoreError::Foreign { .. }))
    };
    if error
        .chain()
        .any(|cause| cause.is::<UsageError>() || is_foreign(cause))
    {
        Exit::Usage
    } else if error.to_string().starts_with("BUG:") {
        Exit::Bug
    } else {
        Exit::Failed
    }
}
