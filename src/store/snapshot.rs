//! Files and folders as they were at one moment, and which of them are no longer so.
//!
//! The one answer to "what changed since": of the memo of a run that left nothing to do, of `--watch`, and of the digests
//! that are remembered from run to run. Stamps are compared; where one says nothing and the content is known, the content is.

use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rayon::prelude::*;

use crate::base::Digest;
use crate::store::files;
use crate::store::stat::{Moment, Stamp, now, stamp_clock};

/// How long to wait until the clock of stamps has moved on. It moves at least a hundred times a second.
const PATIENCE: u32 = 30;
/// The number of files that one thread looks at: to wake another costs more than to look at a few.
const FEW: usize = 256;

/// What is known of a path besides its stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Known {
    /// Nothing: with another stamp it is another.
    Stamp,
    /// A file's content.
    Content(Digest),
    /// A folder's entries: each is a row of its own. Their digest, where somebody needed it.
    Entries(Option<Digest>),
    /// It could not be read.
    Unreadable,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// [`Stamp::ABSENT`] where nothing was.
    pub stamp: Stamp,
    pub known: Known,
    /// A later change could leave the stamp as it is, so it is not believed.
    pub is_young: bool,
}

impl Seen {
    /// `at` is a moment before the look.
    pub fn new(stamp: Stamp, known: Known, at: Moment) -> Self {
        Self {
            stamp,
            known,
            is_young: stamp.is_racy(at),
        }
    }

    pub fn digest(&self) -> Option<Digest> {
        match self.known {
            Known::Content(digest) => Some(digest),
            Known::Entries(digest) => digest,
            Known::Stamp | Known::Unreadable => None,
        }
    }

    fn agrees_with(&self, other: &Self) -> bool {
        let same =
            self.digest().is_none() || other.digest().is_none() || self.digest() == other.digest();
        same && self.stamp == other.stamp
    }
}

#[derive(Debug, Default, Clone)]
pub struct Snapshot {
    /// The rows by the bytes of the path, which compare faster than its parts.
    rows: BTreeMap<OsString, Seen>,
    /// Not looked at, even in folders that are.
    ignored: Vec<PathBuf>,
    /// Two looks found different things at one path.
    is_torn: bool,
}

/// What is not as it was.
#[derive(Debug, Default)]
pub struct Changes {
    /// Files that are gone, new, or others.
    pub paths: BTreeSet<PathBuf>,
    /// New folders without a file in them.
    pub new_folders: BTreeSet<PathBuf>,
    /// Whether stamps were brought up to date where the content is the same.
    pub refreshed: bool,
}

impl Changes {
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty() && self.new_folders.is_empty()
    }
}

impl Snapshot {
    /// Files by their stamps, and folders with all that is in them.
    pub fn of<'a>(roots: impl IntoIterator<Item = &'a PathBuf>, ignored: &[PathBuf]) -> Self {
        let paths: BTreeSet<PathBuf> = roots
            .into_iter()
            .flat_map(|root| below(root, ignored))
            .collect();
        let row = |path: PathBuf| {
            let (stamp, is_folder) = look(path.as_os_str());
            let known = if is_folder {
                Known::Entries(None)
            } else {
                Known::Stamp
            };
            (
                path.into_os_string(),
                Seen {
                    stamp,
                    known,
                    is_young: false,
                },
            )
        };
        let rows = paths.into_par_iter().map(row).collect();
        Self {
            rows,
            ignored: ignored.to_vec(),
            is_torn: false,
        }
    }

    /// Files that are to stay as they are, by stamps that a later change cannot leave as they are. None if they do not hold
    /// still.
    pub fn stable(paths: &[PathBuf]) -> Option<Self> {
        for _ in 0..PATIENCE {
            let clock = stamp_clock();
            let row = |path: &PathBuf| {
                let (stamp, _) = look(path.as_os_str());
                (
                    path.as_os_str().to_owned(),
                    Seen {
                        stamp,
                        known: Known::Stamp,
                        is_young: false,
                    },
                )
            };
            let rows: BTreeMap<_, _> = paths.par_iter().with_min_len(FEW).map(row).collect();
            if rows.values().all(|seen| seen.stamp.is_before(clock)) {
                return Some(Self {
                    rows,
                    ..Self::default()
                });
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        None
    }

    /// Adds what a look found. Of two looks at one path the one counts that believes less.
    pub fn add(&mut self, path: impl Into<OsString>, seen: Seen) {
        match self.rows.entry(path.into()) {
            Entry::Vacant(row) => drop(row.insert(seen)),
            Entry::Occupied(mut row) => {
                let other = row.get_mut();
                self.is_torn |= !seen.agrees_with(other);
                if (seen.is_young, seen.known) < (other.is_young, other.known) {
                    *other = seen;
                }
            }
        }
    }

    pub fn extend(&mut self, other: Self) {
        self.is_torn |= other.is_torn;
        other
            .rows
            .into_iter()
            .for_each(|(path, seen)| self.add(path, seen));
    }

    /// Whether all of it was read, and nothing changed between two looks.
    pub fn is_whole(&self) -> bool {
        !self.is_torn
            && self
                .rows
                .values()
                .all(|seen| seen.known != Known::Unreadable)
    }

    pub fn get(&self, path: &Path) -> Option<&Seen> {
        self.rows.get(path.as_os_str())
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = (&OsStr, &Seen)> {
        self.rows
            .iter()
            .map(|(path, seen)| (path.as_os_str(), seen))
    }

    /// What is no folder.
    pub fn files(&self) -> impl Iterator<Item = PathBuf> {
        let files = self
            .rows
            .iter()
            .filter(|(_, seen)| !matches!(seen.known, Known::Entries(_)));
        files.map(|(path, _)| path.into())
    }

    /// What is not as it was when the stamps were taken. Rows of which only the stamp differs get the new one.
    pub fn changes(&mut self) -> Changes {
        let at = now();
        let rows: Vec<_> = self.rows.iter().collect();
        let look = |(path, seen): &(&OsString, &Seen)| {
            let (stamp, is_folder) = look(path);
            let differs = seen.is_young || stamp != seen.stamp;
            differs.then(|| {
                (
                    (*path).clone(),
                    stamp,
                    self.changed(Path::new(path), seen.known, stamp, is_folder),
                )
            })
        };
        let differing: Vec<_> = rows.par_iter().with_min_len(FEW).filter_map(look).collect();
        let mut changes = Changes::default();
        for (path, stamp, mut found) in differing {
            if found.is_empty()
                && stamp != Stamp::ABSENT
                && let Some(seen) = self.rows.get_mut(&path)
            {
                *seen = Seen::new(stamp, seen.known, at);
                changes.refreshed = true;
            }
            changes.paths.append(&mut found.paths);
            changes.new_folders.append(&mut found.new_folders);
        }
        changes
    }

    /// What became of a path whose stamp does not say that it is as it was.
    fn changed(&self, path: &Path, known: Known, stamp: Stamp, is_folder: bool) -> Changes {
        let is_same = match known {
            _ if stamp == Stamp::ABSENT => false,
            Known::Content(digest) => {
                !is_folder && files::of_file(path).is_ok_and(|now| now == digest)
            }
            Known::Entries(_) if is_folder => return self.new_in(path),
            Known::Entries(_) | Known::Stamp | Known::Unreadable => false,
        };
        let paths = (!is_same).then(|| path.to_owned()).into_iter().collect();
        Changes {
            paths,
            ..Changes::default()
        }
    }

    /// What is in a folder and was not. What is no longer in it is missed by its own row.
    fn new_in(&self, folder: &Path) -> Changes {
        let mut changes = Changes::default();
        let Ok(entries) = fs::read_dir(folder) else {
            changes.paths.insert(folder.to_owned());
            return changes;
        };
        for entry in entries {
            let Ok(entry) = entry else {
                changes.paths.insert(folder.to_owned());
                continue;
            };
            let path = entry.path();
            if self.get(&path).is_some() || is_in(&path, &self.ignored) {
                continue;
            }
            let files: Vec<_> = below(&path, &self.ignored)
                .into_iter()
                .filter(|path| !path.is_dir())
                .collect();
            if files.is_empty() {
                changes.new_folders.insert(path);
            }
            changes.paths.extend(files);
        }
        changes
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        Self::bytes_of(self.rows())
    }

    /// Row after row: length and bytes of the path, stamp, a byte that says what is known, a digest.
    pub(super) fn bytes_of<'a>(rows: impl Iterator<Item = (&'a OsStr, &'a Seen)>) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (path, seen) in rows {
            let known = match seen.known {
                Known::Stamp => 0,
                Known::Content(_) => 1,
                Known::Entries(_) => 2,
                Known::Unreadable => 3,
            };
            bytes.extend((path.len() as u32).to_le_bytes());
            bytes.extend(path.as_bytes());
            bytes.extend(seen.stamp.bytes());
            bytes.push(known | if seen.is_young { YOUNG } else { 0 });
            if known == 1 {
                bytes.extend(seen.digest().expect("BUG: content has a digest").bytes());
            }
        }
        bytes
    }

    /// None if they are no snapshot's. The digests of folders are not kept.
    pub fn parse(mut bytes: &[u8]) -> Option<Self> {
        let mut rows = Vec::new();
        while !bytes.is_empty() {
            let mut take = |length: usize| {
                let (taken, rest) = bytes.split_at_checked(length)?;
                bytes = rest;
                Some(taken)
            };
            let length = u32::from_le_bytes(take(4)?.try_into().ok()?);
            let path = OsString::from_vec(take(length as usize)?.to_vec());
            let stamp = Stamp::from_bytes(take(Stamp::BYTES)?);
            let mark = take(1)?[0];
            let known = match mark & !YOUNG {
                0 => Known::Stamp,
                1 => Known::Content(Digest::from_bytes(take(32)?.try_into().ok()?)),
                2 => Known::Entries(None),
                _ => Known::Unreadable,
            };
            rows.push((
                path,
                Seen {
                    stamp,
                    known,
                    is_young: mark & YOUNG != 0,
                },
            ));
        }
        Some(Self {
            rows: rows.into_iter().collect(),
            ..Self::default()
        })
    }
}

/// Set in the byte that says what is known.
const YOUNG: u8 = 4;

/// A path's stamp, and whether it is a folder. Links are followed, as everyone does who reads the file.
fn look(path: &OsStr) -> (Stamp, bool) {
    fs::metadata(path).map_or((Stamp::ABSENT, false), |meta| {
        (Stamp::from(&meta), meta.is_dir())
    })
}

/// A path and, of a folder, all that is in it.
fn below(root: &Path, ignored: &[PathBuf]) -> Vec<PathBuf> {
    if !root.is_dir() {
        return vec![root.to_owned()];
    }
    let entries = walkdir::WalkDir::new(root)
        .into_iter()
        .filter_entry(|entry| !is_in(entry.path(), ignored));
    entries
        .flatten()
        .map(walkdir::DirEntry::into_path)
        .collect()
}

fn is_in(path: &Path, ignored: &[PathBuf]) -> bool {
    ignored.iter().any(|ignored| path.starts_with(ignored))
}

#[cfg(test)]
mod tests;
