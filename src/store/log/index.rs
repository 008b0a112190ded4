//! Where entries stand, in a file beside the log, so that who asks for a few need not read all.
//!
//! Only a cache. It says up to where it goes, in which file and behind which entries; if the log is another one, it is not
//! there. A place that it gives is believed when the entry that stands there is read and is the one that was asked for. That
//! it gives none is believed because it was made of a log that was whole, of which nothing ever changes.
//!
//! A sealed file: the extent; for each table, how many of its rows begin with less than each byte; the tables, sorted.

use std::fs::File;
use std::io;
use std::path::Path;

use crate::base::Digest;
use crate::base::fs::read_at;
use crate::store::entry::{HEADER, Header, Held, Kind, Short, short};
use crate::store::sealed::{Sealed, SealedWriter, damaged};

const KIND: &str = "orch log index 1";
const EXTENT: usize = 0;
const FANS: usize = 1;
const TABLES: usize = FANS + By::ALL.len();
const ROW: u64 = 16 + 8;
/// So much before its end is compared with the log.
const TAIL: u64 = 16 * 1024;

/// What an entry is looked up by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    /// The record that answers for a key.
    Key,
    /// The newest record of a step.
    Step,
    Tree,
}

impl By {
    pub(super) const ALL: [Self; 3] = [Self::Key, Self::Step, Self::Tree];

    /// What an entry is found by. None if it is not found this way.
    fn of(self, header: &Header) -> Option<Short> {
        match (self, header.kind) {
            (Self::Key, Kind::Record) => (header.held != Held::No).then(|| short(&header.id)),
            (Self::Step, Kind::Record) => Some(header.step),
            (Self::Tree, Kind::Tree) => Some(short(&header.id)),
            _ => None,
        }
    }
}

/// Which part of which log was read.
#[derive(Debug, Clone)]
pub(super) struct Extent {
    /// Identity of the file.
    pub(super) id: u64,
    pub(super) end: u64,
    /// With its place. Its date and duration, by their checksum, tell it from that of every other log.
    pub(super) last_record: Option<(u64, Header)>,
}

impl Extent {
    /// With a digest of what stands in the log at its end: a file's number may be given again, and a log that a power
    /// failure cut short may have grown again since. An error if the log is no longer the one that was read.
    fn to_bytes(&self, log: &File) -> io::Result<Vec<u8>> {
        let last = self.last_record.as_ref().map(|(at, _)| *at);
        let tail = TAIL.min(self.end);
        let mut text = vec![0; tail as usize];
        read_at(log, &mut text, self.end - tail)?;
        if let Some((at, header)) = &self.last_record {
            if header_at(log, *at)?.as_ref() != Some(header) {
                return Err(damaged("its last record is another one"));
            }
            text.extend_from_slice(&header.to_bytes());
        }
        let numbers = [self.id, self.end, last.map_or(0, |at| at + 1)].map(u64::to_le_bytes).concat();
        Ok([&numbers[..], Digest::of(&text).bytes()].concat())
    }
}

fn header_at(log: &File, at: u64) -> io::Result<Option<Header>> {
    let mut bytes = [0; HEADER];
    read_at(log, &mut bytes, at)?;
    Ok(Header::parse(&bytes))
}

/// Rows of a table: what is looked up, and where it stands.
pub(super) type Rows = Vec<(Short, u64)>;

#[derive(Debug)]
pub(super) struct Index {
    sealed: Sealed,
    extent: Extent,
    /// By table.
    fans: Vec<Vec<u32>>,
}

impl Index {
    /// The index of this log. An error if it is of another one, or damaged.
    pub(super) fn open(path: &Path, log: &File, id: u64) -> io::Result<Self> {
        let sealed = Sealed::open(path, KIND)?;
        let written = sealed.section(EXTENT)?;
        let number = |at: usize| -> io::Result<u64> {
            let bytes = written.get(at..at + 8).ok_or_else(|| damaged("its extent is cut short"))?;
            Ok(u64::from_le_bytes(bytes.try_into().expect("BUG: eight bytes")))
        };
        let last_record = match number(16)?.checked_sub(1) {
            Some(at) => Some((at, header_at(log, at)?.ok_or_else(|| damaged("its last record is gone"))?)),
            None => None,
        };
        let extent = Extent { id, end: number(8)?, last_record };
        if log.metadata()?.len() < extent.end || extent.to_bytes(log)? != written[..] {
            return Err(damaged("it is of another log"));
        }
        let fans = (0..By::ALL.len()).map(|table| sealed.numbers(FANS + table)).collect::<io::Result<Vec<_>>>()?;
        if fans.iter().any(|fan| fan.len() != 257 || !fan.is_sorted()) {
            return Err(damaged("its tables have no order"));
        }
        Ok(Self { sealed, extent, fans })
    }

    pub(super) fn extent(&self) -> &Extent {
        &self.extent
    }

    /// Where an entry stands. An error if it is not there: then nothing that the index says can be relied on.
    pub(super) fn find(&self, log: &File, by: By, id: &Short) -> io::Result<Option<u64>> {
        let fan = &self.fans[by as usize];
        let (mut low, mut high) = (fan[usize::from(id[0])], fan[usize::from(id[0]) + 1]);
        while low < high {
            let middle = low + (high - low) / 2;
            let begin = u64::from(middle) * ROW;
            let (found, at) = row(&self.sealed.part(TABLES + by as usize, begin..begin + ROW)?);
            match found.cmp(id) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return self.is_there(log, by, id, at).map(|()| Some(at)),
            }
        }
        Ok(None)
    }

    fn is_there(&self, log: &File, by: By, id: &Short, at: u64) -> io::Result<()> {
        let header = header_at(log, at)?.filter(|header| by.of(header).as_ref() == Some(id));
        let is_within = header.is_some_and(|header| at + header.span() <= self.extent.end);
        if is_within { Ok(()) } else { Err(damaged("an entry is not where it was")) }
    }

    /// All of a table.
    pub(super) fn rows(&self, by: By) -> io::Result<Rows> {
        Ok(self.sealed.section(TABLES + by as usize)?.chunks_exact(ROW as usize).map(row).collect())
    }

    /// Writes the index of a log whose entries up to its extent are whole, and were all read. `tables` are those of [`By::ALL`];
    /// `aside` is a folder on the same disk.
    pub(super) fn write(path: &Path, aside: &Path, log: &File, extent: &Extent, tables: [Rows; 3]) -> io::Result<()> {
        let mut writer = SealedWriter::create(aside, KIND)?;
        writer.section(&extent.to_bytes(log)?)?;
        let mut tables = tables;
        for rows in &mut tables {
            rows.sort_unstable();
            let begins = (0..=256_u16).map(|byte| rows.partition_point(|(id, _)| u16::from(id[0]) < byte) as u32);
            writer.numbers(begins)?;
        }
        for rows in tables {
            writer.begin();
            for (id, at) in rows {
                writer.write(&id)?;
                writer.write(&at.to_le_bytes())?;
            }
        }
        writer.finish(path).map(drop)
    }
}

fn row(bytes: &[u8]) -> (Short, u64) {
    let (id, at) = bytes.split_at(16);
    (id.try_into().expect("BUG: 16 bytes"), u64::from_le_bytes(at.try_into().expect("BUG: 8 bytes")))
}

#[cfg(test)]
mod tests;
