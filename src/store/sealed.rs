//! Files of several sections that notice when they are damaged.
//!
//! Each section has a checksum, and the list of sections one of its own in the last bytes of the file. So a reader that
//! wants one section verifies that one, and a flipped bit, a torn tail or another format is an error and never a wrong answer.
//!
//! ```text
//! sections … | (begin, end, checksum) of each | number of sections, seal
//! ```
//!
//! Nothing is synced: a file that a crash left half written fails its check, and whoever wanted it does without.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::base::{Digest, Hasher, temporary};

/// Two places and a digest.
const ROW: usize = 8 + 8 + 32;
/// A number and a digest.
const TRAILER: usize = 8 + 32;

/// Writes section after section.
pub struct SealedWriter {
    kind: &'static str,
    file: BufWriter<tempfile::NamedTempFile>,
    rows: Vec<u8>,
    /// Where the section begins that is being written, and what is in it so far.
    open: Option<(u64, Hasher)>,
    written: u64,
}

impl SealedWriter {
    /// `kind` names the format and its version: a file of another kind does not open.
    pub fn create(dir: &Path, kind: &'static str) -> io::Result<Self> {
        std::fs::create_dir_all(dir)?;
        let file = BufWriter::with_capacity(1 << 16, temporary::make(dir)?);
        Ok(Self { kind, file, rows: Vec::new(), open: None, written: 0 })
    }

    /// Begins the next section; what is written from here on is in it.
    pub fn begin(&mut self) {
        self.end();
        self.open = Some((self.written, Hasher::default()));
    }

    fn end(&mut self) {
        if let Some((begin, hasher)) = self.open.take() {
            self.rows.extend_from_slice(&begin.to_le_bytes());
            self.rows.extend_from_slice(&self.written.to_le_bytes());
            self.rows.extend_from_slice(hasher.digest().bytes());
        }
    }

    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let (_, hasher) = self.open.as_mut().expect("BUG: a section was begun");
        hasher.update(bytes);
        self.written += bytes.len() as u64;
        self.file.write_all(bytes)
    }

    pub fn section(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.begin();
        self.write(bytes)
    }

    pub fn numbers(&mut self, numbers: impl IntoIterator<Item = u32>) -> io::Result<()> {
        let bytes: Vec<u8> = numbers.into_iter().flat_map(u32::to_le_bytes).collect();
        self.section(&bytes)
    }

    /// Puts the file in its place, at once and whole.
    pub fn finish(mut self, path: &Path) -> io::Result<()> {
        self.end();
        let mut tail = std::mem::take(&mut self.rows);
        tail.extend_from_slice(&((tail.len() / ROW) as u64).to_le_bytes());
        let seal = seal(&tail, self.kind);
        tail.extend_from_slice(seal.bytes());
        self.file.write_all(&tail)?;
        let file = self.file.into_inner().map_err(|e| e.into_error())?;
        file.persist(path).map_err(|e| e.error)?;
        Ok(())
    }
}

fn seal(tail: &[u8], kind: &str) -> Digest {
    Digest::of(&[tail, kind.as_bytes()].concat())
}

/// A sealed file, open for reading. It stays readable when another takes its place.
#[derive(Debug)]
pub struct Sealed {
    file: File,
    rows: Vec<u8>,
}

impl Sealed {
    pub fn open(path: &Path, kind: &str) -> io::Result<Self> {
        let file = File::open(path)?;
        let size = file.metadata()?.len();
        let mut trailer = [0; TRAILER];
        let begin = size.checked_sub(TRAILER as u64).ok_or_else(|| damaged("it is too short"))?;
        file.read_exact_at(&mut trailer, begin)?;
        let rows = number(&trailer).checked_mul(ROW as u64).filter(|rows| *rows <= begin);
        let rows = rows.ok_or_else(|| damaged("its length is not what it says"))?;
        let mut tail = vec![0; rows as usize + 8];
        file.read_exact_at(&mut tail, begin - rows)?;
        if seal(&tail, kind).bytes() != &trailer[8..] {
            return Err(damaged("its seal is broken"));
        }
        tail.truncate(rows as usize);
        Ok(Self { file, rows: tail })
    }

    pub fn section(&self, section: usize) -> io::Result<Vec<u8>> {
        let row = self.rows.chunks_exact(ROW).nth(section).ok_or_else(|| damaged("a section is missing"))?;
        let (begin, end) = (number(row), number(&row[8..]));
        let mut bytes =
            vec![0; end.checked_sub(begin).ok_or_else(|| damaged("a section ends before it begins"))? as usize];
        self.file.read_exact_at(&mut bytes, begin)?;
        if Digest::of(&bytes).bytes() != &row[16..] {
            return Err(damaged("a section has other content than was written"));
        }
        Ok(bytes)
    }

    pub fn numbers(&self, section: usize) -> io::Result<Vec<u32>> {
        let four = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("BUG: four bytes"));
        Ok(self.section(section)?.chunks_exact(4).map(four).collect())
    }
}

pub fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().expect("BUG: eight bytes"))
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

    type All = (Vec<u8>, Vec<u32>, Vec<u8>, Vec<u8>);

    fn all(path: &Path) -> io::Result<All> {
        let sealed = Sealed::open(path, KIND)?;
        Ok((sealed.section(0)?, sealed.numbers(1)?, sealed.section(2)?, sealed.section(3)?))
    }

    #[test]
    fn sections_come_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = written(dir.path());
        let (first, numbers, empty, last) = all(&path).unwrap();
        assert_eq!((&first[..], &empty[..], &last[..]), (&b"first"[..], &b""[..], &b"last"[..]));
        assert_eq!(numbers, (0..40_000).collect::<Vec<_>>());
        let sealed = Sealed::open(&path, KIND).unwrap();
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
