//! Reads the whole store, counts it, and takes out what is damaged.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use rayon::prelude::*;
use serde::Serialize;

use crate::base::Digest;
use crate::store::entry::{Held, Kind};
use crate::store::log::Entry;
use crate::store::{DiskStore, Manifest, StoreError, blobs};

/// One damaged thing that `verify` found.
#[derive(Debug, Clone, Serialize)]
pub struct Problem {
    pub path: PathBuf,
    pub what: String,
}

#[derive(Debug, Clone, Default, Serialize)]
pub struct Stats {
    /// Executions on record, and how many of them answer for their key.
    pub records: u64,
    pub held: u64,
    /// What steps made: trees, and the distinct files that they consist of.
    pub trees: u64,
    pub files: u64,
    /// Size of those files.
    pub bytes: u64,
    /// Size of the log of records and manifests.
    pub log_bytes: u64,
}

impl DiskStore {
    pub fn stats(&self) -> Result<Stats, StoreError> {
        let mut stats = Stats::default();
        self.log.each(|_, entry| match entry.map(|entry| entry.header) {
            Ok(header) if header.kind == Kind::Record => {
                stats.records += 1;
                stats.held += u64::from(header.held != Held::No);
            }
            Ok(header) if header.kind == Kind::Tree => {
                stats.trees += u64::from(self.log.knows_tree(&header.id).unwrap_or_default());
            }
            _ => {}
        })?;
        for (path, _) in self.blobs.list()? {
            stats.files += 1;
            stats.bytes += fs::symlink_metadata(&path).map(|meta| meta.len()).unwrap_or_default();
        }
        stats.log_bytes = fs::metadata(self.log.path()).map(|meta| meta.len()).unwrap_or_default();
        Ok(stats)
    }

    /// Reads everything and reports what is not as it was published.
    pub fn verify(&self) -> Result<Vec<Problem>, StoreError> {
        let mut problems = Vec::new();
        let mut trees = Vec::new();
        self.log.each(|at, entry| {
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
        let mut known = BTreeSet::new();
        for digest in trees {
            // A tree that was dropped, or is there a second time, is looked at once at most.
            if !self.log.knows_tree(&digest)? || !known.insert(digest) {
                continue;
            }
            let lacking = |manifest: Manifest| manifest.files.into_iter().find(|file| !self.blobs.has(file));
            match self.manifest(&digest).map(lacking) {
                Ok(None) => {}
                Ok(Some(file)) => problems.push(Problem {
                    path: self.blobs.path(&file.digest, file.executable),
                    what: format!("it is missing or cut short: {} of tree {}", file.path, digest.short()),
                }),
                Err(error) => problems.push(problem(error, "tree")),
            }
        }
        let blobs = self.blobs.list()?;
        let damaged: Vec<_> = blobs.into_par_iter().filter_map(|(path, name)| complaint(path, name)).collect();
        problems.extend(damaged);
        // A file may be cut short and therefore have another content, too: one complaint is enough.
        let mut seen = BTreeSet::new();
        problems.retain(|problem| problem.path == self.log.path() || seen.insert(problem.path.clone()));
        Ok(problems)
    }

    /// Takes out every damaged thing; what made it runs again on the next run.
    pub fn heal(&self, problems: &[Problem]) -> Result<(), StoreError> {
        self.note_removal()?;
        for problem in problems.iter().filter(|problem| problem.path != self.log.path()) {
            blobs::remove(&problem.path)?;
        }
        let whole = |digest: &Digest| {
            let manifest = self.manifest(digest);
            manifest.is_ok_and(|manifest| manifest.files.iter().all(|file| self.blobs.has(file)))
        };
        let mut trees = BTreeSet::new();
        let mut end = 0;
        self.log.each(|at, entry| {
            end = at + 1;
            match entry {
                Ok(Entry { header, .. }) if header.kind == Kind::Tree && whole(&header.id) => {
                    trees.insert(header.id);
                }
                _ => {}
            }
        })?;
        // What others append meanwhile stays.
        self.log.compact(|at, entry| match entry.header.kind {
            _ if at >= end => true,
            Kind::Record => true,
            Kind::Tree => trees.remove(&entry.header.id),
            Kind::Dropped => false,
        })
    }
}

/// Hashes one file of the store.
fn complaint(path: PathBuf, name: Option<Digest>) -> Option<Problem> {
    let Some(digest) = name else {
        return Some(Problem { path, what: "no blob has such a name".into() });
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
        StoreError::Io { path, source, .. } => Problem { path, what: format!("{place}: {text}: {source}") },
    }
}
