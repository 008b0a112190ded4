//! What differs in an input: which files of a tree and where in them, or what is known of the user's own file.

use std::path::Path;
use std::time::SystemTime;

use serde::Serialize;

use crate::base::figures::bytes;
use crate::base::figures::moment;
use crate::base::{Digest, fs as bfs};
use crate::explain::{content, held};
use crate::record::Record;
use crate::store::{DiskStore, ManifestFile, keyed};

/// Files of a tree that are named, and newer files of a folder; the rest is counted.
const NAMED: usize = 5;
/// Files larger than this are named and not compared: reading them would take longer than it is worth.
const COMPARED: u64 = 1 << 30;

#[derive(Debug, Clone, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Evidence {
    /// The output of a step.
    Tree {
        producer: String,
        files: Vec<FileChange>,
        /// Differing files that are not listed.
        more: usize,
        /// Why nothing is listed.
        #[serde(skip_serializing_if = "Option::is_none")]
        note: Option<String>,
    },
    /// The user's own file or folder.
    File {
        /// As seen from the working folder, where it lies below it.
        path: String,
        size: Option<u64>,
        /// RFC 3339, UTC.
        modified: Option<String>,
        /// Where it differs, if some step published the older version as it was.
        #[serde(skip_serializing_if = "Option::is_none")]
        differs: Option<String>,
        /// Of a folder: files changed after the last execution began.
        newer: Vec<String>,
    },
}

#[derive(Debug, Clone, Serialize)]
pub struct FileChange {
    pub path: String,
    pub old_size: Option<u64>,
    pub new_size: Option<u64>,
    /// Where the two versions first differ.
    pub differs: Option<String>,
}

impl FileChange {
    /// `config.json: num_layers: 2 => 3`
    pub fn text(&self) -> String {
        let path = &self.path;
        match (self.old_size, self.new_size, &self.differs) {
            (None, Some(size), _) => format!("{path} is new ({})", bytes(size)),
            (Some(_), None, _) => format!("{path} is gone"),
            (_, _, Some(differs)) => format!("{path}: {differs}"),
            (Some(old), Some(new), None) if old != new => format!("{path}: {} => {}", bytes(old), bytes(new)),
            _ => format!("{path} has other content"),
        }
    }
}

impl Evidence {
    pub(super) fn tree(store: &DiskStore, producer: &str, old: Option<&str>, new: Option<&str>) -> Self {
        let read = |text: Option<&str>| held::manifest(store, &text?.parse().ok()?);
        let producer = producer.to_owned();
        let (Some(old), Some(new)) = (read(old), read(new)) else {
            let note = if old.is_none() { None } else { Some("the older output is no longer in the store".to_owned()) };
            return Self::Tree { producer, files: Vec::new(), more: 0, note };
        };
        let find = |files: &[ManifestFile], path: &str| files.iter().find(|file| file.path == path).cloned();
        let gone = old.files.iter().filter(|file| find(&new.files, &file.path).is_none());
        let mut pairs: Vec<_> =
            new.files.iter().map(|file| (find(&old.files, &file.path), Some(file.clone()))).collect();
        pairs.extend(gone.map(|file| (Some(file.clone()), None)));
        pairs.retain(|(old, new)| old.as_ref().map(|f| f.digest) != new.as_ref().map(|f| f.digest));
        let more = pairs.len().saturating_sub(NAMED);
        pairs.truncate(NAMED);
        let files = pairs
            .into_iter()
            .map(|(old, new)| {
                let path = new.as_ref().or(old.as_ref()).map(|file| file.path.clone()).unwrap_or_default();
                let differs = old.as_ref().zip(new.as_ref()).and_then(|(old, new)| {
                    if old.size.max(new.size) > COMPARED {
                        return None;
                    }
                    let (a, b) = (held::file(store, old)?, held::file(store, new)?);
                    content::first_difference(&path, &a, &b).ok().flatten()
                });
                FileChange { path, old_size: old.map(|f| f.size), new_size: new.map(|f| f.size), differs }
            })
            .collect();
        Self::Tree { producer, files, more, note: None }
    }

    /// `last` is the record of the execution that read the older version.
    pub(super) fn file(store: &DiskStore, path: &Path, old: Option<&str>, last: Option<&Record>) -> Self {
        let meta = path.metadata().ok();
        let modified = |time: SystemTime| jiff::Timestamp::try_from(time).ok();
        let stamp = |time: SystemTime| modified(time).map(moment);
        let is_dir = path.is_dir();
        let began = last.and_then(|record| record.started.parse::<jiff::Timestamp>().ok());
        let newer = match (is_dir, began) {
            (true, Some(began)) => bfs::files_below(path)
                .unwrap_or_default()
                .into_iter()
                .filter(|name| {
                    let time = path.join(name).metadata().and_then(|meta| meta.modified()).ok();
                    time.and_then(modified).is_some_and(|time| time >= began)
                })
                .take(NAMED)
                .collect(),
            _ => Vec::new(),
        };
        Self::File {
            path: from_here(path),
            size: meta.as_ref().filter(|_| !is_dir).map(std::fs::Metadata::len),
            modified: meta.and_then(|meta| meta.modified().ok()).and_then(stamp),
            differs: permission(path, old).or_else(|| {
                let older = older_version(store, old, last)?;
                content::first_difference(&path.to_string_lossy(), &older, path).ok().flatten()
            }),
            newer,
        }
    }
}

/// Whether nothing differs but that a file may be executed.
fn permission(path: &Path, old: Option<&str>) -> Option<String> {
    let meta = path.metadata().ok().filter(std::fs::Metadata::is_file)?;
    let old: Digest = old?.parse().ok()?;
    let may = bfs::is_executable(&meta);
    let told = if may { "it may be executed now" } else { "it may no longer be executed" };
    (keyed(Digest::of_file(path).ok()?, !may) == old).then(|| told.to_owned())
}

/// The older version of a user's file, where the step that read it published it as it was.
fn older_version(store: &DiskStore, old: Option<&str>, last: Option<&Record>) -> Option<std::path::PathBuf> {
    let (digest, tree) = (old?.parse::<Digest>().ok()?, last?.output?);
    let manifest = held::manifest(store, &tree)?;
    let file = manifest.files.iter().find(|file| file.digest == digest)?;
    held::file(store, file)
}

/// A path as a person standing here would write it.
fn from_here(path: &Path) -> String {
    let resolved = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let (path, here) = (resolved(path), resolved(&std::env::current_dir().unwrap_or_default()));
    path.strip_prefix(&here).unwrap_or(&path).display().to_string()
}
