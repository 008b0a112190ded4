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
}

impl Manifest {
    /// Reads and hashes every file below `root`.
    pub fn of(root: &Path) -> Result<Self, StoreError> {
        let names = bfs::files_below(root).map_err(StoreError::io("list", root))?;
        let files = names
            .into_par_iter()
            .map(|path| {
                let full = root.join(&path);
                let size = fs::metadata(&full).map_err(StoreError::io("stat", &full))?.len();
                let digest = Digest::of_file(&full).map_err(StoreError::io("read", &full))?;
                Ok(ManifestFile { path, size, digest })
            })
            .collect::<Result<Vec<_>, StoreError>>()?;
        Ok(Self { files })
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("BUG: a manifest serialises")
    }

    pub fn digest(&self) -> Digest {
        Digest::of(&self.to_bytes())
    }

    pub fn size(&self) -> u64 {
        self.files.iter().map(|file| file.size).sum()
    }

    /// The first difference from another manifest, for a person.
    pub fn difference(&self, found: &Manifest) -> Option<String> {
        for file in &self.files {
            match found.files.iter().find(|other| other.path == file.path) {
                None => return Some(format!("{} is missing", file.path)),
                Some(other) if other.size != file.size => {
                    return Some(format!("{} has {} bytes, expected {}", file.path, other.size, file.size));
                }
                Some(other) if other.digest != file.digest => {
                    return Some(format!("{} has other content than was published", file.path));
                }
                Some(_) => {}
            }
        }
        let extra = found.files.iter().find(|file| !self.files.iter().any(|known| known.path == file.path))?;
        Some(format!("{} was added", extra.path))
    }
}
