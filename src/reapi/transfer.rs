//! The two ends of a transfer: a blob as the messages that write it, and a file that is hashed as it arrives.

#![expect(clippy::disallowed_methods, reason = "writes what it fetches")]

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

/// A blob as the messages that write it under a name. Why it could not be read to its end goes to `failed`.
pub(super) fn pieces(
    mut name: String,
    content: Content,
    is_compressed: bool,
    failed: Arc<Mutex<Option<String>>>,
) -> Result<impl Iterator<Item = WriteRequest> + Send + 'static, Fault> {
    let local = |e: io::Error| Fault::Local(format!("failed to compress a blob: {e}"));
    let mut content: Box<dyn Read + Send> = match content {
        Content::Bytes(bytes) => Box::new(io::Cursor::new(bytes)),
        Content::File(path) => Box::new(File::open(&path).map_err(Fault::io("read", &path))?),
        Content::There => return Err(Fault::Absent),
    };
    if is_compressed {
        content = Box::new(zstd::stream::read::Encoder::new(content, 1).map_err(local)?);
    }
    let mut write_offset = 0;
    let mut finish_write = false;
    Ok(std::iter::from_fn(move || {
        if finish_write {
            return None;
        }
        let mut data = Vec::with_capacity(PIECE);
        if let Err(e) = (&mut content).take(PIECE as u64).read_to_end(&mut data) {
            *lock(&failed) = Some(format!("failed to read what should be uploaded: {e}"));
            finish_write = true;
            return None;
        }
        finish_write = data.len() < PIECE;
        let at = write_offset;
        write_offset += data.len() as i64;
        Some(WriteRequest {
            resource_name: std::mem::take(&mut name),
            write_offset: at,
            finish_write,
            data,
        })
    }))
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
        let file = File::create(&wanted.to).map_err(Fault::io("write", &wanted.to))?;
        let summer = abilities.function.summer();
        let content = wanted.content.map(|_| Hasher::default());
        Ok(Self {
            wanted,
            file,
            summer,
            content,
            function: abilities.function,
        })
    }

    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        self.summer.update(bytes);
        ensure(self.summer.size() <= self.wanted.digest.size_bytes, || {
            Fault::WrongContent
        })?;
        if let Some(hasher) = &mut self.content {
            hasher.update(bytes);
        }
        self.file
            .write_all(bytes)
            .map_err(Fault::io("write", &self.wanted.to))
    }

    pub(super) fn end(self) -> Result<(), Fault> {
        let is_shorter = self.summer.size() < self.wanted.digest.size_bytes;
        let is_right = self.summer.digest() == self.wanted.digest
            && self.content.map(|hasher| hasher.digest()) == self.wanted.content;
        // The stream may have been cut.
        ensure(!is_shorter, || {
            Fault::Passing(format!("a {} blob came short", self.function.name()))
        })?;
        ensure(is_right, || Fault::WrongContent)
    }
}

/// What arrives, unpacked if it is packed.
pub(super) enum Unpacked<'a> {
    Plain(Box<Arrival<'a>>),
    Zstd(Box<zstd::stream::write::Decoder<'static, Arrival<'a>>>),
}

/// The sink of a decoder, whose own errors are distinguished from an arrival's by what they hold: [`unpacking`].
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

/// The arrival's error, or that what came cannot be unpacked.
fn unpacking(error: io::Error) -> Fault {
    error.downcast().unwrap_or(Fault::WrongContent)
}
