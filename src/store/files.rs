//! Digests of the user's own files, remembered by their stamps so that unchanged files are not read again.
//!
//! All files of a plan are looked at together before the first key is made; one that is requested later, while steps
//! execute, is looked at again. A file whose stamp a second change could have left as it is (`Stamp::is_racy`) is hashed
//! again by the next process.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rayon::prelude::*;

use crate::base::{Digest, fs as bfs, lock};
use crate::store::sealed::{self, Sealed};
use crate::store::snapshot::{Known, Seen, Snapshot};
use crate::store::stat::{Moment, Stamp, now};
use crate::store::{Manifest, ManifestFile, Result, StoreError};

const KIND: &str = "orch files 4";
/// Digests of files that this run did not ask for are kept as long as they are at most so many times as many.
const OTHERS: usize = 8;
/// So many files are hashed by one thread: a large one is by itself hashed by all.
const FEW: usize = 16;

#[derive(Debug)]
pub struct FileDigests {
    path: PathBuf,
    /// The digests from earlier processes.
    kept: Snapshot,
    /// The files as this process found them at its beginning.
    found: Snapshot,
    /// Whether what was found may be believed without another look.
    is_fresh: bool,
    late: Mutex<Late>,
    has_hashed: bool,
}

/// What was looked at one by one, and had to be hashed.
#[derive(Debug, Default)]
struct Late {
    files: BTreeMap<PathBuf, Seen>,
    /// Something is not as it was found at the beginning.
    differs: bool,
}

/// A look at a file or folder.
struct Look {
    digest: Digest,
    /// What was looked at: it, and all that is in it.
    rows: Vec<(PathBuf, Seen)>,
    /// Whether some of that was hashed.
    hashed: bool,
}

/// What a key knows of a user's file: its content and, where its owner may execute it, that. So a file which may not be
/// executed is known by its content alone.
pub fn keyed(content: Digest, executable: bool) -> Digest {
    if executable {
        Digest::of(format!("executable {content}").as_bytes())
    } else {
        content
    }
}

/// A change of the permission gives a file another stamp, so this is remembered as content is.
pub(super) fn of_file(path: &Path) -> io::Result<Digest> {
    Ok(keyed(
        Digest::of_file(path)?,
        bfs::is_executable(&fs::metadata(path)?),
    ))
}

impl FileDigests {
    /// A memory that cannot be read as such is an empty one: it only costs hashing.
    pub fn load(path: PathBuf) -> Self {
        let kept = Sealed::open(&path, KIND)
            .and_then(|sealed| sealed.section(0))
            .ok();
        let kept = kept
            .and_then(|bytes| Snapshot::parse(&bytes))
            .unwrap_or_default();
        Self {
            path,
            kept,
            found: Snapshot::default(),
            is_fresh: true,
            late: Mutex::default(),
            has_hashed: false,
        }
    }

    /// Looks at all these files and folders at once, and hashes those that are not known.
    pub fn prefetch<'a>(&mut self, paths: impl IntoIterator<Item = &'a Path>) {
        let paths: BTreeSet<&OsStr> = paths.into_iter().map(Path::as_os_str).collect();
        let paths: Vec<&Path> = paths.into_iter().map(Path::new).collect();
        let looks: Vec<_> = paths
            .par_iter()
            .with_min_len(FEW)
            .map(|path| self.look(path))
            .collect();
        for (path, look) in paths.into_iter().zip(looks) {
            match look {
                Ok(look) => {
                    self.has_hashed |= look.hashed;
                    look.rows
                        .into_iter()
                        .for_each(|(path, seen)| self.found.add(path, seen));
                }
                // Requested by itself, it says why.
                Err(_) => self.found.add(
                    path,
                    Seen {
                        stamp: Stamp::ABSENT,
                        known: Known::Unreadable,
                        is_young: true,
                    },
                ),
            }
        }
        self.is_fresh = true;
    }

    /// Adds these folders to what was found, so that another entry in one of them is a change. Entries whose content
    /// nobody needs count by their stamps.
    pub fn watch(&mut self, folders: &BTreeSet<PathBuf>) {
        for folder in folders {
            let at = now();
            let Ok(entries) = fs::read_dir(folder) else {
                continue;
            };
            let stamp = |path: &Path| Stamp::of(path).unwrap_or(Stamp::ABSENT);
            let seen = Seen::new(stamp(folder), Known::Entries(None), at);
            self.found.add(folder, seen);
            for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
                if self.found.get(&path).is_none() {
                    let seen = Seen::new(stamp(&path), Known::Stamp, at);
                    self.found.add(path, seen);
                }
            }
        }
    }

    /// Lets time pass: from here on every file is looked at again when it is requested.
    pub fn time_passes(&mut self) {
        self.is_fresh = false;
    }

    /// The digest of a file's content, or of a folder's manifest.
    pub fn digest(&self, path: &Path) -> Result<Digest> {
        let found = self.found.get(path).and_then(Seen::digest);
        if let (true, Some(digest)) = (self.is_fresh, found) {
            return Ok(digest);
        }
        let look = self.look(path)?;
        let mut late = lock(&self.late);
        if look.hashed {
            late.files.extend(look.rows);
        }
        late.differs |= found != Some(look.digest);
        Ok(look.digest)
    }

    /// A file or folder as it is now. What is known by its stamp is not read again.
    fn look(&self, path: &Path) -> Result<Look> {
        let at = now();
        let meta = fs::metadata(path).map_err(StoreError::io("read", path))?;
        if meta.is_dir() {
            self.look_in(path, &meta, at)
        } else {
            self.look_at(path, &meta, at)
        }
    }

    fn look_at(&self, path: &Path, meta: &Metadata, at: Moment) -> Result<Look> {
        let stamp = Stamp::from(meta);
        let of_stamp = |seen: Option<&Seen>| {
            seen.filter(|seen| seen.stamp == stamp)
                .and_then(Seen::digest)
        };
        let late = of_stamp(lock(&self.late).files.get(path));
        let known = late
            .or_else(|| of_stamp(self.found.get(path)))
            .or_else(|| of_stamp(self.kept.get(path)));
        let digest = match known {
            Some(digest) => digest,
            None => of_file(path).map_err(StoreError::io("read", path))?,
        };
        let rows = vec![(
            path.to_owned(),
            Seen::new(stamp, Known::Content(digest), at),
        )];
        Ok(Look {
            digest,
            rows,
            hashed: known.is_none(),
        })
    }

    /// A folder: its digest is that of its manifest.
    fn look_in(&self, path: &Path, meta: &Metadata, at: Moment) -> Result<Look> {
        let (names, folders) = bfs::below(path).map_err(StoreError::io("list", path))?;
        let look = |file: PathBuf| {
            let at = now();
            let meta = fs::metadata(&file).map_err(StoreError::io("read", &file))?;
            Ok((self.look_at(&file, &meta, at)?, meta.len()))
        };
        let files = names
            .par_iter()
            .with_min_len(FEW)
            .map(|name| look(path.join(name)));
        let files: Vec<(Look, u64)> = files.collect::<Result<_>>()?;
        let folder = |name: String| {
            let path = path.join(name);
            let stamp = Stamp::of(&path).map_err(StoreError::io("read", &path))?;
            Ok((path, Seen::new(stamp, Known::Entries(None), at)))
        };
        let mut rows = folders
            .into_iter()
            .map(folder)
            .collect::<Result<Vec<_>>>()?;
        let mut hashed = false;
        let files = names.into_iter().zip(files).map(|(name, (look, size))| {
            rows.extend(look.rows);
            hashed |= look.hashed;
            // The digest says whether it may be executed.
            ManifestFile {
                path: name,
                size,
                digest: look.digest,
                executable: false,
            }
        });
        let digest = Manifest {
            files: files.collect(),
        }
        .digest();
        rows.push((
            path.to_owned(),
            Seen::new(Stamp::from(meta), Known::Entries(Some(digest)), at),
        ));
        Ok(Look {
            digest,
            rows,
            hashed,
        })
    }

    /// What was found at the beginning, if all keys were made of it.
    pub fn found(&self) -> Option<&Snapshot> {
        (!lock(&self.late).differs).then_some(&self.found)
    }

    pub fn save(&self) -> Result<()> {
        let late = lock(&self.late);
        if !self.has_hashed && late.files.is_empty() {
            return Ok(());
        }
        // The latest look at a path counts.
        let kept = if self.kept.len() <= OTHERS * self.found.len().max(1000) {
            Some(&self.kept)
        } else {
            None
        };
        let mut rows: BTreeMap<&OsStr, &Seen> = kept
            .into_iter()
            .chain([&self.found])
            .flat_map(Snapshot::rows)
            .collect();
        rows.extend(
            late.files
                .iter()
                .map(|(path, seen)| (path.as_os_str(), seen)),
        );
        rows.retain(|_, seen| matches!(seen.known, Known::Content(_)) && !seen.is_young);
        let bytes = Snapshot::bytes_of(rows.into_iter());
        sealed::write(&self.path, KIND, &[&bytes]).map_err(StoreError::io("write", &self.path))
    }
}
