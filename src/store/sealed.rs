//! Files that notice when they are damaged, and of which a part can be read without the rest.
//!
//! Content stands in sections; the whole is cut into pages, each with a checksum. The checksums and the list of sections
//! have a checksum of their own in the last bytes of the file. So a reader that wants one row of a million reads and
//! verifies one page, and a flipped bit, a torn tail or another format is an error and never a wrong answer.
//!
//! ```text
//! pages … | 32 bytes for each page | (begin, end) of each section | length of the pages, number of sections, seal
//! ```
//!
//! Nothing is synced: a file that a crash left half written fails its check, and whoever wanted it does without.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::ops::{Deref, Range};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::base::{Digest, temporary};

const PAGE: u64 = 64 * 1024;
/// Two lengths and a digest.
const TRAILER: u64 = 8 + 8 + 32;

/// Writes section after section, holding one page in memory.
pub struct SealedWriter {
    kind: &'static str,
    file: BufWriter<tempfile::NamedTempFile>,
    page: Vec<u8>,
    sums: Vec<u8>,
    sections: Vec<u64>,
    written: u64,
}

impl SealedWriter {
    /// `kind` names the format and its version: a file of another kind does not open.
    pub fn create(dir: &Path, kind: &'static str) -> io::Result<Self> {
        std::fs::create_dir_all(dir)?;
        let file = BufWriter::new(temporary::make(dir)?);
        Ok(Self { kind, file, page: Vec::new(), sums: Vec::new(), sections: Vec::new(), written: 0 })
    }

    /// Begins the next section; what is written from here on is in it.
    pub fn begin(&mut self) {
        self.sections.push(self.written);
    }

    pub fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        self.written += bytes.len() as u64;
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(PAGE as usize - self.page.len()));
            self.page.extend_from_slice(now);
            bytes = later;
            if self.page.len() as u64 == PAGE {
                self.end_page()?;
            }
        }
        Ok(())
    }

    pub fn section(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.begin();
        self.write(bytes)
    }

    pub fn numbers(&mut self, numbers: impl IntoIterator<Item = u32>) -> io::Result<()> {
        self.begin();
        numbers.into_iter().try_for_each(|number| self.write(&number.to_le_bytes()))
    }

    fn end_page(&mut self) -> io::Result<()> {
        self.sums.extend_from_slice(Digest::of(&self.page).bytes());
        self.file.write_all(&self.page)?;
        self.page.clear();
        Ok(())
    }

    /// Puts the file in its place, at once and whole. Gives its seal, which names its content.
    pub fn finish(mut self, path: &Path) -> io::Result<Digest> {
        if !self.page.is_empty() {
            self.end_page()?;
        }
        let mut tail = std::mem::take(&mut self.sums);
        let ends = self.sections.iter().skip(1).chain([&self.written]);
        for (begin, end) in self.sections.iter().zip(ends) {
            tail.extend_from_slice(&begin.to_le_bytes());
            tail.extend_from_slice(&end.to_le_bytes());
        }
        tail.extend_from_slice(&self.written.to_le_bytes());
        tail.extend_from_slice(&(self.sections.len() as u64).to_le_bytes());
        let seal = seal(&tail, self.kind);
        tail.extend_from_slice(seal.bytes());
        self.file.write_all(&tail)?;
        let file = self.file.into_inner().map_err(|e| e.into_error())?;
        file.persist(path).map_err(|e| e.error)?;
        Ok(seal)
    }
}

fn seal(tail: &[u8], kind: &str) -> Digest {
    Digest::of(&[tail, kind.as_bytes()].concat())
}

/// A sealed file, open for reading. It stays readable when another takes its place.
#[derive(Debug)]
pub struct Sealed {
    file: File,
    length: u64,
    sums: Vec<u8>,
    sections: Vec<Range<u64>>,
    seal: Digest,
    /// Pages that parts were taken of: rows that are asked for one after another often share theirs.
    pages: Mutex<HashMap<u64, Arc<Vec<u8>>>>,
}

impl Sealed {
    pub fn open(path: &Path, kind: &str) -> io::Result<Self> {
        let file = File::open(path)?;
        let size = file.metadata()?.len();
        let mut trailer = [0; TRAILER as usize];
        let tail_end = size.checked_sub(TRAILER).ok_or_else(|| damaged("it is too short"))?;
        file.read_exact_at(&mut trailer, tail_end)?;
        let number = |at: usize| u64::from_le_bytes(trailer[at..at + 8].try_into().expect("BUG: eight bytes"));
        let (length, count) = (number(0), number(8));
        let pages = length.div_ceil(PAGE);
        let whole = pages
            .checked_mul(32)
            .zip(count.checked_mul(16))
            .and_then(|(sums, rows)| length.checked_add(sums)?.checked_add(rows)?.checked_add(TRAILER));
        if whole != Some(size) {
            return Err(damaged("its length is not what it says"));
        }
        let mut tail = vec![0; (size - length) as usize - 32];
        file.read_exact_at(&mut tail, length)?;
        let seal = seal(&tail, kind);
        if seal.bytes() != &trailer[16..] {
            return Err(damaged("its seal is broken"));
        }
        let rows = tail[(pages * 32) as usize..].chunks_exact(16).take(count as usize);
        let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("BUG: eight bytes"));
        let sections = rows.map(|row| number(&row[..8])..number(&row[8..])).collect();
        tail.truncate((pages * 32) as usize);
        Ok(Self { file, length, sums: tail, sections, seal, pages: Mutex::default() })
    }

    /// Names the content of the whole file.
    pub fn seal(&self) -> Digest {
        self.seal
    }

    pub fn section(&self, section: usize) -> io::Result<Bytes> {
        let range = self.range(section)?;
        self.read(range)
    }

    /// A part of a section, by its own count of bytes. Only the pages that hold it are read.
    pub fn part(&self, section: usize, part: Range<u64>) -> io::Result<Vec<u8>> {
        let range = self.range(section)?;
        let (begin, end) = (range.start.checked_add(part.start), range.start.checked_add(part.end));
        match (begin, end) {
            (Some(begin), Some(end)) if begin <= end && end <= range.end => self.read_row(begin..end),
            _ => Err(damaged("a row lies outside its section")),
        }
    }

    pub fn numbers(&self, section: usize) -> io::Result<Vec<u32>> {
        Ok(self.section(section)?.chunks_exact(4).map(number).collect())
    }

    /// One number of a section of numbers, or several in a row.
    pub fn numbers_at(&self, section: usize, rows: Range<u32>) -> io::Result<Vec<u32>> {
        let bytes = self.part(section, u64::from(rows.start) * 4..u64::from(rows.end) * 4)?;
        Ok(bytes.chunks_exact(4).map(number).collect())
    }

    fn range(&self, section: usize) -> io::Result<Range<u64>> {
        self.sections.get(section).cloned().ok_or_else(|| damaged("a section is missing"))
    }

    fn read_row(&self, range: Range<u64>) -> io::Result<Vec<u8>> {
        let mut row = Vec::with_capacity((range.end - range.start) as usize);
        let mut at = range.start;
        while at < range.end {
            let (page, begin) = (at / PAGE, (at % PAGE) as usize);
            let content = self.page(page)?;
            let end = ((range.end - page * PAGE) as usize).min(content.len());
            row.extend_from_slice(content.get(begin..end).ok_or_else(|| damaged("a row ends behind the pages"))?);
            at = (page + 1) * PAGE;
        }
        Ok(row)
    }

    fn page(&self, page: u64) -> io::Result<Arc<Vec<u8>>> {
        let lock = || self.pages.lock().expect("BUG: a thread panicked while it held the pages");
        if let Some(known) = lock().get(&page) {
            return Ok(known.clone());
        }
        let content = self.read(page * PAGE..((page + 1) * PAGE).min(self.length))?;
        let content = Arc::new(content.bytes);
        lock().insert(page, content.clone());
        Ok(content)
    }

    fn read(&self, range: Range<u64>) -> io::Result<Bytes> {
        let first = range.start / PAGE;
        let end = range.end.div_ceil(PAGE).saturating_mul(PAGE).min(self.length);
        let mut bytes = vec![0; end.saturating_sub(first * PAGE) as usize];
        self.file.read_exact_at(&mut bytes, first * PAGE)?;
        for (page, content) in (first..).zip(bytes.chunks(PAGE as usize)) {
            let at = (page * 32) as usize;
            if self.sums.get(at..at + 32) != Some(Digest::of(content).bytes()) {
                return Err(damaged("a page has other content than was written"));
            }
        }
        let begin = (range.start - first * PAGE) as usize;
        let end = begin + (range.end - range.start) as usize;
        if end > bytes.len() {
            return Err(damaged("a section ends behind the pages"));
        }
        Ok(Bytes { bytes, range: begin..end })
    }
}

pub fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn number(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes.try_into().expect("BUG: four bytes"))
}

/// Verified content, in the buffer that it was read into.
#[derive(Debug, Default)]
pub struct Bytes {
    bytes: Vec<u8>,
    range: Range<usize>,
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.range.clone()]
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self { range: 0..bytes.len(), bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: &str = "test 1";

    fn written(dir: &Path) -> std::path::PathBuf {
        let path = dir.join("sealed");
        let mut writer = SealedWriter::create(dir, KIND).unwrap();
        writer.section(b"first").unwrap();
        writer.numbers(0..40_000).unwrap();
        writer.section(b"").unwrap();
        writer.begin();
        writer.write(b"la").unwrap();
        writer.write(b"st").unwrap();
        writer.finish(&path).unwrap();
        path
    }

    fn all(path: &Path) -> io::Result<(Bytes, Vec<u32>, Bytes, Bytes)> {
        let sealed = Sealed::open(path, KIND)?;
        Ok((sealed.section(0)?, sealed.numbers(1)?, sealed.section(2)?, sealed.section(3)?))
    }

    #[test]
    fn sections_come_back_whole_and_in_parts() {
        let dir = tempfile::tempdir().unwrap();
        let path = written(dir.path());
        let (first, numbers, empty, last) = all(&path).unwrap();
        assert_eq!((&first[..], &empty[..], &last[..]), (&b"first"[..], &b""[..], &b"last"[..]));
        assert_eq!(numbers, (0..40_000).collect::<Vec<_>>());
        let sealed = Sealed::open(&path, KIND).unwrap();
        assert_eq!(sealed.numbers_at(1, 39_998..40_000).unwrap(), [39_998, 39_999]);
        assert!(sealed.numbers_at(1, 39_999..40_001).is_err());
        assert!(sealed.section(4).is_err());
        assert!(Sealed::open(&path, "test 2").is_err());
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let path = written(dir.path());
        let whole = std::fs::read(&path).unwrap();
        for at in (0..whole.len()).step_by(997).chain(whole.len() - 400..whole.len()) {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x10;
            std::fs::write(&path, bytes).unwrap();
            assert!(all(&path).is_err(), "byte {at} of {}", whole.len());
        }
        for length in (0..whole.len()).step_by(4_001).chain(whole.len() - 100..whole.len()) {
            std::fs::write(&path, &whole[..length]).unwrap();
            assert!(all(&path).is_err(), "cut to {length}");
        }
    }
}
