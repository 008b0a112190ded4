//! Trees: a folder of files under the digest of its manifest.

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::base::{Digest, fs as bfs, tree_path};
use crate::store::{Result, StoreError};

/// What another machine would refuse is not published here.
pub(super) fn check_paths<'a>(mut paths: impl Iterator<Item = &'a String>) -> Result<()> {
    let bad = paths.find_map(|path| Some((path, tree_path::fault(path)?)));
    bad.map_or(Ok(()), |(path, what)| {
        Err(StoreError::BadPath {
            path: path.into(),
            what: what.into(),
        })
    })
}

/// The files of a tree, sorted by path. Its JSON form is what the tree's digest is taken of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    pub files: Vec<ManifestFile>,
}

/// A file of the store: content, and whether it is executable.
pub(super) type Blob = (Digest, bool);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestFile {
    pub path: String,
    pub size: u64,
    pub digest: Digest,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub executable: bool,
}

impl ManifestFile {
    pub(super) fn blob(&self) -> Blob {
        (self.digest, self.executable)
    }
}

impl Manifest {
    /// Reads and hashes files, which are sorted by their paths in the tree.
    pub(super) fn of_files(files: &[(String, PathBuf)]) -> Result<Self> {
        let read = |(path, at): &(String, PathBuf)| {
            let meta = fs::metadata(at).map_err(StoreError::io("stat", at))?;
            let digest = Digest::of_file(at).map_err(StoreError::io("read", at))?;
            Ok(ManifestFile {
                path: path.clone(),
                size: meta.len(),
                digest,
                executable: bfs::is_executable(&meta),
            })
        };
        // Of a few files, waking other threads would take longer than reading; a large one is read by all of them anyway.
        let files: Result<Vec<_>> = match files.len() {
            0..8 => files.iter().map(read).collect(),
            _ => files.par_iter().map(read).collect(),
        };
        Ok(Self { files: files? })
    }

    /// What is wrong with it, if orch would not have written it: paths are sound and sorted, each of a file and not also of
    /// a folder, and the sum of the sizes is a number.
    pub fn fault(&self) -> Option<String> {
        for (at, file) in self.files.iter().enumerate() {
            if let Some(what) = tree_path::fault(&file.path) {
                return Some(format!("names a file {:?}: {what}", file.path));
            }
            if at > 0 && self.files[at - 1].path >= file.path {
                return Some(format!("is not sorted, or names {:?} twice", file.path));
            }
        }
        let paths: HashSet<&str> = self.files.iter().map(|file| file.path.as_str()).collect();
        let folders = |file: &'_ ManifestFile| {
            file.path
                .match_indices('/')
                .map(|(at, _)| at)
                .collect::<Vec<_>>()
        };
        for file in &self.files {
            if let Some(at) = folders(file)
                .into_iter()
                .find(|at| paths.contains(&file.path[..*at]))
            {
                return Some(format!(
                    "names {:?} as a file and as a folder",
                    &file.path[..at]
                ));
            }
        }
        let size = self
            .files
            .iter()
            .try_fold(0u64, |sum, file| sum.checked_add(file.size));
        size.is_none().then(|| "has absurd sizes".to_owned())
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
