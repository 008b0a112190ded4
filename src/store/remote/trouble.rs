//! What can be wrong with a remote. None of it is an error of the run.

use std::fmt;

use crate::base::words::words;

/// Why a result of a remote is not believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Refusal {
    /// It is no result, or a torn one.
    Unreadable,
    Unsigned,
    WrongSignature,
    /// It is of another key than was asked for.
    OtherKey,
    /// It tells of no success.
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

#[derive(Debug)]
pub(super) enum Trouble {
    Refused(Refusal),
    Timeout,
    /// The remote is not reached or says no.
    Failed(String),
    /// This machine's own store or disk.
    Local(String),
}

impl From<Refusal> for Trouble {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => write!(f, "a result was refused ({})", refusal.word()),
            Self::Timeout => f.write_str("no answer in time"),
            Self::Failed(why) | Self::Local(why) => f.write_str(why),
        }
    }
}
