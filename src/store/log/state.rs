//! What of the log was read so far, and where things stand in it.

use std::collections::HashMap;
use std::fs::File;
use std::hash::{BuildHasherDefault, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::base::fs::file_id;
use crate::store::entry::{Header, Held, Kind, Short, short};
use crate::store::log::Place;
use crate::store::log::index::{By, Extent, Index, Rows};
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

/// Stands where a tree is dropped that the index knows.
const GONE: u64 = u64::MAX;

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
    last_record: Option<(u64, Header)>,
    /// Of what the index does not know, or not as it is now; by table.
    read: [Places; By::ALL.len()],
    /// Answers for what stands before the entries that were read.
    index: Option<Index>,
    /// Where an index may be. None once it was looked for.
    index_at: Option<PathBuf>,
    /// There is one, and it was wrong.
    pub(super) is_misled: bool,
}

impl State {
    pub(super) fn open(path: &Path, index: &Path) -> io::Result<Self> {
        let (file, is_read_only) = open_or_read(path, File::options().write(true).create(true).truncate(false))?;
        let id = file_id(&file.metadata()?);
        Ok(Self {
            file: file.into(),
            is_read_only,
            id,
            end: 0,
            is_read: false,
            damaged: 0,
            last_record: None,
            read: Default::default(),
            index: None,
            index_at: Some(index.to_owned()),
            is_misled: false,
        })
    }

    /// Whether all of it was read, entry by entry.
    pub(super) fn is_whole(&self) -> bool {
        self.is_read && self.index.is_none()
    }

    /// Begins anew, and looks for no index.
    pub(super) fn want_all(&mut self) {
        self.index_at = None;
        if self.index.take().is_some() {
            (self.end, self.damaged, self.is_read, self.last_record) = (0, 0, false, None);
            self.read = Default::default();
        }
    }

    /// The same, because the index is wrong, or the log is.
    pub(super) fn distrust_index(&mut self) {
        self.is_misled |= self.index.is_some();
        self.want_all();
    }

    /// Reads what was appended since. True if a torn entry follows.
    pub(super) fn catch_up(&mut self) -> io::Result<bool> {
        if let Some(path) = self.index_at.take().filter(|_| self.end == 0)
            && let Ok(index) = Index::open(&path, &self.file, self.id)
        {
            (self.end, self.last_record) = (index.extent().end, index.extent().last_record.clone());
            self.index = Some(index);
        }
        let file = self.file.clone();
        let size = file.metadata()?.len();
        let mut scan = Scan::new(&file, self.end, size);
        let mut is_torn = false;
        while let Some(found) = scan.next()? {
            match found {
                Found::Entry { at, header } => {
                    if self.note(at, &header).is_err() {
                        self.distrust_index();
                        return self.catch_up();
                    }
                }
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

    /// Takes in an entry behind all others. Fails only where the index does.
    pub(super) fn note(&mut self, at: u64, header: &Header) -> io::Result<()> {
        match header.kind {
            Kind::Tree => drop(self.read[By::Tree as usize].insert(short(&header.id), at)),
            Kind::Dropped if self.index.is_some() => {
                self.read[By::Tree as usize].insert(short(&header.id), GONE);
            }
            Kind::Dropped => drop(self.read[By::Tree as usize].remove(&short(&header.id))),
            Kind::Record => {
                let is_newest = !header.aside || self.find(By::Step, &header.step)?.is_none();
                if is_newest {
                    self.read[By::Step as usize].insert(header.step, at);
                }
                if header.held != Held::No {
                    self.read[By::Key as usize].insert(short(&header.id), at);
                }
                self.last_record = Some((at, header.clone()));
            }
        }
        self.end = at + header.span();
        Ok(())
    }

    /// Where an entry stands. An error if the index cannot be relied on; without one there is none.
    pub(super) fn find(&self, by: By, id: &Short) -> io::Result<Option<u64>> {
        match (self.read[by as usize].get(id), &self.index) {
            (Some(&GONE), _) | (None, None) => Ok(None),
            (Some(at), _) => Ok(Some(*at)),
            (None, Some(index)) => index.find(&self.file, by, id),
        }
    }

    pub(super) fn place(&self, at: u64) -> Place {
        Place { file: self.file.clone(), at }
    }

    pub(super) fn extent(&self) -> Extent {
        Extent { id: self.id, end: self.end, last_record: self.last_record.clone() }
    }

    /// Everything that is known, of the index and of what was read.
    pub(super) fn rows(&self) -> io::Result<[Rows; By::ALL.len()]> {
        let mut all = [Rows::new(), Rows::new(), Rows::new()];
        for (by, rows) in By::ALL.into_iter().zip(&mut all) {
            let read = &self.read[by as usize];
            if let Some(index) = &self.index {
                *rows = index.rows(by)?;
                rows.retain(|(id, _)| !read.contains_key(id));
            }
            rows.extend(read.iter().filter(|(_, at)| **at != GONE).map(|(id, at)| (*id, *at)));
        }
        Ok(all)
    }
}

/// A record becomes the newest of its step, unless it tells of an earlier execution.
pub(super) fn note_latest(latest: &mut Places, at: u64, header: &Header) {
    if header.aside {
        latest.entry(header.step).or_insert(at);
    } else {
        latest.insert(header.step, at);
    }
}
