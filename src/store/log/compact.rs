//! Replaces the log by one of chosen entries.

#![expect(
    clippy::disallowed_methods,
    reason = "replaces the log by a compacted one"
)]

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::base::fs as bfs;
use crate::base::lock;
use crate::store::entry::{Entry, Kind};
use crate::store::log::state::{Places, State, note_latest};
use crate::store::log::{Log, Place};
use crate::store::scan::{Found, Scan};
use crate::store::{Result, StoreError};

/// What a compaction leaves out.
pub(in crate::store) trait Choice {
    /// Gets every entry that was appended since the log was gone through. All of these stay.
    fn late(&mut self, _entry: &Entry) {}
    fn keeps(&mut self, at: u64, entry: &Entry) -> bool;
}

impl Log {
    /// Whether the log that was gone through is still the one that others append to.
    pub(in crate::store) fn is_current(&self, seen: &Place) -> Result<bool> {
        let id = |meta: std::io::Result<fs::Metadata>| meta.map(|meta| meta.ino());
        let seen = id(seen.file.metadata()).map_err(StoreError::io("read", &self.path))?;
        Ok(id(fs::metadata(&self.path)).map_err(StoreError::io("read", &self.path))? == seen)
    }

    /// Writes a new log of the entries that are chosen and replaces this one by it. False, and nothing is done, if
    /// that happened to the log already since it was seen: the choice was made of other places then.
    ///
    /// No process loses what it appended: appending waits for the lock, and then follows to the new log.
    pub(in crate::store) fn compact(&self, seen: &Place, choice: &mut impl Choice) -> Result<bool> {
        let mut state = lock(&self.state);
        let _lock = self.lock(&state)?;
        if !self.is_current(seen)? {
            return Ok(false);
        }
        self.follow(&mut state)?;
        state
            .catch_up()
            .map_err(StoreError::io("read", &self.path))?;
        for found in Scan::new(&state.file, seen.at, state.end) {
            if let Found::Entry { at, .. } = found.map_err(StoreError::io("read", &self.path))?
                && let Ok(entry) = self.entry_of(&state.file, at)
            {
                choice.late(&entry);
            }
        }
        let fresh = self.path.with_extension("new");
        if let Err(e) = self.write_chosen(&fresh, &state, seen.at, choice) {
            let _ = bfs::remove_file(&fresh);
            return Err(e);
        }
        fs::rename(&fresh, &self.path).map_err(StoreError::io("replace", &self.path))?;
        self.follow(&mut state)?;
        Ok(true)
    }

    fn write_chosen(
        &self,
        to: &Path,
        state: &State,
        seen: u64,
        choice: &mut impl Choice,
    ) -> Result<()> {
        let io = |e| StoreError::io("write", to)(e);
        let mut out = io::BufWriter::with_capacity(1 << 20, File::create(to).map_err(io)?);
        let mut latest = Places::default();
        let mut end = 0;
        for found in Scan::new(&state.file, 0, state.end) {
            let Found::Entry { at, .. } = found.map_err(StoreError::io("read", &self.path))? else {
                continue;
            };
            let Ok(mut entry) = self.entry_of(&state.file, at) else {
                continue;
            };
            if at < seen && !choice.keeps(at, &entry) {
                continue;
            }
            if entry.header.kind == Kind::Record {
                entry.header.previous = latest.get(&entry.header.step).copied();
                note_latest(&mut latest, end, &entry.header);
            }
            io::Write::write_all(&mut out, &entry.header.to_bytes()).map_err(io)?;
            io::Write::write_all(&mut out, &entry.payload).map_err(io)?;
            end += entry.header.span();
        }
        let file = out.into_inner().map_err(|e| io(e.into_error()))?;
        file.sync_all().map_err(io)
    }
}
