//! The store in a folder.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::base::figures::counted;
use crate::base::named::Named;
use crate::base::{Digest, ensure, fs as bfs};
use crate::record::{Outcome, Record};
use crate::store::blobs::Blobs;
use crate::store::claim::claim;
use crate::store::entry::{Entry, Header, Held, Kind, step_id};
use crate::store::locks::{KeyLock, Locks};
use crate::store::log::{Log, Place};
use crate::store::{FileDigests, Manifest, ManifestFile, Result, Scratch, StoreError, tree};

/// A change of meaning of anything below gets a new number, and old content is simply not seen.
const LAYOUT: &str = "v2";

#[derive(Debug)]
pub struct DiskStore {
    root: PathBuf,
    pub(super) blobs: Blobs,
    pub(super) log: Log,
    locks: Locks,
    /// The temporary folder of a store that is not to be made ([`DiskStore::open_to_look`]).
    room: Option<TempDir>,
}

/// The file that the log is, and its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogExtent {
    file: u64,
    bytes: u64,
}

impl LogExtent {
    /// Whether all that was in the log then is in it still.
    pub fn continues(&self, then: &Self) -> bool {
        self.file == then.file && self.bytes >= then.bytes
    }
}

/// That a key is held, without its whole record.
#[derive(Debug, Clone)]
pub struct Hit {
    pub outcome: Outcome,
    pub output: Option<Digest>,
    place: Place,
}

impl DiskStore {
    /// Opens the store below `dir`, making it if need be. A folder with anything of somebody else's is refused.
    pub fn open(dir: &Path) -> Result<Self> {
        let root = dir.join(LAYOUT);
        bfs::make_private(dir).map_err(StoreError::io("create", dir))?;
        claim(dir, &root)?;
        for part in ["blobs", "logs", "tmp"] {
            let path = root.join(part);
            fs::create_dir_all(&path).map_err(StoreError::io("create", path))?;
        }
        Ok(Self {
            blobs: Blobs::new(&root),
            log: Log::open(&root)?,
            locks: Locks::open(&root)?,
            root,
            room: None,
        })
    }

    /// Opens the store below `dir` for a command that only looks. If `dir` does not exist, it is not made: the store is an
    /// empty one in a temporary folder, which is removed with it.
    pub fn open_to_look(dir: &Path) -> Result<Self> {
        let is_absent =
            fs::symlink_metadata(dir).is_err_and(|e| e.kind() == io::ErrorKind::NotFound);
        if !is_absent {
            return Self::open(dir);
        }
        let room = tempfile::Builder::new()
            .prefix("orch-look-")
            .tempdir()
            .map_err(StoreError::io("create a folder in", std::env::temp_dir()))?;
        let mut store = Self::open(room.path())?;
        store.room = Some(room);
        Ok(store)
    }

    /// The folder of this layout.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of this layout in a store that is not open.
    pub fn root_below(dir: &Path) -> PathBuf {
        dir.join(LAYOUT)
    }

    /// How far the log of the store in this folder goes. None where there is none.
    pub fn log_extent(root: &Path) -> Option<LogExtent> {
        let meta = fs::metadata(root.join("log")).ok()?;
        Some(LogExtent {
            file: meta.ino(),
            bytes: meta.len(),
        })
    }

    /// Folders whose stamps tell that content was put in or taken out.
    pub fn fans(&self) -> impl Iterator<Item = PathBuf> {
        (0..=255_u8).map(move |fan| self.root.join("blobs").join(format!("{fan:02x}")))
    }

    /// The files in which a tree is kept.
    pub fn files_of(&self, digest: &Digest) -> Result<Vec<PathBuf>> {
        Ok(self
            .manifest(digest)?
            .files
            .iter()
            .map(|file| self.blob(file))
            .collect())
    }

    /// The path of a blob, to be read, and soon: whoever collects garbage may take it away.
    pub fn blob(&self, file: &ManifestFile) -> PathBuf {
        self.blobs.path_of(file)
    }

    /// Written whenever orch takes something out of the store, or finds it damaged: nobody may rely on an earlier look.
    pub fn removals(&self) -> PathBuf {
        self.root.join("removals")
    }

    pub fn note_removal(&self) -> Result<()> {
        let path = self.removals();
        let text = format!("{} {}\n", std::process::id(), bfs::Nonce::next());
        bfs::write_atomic(&path, text.as_bytes()).map_err(StoreError::io("write", path))
    }

    /// Whether this user may only read it: it is another's, or on a medium that is read-only.
    pub fn is_read_only(&self) -> bool {
        self.log.is_read_only()
    }

    /// An error for what would write to a store that is read-only.
    pub fn must_be_writable(&self, what: &str) -> Result<()> {
        ensure(!self.is_read_only(), || StoreError::ReadOnly {
            path: self.root.clone(),
            what: what.into(),
        })
    }

    /// A working folder of this process: in the store, from where what is made can be moved into place.
    pub fn scratch(&self) -> Result<Scratch> {
        if self.is_read_only() {
            Scratch::elsewhere()
        } else {
            Scratch::create(&self.root.join("tmp"))
        }
    }

    /// Lets `write` fill a file of the user's, which appears when it is whole. If this process is killed, what it had written
    /// goes with its working folder.
    pub fn write_out<T, E: From<io::Error> + From<StoreError>>(
        &self,
        path: &Path,
        write: impl FnOnce(&mut fs::File) -> Result<T, E>,
    ) -> Result<T, E> {
        let target = match Named::of(path)? {
            Named::Whole(target) => target,
            Named::Open(mut file) => return write(&mut file),
        };
        let scratch = self.scratch()?;
        let file = target.temporary()?;
        scratch.note(file.path())?;
        bfs::persist(file, &target.0, write)
    }

    pub fn file_digests(&self) -> FileDigests {
        FileDigests::load(self.root.join("files"))
    }

    /// The path of the log of a step's last execution, if it printed anything.
    pub fn log_path(&self, step: &str) -> PathBuf {
        self.root
            .join("logs")
            .join(format!("{}.log", step.replace([':', '/'], ".")))
    }

    /// Held while a key is being executed, so that the same step is never done twice at a time. Afterwards all is known
    /// that others have done until then. None if `go_on`, called now and then with how long it has waited, says no.
    pub fn lock_key(
        &self,
        key: &Digest,
        go_on: impl FnMut(Duration) -> bool,
    ) -> Result<Option<KeyLock>> {
        let lock = self.locks.lock(key, go_on)?;
        self.log.refresh()?;
        Ok(lock)
    }

    /// Moves the files below `made` into the store. They are part of no tree until [`DiskStore::keep`] says so.
    pub fn place(&self, made: &Path) -> Result<Manifest> {
        let names = bfs::files_below(made).map_err(StoreError::io("list", made))?;
        self.place_files(
            names
                .into_iter()
                .map(|name| (name.clone(), made.join(name)))
                .collect(),
        )
    }

    /// [`Self::place`] for files that lie anywhere, given with their paths in the tree.
    pub fn place_files(&self, mut made: Vec<(String, PathBuf)>) -> Result<Manifest> {
        made.sort();
        made.dedup();
        tree::check_paths(made.iter().map(|(path, _)| path))?;
        let manifest = Manifest::of_files(&made)?;
        for (file, (_, at)) in manifest.files.iter().zip(&made) {
            self.blobs.take(at, file)?;
        }
        Ok(manifest)
    }

    /// [`Self::place`] for contents that are not on the disk yet, given with their paths in the tree. They pass through
    /// the folder `by`, which is left as empty as it was.
    pub fn place_contents(&self, mut made: Vec<(String, Vec<u8>)>, by: &Path) -> Result<Manifest> {
        made.sort();
        tree::check_paths(made.iter().map(|(path, _)| path))?;
        let files = made
            .into_iter()
            .map(|(path, content)| self.blobs.put(path, &content, &by.join("content")));
        Ok(Manifest {
            files: files.collect::<Result<_, _>>()?,
        })
    }

    /// Publishes the files below `made` as a tree. They are moved, not copied.
    pub fn publish(&self, made: &Path) -> Result<Digest> {
        let manifest = self.place(made)?;
        let digest = manifest.digest();
        self.log
            .append(vec![Entry::new(Kind::Tree, digest, manifest.to_bytes())])?;
        Ok(digest)
    }

    pub fn manifest(&self, digest: &Digest) -> Result<Manifest> {
        let damaged = |what: String| StoreError::Damaged {
            path: self.log.path().to_owned(),
            what,
        };
        let entry = self
            .log
            .tree(digest)?
            .ok_or_else(|| damaged(format!("it lacks tree {}", digest.short())))?;
        let other = || {
            damaged(format!(
                "tree {} has another manifest than was published",
                digest.short()
            ))
        };
        ensure(Digest::of(&entry.payload) == *digest, other)?;
        Manifest::parse(&entry.payload).map_err(|e| damaged(e.to_string()))
    }

    /// Whether all of a tree's files are there; what is in them is for [`DiskStore::check_tree`].
    pub fn has_tree(&self, digest: &Digest) -> bool {
        self.manifest(digest)
            .is_ok_and(|manifest| manifest.files.iter().all(|file| self.blobs.has(file)))
    }

    /// The files of a tree, after their content was found as published. It is hashed if anything happened to it since this
    /// process did so last.
    pub fn check_tree(&self, digest: &Digest) -> Result<Manifest> {
        let manifest = self.manifest(digest)?;
        match manifest.files.as_slice() {
            [file] => self.blobs.check(file)?,
            files => files
                .par_iter()
                .try_for_each(|file| self.blobs.check(file))?,
        }
        Ok(manifest)
    }

    /// Makes the folder `at` with the verified files of a tree.
    pub fn lay_out(&self, digest: &Digest, at: &Path, how: LaidAs) -> Result<()> {
        let manifest = self.check_tree(digest)?;
        fs::create_dir_all(at).map_err(StoreError::io("create", at))?;
        let holds_graph = manifest.files.iter().any(|file| is_graph(&file.path));
        for file in &manifest.files {
            let to = at.join(&file.path);
            if file.path.contains('/') {
                let dir = to.parent().expect("BUG: a file has a parent folder");
                fs::create_dir_all(dir).map_err(StoreError::io("create", dir))?;
            }
            match how {
                LaidAs::Links if holds_graph && is_external_data(&file.path) => {
                    self.blobs.copy(file, &to)?;
                }
                LaidAs::Links => self.blobs.link(file, &to)?,
                LaidAs::Copies => self.blobs.copy(file, &to)?,
            }
        }
        Ok(())
    }

    /// Copies these files of a tree, verified, into the folder `at`.
    pub fn copy_files(&self, files: &[ManifestFile], at: &Path) -> Result<()> {
        for file in files {
            self.blobs.check(file)?;
            let to = at.join(&file.path);
            let dir = to.parent().expect("BUG: a file has a parent folder");
            fs::create_dir_all(dir).map_err(StoreError::io("create", dir))?;
            self.blobs.copy(file, &to)?;
        }
        Ok(())
    }

    /// Whether there is content of this digest, so that a file which has it can be had again.
    pub fn holds(&self, content: &Digest) -> bool {
        [false, true]
            .iter()
            .any(|executable| self.blobs.path(&(*content, *executable)).is_file())
    }

    /// The path of a file's content, verified: to be read, not to be handed on.
    pub fn content(&self, file: &ManifestFile) -> Result<PathBuf> {
        self.blobs.check(file)?;
        Ok(self.blob(file))
    }

    /// The content of one file of a tree, verified.
    pub fn read_file(&self, digest: &Digest, name: &str) -> Result<Option<Vec<u8>>> {
        let manifest = self.check_tree(digest)?;
        let Some(file) = manifest.files.iter().find(|file| file.path == name) else {
            return Ok(None);
        };
        self.blobs.read(file).map(Some)
    }

    /// Forgets a tree and takes out those of its files that are damaged, so that its step runs again.
    pub fn discard_tree(&self, digest: &Digest) -> Result<()> {
        self.must_be_writable("what is damaged cannot be taken out")?;
        self.note_removal()?;
        if let Ok(manifest) = self.manifest(digest) {
            let mut damaged = manifest
                .files
                .iter()
                .filter(|file| self.blobs.check(file).is_err());
            damaged.try_for_each(|file| self.blobs.discard(file))?;
        }
        self.log
            .append(vec![Entry::new(Kind::Dropped, *digest, Vec::new())])
    }

    /// A warning, if entries of the log cannot be read. What they held is a miss. Reads the whole log.
    pub fn damage(&self) -> Result<Option<String>> {
        let path = self.log.path().display();
        let places = self.log.damage()?;
        let hint = "`orch cache verify --heal` takes the damage out";
        let what = format!(
            "{path} is damaged in {}: what was recorded there runs again",
            counted(places, "place")
        );
        Ok((places > 0).then(|| format!("{what}\n  hint: {hint}")))
    }

    /// Whether a key is held: its step succeeded, or was refused by the vendor's tool.
    pub fn hit(&self, key: &Digest) -> Result<Option<Hit>> {
        let held = self.log.held(key)?;
        Ok(held.and_then(|(place, header)| {
            Some(Hit {
                outcome: header.held.outcome()?,
                output: header.output,
                place,
            })
        }))
    }

    /// The keys that are held.
    pub(super) fn answered(&self) -> Result<BTreeSet<Digest>> {
        let mut keys = BTreeSet::new();
        self.log.each(|_, entry| {
            let header = entry.ok().map(|entry| entry.header);
            let held = header.filter(|header| header.kind == Kind::Record && header.held.answers());
            keys.extend(held.map(|header| header.id));
        })?;
        Ok(keys)
    }

    /// The record of a held key. A damaged one is reported as `Err`, and is a miss.
    pub fn lookup(&self, key: &Digest) -> Result<Option<Record>> {
        self.hit(key)?.map(|hit| self.record(&hit)).transpose()
    }

    /// The last record of a step, if it failed with this key after the success that is held under it.
    pub fn failed_since(&self, step: &str, key: &Digest, hit: &Hit) -> Result<Option<Record>> {
        let latest = self.log.latest(&step_id(step))?;
        let Some(place) = latest.filter(|place| place.at > hit.place.at) else {
            return Ok(None);
        };
        let record = self.record_at(&place)?;
        let has_failed = record.outcome.is_failure() && record.key.digest() == *key;
        Ok(Some(record).filter(|_| has_failed))
    }

    /// Whether the store holds an answer for this key: a success, a refusal, or a failure that stands.
    pub fn has_answer(&self, key: &Digest) -> Result<bool> {
        Ok(self.log.held(key)?.is_some())
    }

    /// The record of a failure that stands under this key. Whether it stands here is for the caller to decide.
    pub fn failure(&self, key: &Digest) -> Result<Option<Record>> {
        let held = self
            .log
            .held(key)?
            .filter(|(_, header)| header.held == Held::Failed);
        held.map(|(place, _)| self.record_at(&place)).transpose()
    }

    pub fn record(&self, hit: &Hit) -> Result<Record> {
        self.record_at(&hit.place)
    }

    /// The record of the last execution of a step, whatever its outcome and key.
    pub fn latest(&self, step: &str) -> Result<Option<Record>> {
        self.log
            .latest(&step_id(step))?
            .map(|at| self.record_at(&at))
            .transpose()
    }

    /// The tree that the last execution of a step made.
    pub fn latest_output(&self, step: &str) -> Result<Option<Digest>> {
        let at = self.log.latest(&step_id(step))?;
        Ok(at
            .map(|at| self.log.header(&at))
            .transpose()?
            .and_then(|header| header.output))
    }

    /// All records of a step, newest first, at most `most`.
    pub fn history(&self, step: &str, most: usize) -> Result<Vec<Record>> {
        let mut found = Vec::new();
        let mut next = self.log.latest(&step_id(step))?;
        while let Some(at) = next.filter(|_| found.len() < most) {
            let entry = self.log.entry(&at)?;
            found.push(self.parse(&entry)?);
            next = self.log.previous(&at, &entry.header);
        }
        Ok(found)
    }

    fn record_at(&self, at: &Place) -> Result<Record> {
        self.parse(&self.log.entry(at)?)
    }

    pub(super) fn parse(&self, entry: &Entry) -> Result<Record> {
        debug_assert_eq!(entry.header.kind, Kind::Record);
        serde_json::from_slice(&entry.payload).map_err(|e| StoreError::Damaged {
            path: self.log.path().to_owned(),
            what: format!("a record cannot be read: {e}"),
        })
    }

    /// Keeps a record together with the tree that [`DiskStore::place`] gave: both, or neither. Without one, what the record made
    /// is published already, if it made anything.
    pub fn keep(&self, record: &Record, made: Option<&Manifest>) -> Result<()> {
        let payload = serde_json::to_vec(record).expect("BUG: a record serialises");
        let held = if record.stands.is_some() {
            Held::Failed
        } else {
            Held::of(record.outcome)
        };
        let header = Header::record(
            record.key.digest(),
            step_id(&record.step),
            held,
            record.output,
            &payload,
        );
        // The log leaves it out if it knows the tree.
        let tree = record
            .output
            .zip(made)
            .map(|(id, manifest)| Entry::new(Kind::Tree, id, manifest.to_bytes()));
        self.log.append(
            tree.into_iter()
                .chain([Entry { header, payload }])
                .collect(),
        )
    }
}

/// How the files of a tree are put into a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaidAs {
    /// Other names of the store's own files: only where nobody who sees them can write to them. What an ONNX graph keeps
    /// its weights in is a copy all the same.
    Links,
    Copies,
}

fn is_graph(path: &str) -> bool {
    path.ends_with(".onnx")
}

/// Whether a file beside an ONNX graph may hold its weights. The package `onnx` opens such files by itself, and takes one
/// with several names for an attack.
fn is_external_data(path: &str) -> bool {
    let known = [".onnx", ".json", ".safetensors", ".txt", ".md"];
    !known.iter().any(|extension| path.ends_with(extension))
}

#[cfg(test)]
mod tests;
