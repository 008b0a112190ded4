//! Digests of the user's own files, remembered by their stamps so that unchanged files are not read again.
//!
//! All files of a plan are looked at together before the first key is made; one that is asked for later, while steps
//! execute, is looked at again. A file whose stamp a second change could have left as it is (`Stamp::is_racy`) is hashed
//! again by the next process.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rayon::prelude::*;

use crate::base::{Digest, fs as bfs};
use crate::store::sealed::{Sealed, SealedWriter};
use crate::store::stat::{Moment, Stamp, now};
use crate::store::table::{Table, TableBuilder, split};
use crate::store::{Manifest, ManifestFile, StoreError};

const KIND: &str = "orch files 3";
/// Digests of files that this run did not ask for are kept as long as they are at most so many times as many.
const OTHERS: usize = 8;
/// So many files are hashed by one thread: a large one is by itself hashed by all.
const FEW: usize = 16;

/// Files with stamps and digests; a digest is [`Digest::NONE`] where none could be made.
#[derive(Debug, Default)]
pub struct Hashed {
    pub table: Table,
    pub digests: Vec<Digest>,
    /// Before the first stamp was taken.
    pub at: Moment,
    /// What stands in the folders among them, files and folders, by row.
    pub inside: BTreeMap<u32, Hashed>,
}

#[derive(Debug)]
pub struct FileDigests {
    path: PathBuf,
    /// From earlier processes.
    kept: Hashed,
    /// As this process found them at its beginning.
    found: Hashed,
    /// Whether what was found may be believed without another look.
    is_fresh: bool,
    late: Mutex<Late>,
    changed: bool,
}

/// What was looked at one by one.
#[derive(Debug, Default)]
struct Late {
    files: BTreeMap<PathBuf, (Stamp, Digest, Moment)>,
    /// Something is not as it was found at the beginning.
    differs: bool,
}

impl Hashed {
    fn read(path: &Path) -> io::Result<Self> {
        let sealed = Sealed::open(path, KIND)?;
        let table = Table::read(&sealed, 0)?;
        let digests = sealed.section(Table::SECTIONS)?;
        let digests: Vec<_> = digests.chunks_exact(32).map(digest).collect();
        if digests.len() != table.len() {
            return Err(crate::store::sealed::damaged("not every file has a digest"));
        }
        Ok(Self { table, digests, at: Moment::MAX, inside: BTreeMap::new() })
    }

    /// Where it stands, with its digest.
    pub fn get(&self, path: &Path) -> Option<(u32, Digest)> {
        let row = self.table.find(path)?;
        let digest = self.digests[row as usize];
        (!digest.is_none()).then_some((row, digest))
    }

    /// The digest of a file that still has this stamp.
    fn of_stamp(&self, path: &Path, stamp: Stamp) -> Option<Digest> {
        self.get(path).filter(|(row, _)| self.table.stamp(*row) == stamp).map(|(_, digest)| digest)
    }
}

/// What a key knows of a user's file: its content and, where its owner may execute it, that. So a file which may not be
/// executed is known by its content alone.
pub fn keyed(content: Digest, executable: bool) -> Digest {
    if executable { Digest::of(format!("executable {content}").as_bytes()) } else { content }
}

/// A change of the permission gives a file another stamp, so this is remembered as content is.
pub(super) fn of_file(path: &Path) -> io::Result<Digest> {
    Ok(keyed(Digest::of_file(path)?, bfs::is_executable(&fs::metadata(path)?)))
}

pub(super) fn digest(bytes: &[u8]) -> Digest {
    Digest::from_bytes(bytes.try_into().expect("BUG: 32 bytes"))
}

impl FileDigests {
    /// A memory that cannot be read as such is an empty one: it only costs hashing.
    pub fn load(path: PathBuf) -> Self {
        let kept = Hashed::read(&path).unwrap_or_default();
        Self { kept, ..Self::of(path, Hashed::default()) }
    }

    /// What is known already, instead of what is on disk.
    pub fn of(path: PathBuf, found: Hashed) -> Self {
        Self { path, kept: Hashed::default(), found, is_fresh: true, late: Mutex::default(), changed: false }
    }

    /// Looks at all these files and folders at once, and hashes those that are not known.
    pub fn prefetch<'a>(&mut self, paths: impl IntoIterator<Item = &'a Path>) {
        let at = now();
        let mut table = Table::of(paths);
        let (folders, _) = table.stamp_all();
        let (mut digests, hashed) = self.digests_of(&table, &folders, None);
        self.changed |= hashed;
        let mut inside = BTreeMap::new();
        let contents: Vec<_> = folders.par_iter().map(|row| self.folder(&table.path(*row))).collect();
        for (row, found) in folders.into_iter().zip(contents) {
            if let Ok((digest, content, hashed)) = found {
                digests[row as usize] = digest;
                inside.insert(row, content);
                self.changed |= hashed;
            }
        }
        self.found = Hashed { table, digests, at, inside };
        self.is_fresh = true;
    }

    /// From here on time passes: every file is looked at again when it is asked for.
    pub fn time_passes(&mut self) {
        self.is_fresh = false;
    }

    /// Digests of the rows that are files, and whether one had to be made. `found` is what else may know them.
    fn digests_of(&self, table: &Table, folders: &[u32], found: Option<&Hashed>) -> (Vec<Digest>, bool) {
        let known = |hashed: &Hashed, folder: &[u8], name: &[u8], stamp: Stamp| {
            let row = hashed.table.find_split(folder, name)?;
            (hashed.table.stamp(row) == stamp).then(|| hashed.digests[row as usize])
        };
        let mut digests: Vec<_> = (0..table.len() as u32)
            .zip(table.rows())
            .map(|(row, (folder, name))| {
                let of = |hashed| known(hashed, folder, name, table.stamp(row));
                of(&self.kept).or_else(|| found.and_then(of)).unwrap_or(Digest::NONE)
            })
            .collect();
        let is_folder = |row: &u32| folders.binary_search(row).is_ok();
        let unknown: Vec<_> =
            (0..table.len() as u32).filter(|row| digests[*row as usize].is_none() && !is_folder(row)).collect();
        // What cannot be read has no digest; asked for by itself, it says why.
        let made = |row: &u32| of_file(&table.path(*row)).unwrap_or(Digest::NONE);
        let made: Vec<_> = unknown.par_iter().with_min_len(FEW).map(made).collect();
        for (row, digest) in unknown.iter().zip(made) {
            digests[*row as usize] = digest;
        }
        (digests, !unknown.is_empty())
    }

    /// The digest of a folder's manifest, what stands in it, and whether some of that had to be hashed.
    fn folder(&self, path: &Path) -> Result<(Digest, Hashed, bool), StoreError> {
        let at = now();
        let (names, folders) = bfs::below(path).map_err(StoreError::io("list", path))?;
        let files: Vec<_> = names.iter().map(|name| path.join(name)).collect();
        let folders: Vec<_> = folders.iter().map(|name| path.join(name)).collect();
        let mut table = Table::of(files.iter().chain(&folders).map(PathBuf::as_path));
        let (folders, _) = table.stamp_all();
        let found = self.found.table.find(path).and_then(|row| self.found.inside.get(&row));
        let (digests, hashed) = self.digests_of(&table, &folders, found);
        let rows = names.into_iter().zip(&files).map(|(name, file)| {
            let row = table.find(file).filter(|row| !digests[*row as usize].is_none());
            let row = row.ok_or_else(|| StoreError::io("read", file)(io::ErrorKind::NotFound.into()))?;
            let digest = digests[row as usize];
            // The digest says whether it may be executed.
            Ok(ManifestFile { path: name, size: table.stamp(row).size, digest, executable: false })
        });
        let manifest = Manifest { files: rows.collect::<Result<_, StoreError>>()? };
        Ok((manifest.digest(), Hashed { table, digests, at, inside: BTreeMap::new() }, hashed))
    }

    /// The digest of a file's content, or of a folder's manifest.
    pub fn digest(&self, path: &Path) -> Result<Digest, StoreError> {
        let found = self.found.get(path);
        if let (true, Some((_, digest))) = (self.is_fresh, found) {
            return Ok(digest);
        }
        let digest = self.look(path)?;
        if found.is_none_or(|(_, found)| found != digest) {
            self.late().differs = true;
        }
        Ok(digest)
    }

    fn look(&self, path: &Path) -> Result<Digest, StoreError> {
        let at = now();
        let meta = fs::metadata(path).map_err(StoreError::io("read", path))?;
        if meta.is_dir() {
            return Ok(self.folder(path)?.0);
        }
        let stamp = Stamp::from(&meta);
        let late = self.late().files.get(path).filter(|(known, _, _)| *known == stamp).map(|(_, digest, _)| *digest);
        let known = late.or_else(|| self.found.of_stamp(path, stamp)).or_else(|| self.kept.of_stamp(path, stamp));
        if let Some(digest) = known {
            return Ok(digest);
        }
        let digest = of_file(path).map_err(StoreError::io("read", path))?;
        self.late().files.insert(path.to_owned(), (stamp, digest, at));
        Ok(digest)
    }

    /// Digests of files and folders as they are now.
    pub fn look_at_all(&self, paths: &[PathBuf]) -> Vec<Result<Digest, StoreError>> {
        match paths {
            [] => Vec::new(),
            [one] => vec![self.look(one)],
            many => many.par_iter().map(|path| self.look(path)).collect(),
        }
    }

    fn late(&self) -> std::sync::MutexGuard<'_, Late> {
        self.late.lock().expect("BUG: a thread panicked while it held the file digests")
    }

    /// What was found at the beginning, if all keys were made of it.
    pub fn found(&self) -> Option<&Hashed> {
        (!self.late().differs).then_some(&self.found)
    }

    pub fn save(&self) -> Result<(), StoreError> {
        let late = self.late();
        if !self.changed && late.files.is_empty() {
            return Ok(());
        }
        self.write(&late).map_err(StoreError::io("write", &self.path))
    }

    fn write(&self, late: &Late) -> io::Result<()> {
        let found = &self.found;
        let settled = |stamp: Stamp, digest: Digest, at: Moment| {
            (!digest.is_none() && !stamp.is_racy(at)).then_some((stamp, digest))
        };
        let of = |hashed: &Hashed, row: usize| settled(hashed.table.stamp(row as u32), hashed.digests[row], hashed.at);
        // The latest look at a path comes first.
        type Row<'a> = (&'a [u8], &'a [u8], u8, Option<(Stamp, Digest)>);
        let mut rows: Vec<Row<'_>> = Vec::new();
        for (path, (stamp, digest, at)) in &late.files {
            let (folder, name) = split(path);
            rows.push((folder, name, 0, settled(*stamp, *digest, *at)));
        }
        let is_folder = |row: usize| found.inside.contains_key(&(row as u32));
        let files = found.table.rows().enumerate().filter(|(row, _)| !is_folder(*row));
        rows.extend(files.map(|(row, (folder, name))| (folder, name, 1, of(found, row))));
        for inside in found.inside.values() {
            let files = inside.table.rows().enumerate();
            rows.extend(files.map(|(row, (folder, name))| (folder, name, 1, of(inside, row))));
        }
        if self.kept.table.len() <= OTHERS * found.table.len().max(1000) {
            let kept = self.kept.table.rows().enumerate();
            rows.extend(kept.map(|(row, (folder, name))| (folder, name, 2, of(&self.kept, row))));
        }
        rows.sort_unstable_by_key(|row| (row.0, row.1, row.2));
        rows.dedup_by_key(|row| (row.0, row.1));
        rows.retain(|row| row.3.is_some());
        let (mut builder, mut stamps, mut digests) = (TableBuilder::default(), Vec::new(), Vec::new());
        for (folder, name, _, known) in rows {
            let (stamp, digest) = known.expect("BUG: just retained");
            builder.push(folder, name);
            stamps.extend_from_slice(&stamp.bytes());
            digests.extend_from_slice(digest.bytes());
        }
        let mut writer = SealedWriter::create(self.path.parent().unwrap_or(Path::new(".")), KIND)?;
        builder.finish(stamps).write(&mut writer)?;
        writer.section(&digests)?;
        writer.finish(&self.path).map(drop)
    }
}
