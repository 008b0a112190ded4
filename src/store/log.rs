//! The append-only log of everything that the store knows besides content: manifests and records.
//!
//! Many processes append to one log, each under a lock and each after reading what the others appended. Nothing in it is
//! ever changed: a damaged entry is skipped, a torn one at the end (its writer was killed, or the disk was full) is cut
//! off by the next writer. Nothing is synced one by one; what a power failure takes is found by its checksum and made again.

mod compact;

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

pub(super) use compact::Choice;

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

/// Where an entry stands, with the file that it stands in: when a compaction puts another log in the place of this one, what
/// was found before can still be read.
#[derive(Debug, Clone)]
pub(super) struct Place {
    file: Arc<File>,
    pub(super) at: u64,
}

/// The log as it was gone through: up to where, in which file.
#[derive(Debug)]
pub(super) struct Seen {
    file: Arc<File>,
    pub(super) end: u64,
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
                note_latest(&mut self.latest, at, header);
            }
        }
        self.end = at + header.span();
    }

    fn place(&self, at: Option<&u64>) -> Option<Place> {
        at.map(|at| Place { file: self.file.clone(), at: *at })
    }
}

/// A record becomes the newest of its step, unless it tells of an earlier execution.
fn note_latest(latest: &mut Places, at: u64, header: &Header) {
    if header.aside {
        latest.entry(header.step).or_insert(at);
    } else {
        latest.insert(header.step, at);
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
        let mut latest = Places::default();
        for draft in &mut drafts {
            let at = state.end + bytes.len() as u64;
            if draft.header.kind == Kind::Record {
                let step = &draft.header.step;
                draft.header.previous = latest.get(step).or_else(|| state.latest.get(step)).copied();
                latest.insert(*step, at);
            }
            places.push(at);
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
    pub(super) fn held(&self, key: &Digest) -> Result<Option<(Place, Header)>, StoreError> {
        let place = {
            let state = self.read()?;
            state.place(state.held.get(&short(key)))
        };
        let Some(place) = place else { return Ok(None) };
        let header = self.header(&place)?;
        Ok((header.id == *key).then_some((place, header)))
    }

    /// In how many places the log was found damaged.
    pub(super) fn damage(&self) -> Result<u64, StoreError> {
        Ok(self.read()?.damaged)
    }

    /// Where the newest record of a step stands.
    pub(super) fn latest(&self, step: &Short) -> Result<Option<Place>, StoreError> {
        let state = self.read()?;
        Ok(state.place(state.latest.get(step)))
    }

    /// Where the record before this one stands.
    pub(super) fn previous(&self, place: &Place, header: &Header) -> Option<Place> {
        header.previous.map(|at| Place { file: place.file.clone(), at })
    }

    pub(super) fn knows_tree(&self, tree: &Digest) -> Result<bool, StoreError> {
        Ok(self.read()?.trees.contains_key(&short(tree)))
    }

    pub(super) fn tree(&self, tree: &Digest) -> Result<Option<Entry>, StoreError> {
        let place = {
            let state = self.read()?;
            state.place(state.trees.get(&short(tree)))
        };
        let entry = place.map(|place| self.entry(&place)).transpose()?;
        Ok(entry.filter(|entry| entry.header.id == *tree))
    }

    fn damaged(&self, at: u64) -> StoreError {
        StoreError::Damaged {
            path: self.path.clone(),
            what: format!("the entry at byte {at} has other content than was written"),
        }
    }

    pub(super) fn header(&self, place: &Place) -> Result<Header, StoreError> {
        let mut bytes = [0; HEADER];
        read_at(&place.file, &mut bytes, place.at).map_err(StoreError::io("read", &self.path))?;
        Header::parse(&bytes).ok_or_else(|| self.damaged(place.at))
    }

    pub(super) fn entry(&self, place: &Place) -> Result<Entry, StoreError> {
        self.entry_of(&place.file, place.at)
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
    pub(super) fn each(&self, mut visit: impl FnMut(u64, Result<Entry, StoreError>)) -> Result<Seen, StoreError> {
        self.refresh()?;
        let (file, end) = {
            let state = self.read()?;
            (state.file.clone(), state.end)
        };
        self.scan(&file, 0, end, |found| match found {
            Found::Entry { at, .. } => visit(at, self.entry_of(&file, at)),
            Found::Damaged { at, .. } => visit(at, Err(self.damaged(at))),
            Found::Torn => {}
        })?;
        Ok(Seen { file, end })
    }

    fn scan(&self, file: &File, from: u64, end: u64, mut visit: impl FnMut(Found)) -> Result<(), StoreError> {
        let mut scan = Scan::new(file, from, end);
        while let Some(found) = scan.next().map_err(StoreError::io("read", &self.path))? {
            visit(found);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
