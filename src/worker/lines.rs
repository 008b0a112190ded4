//! Lines of a pipe, taken as they come and never waited for.

use std::io::{self, PipeReader, Read};
use std::os::fd::{AsRawFd, RawFd};

/// A longer line is junk: the largest answers hold some thousand samples.
const LONGEST_LINE: usize = 16 << 20;

pub(super) enum Next {
    Line(Vec<u8>),
    /// Nothing more has come yet.
    Nothing,
    /// The other end is closed; true if it said half a line before.
    End(bool),
    /// Longer than so many bytes.
    TooLong(usize),
    Failed(io::Error),
}

pub(super) struct Lines {
    pipe: PipeReader,
    buffer: Vec<u8>,
    /// So much of the buffer holds no end of a line.
    searched: usize,
}

impl Lines {
    pub(super) fn new(pipe: PipeReader) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&pipe, true)?;
        Ok(Self { pipe, buffer: Vec::new(), searched: 0 })
    }

    /// Readable when something has come.
    pub(super) fn fd(&self) -> RawFd {
        self.pipe.as_raw_fd()
    }

    /// Whether the beginning of a line has come, and not its end.
    pub(super) fn has_half(&self) -> bool {
        !self.buffer.is_empty()
    }

    pub(super) fn next(&mut self) -> Next {
        loop {
            if let Some(at) = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n') {
                let end = self.searched + at;
                let line = self.buffer.drain(..=end).take(end).collect();
                self.searched = 0;
                return Next::Line(line);
            }
            self.searched = self.buffer.len();
            if self.searched > LONGEST_LINE {
                return Next::TooLong(LONGEST_LINE);
            }
            let mut chunk = [0; 64 * 1024];
            match self.pipe.read(&mut chunk) {
                Ok(0) => return Next::End(!self.buffer.is_empty()),
                Ok(read) => self.buffer.extend_from_slice(&chunk[..read]),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Next::Nothing,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Next::Failed(e),
            }
        }
    }
}
