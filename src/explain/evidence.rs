//! What differs in an input: which files of a tree and where in them, or what is known of the user's own file.

use std::fs::Metadata;
use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use jiff::Timestamp;
use serde::Serialize;

use crate::base::figures::{bytes, moment};
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
        /// The path relative to the working folder, where it lies below it.
        path: String,
        size: Option<u64>,
        /// RFC 3339, UTC.
        modified: Option<String>,
        /// The place at which it differs, if some step published the older version as it was.
        #[serde(skip_serializing_if = "Option::is_none")]
        differs: Option<String>,
        /// The files of a folder that changed after the last execution began.
        newer: Vec<String>,
    },
}

#[derive(Debug, Clone, Serialize)]
pub struct FileChange {
    pub path: String,
    pub old_size: Option<u64>,
    pub new_size: Option<u64>,
    /// The place at which the two versions first differ.
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
            (Some(old), Some(new), None) if old != new => {
                format!("{path}: {} => {}", bytes(old), bytes(new))
            }
            _ => format!("{path} has other content"),
        }
    }
}

impl Evidence {
    pub(super) fn tree(
        store: &DiskStore,
        producer: &str,
        old: Option<&str>,
        new: Option<&str>,
    ) -> Self {
        let read = |text: Option<&str>| held::manifest(store, &text?.parse().ok()?);
        let producer = producer.to_owned();
        let (Some(old), Some(new)) = (read(old), read(new)) else {
            let note = if old.is_none() {
                None
            } else {
                Some("the older output is no longer in the store".to_owned())
            };
            return Self::Tree {
                producer,
                files: Vec::new(),
                more: 0,
                note,
            };
        };
        // The newer files in their order, then those that are gone.
        let mut pairs: IndexMap<&str, [Option<&ManifestFile>; 2]> = IndexMap::new();
        new.files
            .iter()
            .for_each(|file| pairs.entry(&file.path).or_default()[1] = Some(file));
        old.files
            .iter()
            .for_each(|file| pairs.entry(&file.path).or_default()[0] = Some(file));
        pairs.retain(|_, [old, new]| old.map(|file| file.digest) != new.map(|file| file.digest));
        let file = |(path, [old, new]): (&&str, &[Option<&ManifestFile>; 2])| {
            let is_small = |file: &&ManifestFile| file.size <= COMPARED;
            let differs = old
                .filter(is_small)
                .zip(new.filter(is_small))
                .and_then(|(old, new)| {
                    content::first_difference(
                        path,
                        &held::file(store, old)?,
                        &held::file(store, new)?,
                    )
                    .ok()
                    .flatten()
                });
            let [old_size, new_size] = [old, new].map(|file| file.map(|file| file.size));
            FileChange {
                path: (*path).to_owned(),
                old_size,
                new_size,
                differs,
            }
        };
        let files = pairs.iter().take(NAMED).map(file).collect();
        let more = pairs.len().saturating_sub(NAMED);
        Self::Tree {
            producer,
            files,
            more,
            note: None,
        }
    }

    /// `last` is the record of the execution that read the older version.
    pub(super) fn file(
        store: &DiskStore,
        path: &Path,
        old: Option<&str>,
        last: Option<&Record>,
    ) -> Self {
        let meta = path.metadata().ok();
        let modified = |meta: &Metadata| Timestamp::try_from(meta.modified().ok()?).ok();
        let is_dir = path.is_dir();
        let began = last.and_then(|record| record.started.parse::<Timestamp>().ok());
        let below = began
            .filter(|_| is_dir)
            .and_then(|_| bfs::files_below(path).ok())
            .unwrap_or_default();
        let is_newer = |name: &String| {
            path.join(name)
                .metadata()
                .is_ok_and(|meta| modified(&meta) >= began)
        };
        let newer = below.into_iter().filter(is_newer).take(NAMED).collect();
        Self::File {
            path: from_here(path),
            size: meta.as_ref().filter(|_| !is_dir).map(Metadata::len),
            modified: meta.as_ref().and_then(modified).map(moment),
            differs: permission(path, old).or_else(|| {
                let older = older_version(store, old, last)?;
                content::first_difference(&path.to_string_lossy(), &older, path)
                    .ok()
                    .flatten()
            }),
            newer,
        }
    }
}

/// Whether nothing differs but that a file may be executed.
fn permission(path: &Path, old: Option<&str>) -> Option<String> {
    let meta = path.metadata().ok().filter(Metadata::is_file)?;
    let old: Digest = old?.parse().ok()?;
    let may = bfs::is_executable(&meta);
    let change = if may {
        "it may be executed now"
    } else {
        "it may no longer be executed"
    };
    (keyed(Digest::of_file(path).ok()?, !may) == old).then(|| change.to_owned())
}

/// The older version of a user's file, where the step that read it published it as it was.
fn older_version(store: &DiskStore, old: Option<&str>, last: Option<&Record>) -> Option<PathBuf> {
    let digest = old?.parse::<Digest>().ok()?;
    let tree = last?.output?;
    let manifest = held::manifest(store, &tree)?;
    let file = manifest.files.iter().find(|file| file.digest == digest)?;
    held::file(store, file)
}

/// A path as a person standing here would write it.
fn from_here(path: &Path) -> String {
    let resolved = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let path = resolved(path);
    let here = resolved(&std::env::current_dir().unwrap_or_default());
    path.strip_prefix(&here)
        .unwrap_or(&path)
        .display()
        .to_string()
}
