//! How many files, and how large they are together.

use std::path::Path;

use serde::{Deserialize, Serialize};

/// A number of things and their size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    pub count: u64,
    pub bytes: u64,
}

impl Amount {
    pub(super) fn one(bytes: u64) -> Self {
        Self { count: 1, bytes }
    }

    /// One thing: a file, or a folder with everything below it.
    pub fn below(path: &Path) -> Self {
        let files = walkdir::WalkDir::new(path)
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.metadata().ok());
        Self::one(
            files
                .filter(|meta| meta.is_file())
                .map(|meta| meta.len())
                .sum(),
        )
    }

    pub(super) fn add(&mut self, other: Self) {
        self.count += other.count;
        self.bytes += other.bytes;
    }
}
