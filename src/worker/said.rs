//! What a program says: a pipe that becomes a log file with the first byte, so that silence costs no file.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::path::Path;

/// The output of one program.
pub(super) struct Said<'a> {
    reader: PipeReader,
    /// Kept open, so that the reader never reports an end: that a program ended is told by other means.
    writer: PipeWriter,
    log: &'a Path,
    file: Option<File>,
    /// Why the log could not be written. The program is heard out all the same: it must not block.
    problem: Option<io::Error>,
}

impl<'a> Said<'a> {
    pub(super) fn new(log: &'a Path) -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        Ok(Self { reader, writer, log, file: None, problem: None })
    }

    /// What the program writes to.
    pub(super) fn output(&self) -> BorrowedFd<'_> {
        self.writer.as_fd()
    }

    /// Readable when something was said.
    pub(super) fn fd(&self) -> RawFd {
        self.reader.as_raw_fd()
    }

    /// Takes in what was said; call it only when there is something, or it waits.
    pub(super) fn take_in(&mut self) {
        let mut bytes = [0; 64 * 1024];
        let result = self.reader.read(&mut bytes).and_then(|read| self.file()?.write_all(&bytes[..read]));
        if let Err(e) = result
            && e.kind() != io::ErrorKind::Interrupted
        {
            self.problem.get_or_insert(e);
        }
    }

    fn file(&mut self) -> io::Result<&mut File> {
        if self.file.is_none() {
            if let Some(folder) = self.log.parent() {
                std::fs::create_dir_all(folder)?;
            }
            self.file = Some(File::options().create(true).append(true).open(self.log)?);
        }
        Ok(self.file.as_mut().expect("BUG: it was opened above"))
    }

    /// Takes in all that is left, once nobody speaks any more.
    pub(super) fn finish(mut self) -> io::Result<()> {
        while self.waiting()? > 0 {
            self.take_in();
        }
        self.problem.map_or(Ok(()), Err)
    }

    fn waiting(&self) -> io::Result<i32> {
        let mut bytes: libc::c_int = 0;
        // SAFETY: the pointer is valid for the length of the call.
        if unsafe { libc::ioctl(self.fd(), libc::FIONREAD, &raw mut bytes) } == 0 {
            Ok(bytes)
        } else {
            Err(io::Error::last_os_error())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_leaves_no_file_and_speech_is_kept_whole() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("logs/one.log");
        Said::new(&log).unwrap().finish().unwrap();
        assert!(!log.parent().unwrap().exists());
        let mut said = Said::new(&log).unwrap();
        said.writer.write_all(b"first ").unwrap();
        said.take_in();
        assert_eq!(std::fs::read(&log).unwrap(), b"first ");
        said.writer.write_all(b"last").unwrap();
        said.finish().unwrap();
        assert_eq!(std::fs::read(&log).unwrap(), b"first last");
    }

    #[test]
    fn a_log_that_cannot_be_written_is_said_and_blocks_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let said = Said::new(dir.path()).unwrap();
        (&said.writer).write_all(b"x").unwrap();
        assert!(said.finish().is_err());
    }
}
