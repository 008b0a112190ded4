//! What of the log was read so far, and where things stand in it.

use std::collections::HashMap;
use std::fs::File;
use std::hash::{BuildHasherDefault, Hasher};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use crate::store::entry::{Header, Held, Kind, Short, short};
use crate::store::log::Place;
use crate::store::open_or_read;
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

pub(super) type Places = HashMap<Short, u64, BuildHasherDefault<DigestHasher>>;

/// What an entry is looked up by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    /// The record that answers for a key.
    Key,
    /// The newest record of a step.
    Step,
    Tree,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) file: Arc<File>,
    /// This user may only read it.
    pub(super) is_read_only: bool,
    /// Identity of the file: a compaction puts another one in its place.
    pub(super) id: u64,
    /// Up to here it was read.
    pub(super) end: u64,
    pub(super) is_read: bool,
    /// Places that hold no entry.
    pub(super) damaged: u64,
    /// The places by [`By`].
    places: [Places; 3],
}

impl State {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let (file, is_read_only) = open_or_read(
            path,
            File::options().write(true).create(true).truncate(false),
        )?;
        let id = file.metadata()?.ino();
        let places = Default::default();
        Ok(Self {
            file: file.into(),
            is_read_only,
            id,
            end: 0,
            is_read: false,
            damaged: 0,
            places,
        })
    }

    /// Reads what was appended since. True if a torn entry follows.
    pub(super) fn catch_up(&mut self) -> io::Result<bool> {
        let file = self.file.clone();
        let size = file.metadata()?.len();
        let mut is_torn = false;
        for found in Scan::new(&file, self.end, size) {
            match found? {
                Found::Entry { at, header } => self.note(at, &header),
                Found::Damaged { at, bytes } => {
                    self.damaged += 1;
                    self.end = at + bytes;
                }
                Found::Torn => is_torn = true,
            }
        }
        self.is_read = true;
        Ok(is_torn)
    }

    /// Takes in an entry behind all others.
    pub(super) fn note(&mut self, at: u64, header: &Header) {
        match header.kind {
            Kind::Tree => drop(self.places[By::Tree as usize].insert(short(&header.id), at)),
            Kind::Dropped => drop(self.places[By::Tree as usize].remove(&short(&header.id))),
            Kind::Record => {
                note_latest(&mut self.places[By::Step as usize], at, header);
                if header.held != Held::No {
                    self.places[By::Key as usize].insert(short(&header.id), at);
                }
            }
        }
        self.end = at + header.span();
    }

    /// The place of an entry.
    pub(super) fn find(&self, by: By, id: &Short) -> Option<u64> {
        self.places[by as usize].get(id).copied()
    }

    pub(super) fn place(&self, at: u64) -> Place {
        Place {
            file: self.file.clone(),
            at,
        }
    }
}

/// A record becomes the newest of its step, unless it is of an earlier execution.
pub(super) fn note_latest(latest: &mut Places, at: u64, header: &Header) {
    if header.aside {
        latest.entry(header.step).or_insert(at);
    } else {
        latest.insert(header.step, at);
    }
}
