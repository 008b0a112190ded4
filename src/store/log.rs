//! The append-only log of everything that the store knows besides content: manifests and records.
//!
//! Many processes append to one log, each under a lock and each after reading what the others appended. Nothing in it is
//! ever changed: a damaged entry is skipped, a torn one at the end (its writer was killed, or the disk was full) is cut
//! off by the next writer. Nothing is synced one by one; what a power failure takes is found by its checksum and made again.

use std::collections::HashMap;
use std::fs::{self, File};
use std::hash::{BuildHasherDefault, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::base::Digest;
use crate::base::fs::{file_id, read_at, write_at};
use crate::store::StoreError;
use crate::store::entry::{HEADER, Header, Held, Kind, Short, short};
use crate::store::scan::{Found, Scan};

/// The keys are digests already.
#[derive(Default)]
pub(super) struct DigestHasher(u64);

impl Hasher for DigestHasher {
    fn write(&mut self, bytes: &[u8]) {
        if let Some(first) = bytes.first_chunk::<8>() {
            self.0 = u64::from_le_bytes(*first);
        }
    }

    fn write_usize(&mut self, _: usize) {}

    fn finish(&self) -> u64 {
        self.0
    }
}

type Places = HashMap<Short, u64, BuildHasherDefault<DigestHasher>>;

#[derive(Debug)]
pub(super) struct Log {
    path: PathBuf,
    /// Locked by one while it appends, or by several while they read what was appended; never read or written.
    gate: File,
    state: Mutex<State>,
}

/// What of the log was read so far, and where things stand in it.
#[derive(Debug)]
struct State {
    file: Arc<File>,
    /// Identity of the file: a compaction puts another one in its place.
    id: u64,
    /// Up to here it was read.
    end: u64,
    is_read: bool,
    /// Places that hold no entry.
    damaged: u64,
    held: Places,
    latest: Places,
    trees: Places,
}

/// Something to append.
pub(super) struct Draft {
    pub(super) header: Header,
    pub(super) payload: Vec<u8>,
}

/// An entry with its payload, verified.
pub(super) struct Entry {
    pub(super) header: Header,
    pub(super) payload: Vec<u8>,
}

impl State {
    fn open(path: &Path) -> io::Result<Self> {
        let file = File::options().read(true).write(true).create(true).truncate(false).open(path)?;
        let id = file_id(&file.metadata()?);
        let empty = Places::default;
        Ok(Self {
            file: file.into(),
            id,
            end: 0,
            is_read: false,
            damaged: 0,
            held: empty(),
            latest: empty(),
            trees: empty(),
        })
    }

    /// Reads what was appended since. True if a torn entry follows.
    fn catch_up(&mut self) -> io::Result<bool> {
        self.is_read = true;
        let file = self.file.clone();
        let size = file.metadata()?.len();
        let mut scan = Scan::new(&file, self.end, size);
        while let Some(found) = scan.next()? {
            match found {
                Found::Entry { at, header } => self.note(at, &header),
                Found::Damaged { at, bytes } => {
                    self.damaged += 1;
                    self.end = at + bytes;
                }
                Found::Torn => return Ok(true),
            }
        }
        Ok(false)
    }

    fn note(&mut self, at: u64, header: &Header) {
        match header.kind {
            Kind::Tree => drop(self.trees.insert(short(&header.id), at)),
            Kind::Dropped => drop(self.trees.remove(&short(&header.id))),
            Kind::Record => {
                if header.held != Held::No {
                    self.held.insert(short(&header.id), at);
                }
                self.latest.insert(header.step, at);
            }
        }
        self.end = at + header.span();
    }
}

/// Open again when dropped.
struct Gate<'a>(&'a File);

impl Drop for Gate<'_> {
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

impl Log {
    pub(super) fn open(dir: &Path) -> Result<Self, StoreError> {
        let path = dir.join("log");
        let state = State::open(&path).map_err(StoreError::io("open", &path))?;
        let gate = dir.join("log.lock");
        let open = File::options().read(true).append(true).create(true).open(&gate);
        Ok(Self { gate: open.map_err(StoreError::io("open", gate))?, state: Mutex::new(state), path })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The log as far as this process has read it; it is read once, and again by [`Log::refresh`] and every append.
    fn read(&self) -> Result<MutexGuard<'_, State>, StoreError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !state.is_read {
            self.take_in(&mut state)?;
        }
        Ok(state)
    }

    /// Takes in what other processes appended.
    pub(super) fn refresh(&self) -> Result<(), StoreError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_as_read = |meta: fs::Metadata| file_id(&meta) == state.id && meta.len() == state.end;
        if state.is_read && fs::metadata(&self.path).is_ok_and(is_as_read) {
            return Ok(());
        }
        self.take_in(&mut state)
    }

    /// Reads what was appended, while nobody appends. Who read without the lock could take an entry that is just being
    /// written for a damaged one and go on behind it, or believe one whose writer fails; and then append at a place that
    /// lies inside another's entry.
    fn take_in(&self, state: &mut State) -> Result<(), StoreError> {
        self.gate.lock_shared().map_err(StoreError::io("lock", &self.path))?;
        let _lock = Gate(&self.gate);
        self.follow(state)?;
        state.catch_up().map_err(StoreError::io("read", &self.path)).map(drop)
    }

    /// Opens the log anew where another one was put in its place, or something cut off what was read of it. The caller
    /// holds the lock.
    fn follow(&self, state: &mut State) -> Result<(), StoreError> {
        let is_same = |meta: fs::Metadata| file_id(&meta) == state.id && meta.len() >= state.end;
        if !fs::metadata(&self.path).is_ok_and(is_same) {
            *state = State::open(&self.path).map_err(StoreError::io("open", &self.path))?;
        }
        Ok(())
    }

    /// Appends all or nothing, and knows it afterwards.
    pub(super) fn append(&self, mut drafts: Vec<Draft>) -> Result<(), StoreError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let _lock = self.lock()?;
        self.follow(&mut state)?;
        if state.catch_up().map_err(StoreError::io("read", &self.path))? {
            state.file.set_len(state.end).map_err(StoreError::io("cut the torn end of", &self.path))?;
        }
        // Decided here and not by who drafts it: another process may have dropped or added the tree until now. One whose
        // manifest is damaged is written anew.
        drafts.retain(|Draft { header, .. }| {
            let known = state.trees.get(&short(&header.id)).filter(|_| header.kind == Kind::Tree);
            known.is_none_or(|at| self.entry_of(&state.file, *at).is_err())
        });
        if drafts.is_empty() {
            return Ok(());
        }
        let mut bytes = Vec::new();
        let mut places = Vec::with_capacity(drafts.len());
        for draft in &mut drafts {
            if draft.header.kind == Kind::Record {
                draft.header.previous = state.latest.get(&draft.header.step).copied();
            }
            places.push(state.end + bytes.len() as u64);
            bytes.extend_from_slice(&draft.header.to_bytes());
            bytes.extend_from_slice(&draft.payload);
        }
        if let Err(e) = write_at(&state.file, &bytes, state.end) {
            // Half an entry would be cut off by the next writer; a full disk is glad of it now.
            let _ = state.file.set_len(state.end);
            return Err(StoreError::io("append to", &self.path)(e));
        }
        for (at, draft) in places.into_iter().zip(&drafts) {
            state.note(at, &draft.header);
        }
        Ok(())
    }

    /// Keeps other processes from appending. The caller holds the state, which keeps other threads.
    fn lock(&self) -> Result<Gate<'_>, StoreError> {
        self.gate.lock().map_err(StoreError::io("lock", &self.path))?;
        Ok(Gate(&self.gate))
    }

    /// The record that answers for a key: its header, without reading the rest.
    pub(super) fn held(&self, key: &Digest) -> Result<Option<(u64, Header)>, StoreError> {
        let at = self.read()?.held.get(&short(key)).copied();
        let Some(at) = at else { return Ok(None) };
        let header = self.header(at)?;
        Ok((header.id == *key).then_some((at, header)))
    }

    /// In how many places the log was found damaged.
    pub(super) fn damage(&self) -> Result<u64, StoreError> {
        Ok(self.read()?.damaged)
    }

    /// Where the newest record of a step stands.
    pub(super) fn latest(&self, step: &Short) -> Result<Option<u64>, StoreError> {
        Ok(self.read()?.latest.get(step).copied())
    }

    pub(super) fn knows_tree(&self, tree: &Digest) -> Result<bool, StoreError> {
        Ok(self.read()?.trees.contains_key(&short(tree)))
    }

    pub(super) fn tree(&self, tree: &Digest) -> Result<Option<Entry>, StoreError> {
        let at = self.read()?.trees.get(&short(tree)).copied();
        let entry = at.map(|at| self.entry(at)).transpose()?;
        Ok(entry.filter(|entry| entry.header.id == *tree))
    }

    fn damaged(&self, at: u64) -> StoreError {
        StoreError::Damaged {
            path: self.path.clone(),
            what: format!("the entry at byte {at} has other content than was written"),
        }
    }

    pub(super) fn header(&self, at: u64) -> Result<Header, StoreError> {
        let file = self.read()?.file.clone();
        let mut bytes = [0; HEADER];
        read_at(&file, &mut bytes, at).map_err(StoreError::io("read", &self.path))?;
        Header::parse(&bytes).ok_or_else(|| self.damaged(at))
    }

    pub(super) fn entry(&self, at: u64) -> Result<Entry, StoreError> {
        let file = self.read()?.file.clone();
        self.entry_of(&file, at)
    }

    fn entry_of(&self, file: &File, at: u64) -> Result<Entry, StoreError> {
        let io = |e| StoreError::io("read", &self.path)(e);
        let mut bytes = [0; HEADER];
        read_at(file, &mut bytes, at).map_err(io)?;
        let header = Header::parse(&bytes).ok_or_else(|| self.damaged(at))?;
        let mut payload = vec![0; header.len as usize];
        read_at(file, &mut payload, at + HEADER as u64).map_err(io)?;
        if header.is_payload(&payload) { Ok(Entry { header, payload }) } else { Err(self.damaged(at)) }
    }

    /// Goes through all entries in order; what is damaged is given as an error.
    pub(super) fn each(&self, mut visit: impl FnMut(u64, Result<Entry, StoreError>)) -> Result<(), StoreError> {
        self.refresh()?;
        let (file, end) = {
            let state = self.read()?;
            (state.file.clone(), state.end)
        };
        let mut scan = Scan::new(&file, 0, end);
        while let Some(found) = scan.next().map_err(StoreError::io("read", &self.path))? {
            match found {
                Found::Entry { at, .. } => visit(at, self.entry_of(&file, at)),
                Found::Damaged { at, .. } => visit(at, Err(self.damaged(at))),
                Found::Torn => break,
            }
        }
        Ok(())
    }

    /// Writes a new log of the entries that `keep` wants and puts it in the place of this one.
    ///
    /// No process loses what it appended: appending waits for the lock, and then follows to the new log.
    pub(super) fn compact(&self, mut keep: impl FnMut(u64, &Entry) -> bool) -> Result<(), StoreError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let _lock = self.lock()?;
        self.follow(&mut state)?;
        state.catch_up().map_err(StoreError::io("read", &self.path))?;
        let fresh = self.path.with_extension("new");
        let mut write = || -> Result<(), StoreError> {
            let io = |e| StoreError::io("write", &fresh)(e);
            let mut out = io::BufWriter::with_capacity(1 << 20, File::create(&fresh).map_err(io)?);
            let mut latest = Places::default();
            let mut end = 0;
            let mut scan = Scan::new(&state.file, 0, state.end);
            while let Some(found) = scan.next().map_err(StoreError::io("read", &self.path))? {
                let Found::Entry { at, .. } = found else { continue };
                let Ok(mut entry) = self.entry_of(&state.file, at) else { continue };
                if !keep(at, &entry) {
                    continue;
                }
                if entry.header.kind == Kind::Record {
                    entry.header.previous = latest.insert(entry.header.step, end);
                }
                io::Write::write_all(&mut out, &entry.header.to_bytes()).map_err(io)?;
                io::Write::write_all(&mut out, &entry.payload).map_err(io)?;
                end += entry.header.span();
            }
            let file = out.into_inner().map_err(|e| io(e.into_error()))?;
            file.sync_all().map_err(io)
        };
        if let Err(e) = write() {
            let _ = fs::remove_file(&fresh);
            return Err(e);
        }
        fs::rename(&fresh, &self.path).map_err(StoreError::io("replace", &self.path))?;
        self.follow(&mut state)
    }
}

#[cfg(test)]
mod tests;
