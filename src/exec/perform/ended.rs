//! How an execution ended, before and after its record was kept.

use serde::{Deserialize, Serialize};

use crate::base::Digest;
use crate::base::text::error_text;
use crate::exec::perform::outcome::Judged;
use crate::record::{Numerics, Outcome, Record};
use crate::step::StepId;
use crate::store::{Manifest, StoreError};

/// How a task ended, for the scheduler.
pub(in crate::exec) enum Performed {
    Executed {
        record: Box<Record>,
        /// Its output is as before, although something that it depends on changed.
        unchanged: bool,
        /// It failed, and another attempt may succeed.
        transient: bool,
    },
    /// Another orch process executed it while this one waited for its lock.
    Hit(Box<Record>),
    /// It was executed elsewhere before this run, and a server remembers how it ended.
    Remembered(Box<Record>),
    InputLost(InputLost),
}

/// An input is not as it was published: who made it, and which tree it was.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub(in crate::exec) struct InputLost {
    pub(in crate::exec) from: StepId,
    pub(in crate::exec) digest: Digest,
    pub(in crate::exec) what: String,
}

impl InputLost {
    /// What it means that a tree cannot be read. One that is not damaged may be whole: on a full disk, for instance, making
    /// it again would fail again.
    pub(in crate::exec) fn or(
        from: StepId,
        digest: Digest,
    ) -> impl Fn(StoreError) -> anyhow::Error {
        move |e| match e {
            StoreError::Damaged { .. } => Self {
                from,
                digest,
                what: error_text(&e.into()),
            }
            .into(),
            e => e.into(),
        }
    }
}

/// The result of an execution, before it is kept.
pub(in crate::exec) struct Done {
    pub(in crate::exec) judged: Judged,
    pub(in crate::exec) numerics: Option<Numerics>,
    /// What it made: content that is in the store, and not part of a tree yet.
    pub(in crate::exec) made: Option<Manifest>,
    /// Its files' names on the server, if it is not in the store but stayed there.
    pub(in crate::exec) left: Option<Vec<ServerFile>>,
    /// Who made it, if that was not this machine.
    pub(in crate::exec) origin: Option<Origin>,
}

impl Done {
    /// It made nothing.
    pub(in crate::exec) fn only(judged: Judged) -> Self {
        Self {
            judged,
            numerics: None,
            made: None,
            left: None,
            origin: None,
        }
    }

    pub(in crate::exec) fn interrupted() -> Self {
        Self::only(Judged::failed(Outcome::Incomplete, "interrupted"))
    }
}

/// A file that stayed on the server, by the server's name for it: a digest by a function of the server's, and a size in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerFile {
    pub hash: String,
    pub size: i64,
}

/// The place and time of something that was not done here and now.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Origin {
    /// The machine's name.
    pub host: String,
    /// What identifies its kind.
    pub fingerprint: String,
    pub cpu: String,
    #[serde(default)]
    pub cpu_identity: String,
    #[serde(default)]
    pub cores: u32,
    /// RFC 3339.
    pub started: String,
    pub seconds: f64,
}
