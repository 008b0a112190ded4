//! The rows of `commands`: the user's own steps. There may be millions.

use std::num::NonZeroU64;
use std::path::Path;
use std::sync::Arc;

use indexmap::IndexMap;

use crate::base::Loc;

/// A user's own step. There may be millions, so what repeats is shared.
#[derive(Debug, Clone)]
pub struct Command {
    pub name: Arc<str>,
    pub loc: Loc,
    pub does: Does,
    /// The inputs by the names under which the program sees them in its working directory.
    pub inputs: Box<[(Arc<str>, CommandInput)]>,
    pub timeout_seconds: u64,
    /// Bytes that it takes by the user's word.
    pub memory: Option<NonZeroU64>,
    /// How often it is tried again after a transient failure; None leaves it to the command line.
    pub retries: Option<u32>,
}

#[derive(Debug, Clone)]
pub enum Does {
    Run(Arc<Program>),
    /// Writes files of fixed content, text by path; it has no inputs.
    Write(Arc<Files>),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Program {
    pub argv: Box<[Arc<str>]>,
    /// Files or folders, relative to the working directory, that must exist afterwards.
    pub outputs: Box<[Arc<str>]>,
    /// Names of environment variables passed through (digests of their values are in the key).
    pub env: Box<[Arc<str>]>,
    /// Exit codes that call for another attempt. Not in the key: they change no output.
    pub transient: Box<[u32]>,
    /// Whether it may open TCP connections.
    pub network: bool,
    /// Names of inputs that it finds as links; in the key, because a program can tell a link from a file.
    pub lent: Box<[Arc<str>]>,
    /// Folders besides its own that it may write to: as they are named in the spec, which is in the key, and absolute.
    pub writable: Box<[(Arc<str>, Arc<Path>)]>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files(pub Box<[(Arc<str>, String)]>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandInput {
    /// Absolute.
    File(Arc<Path>),
    /// A step's id.
    Step(Arc<str>),
}

/// The user's own steps in their order, found by name.
pub type Commands = IndexMap<Arc<str>, Command>;
