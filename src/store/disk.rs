//! The store in a folder.

use std::collections::{BTreeSet, HashSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde::{Deserialize, Serialize};

use crate::base::{Digest, fs as bfs};
use crate::record::Record;
use crate::store::{FileDigests, Manifest, Scratch, StoreError};

/// A change of meaning of anything below gets a new number, and old content is simply not seen.
const LAYOUT: &str = "v1";

#[derive(Debug)]
pub struct DiskStore {
    root: PathBuf,
    /// Trees whose content was hashed and found right by this process.
    verified: Mutex<HashSet<Digest>>,
}

/// A record with the digest of its own bytes: a flipped bit in it is found on read.
#[derive(Serialize, Deserialize)]
struct Sealed {
    digest: Digest,
    record: Record,
}

/// One damaged thing that `verify` found.
#[derive(Debug, Clone, Serialize)]
pub struct Problem {
    pub path: PathBuf,
    pub what: String,
}

#[derive(Debug, Clone, Default, Serialize)]
pub struct Stats {
    pub records: u64,
    pub trees: u64,
    pub files: u64,
    pub bytes: u64,
}

impl DiskStore {
    /// Opens the store below `dir`, making it if need be.
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        let root = dir.join(LAYOUT);
        for part in ["trees", "records", "latest", "logs", "locks"] {
            let path = root.join(part);
            fs::create_dir_all(&path).map_err(StoreError::io("create", path))?;
        }
        Ok(Self { root, verified: Mutex::default() })
    }

    pub fn scratch(&self) -> Result<Scratch, StoreError> {
        Scratch::create(&self.root.join("tmp"))
    }

    pub fn file_digests(&self) -> FileDigests {
        FileDigests::load(self.root.join("files"))
    }

    /// Where the log of a step's last execution lies.
    pub fn log_path(&self, step: &str) -> PathBuf {
        self.root.join("logs").join(format!("{}.log", step.replace([':', '/'], ".")))
    }

    /// Held while a key is being executed, so that two orch processes never do the same step at a time.
    pub fn lock_key(&self, key: &Digest) -> Result<File, StoreError> {
        let path = self.root.join("locks").join(key.to_string());
        let file = File::create(&path).map_err(StoreError::io("create", &path))?;
        file.lock().map_err(StoreError::io("lock", &path))?;
        Ok(file)
    }

    /// The layout's folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The same, of a store that is not open.
    pub fn root_below(dir: &Path) -> PathBuf {
        dir.join(LAYOUT)
    }

    /// Folders whose stamps tell that something was put in or taken out: trees and records lie directly in them.
    pub fn fans(&self) -> impl Iterator<Item = PathBuf> {
        let parts = ["trees", "records"].into_iter().map(|part| self.root.join(part));
        parts.flat_map(|part| (0..=255_u8).map(move |fan| part.join(format!("{fan:02x}"))))
    }

    /// The files in which a tree is kept.
    pub fn files_of(&self, digest: &Digest) -> Result<Vec<PathBuf>, StoreError> {
        let root = self.tree_path(digest);
        let names = bfs::files_below(&root).map_err(StoreError::io("list", &root))?;
        Ok(names.into_iter().map(|name| root.join(name)).collect())
    }

    /// Written whenever orch takes something out of the store, or finds it damaged: nobody may rely on an earlier look.
    pub fn removals(&self) -> PathBuf {
        self.root.join("removals")
    }

    pub fn note_removal(&self) -> Result<(), StoreError> {
        let path = self.removals();
        let text = format!("{} {}\n", std::process::id(), bfs::Nonce::next());
        bfs::write_atomic(&path, text.as_bytes()).map_err(StoreError::io("write", path))
    }

    fn fan(&self, part: &str, digest: &Digest) -> PathBuf {
        let hex = digest.to_string();
        self.root.join(part).join(&hex[..2]).join(hex)
    }

    /// The files of a published tree. Verify before reading them: [`DiskStore::verified_tree`].
    pub fn tree_path(&self, digest: &Digest) -> PathBuf {
        self.fan("trees", digest).join("files")
    }

    pub fn has_tree(&self, digest: &Digest) -> bool {
        self.tree_path(digest).is_dir()
    }

    /// Publishes the folder `made` as a tree. The folder is moved, not copied, and is gone afterwards.
    pub fn publish(&self, made: &Path) -> Result<Digest, StoreError> {
        let manifest = Manifest::of(made)?;
        let digest = manifest.digest();
        let home = self.fan("trees", &digest);
        if self.has_tree(&digest) {
            if self.check_tree(&digest).is_ok() {
                bfs::remove_dir(made).map_err(StoreError::io("remove", made))?;
                self.mark_verified(digest);
                return Ok(digest);
            }
            // What lies there was damaged since; the fresh one takes its place.
            fs::rename(&home, made.with_extension("damaged")).map_err(StoreError::io("set aside", &home))?;
        }
        bfs::make_read_only(made).map_err(StoreError::io("protect", made))?;
        let staged = made.with_extension("staged");
        fs::create_dir_all(&staged).map_err(StoreError::io("create", &staged))?;
        fs::rename(made, staged.join("files")).map_err(StoreError::io("move", made))?;
        let manifest_path = staged.join("manifest.json");
        bfs::write_atomic(&manifest_path, &manifest.to_bytes()).map_err(StoreError::io("write", &manifest_path))?;
        sync_files(&staged)?;
        let parent = home.parent().expect("BUG: a tree has a parent folder");
        fs::create_dir_all(parent).map_err(StoreError::io("create", parent))?;
        match fs::rename(&staged, &home) {
            Ok(()) => {}
            // Another process published the same content first: ours is not needed.
            Err(_) if self.has_tree(&digest) => bfs::remove_dir(&staged).map_err(StoreError::io("remove", &staged))?,
            Err(e) => return Err(StoreError::io("publish", &home)(e)),
        }
        self.mark_verified(digest);
        Ok(digest)
    }

    /// The files of a tree after their content was hashed (once per process) and found as published.
    pub fn verified_tree(&self, digest: &Digest) -> Result<PathBuf, StoreError> {
        let files = self.tree_path(digest);
        let known = self.verified.lock().expect("BUG: a thread panicked in the store").contains(digest);
        if !known {
            self.check_tree(digest)?;
            self.mark_verified(*digest);
        }
        Ok(files)
    }

    fn mark_verified(&self, digest: Digest) {
        self.verified.lock().expect("BUG: a thread panicked in the store").insert(digest);
    }

    pub fn manifest(&self, digest: &Digest) -> Result<Manifest, StoreError> {
        let path = self.fan("trees", digest).join("manifest.json");
        let bytes = fs::read(&path).map_err(StoreError::io("read", &path))?;
        if Digest::of(&bytes) != *digest {
            return Err(StoreError::Damaged { path, what: "its manifest has other content than was published".into() });
        }
        serde_json::from_slice(&bytes).map_err(|e| StoreError::Damaged { path, what: e.to_string() })
    }

    fn check_tree(&self, digest: &Digest) -> Result<(), StoreError> {
        let manifest = self.manifest(digest)?;
        let files = self.tree_path(digest);
        let found = Manifest::of(&files)?;
        match manifest.difference(&found) {
            None => Ok(()),
            Some(what) => Err(StoreError::Damaged { path: files, what }),
        }
    }

    /// Takes a damaged tree out of the way, so that its step runs again.
    pub fn discard_tree(&self, digest: &Digest, scratch: &Scratch) -> Result<(), StoreError> {
        self.note_removal()?;
        let home = self.fan("trees", digest);
        let aside = scratch.dir("damaged")?.join("tree");
        match fs::rename(&home, &aside) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
            other => other.map_err(StoreError::io("set aside", home)),
        }
    }

    /// The record of a success with this key. A damaged one is a miss, and reported as `Err`.
    pub fn lookup(&self, key: &Digest) -> Result<Option<Record>, StoreError> {
        read_sealed(&self.fan("records", key))
    }

    /// The record of the last execution of a step, whatever its outcome and key.
    pub fn latest(&self, step: &str) -> Result<Option<Record>, StoreError> {
        read_sealed(&self.fan("latest", &Digest::of(step.as_bytes())))
    }

    /// Keeps a record: every one as the step's latest, a success also under its key. The tree must be published before.
    pub fn remember(&self, record: &Record) -> Result<(), StoreError> {
        let bytes = seal(record);
        let latest = self.fan("latest", &Digest::of(record.step.as_bytes()));
        if record.outcome == crate::record::Outcome::Pass {
            let path = self.fan("records", &record.key.digest());
            bfs::write_atomic(&path, &bytes).map_err(StoreError::io("write", &path))?;
        }
        bfs::write_atomic(&latest, &bytes).map_err(StoreError::io("write", latest))
    }

    pub fn stats(&self) -> Result<Stats, StoreError> {
        let mut stats = Stats { records: self.digests("records")?.len() as u64, ..Stats::default() };
        for digest in self.digests("trees")? {
            let manifest = self.manifest(&digest)?;
            stats.trees += 1;
            stats.files += manifest.files.len() as u64;
            stats.bytes += manifest.size();
        }
        Ok(stats)
    }

    /// Reads everything and reports what is not as it was published.
    pub fn verify(&self) -> Result<Vec<Problem>, StoreError> {
        let mut problems = Vec::new();
        let mut note = |error: StoreError| {
            let text = error.to_string();
            match error {
                StoreError::Damaged { path, what } => problems.push(Problem { path, what }),
                StoreError::Io { path, source, .. } => {
                    problems.push(Problem { path, what: format!("{text}: {source}") })
                }
            }
        };
        for digest in self.digests("trees")? {
            self.check_tree(&digest).unwrap_or_else(&mut note);
        }
        for part in ["records", "latest"] {
            for digest in self.digests(part)? {
                if let Err(error) = read_sealed(&self.fan(part, &digest)) {
                    note(error);
                }
            }
        }
        Ok(problems)
    }

    /// Takes out every damaged thing; what made it runs again on the next run.
    pub fn heal(&self, problems: &[Problem]) -> Result<(), StoreError> {
        let scratch = self.scratch()?;
        self.note_removal()?;
        for problem in problems {
            let tree = problem
                .path
                .ancestors()
                .find(|path| path.parent().and_then(Path::parent).is_some_and(|p| p.ends_with("trees")));
            let target = tree.unwrap_or(&problem.path);
            let aside = scratch.dir("damaged")?.join("it");
            fs::rename(target, aside).map_err(StoreError::io("set aside", target))?;
        }
        Ok(())
    }

    /// Names of everything in `trees`, `records` or `latest`.
    fn digests(&self, part: &str) -> Result<BTreeSet<Digest>, StoreError> {
        let mut found = BTreeSet::new();
        let dir = self.root.join(part);
        for fan in fs::read_dir(&dir).map_err(StoreError::io("list", &dir))?.flatten() {
            for entry in fs::read_dir(fan.path()).map_err(StoreError::io("list", fan.path()))?.flatten() {
                if let Some(digest) = entry.file_name().to_str().and_then(|name| name.parse().ok()) {
                    found.insert(digest);
                }
            }
        }
        Ok(found)
    }
}

fn seal(record: &Record) -> Vec<u8> {
    let inner = serde_json::to_vec(record).expect("BUG: a record serialises");
    serde_json::to_vec(&Sealed { digest: Digest::of(&inner), record: record.clone() })
        .expect("BUG: a record serialises")
}

fn read_sealed(path: &Path) -> Result<Option<Record>, StoreError> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(StoreError::io("read", path)(e)),
    };
    let damaged = |what: String| StoreError::Damaged { path: path.to_owned(), what };
    let sealed: Sealed = serde_json::from_slice(&bytes).map_err(|e| damaged(e.to_string()))?;
    // Compared by the bytes on disk, not by what they parse to: every bit counts.
    if seal(&sealed.record) != bytes {
        return Err(damaged("its content does not match its digest".into()));
    }
    Ok(Some(sealed.record))
}

/// Flushes file content before the rename that publishes it.
fn sync_files(root: &Path) -> Result<(), StoreError> {
    for name in bfs::files_below(root).map_err(StoreError::io("list", root))? {
        let path = root.join(name);
        File::open(&path).and_then(|file| file.sync_data()).map_err(StoreError::io("sync", &path))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
