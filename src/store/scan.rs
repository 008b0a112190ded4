//! Reads the headers of a log in order, and finds its way again behind damage.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::store::entry::{HEADER, Header, MAGIC};

/// How much is read at a time.
const WINDOW: usize = 1 << 20;

/// What lies at some place of a log.
#[derive(Debug)]
pub(super) enum Found {
    Entry {
        at: u64,
        header: Header,
    },
    /// Bytes that are no entry, up to the next one or the end.
    Damaged {
        at: u64,
        bytes: u64,
    },
    /// The log ends inside an entry: its writer died, or is still writing.
    Torn,
}

pub(super) struct Scan<'a> {
    file: &'a File,
    at: u64,
    size: u64,
    window: Vec<u8>,
    window_at: u64,
}

impl<'a> Scan<'a> {
    pub(super) fn new(file: &'a File, from: u64, size: u64) -> Self {
        Self {
            file,
            at: from,
            size,
            window: Vec::new(),
            window_at: from,
        }
    }

    /// The bytes from `at`, at least `wanted`, or as many as the log has.
    fn bytes(&mut self, at: u64, wanted: usize) -> io::Result<&[u8]> {
        let end = (at + wanted as u64).min(self.size);
        let held = self.window_at..self.window_at + self.window.len() as u64;
        if at < held.start || end > held.end {
            let length = (self.size - at).min(WINDOW as u64) as usize;
            self.window.resize(length, 0);
            self.file.read_exact_at(&mut self.window, at)?;
            self.window_at = at;
        }
        Ok(&self.window[(at - self.window_at) as usize..])
    }

    fn read(&mut self) -> io::Result<Found> {
        let at = self.at;
        let size = self.size;
        if let Some(header) = Header::parse(self.bytes(at, HEADER)?) {
            if at + header.span() > size {
                self.at = size;
                return Ok(Found::Torn);
            }
            self.at = at + header.span();
            return Ok(Found::Entry { at, header });
        }
        self.at = self.resync(at + 1)?;
        // A beginning without an end, and nothing behind it.
        if self.at == size && size - at < HEADER as u64 {
            return Ok(Found::Torn);
        }
        Ok(Found::Damaged {
            at,
            bytes: self.at - at,
        })
    }

    /// The next place at which a whole header stands.
    fn resync(&mut self, from: u64) -> io::Result<u64> {
        let mut at = from;
        while at + HEADER as u64 <= self.size {
            let bytes = self.bytes(at, HEADER)?;
            let step = bytes.windows(MAGIC.len()).position(|four| four == MAGIC);
            match step {
                Some(step) => {
                    at += step as u64;
                    if at + HEADER as u64 <= self.size
                        && Header::parse(self.bytes(at, HEADER)?).is_some()
                    {
                        return Ok(at);
                    }
                    at += 1;
                }
                // The magic may lie across the end of the window.
                None => at += (bytes.len() - MAGIC.len() + 1) as u64,
            }
        }
        Ok(self.size)
    }
}

impl Iterator for Scan<'_> {
    type Item = io::Result<Found>;

    fn next(&mut self) -> Option<io::Result<Found>> {
        (self.at < self.size).then(|| self.read())
    }
}
