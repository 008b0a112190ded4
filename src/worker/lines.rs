//! Lines of a pipe, taken as they come and never waited for.

use std::io::{self, BufRead, BufReader, PipeReader, Read};
use std::os::fd::{AsRawFd, RawFd};

/// A longer line is junk: the largest answers hold some thousand samples.
const LONGEST_LINE: usize = 16 << 20;

pub(super) enum Next {
    Line(Vec<u8>),
    /// Nothing more has come yet.
    Nothing,
    /// The other end is closed; true if it wrote half a line before.
    End(bool),
    /// Longer than so many bytes.
    TooLong(usize),
    Failed(io::Error),
}

pub(super) struct Lines {
    pipe: BufReader<PipeReader>,
    /// The beginning of a line whose end has not come yet.
    half: Vec<u8>,
}

impl Lines {
    pub(super) fn new(pipe: PipeReader) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&pipe, true)?;
        Ok(Self {
            pipe: BufReader::with_capacity(64 * 1024, pipe),
            half: Vec::new(),
        })
    }

    /// Readable when something has come.
    pub(super) fn fd(&self) -> RawFd {
        self.pipe.get_ref().as_raw_fd()
    }

    /// Whether the beginning of a line has come, and not its end.
    pub(super) fn has_half(&self) -> bool {
        !self.half.is_empty()
    }

    pub(super) fn next(&mut self) -> Next {
        let room = LONGEST_LINE + 1 - self.half.len();
        match self
            .pipe
            .by_ref()
            .take(room as u64)
            .read_until(b'\n', &mut self.half)
        {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Next::Nothing,
            Err(e) => Next::Failed(e),
            Ok(_) if self.half.pop_if(|last| *last == b'\n').is_some() => {
                Next::Line(std::mem::take(&mut self.half))
            }
            Ok(_) if self.half.len() > LONGEST_LINE => Next::TooLong(LONGEST_LINE),
            Ok(_) => Next::End(self.has_half()),
        }
    }
}
