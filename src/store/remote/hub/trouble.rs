//! What can be wrong with a remote. None of it is an error of the run.

use crate::base::words::words;
use crate::store::StoreError;

/// Why a result of a remote is not believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Refusal {
    /// It is no result, or a torn one.
    Unreadable,
    Unsigned,
    WrongSignature,
    /// It is of another key than was requested.
    OtherKey,
    /// It is no success.
    NoSuccess,
    /// Its list of files is not that of the tree it names.
    OtherTree,
    /// A file's path leads out of the tree, or two exclude each other.
    BadPath,
    TooLarge,
    /// Content that it names is not there.
    Incomplete,
    /// Content is not what its name says.
    WrongContent,
}

words!(pub(super) Refusal {
    "unreadable" => Unreadable, "not signed" => Unsigned, "wrong signature" => WrongSignature,
    "of another key" => OtherKey, "no success" => NoSuccess, "of another tree" => OtherTree, "bad path" => BadPath,
    "too large" => TooLarge, "incomplete" => Incomplete, "wrong content" => WrongContent,
});

#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    #[error("a result was refused ({})", .0.word())]
    Refused(Refusal),
    #[error("no answer in time")]
    Timeout,
    /// The remote is not reached or says no.
    #[error("{0}")]
    Failed(String),
    /// This machine's own store or disk.
    #[error("{0}")]
    Local(String),
}

impl From<Refusal> for Trouble {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        Self::Local(format!("{:#}", anyhow::Error::from(error)))
    }
}
