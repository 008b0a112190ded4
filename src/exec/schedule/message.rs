//! What a scheduler may look at, the messages it gets, and the effects it wants.

use std::path::PathBuf;

use crate::base::Digest;
use crate::device::Backend;
use crate::event::{Event, Span};
use crate::exec::perform::ended::Performed;
use crate::exec::perform::task::Task;
use crate::key::{KeyDoc, MissReason};
use crate::record::Record;
use crate::step::{Required, StepId};

/// A message to a scheduler.
pub(in crate::exec) enum Message {
    /// How an execution ended, and its log if it failed and left one.
    Performed(StepId, Performed, Option<String>, Span),
    /// A step that was started waits for no other process of this machine any more.
    Entered(StepId),
    /// A step did not start. With what it was handed, why, and when that was (RFC 3339).
    NotStarted {
        id: StepId,
        key: KeyDoc,
        reason: MissReason,
        why: String,
        at: String,
    },
    /// What a remote answered about a step.
    Answered(StepId, Option<Box<Record>>),
    Installed(Required, Result<(), String>),
    /// How much memory the devices have, by their drivers.
    Sized(Vec<Backend>),
    /// The user wants no more.
    Interrupted,
}

/// What is to be done.
pub(in crate::exec) enum Effect<'a> {
    Tell(Event),
    /// A task to start, and the event to report once it has started.
    Start(Box<Task<'a>>, Event),
    /// Looks up whether another machine has the result of this key.
    Query(StepId, Digest),
    Install(Required),
    /// Asks drivers how much memory those devices have whose files do not say it.
    ProbeSizes,
    /// Keeps the log of an attempt from the next one.
    KeepLog {
        log: PathBuf,
        of_attempt: PathBuf,
    },
}
