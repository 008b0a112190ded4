//! The append-only log of everything that the store knows besides content: manifests and records.
//!
//! Many processes append to one log, each under a lock and each after reading what the others appended. Nothing in it is
//! ever changed: a damaged entry is skipped, a torn one at the end (its writer was killed, or the disk was full) is cut
//! off by the next writer. Nothing is synced one by one; what a power failure takes is found by its checksum and made again.

mod compact;
mod state;

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::base::{Digest, ensure, lock};
use crate::store::entry::{Entry, HEADER, Header, Kind, Short, short};
use crate::store::scan::{Found, Scan};
use crate::store::{Result, StoreError, open_or_read};

pub(super) use compact::Choice;

use state::{By, Places, State};

#[derive(Debug)]
pub(super) struct Log {
    path: PathBuf,
    /// Locked by one while it appends, or by several while they read what was appended; never read or written.
    gate: File,
    state: Mutex<State>,
}

/// The place of an entry, or the end of what was gone through, with the file that it is in: when a compaction replaces
/// this log, what was found before can still be read.
#[derive(Debug, Clone)]
pub(super) struct Place {
    file: Arc<File>,
    pub(super) at: u64,
}

/// Open again when dropped.
struct Gate<'a>(&'a File);

impl Drop for Gate<'_> {
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

impl Log {
    pub(super) fn open(dir: &Path) -> Result<Self> {
        let path = dir.join("log");
        let state = State::open(&path).map_err(StoreError::io("open", &path))?;
        let gate = dir.join("log.lock");
        let (open, _) = open_or_read(&gate, File::options().append(true).create(true))
            .map_err(StoreError::io("open", gate))?;
        Ok(Self {
            gate: open,
            state: Mutex::new(state),
            path,
        })
    }

    /// Whether this user may only read it.
    pub(super) fn is_read_only(&self) -> bool {
        lock(&self.state).is_read_only
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The log as far as this process knows it; it is read once, and what was appended since by [`Log::refresh`] and every
    /// append.
    fn read(&self) -> Result<MutexGuard<'_, State>> {
        let mut state = lock(&self.state);
        if !state.is_read {
            self.take_in(&mut state)?;
        }
        Ok(state)
    }

    /// The place of the entry with this id.
    fn find(&self, by: By, id: &Short) -> Result<Option<Place>> {
        let state = self.read()?;
        Ok(state.find(by, id).map(|at| state.place(at)))
    }

    /// Takes in what other processes appended.
    pub(super) fn refresh(&self) -> Result<()> {
        let mut state = lock(&self.state);
        let is_as_read = |meta: fs::Metadata| meta.ino() == state.id && meta.len() == state.end;
        if state.is_read && fs::metadata(&self.path).is_ok_and(is_as_read) {
            return Ok(());
        }
        self.take_in(&mut state)
    }

    /// Reads what was appended, while nobody appends. Who read without the lock could take an entry that is just being
    /// written for a damaged one and go on behind it, or believe one whose writer fails; and then append at a place that
    /// lies inside another's entry.
    fn take_in(&self, state: &mut State) -> Result<()> {
        self.gate
            .lock_shared()
            .map_err(StoreError::io("lock", &self.path))?;
        let _lock = Gate(&self.gate);
        self.follow(state)?;
        state
            .catch_up()
            .map_err(StoreError::io("read", &self.path))
            .map(drop)
    }

    /// Opens the log anew where another one was put in its place, or something cut off what was read of it. The caller
    /// holds the lock.
    fn follow(&self, state: &mut State) -> Result<()> {
        let is_same = |meta: fs::Metadata| meta.ino() == state.id && meta.len() >= state.end;
        if !fs::metadata(&self.path).is_ok_and(is_same) {
            *state = State::open(&self.path).map_err(StoreError::io("open", &self.path))?;
        }
        Ok(())
    }

    /// Appends all or nothing, and knows it afterwards.
    pub(super) fn append(&self, mut drafts: Vec<Entry>) -> Result<()> {
        let mut state = lock(&self.state);
        let _lock = self.lock(&state)?;
        self.follow(&mut state)?;
        if state
            .catch_up()
            .map_err(StoreError::io("read", &self.path))?
        {
            state
                .file
                .set_len(state.end)
                .map_err(StoreError::io("cut the torn end of", &self.path))?;
        }
        // Decided here and not by who drafts it: another process may have dropped or added the tree until now. One whose
        // manifest is damaged is written anew.
        drafts.retain(|draft| {
            let known = match draft.header.kind {
                Kind::Tree => state.find(By::Tree, &short(&draft.header.id)),
                Kind::Record | Kind::Dropped => None,
            };
            known.is_none_or(|at| self.entry_of(&state.file, at).is_err())
        });
        if drafts.is_empty() {
            return Ok(());
        }
        let mut bytes = Vec::new();
        let mut latest = Places::default();
        for draft in &mut drafts {
            if draft.header.kind == Kind::Record {
                let step = draft.header.step;
                let at = state.end + bytes.len() as u64;
                draft.header.previous = latest
                    .insert(step, at)
                    .or_else(|| state.find(By::Step, &step));
            }
            bytes.extend_from_slice(&draft.header.to_bytes());
            bytes.extend_from_slice(&draft.payload);
        }
        if let Err(e) = state.file.write_all_at(&bytes, state.end) {
            // Half an entry would be cut off by the next writer; a full disk is glad of it now.
            let _ = state.file.set_len(state.end);
            return Err(StoreError::io("append to", &self.path)(e));
        }
        for draft in &drafts {
            let at = state.end;
            state.note(at, &draft.header);
        }
        Ok(())
    }

    /// Keeps other processes from appending. The caller holds the state, which keeps other threads.
    fn lock(&self, state: &State) -> Result<Gate<'_>> {
        let read_only = || StoreError::ReadOnly {
            path: self.path.clone(),
            what: "nothing can be written to it".into(),
        };
        ensure(!state.is_read_only, read_only)?;
        self.gate
            .lock()
            .map_err(StoreError::io("lock", &self.path))?;
        Ok(Gate(&self.gate))
    }

    /// The record that answers for a key: its header, without reading the rest.
    pub(super) fn held(&self, key: &Digest) -> Result<Option<(Place, Header)>> {
        let Some(place) = self.find(By::Key, &short(key))? else {
            return Ok(None);
        };
        let header = self.header(&place)?;
        Ok((header.id == *key).then_some((place, header)))
    }

    /// The number of places at which the log is damaged.
    pub(super) fn damage(&self) -> Result<u64> {
        Ok(self.read()?.damaged)
    }

    /// The place of the newest record of a step.
    pub(super) fn latest(&self, step: &Short) -> Result<Option<Place>> {
        self.find(By::Step, step)
    }

    /// The place of the record before this one.
    pub(super) fn previous(&self, place: &Place, header: &Header) -> Option<Place> {
        header.previous.map(|at| Place {
            file: place.file.clone(),
            at,
        })
    }

    pub(super) fn knows_tree(&self, tree: &Digest) -> Result<bool> {
        self.find(By::Tree, &short(tree))
            .map(|place| place.is_some())
    }

    pub(super) fn tree(&self, tree: &Digest) -> Result<Option<Entry>> {
        let entry = self
            .find(By::Tree, &short(tree))?
            .map(|place| self.entry(&place))
            .transpose()?;
        Ok(entry.filter(|entry| entry.header.id == *tree))
    }

    fn damaged(&self, at: u64) -> StoreError {
        StoreError::Damaged {
            path: self.path.clone(),
            what: format!("the entry at byte {at} has other content than was written"),
        }
    }

    pub(super) fn header(&self, place: &Place) -> Result<Header> {
        let mut bytes = [0; HEADER];
        place
            .file
            .read_exact_at(&mut bytes, place.at)
            .map_err(StoreError::io("read", &self.path))?;
        Header::parse(&bytes).ok_or_else(|| self.damaged(place.at))
    }

    pub(super) fn entry(&self, place: &Place) -> Result<Entry> {
        self.entry_of(&place.file, place.at)
    }

    fn entry_of(&self, file: &File, at: u64) -> Result<Entry> {
        let io = |e| StoreError::io("read", &self.path)(e);
        // Most entries are so short that one call brings all of them.
        let mut bytes = [0; 1024];
        let read = file.read_at(&mut bytes, at).map_err(io)?;
        let header = Header::parse(&bytes[..read]).ok_or_else(|| self.damaged(at))?;
        let mut payload = vec![0; header.len as usize];
        match bytes[..read].get(HEADER..HEADER + payload.len()) {
            Some(whole) => payload.copy_from_slice(whole),
            None => file
                .read_exact_at(&mut payload, at + HEADER as u64)
                .map_err(io)?,
        }
        if header.is_payload(&payload) {
            Ok(Entry { header, payload })
        } else {
            Err(self.damaged(at))
        }
    }

    /// Goes through all entries in order, up to the place that is given back; what is damaged is given as an error.
    pub(super) fn each(&self, mut visit: impl FnMut(u64, Result<Entry>)) -> Result<Place> {
        self.refresh()?;
        let end = {
            let state = self.read()?;
            state.place(state.end)
        };
        for found in Scan::new(&end.file, 0, end.at) {
            match found.map_err(StoreError::io("read", &self.path))? {
                Found::Entry { at, .. } => visit(at, self.entry_of(&end.file, at)),
                Found::Damaged { at, .. } => visit(at, Err(self.damaged(at))),
                Found::Torn => {}
            }
        }
        Ok(end)
    }
}

#[cfg(test)]
mod tests;
