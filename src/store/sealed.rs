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
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::base::{Digest, ensure, temporary};

/// Two places and a digest.
const ROW: usize = 8 + 8 + 32;
/// A number and a digest.
const TRAILER: usize = 8 + 32;

/// Puts a file of these sections in its place, at once and whole. `kind` names the format and its version: a file of another
/// kind does not open.
pub fn write(path: &Path, kind: &str, sections: &[&[u8]]) -> io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(dir)?;
    let mut file = temporary::make(dir)?;
    let mut tail = Vec::new();
    let mut begin = 0;
    for section in sections {
        file.write_all(section)?;
        let end = begin + section.len() as u64;
        tail.extend(begin.to_le_bytes());
        tail.extend(end.to_le_bytes());
        tail.extend(Digest::of(section).bytes());
        begin = end;
    }
    tail.extend((sections.len() as u64).to_le_bytes());
    let seal = seal(&tail, kind);
    tail.extend(seal.bytes());
    file.write_all(&tail)?;
    file.persist(path).map_err(|e| e.error)?;
    Ok(())
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
        let begin = size
            .checked_sub(TRAILER as u64)
            .ok_or_else(|| damaged("it is too short"))?;
        file.read_exact_at(&mut trailer, begin)?;
        let rows = number(&trailer)
            .checked_mul(ROW as u64)
            .filter(|rows| *rows <= begin);
        let rows = rows.ok_or_else(|| damaged("its length is not what it says"))?;
        let mut tail = vec![0; rows as usize + 8];
        file.read_exact_at(&mut tail, begin - rows)?;
        ensure(seal(&tail, kind).bytes() == &trailer[8..], || {
            damaged("its seal is broken")
        })?;
        tail.truncate(rows as usize);
        Ok(Self { file, rows: tail })
    }

    pub fn section(&self, section: usize) -> io::Result<Vec<u8>> {
        let row = self
            .rows
            .chunks_exact(ROW)
            .nth(section)
            .ok_or_else(|| damaged("a section is missing"))?;
        let begin = number(row);
        let end = number(&row[8..]);
        let mut bytes = vec![
            0;
            end.checked_sub(begin)
                .ok_or_else(|| damaged("a section ends before it begins"))?
                as usize
        ];
        self.file.read_exact_at(&mut bytes, begin)?;
        let is_right = Digest::of(&bytes).bytes() == &row[16..];
        ensure(is_right, || {
            damaged("a section has other content than was written")
        })?;
        Ok(bytes)
    }
}

fn damaged(what: &str) -> io::Error {
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
        let long: Vec<u8> = (0..40_000u32).flat_map(u32::to_le_bytes).collect();
        write(&path, KIND, &[b"first", &long, b"", b"last"]).unwrap();
        path
    }

    fn all(path: &Path) -> io::Result<Vec<Vec<u8>>> {
        let sealed = Sealed::open(path, KIND)?;
        (0..4).map(|section| sealed.section(section)).collect()
    }

    #[test]
    fn sections_come_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = written(dir.path());
        let found = all(&path).unwrap();
        assert_eq!(
            [&found[0][..], &found[2], &found[3]],
            [&b"first"[..], b"", b"last"]
        );
        assert_eq!(found[1].len(), 160_000);
        let sealed = Sealed::open(&path, KIND).unwrap();
        assert!(sealed.section(4).is_err());
        assert!(Sealed::open(&path, "test 2").is_err());
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let path = written(dir.path());
        let whole = std::fs::read(&path).unwrap();
        for at in (0..whole.len())
            .step_by(997)
            .chain(whole.len() - 400..whole.len())
        {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x10;
            std::fs::write(&path, bytes).unwrap();
            assert!(all(&path).is_err(), "byte {at} of {}", whole.len());
        }
        for length in (0..whole.len())
            .step_by(4_001)
            .chain(whole.len() - 100..whole.len())
        {
            std::fs::write(&path, &whole[..length]).unwrap();
            assert!(all(&path).is_err(), "cut to {length}");
        }
    }
}
