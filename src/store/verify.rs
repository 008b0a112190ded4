//! Reads the whole store, counts it, and takes out what is damaged.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;
use serde::Serialize;

use crate::base::Digest;
use crate::store::blobs::Named;
use crate::store::entry::{Entry, Kind};
use crate::store::log::{Choice, Place};
use crate::store::{DiskStore, Manifest, Result, StoreError, blobs};

/// One damaged thing that `verify` found.
#[derive(Debug, Clone, Serialize)]
pub struct Problem {
    pub path: PathBuf,
    pub what: String,
}

/// How far `verify` is.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    pub files: u64,
    pub of: u64,
    pub bytes: u64,
}

impl DiskStore {
    /// Reads everything and reports what is not as it was published. `tell` is called after every file, from several threads.
    pub fn verify(&self, tell: &(dyn Fn(Progress) + Sync)) -> Result<Vec<Problem>> {
        loop {
            let mut problems = Vec::new();
            let seen = self.verify_log(&mut problems)?;
            let blobs = self.blobs.list()?;
            let of = blobs.len() as u64;
            let files = AtomicU64::new(0);
            let bytes = AtomicU64::new(0);
            let damaged: Vec<_> = blobs
                .into_par_iter()
                .filter_map(|blob| {
                    let size = fs::symlink_metadata(&blob.0)
                        .map(|meta| meta.len())
                        .unwrap_or_default();
                    let found = complaint(blob);
                    let bytes = bytes.fetch_add(size, Ordering::Relaxed) + size;
                    tell(Progress {
                        files: files.fetch_add(1, Ordering::Relaxed) + 1,
                        of,
                        bytes,
                    });
                    found
                })
                .collect();
            problems.extend(damaged);
            // A file may be cut short and therefore have another content, too: one complaint is enough.
            let mut reported = HashSet::new();
            problems.retain(|problem| {
                problem.path == self.log.path() || reported.insert(problem.path.clone())
            });
            // What another process collected meanwhile is not missing.
            if problems.is_empty() || self.log.is_current(&seen)? {
                return Ok(problems);
            }
        }
    }

    fn verify_log(&self, problems: &mut Vec<Problem>) -> Result<Place> {
        let mut trees = Vec::new();
        let seen = self.log.each(|at, entry| {
            let read = entry.and_then(|entry| match entry.header.kind {
                Kind::Record => self.parse(&entry).map(drop),
                Kind::Tree => {
                    trees.push(entry.header.id);
                    Ok(())
                }
                Kind::Dropped => Ok(()),
            });
            if let Err(error) = read {
                problems.push(problem(error, &format!("log, byte {at}")));
            }
        })?;
        let mut known = HashSet::new();
        for digest in trees {
            // A tree that was dropped, or is there a second time, is looked at once at most.
            if !self.log.knows_tree(&digest)? || !known.insert(digest) {
                continue;
            }
            let lacking = |manifest: Manifest| {
                manifest
                    .files
                    .into_iter()
                    .find(|file| !self.blobs.has(file))
            };
            match self.manifest(&digest).map(lacking) {
                Ok(None) => {}
                Ok(Some(file)) => problems.push(Problem {
                    path: self.blobs.path_of(&file),
                    what: format!(
                        "it is missing or cut short: {} of tree {}",
                        file.path,
                        digest.short()
                    ),
                }),
                Err(error) => problems.push(problem(error, "tree")),
            }
        }
        Ok(seen)
    }

    /// Takes out every damaged thing; what made it runs again on the next run.
    pub fn heal(&self, problems: &[Problem]) -> Result<()> {
        self.must_be_writable("what is damaged cannot be taken out")?;
        self.note_removal()?;
        for problem in problems
            .iter()
            .filter(|problem| problem.path != self.log.path())
        {
            blobs::remove(&problem.path)?;
        }
        loop {
            let mut whole = Whole::default();
            let seen = self.log.each(|at, entry| {
                let tree = entry
                    .ok()
                    .map(|entry| entry.header)
                    .filter(|header| header.kind == Kind::Tree);
                whole.0.extend(
                    tree.filter(|header| self.has_tree(&header.id))
                        .map(|header| (header.id, at)),
                );
            })?;
            if self.log.compact(&seen, &mut whole)? {
                return Ok(());
            }
        }
    }
}

/// Trees that are whole, with the places of their last entries. Of trees, these stay; of records, all.
#[derive(Default)]
struct Whole(HashMap<Digest, u64>);

impl Choice for Whole {
    fn keeps(&mut self, at: u64, entry: &Entry) -> bool {
        match entry.header.kind {
            Kind::Record => true,
            Kind::Tree => self.0.get(&entry.header.id) == Some(&at),
            Kind::Dropped => false,
        }
    }
}

/// Hashes one file of the store.
fn complaint((path, name): Named) -> Option<Problem> {
    let Some((digest, _)) = name else {
        return Some(Problem {
            path,
            what: "no blob has such a name".into(),
        });
    };
    let what = match Digest::of_file(&path) {
        Ok(found) if found == digest => return None,
        Ok(_) => "it has other content than was published".into(),
        // Collected by another process since it was listed.
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return None,
        Err(e) => e.to_string(),
    };
    Some(Problem { path, what })
}

fn problem(error: StoreError, place: &str) -> Problem {
    let text = error.to_string();
    match error {
        StoreError::Damaged { path, what } => Problem { path, what },
        StoreError::Io { path, source, .. } => Problem {
            path,
            what: format!("{place}: {text}: {source}"),
        },
        StoreError::Refused { path, what } | StoreError::BadPath { path, what } => {
            Problem { path, what }
        }
        StoreError::Foreign { path } | StoreError::ReadOnly { path, .. } => {
            Problem { path, what: text }
        }
    }
}
