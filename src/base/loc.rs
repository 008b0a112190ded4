//! Places in the user's files.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;

/// `file:line:column`, both counted from 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Loc {
    pub file: Arc<PathBuf>,
    pub line: u32,
    pub column: u32,
}

impl fmt::Display for Loc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file.display(), self.line, self.column)
    }
}
