//! The two ends of a transfer: a blob as the messages that write it, and a file that is hashed as it arrives.

use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex};

use bazel_remote_apis::google::bytestream::WriteRequest;

use crate::base::{Hasher, ensure, lock};
use crate::reapi::blobs::{Content, Wanted};
use crate::reapi::client::Abilities;
use crate::reapi::fault::Fault;
use crate::reapi::hash::{Function, Summer};

/// One message of a stream, bytes.
const PIECE: usize = 256 << 10;

/// A blob as the messages that write it.
pub(super) struct Pieces {
    name: Option<String>,
    content: Box<dyn Read + Send>,
    offset: i64,
    is_over: bool,
    /// Why it could not be read to its end.
    pub(super) failed: Arc<Mutex<Option<String>>>,
}

impl Pieces {
    pub(super) fn open(name: String, content: Content, is_compressed: bool) -> Result<Self, Fault> {
        let local = |e: io::Error| Fault::Local(format!("failed to compress a blob: {e}"));
        let plain: Box<dyn Read + Send> = match content {
            Content::Bytes(bytes) => Box::new(io::Cursor::new(bytes)),
            Content::File(path) => Box::new(File::open(&path).map_err(Fault::read(&path))?),
            Content::There => return Err(Fault::Absent),
        };
        let content: Box<dyn Read + Send> = match is_compressed {
            true => Box::new(zstd::stream::read::Encoder::new(plain, 1).map_err(local)?),
            false => plain,
        };
        Ok(Self { name: Some(name), content, offset: 0, is_over: false, failed: Default::default() })
    }
}

impl Iterator for Pieces {
    type Item = WriteRequest;

    fn next(&mut self) -> Option<WriteRequest> {
        if self.is_over {
            return None;
        }
        let mut data = Vec::with_capacity(PIECE);
        if let Err(e) = (&mut self.content).take(PIECE as u64).read_to_end(&mut data) {
            *lock(&self.failed) = Some(format!("failed to read what should be uploaded: {e}"));
            self.is_over = true;
            return None;
        }
        self.is_over = data.len() < PIECE;
        let (resource_name, write_offset) = (self.name.take().unwrap_or_default(), self.offset);
        self.offset += data.len() as i64;
        Some(WriteRequest { resource_name, write_offset, finish_write: self.is_over, data })
    }
}

/// A file that is written, and hashed as it is.
pub(super) struct Arrival<'a> {
    wanted: &'a Wanted,
    file: File,
    summer: Summer,
    content: Option<Hasher>,
    function: Function,
}

impl<'a> Arrival<'a> {
    pub(super) fn new(wanted: &'a Wanted, abilities: Abilities) -> Result<Self, Fault> {
        let file = File::create(&wanted.to).map_err(Fault::write(&wanted.to))?;
        let (summer, content) = (abilities.function.summer(), wanted.content.map(|_| Hasher::default()));
        Ok(Self { wanted, file, summer, content, function: abilities.function })
    }

    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        self.summer.update(bytes);
        ensure(self.summer.size() <= self.wanted.digest.size_bytes, || Fault::WrongContent)?;
        if let Some(hasher) = &mut self.content {
            hasher.update(bytes);
        }
        self.file.write_all(bytes).map_err(Fault::write(&self.wanted.to))
    }

    pub(super) fn end(self) -> Result<(), Fault> {
        let is_shorter = self.summer.size() < self.wanted.digest.size_bytes;
        let is_right = self.summer.digest() == self.wanted.digest
            && self.content.map(|hasher| hasher.digest()) == self.wanted.content;
        match is_right {
            true => Ok(()),
            // The stream may have been cut.
            false if is_shorter => Err(Fault::Passing(format!("a {} blob came short", self.function.name()))),
            false => Err(Fault::WrongContent),
        }
    }
}

/// What arrives, unpacked if it is packed.
pub(super) enum Unpacked<'a> {
    Plain(Box<Arrival<'a>>),
    Zstd(Box<zstd::stream::write::Decoder<'static, Arrival<'a>>>),
}

/// For a decoder, whose own errors are told from an arrival's by what they hold: [`unpacking`].
impl Write for Arrival<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.take(bytes).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> Unpacked<'a> {
    pub(super) fn new(arrival: Arrival<'a>, is_compressed: bool) -> Result<Self, Fault> {
        if !is_compressed {
            return Ok(Self::Plain(Box::new(arrival)));
        }
        let local = |e: io::Error| Fault::Local(format!("failed to unpack a blob: {e}"));
        let decoder = zstd::stream::write::Decoder::new(arrival).map_err(local)?;
        Ok(Self::Zstd(Box::new(decoder)))
    }

    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        match self {
            Self::Plain(arrival) => arrival.take(bytes),
            Self::Zstd(decoder) => decoder.write_all(bytes).map_err(unpacking),
        }
    }

    pub(super) fn end(self) -> Result<(), Fault> {
        match self {
            Self::Plain(arrival) => arrival.end(),
            Self::Zstd(mut decoder) => {
                decoder.flush().map_err(unpacking)?;
                decoder.into_inner().end()
            }
        }
    }
}

/// What the arrival said, or that what came cannot be unpacked.
fn unpacking(error: io::Error) -> Fault {
    error.downcast().unwrap_or(Fault::WrongContent)
}
