//! Trees: a folder of files under the digest of its manifest.

use std::fs;
use std::path::Path;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::base::{Digest, fs as bfs};
use crate::store::StoreError;

/// The files of a tree, sorted by path. Its JSON form is what the tree's digest is taken of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    pub files: Vec<ManifestFile>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestFile {
    pub path: String,
    pub size: u64,
    pub digest: Digest,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub executable: bool,
}

impl Manifest {
    /// Reads and hashes every file below `root`.
    pub fn of(root: &Path) -> Result<Self, StoreError> {
        let names = bfs::files_below(root).map_err(StoreError::io("list", root))?;
        let read = |path: String| {
            let full = root.join(&path);
            let meta = fs::metadata(&full).map_err(StoreError::io("stat", &full))?;
            let digest = Digest::of_file(&full).map_err(StoreError::io("read", &full))?;
            Ok(ManifestFile { path, size: meta.len(), digest, executable: bfs::is_executable(&meta) })
        };
        // Of a few files, waking other threads would take longer than reading; a large one is read by all of them anyway.
        let files: Result<Vec<_>, StoreError> = match names.len() {
            0..8 => names.into_iter().map(read).collect(),
            _ => names.into_par_iter().map(read).collect(),
        };
        Ok(Self { files: files? })
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("BUG: a manifest serialises")
    }

    pub fn digest(&self) -> Digest {
        Digest::of(&self.to_bytes())
    }

    pub fn parse(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(bytes)
    }

    pub fn size(&self) -> u64 {
        self.files.iter().map(|file| file.size).sum()
    }
}
