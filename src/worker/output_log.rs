//! What a program says: a pipe that becomes a log file with the first byte, so that silence costs no file.
//!
//! A log has a bound: of a longer one the beginning and the end are kept, and between them stands how much is missing.
//! Who says more is slowed down to what is read here and never fills the disk.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::io::ioctl_fionread;

use crate::base::fs as bfs;
use crate::worker::Ended;
use crate::worker::process::open_log;
use crate::worker::redact::Redact;

/// So many bytes of the beginning are kept, and written at once.
const HEAD: u64 = 8 << 20;
/// So many of the end, written when it is known.
const TAIL: usize = 2 << 20;

pub(super) struct OutputLog<'a> {
    pipe: Ear,
    /// The path at which the pipe can be opened.
    name: Option<PathBuf>,
    log: &'a Path,
    kept: Kept,
    /// Why the log could not be written. The program is heard out all the same: it must not block.
    problem: Option<io::Error>,
    redact: Redact,
}

/// What was taken in.
#[derive(Default)]
struct Kept {
    file: Option<File>,
    written: u64,
    tail: VecDeque<u8>,
    /// Bytes that fell out between beginning and end.
    missing: u64,
}

/// The pipe of a program. That of one which does several jobs is kept, and its output job by job.
pub(super) struct Ear {
    reader: PipeReader,
    /// Kept open, so that the reader never reports an end: the end of a program is noticed by other means.
    writer: PipeWriter,
}

impl Ear {
    pub(super) fn new() -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        Ok(Self { reader, writer })
    }

    /// What the program writes to.
    pub(super) fn output(&self) -> BorrowedFd<'_> {
        self.writer.as_fd()
    }

    /// What it says from now on goes to `log`.
    pub(super) fn hear<'a>(&self, log: &'a Path) -> io::Result<OutputLog<'a>> {
        Ok(OutputLog::of(
            Self {
                reader: self.reader.try_clone()?,
                writer: self.writer.try_clone()?,
            },
            log,
            None,
        ))
    }
}

impl<'a> OutputLog<'a> {
    pub(super) fn new(log: &'a Path) -> io::Result<Self> {
        Ok(Self::of(Ear::new()?, log, None))
    }

    /// Opens a pipe that has a name, for a program that is not started from here. The name is gone after
    /// [`OutputLog::forget_name`], or with this.
    pub(super) fn named(log: &'a Path) -> io::Result<Self> {
        // Other orchs make theirs in the same folder, and one that was killed left its own.
        let made = tempfile::Builder::new()
            .prefix("orch-")
            .suffix(".pipe")
            .make(make_pipe)?;
        let name = made.into_temp_path().keep().map_err(|e| e.error)?;
        // To open one end alone waits for the other one, or is refused.
        let reader = File::options()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(&name)?;
        let writer = File::options().write(true).open(&name)?;
        let reader = OwnedFd::from(reader).into();
        let writer = OwnedFd::from(writer).into();
        Ok(Self::of(Ear { reader, writer }, log, Some(name)))
    }

    fn of(pipe: Ear, log: &'a Path, name: Option<PathBuf>) -> Self {
        Self {
            pipe,
            name,
            log,
            kept: Kept::default(),
            problem: None,
            redact: Redact::default(),
        }
    }

    /// These values are kept out of the log.
    pub(super) fn without(mut self, redact: Redact) -> Self {
        self.redact = redact;
        self
    }

    /// What the program writes to.
    pub(super) fn output(&self) -> BorrowedFd<'_> {
        self.pipe.output()
    }

    pub(super) fn name(&self) -> Option<&Path> {
        self.name.as_deref()
    }

    /// Whoever was to open the pipe has done so.
    pub(super) fn forget_name(&mut self) {
        if let Some(name) = self.name.take() {
            let _ = bfs::remove_file(name);
        }
    }

    /// Readable when there is output.
    pub(super) fn fd(&self) -> RawFd {
        self.pipe.reader.as_raw_fd()
    }

    /// Reads the output; blocks if there is none yet.
    pub(super) fn take_in(&mut self) {
        let mut bytes = [0; 64 * 1024];
        let result = self.pipe.reader.read(&mut bytes).and_then(|read| {
            let passed = self.redact.pass(&bytes[..read]);
            self.kept.take(&passed, self.log)
        });
        if let Err(e) = result
            && !matches!(
                e.kind(),
                io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock
            )
        {
            self.problem.get_or_insert(e);
        }
    }

    /// Takes in all that is left, once nobody speaks any more. One who escaped and speaks on is not listened to for ever.
    pub(super) fn finish(mut self) -> io::Result<()> {
        let mut patience = 64;
        while patience > 0 && ioctl_fionread(&self.pipe.reader)? > 0 {
            self.take_in();
            patience -= 1;
        }
        let rest = self.redact.rest();
        if let Err(e) = self.kept.take(&rest, self.log) {
            self.problem.get_or_insert(e);
        }
        match self.problem.take() {
            Some(e) => Err(e),
            None => self.kept.end_with_tail(self.log),
        }
    }

    /// How a job ended, once all its output is kept.
    pub(super) fn end(self, ended: Ended) -> Ended {
        let log = self.log;
        match (ended, self.finish()) {
            (Ended::Answered(_), Err(e)) => {
                Ended::Broken(format!("failed to write the log {}: {e}", log.display()))
            }
            (ended @ Ended::Answered(_), Ok(())) => ended,
            (ended, _) => ended.with_last_words(log),
        }
    }
}

impl Kept {
    fn take(&mut self, bytes: &[u8], log: &Path) -> io::Result<()> {
        let room = HEAD.saturating_sub(self.written).min(bytes.len() as u64) as usize;
        let (head, rest) = bytes.split_at(room);
        self.written += room as u64;
        self.tail.extend(rest);
        let surplus = self.tail.len().saturating_sub(TAIL);
        self.tail.drain(..surplus);
        self.missing += surplus as u64;
        if head.is_empty() {
            Ok(())
        } else {
            self.file(log)?.write_all(head)
        }
    }

    fn file(&mut self, log: &Path) -> io::Result<&mut File> {
        if self.file.is_none() {
            self.file = Some(open_log(log)?);
        }
        Ok(self.file.as_mut().expect("BUG: it was opened above"))
    }

    fn end_with_tail(&mut self, log: &Path) -> io::Result<()> {
        let missing = self.missing;
        let mut tail = std::mem::take(&mut self.tail);
        if tail.is_empty() {
            return Ok(());
        }
        let file = self.file(log)?;
        if missing > 0 {
            writeln!(
                file,
                "\n[orch: {missing} bytes of the output are left out here]"
            )?;
        }
        file.write_all(tail.make_contiguous())
    }
}

impl Drop for OutputLog<'_> {
    fn drop(&mut self) {
        self.forget_name();
    }
}

fn make_pipe(name: &Path) -> io::Result<()> {
    let name = std::ffi::CString::new(std::os::unix::ffi::OsStrExt::as_bytes(name.as_os_str()))?;
    // SAFETY: a string that ends with zero, for the length of the call.
    if unsafe { libc::mkfifo(name.as_ptr(), 0o600) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_leaves_no_file_and_speech_is_kept_whole() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("logs/one.log");
        OutputLog::new(&log).unwrap().finish().unwrap();
        assert!(!log.parent().unwrap().exists());
        let mut output_log = OutputLog::new(&log).unwrap();
        output_log.pipe.writer.write_all(b"first ").unwrap();
        output_log.take_in();
        assert_eq!(std::fs::read(&log).unwrap(), b"first ");
        output_log.pipe.writer.write_all(b"last").unwrap();
        output_log.finish().unwrap();
        assert_eq!(std::fs::read(&log).unwrap(), b"first last");
    }

    #[test]
    fn of_a_flood_the_beginning_and_the_end_are_kept_and_the_rest_is_counted() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let mut output_log = OutputLog::new(&log).unwrap();
        let mut all = b"begin".to_vec();
        all.resize(HEAD as usize + TAIL + 1000, b'x');
        all.extend(b"end");
        for piece in all.chunks(60_000) {
            output_log.pipe.writer.write_all(piece).unwrap();
            output_log.take_in();
        }
        output_log.finish().unwrap();
        let kept = std::fs::read(&log).unwrap();
        let note = b"\n[orch: 1003 bytes of the output are left out here]\n";
        assert_eq!(kept.len(), HEAD as usize + note.len() + TAIL);
        assert!(kept.starts_with(b"begin") && kept.ends_with(b"end"));
        assert_eq!(&kept[HEAD as usize..][..note.len()], note);
    }

    #[test]
    fn a_pipe_with_a_name_can_be_opened_by_another_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let mut output_log = OutputLog::named(&log).unwrap();
        std::fs::write(output_log.name().unwrap(), "by name").unwrap();
        output_log.take_in();
        drop(output_log);
        assert_eq!(std::fs::read(&log).unwrap(), b"by name");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_log_that_cannot_be_written_is_reported_and_blocks_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let output_log = OutputLog::new(dir.path()).unwrap();
        (&output_log.pipe.writer).write_all(b"x").unwrap();
        assert!(output_log.finish().is_err());
    }
}
