//! A child and whatever it starts, waited for and ended for certain: its group, what left the group while it lived, and
//! what it left behind when it ended.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{ChildStdin, Command, ExitStatus};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use crate::base::process::{die_with, own_peak, peak_of};
use crate::base::text::printable;
use crate::confine::Confinement;
use crate::worker::family;
use crate::worker::guard::{self, Slot};

/// A child that leads its own process group; dropping it ends the group and all below the child.
pub(super) struct Group {
    leader: i32,
    /// Readable once the leader has ended. Systems without such a descriptor are polled.
    pidfd: Option<OwnedFd>,
    stdin: Option<ChildStdin>,
    slot: Option<Slot>,
    /// How the leader ended, once it is waited for. Its number may belong to somebody else from then on.
    status: Option<ExitStatus>,
    peak_rss_bytes: Option<u64>,
    /// No process is left outside the group; any that was has been ended.
    swept: bool,
}

impl Group {
    /// Starts `command`, whose streams are set, held to `confinement`.
    pub(super) fn spawn(
        command: &mut Command,
        confinement: Option<Confinement>,
    ) -> io::Result<Self> {
        let slot = Slot::take()?;
        let place = slot.place();
        command.process_group(0).env(guard::MARK, guard::mark());
        let parent = std::process::id();
        // SAFETY: between fork and exec only async-signal-safe calls are made: prctl, getppid, _exit, getpid, and what restricts a process.
        unsafe {
            command.pre_exec(move || {
                #[cfg(target_os = "linux")]
                libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
                die_with(parent);
                place.store(libc::getpid(), Ordering::SeqCst);
                confinement.as_ref().map_or(Ok(()), Confinement::enter)
            });
        }
        let mut child = {
            let _changing = family::changing();
            command.spawn()?
        };
        let leader = child.id() as i32;
        let mut group = Self::of(leader, pidfd_of(leader), slot);
        group.stdin = child.stdin.take();
        Ok(group)
    }

    /// Takes over a child that leads a group and stands in `slot`.
    pub(super) fn of(leader: i32, pidfd: Option<OwnedFd>, slot: Slot) -> Self {
        Self {
            leader,
            pidfd,
            stdin: None,
            slot: Some(slot),
            status: None,
            swept: false,
            peak_rss_bytes: None,
        }
    }

    pub(super) fn leader(&self) -> i32 {
        self.leader
    }

    /// Sends the group SIGTERM, so that it ends by itself.
    pub(super) fn terminate(&self) {
        if self.status.is_none() {
            // SAFETY: takes no pointers; the leader is not reaped, so the number is its own.
            unsafe { libc::kill(-self.leader, libc::SIGTERM) };
        }
    }

    /// Ends the processes that had left the group and outlived the leader, and gives their names. Of jobs that end at the
    /// same moment, one may get the names of those that another one left.
    pub(super) fn sweep(&mut self) -> Vec<String> {
        self.swept = true;
        guard::sweep()
    }

    /// Whether nobody is left of it, in the group or elsewhere. To be called by the thread that has started it. False may
    /// only mean that this cannot be known.
    pub(super) fn is_over(&self) -> bool {
        self.status.is_some() && guard::knows_all()
    }

    /// It is known by other means that nobody is left.
    pub(super) fn nobody_is_left(&mut self) {
        self.swept = true;
    }

    pub(super) fn stdin(&mut self) -> Option<ChildStdin> {
        self.stdin.take()
    }

    /// A descriptor that is readable once the leader has ended, where there is one.
    pub(super) fn pidfd(&self) -> Option<RawFd> {
        self.pidfd.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// How the leader ended, if it ends within `patience`. What it left behind in its group is ended then.
    pub(super) fn wait(&mut self, patience: Duration) -> io::Result<Option<ExitStatus>> {
        if self.status.is_some() {
            return Ok(self.status);
        }
        let start = Instant::now();
        let mut nap = Duration::from_micros(200);
        while !self.has_ended()? {
            let left = patience.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Ok(None);
            }
            match self.pidfd() {
                Some(pidfd) => poll(&mut [readable(pidfd)], left)?,
                None => {
                    std::thread::sleep(nap.min(left));
                    nap = (nap * 2).min(Duration::from_millis(10));
                }
            }
        }
        self.reap_leader().map(Some)
    }

    /// Waits for the child to end by itself for at most `patience`, then ends the group.
    pub(super) fn finish(&mut self, patience: Duration) -> io::Result<ExitStatus> {
        match self.wait(patience)? {
            Some(status) => Ok(status),
            None => self.reap(),
        }
    }

    /// The most that the largest of its processes held, bytes, of those that it waited for; known when it has ended.
    ///
    /// None where it is not above orch's own: the kernel counts a child's memory from before it executed its program,
    /// when it was orch's.
    pub(super) fn peak_rss_bytes(&self) -> Option<u64> {
        self.peak_rss_bytes
    }

    /// Whether nobody is left in the group. A dying process counts as left.
    pub(super) fn is_empty(&self) -> bool {
        // SAFETY: kill takes no pointers, and signal 0 only asks.
        self.status.is_some() && unsafe { libc::kill(-self.leader, 0) } != 0
    }

    fn kill(&self) {
        // SAFETY: kill takes no pointers; a group that is gone is an error that does not matter.
        unsafe { libc::kill(-self.leader, libc::SIGKILL) };
    }

    /// Read without reaping: until it is reaped, the zombie keeps its number from being given to another group.
    fn has_ended(&self) -> io::Result<bool> {
        if let Some(pidfd) = self.pidfd() {
            let mut one = [readable(pidfd)];
            poll(&mut one, Duration::ZERO)?;
            return Ok(one[0].revents != 0);
        }
        let leader = Pid::from_raw(self.leader).expect("BUG: a child has a number");
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        Ok(waitid(WaitId::Pid(leader), options)?.is_some())
    }

    /// Ends all that the leader started, then waits for the leader, which has ended or is ended by this.
    fn reap(&mut self) -> io::Result<ExitStatus> {
        if !self.has_ended().unwrap_or(true) {
            family::end_below(self.leader);
        }
        self.reap_leader()
    }

    fn reap_leader(&mut self) -> io::Result<ExitStatus> {
        let _changing = family::changing();
        self.kill();
        // From here on the number may be given away, so nothing may know it any more.
        self.slot = None;
        let mut status = 0;
        loop {
            // SAFETY: an all-zero rusage is valid.
            let mut usage = unsafe { std::mem::zeroed() };
            // SAFETY: the pointers are valid for the length of the call.
            if unsafe { libc::wait4(self.leader, &mut status, 0, &mut usage) } == self.leader {
                let peak = peak_of(&usage);
                self.peak_rss_bytes = own_peak().is_some_and(|own| peak > own).then_some(peak);
                return Ok(*self.status.insert(ExitStatus::from_raw(status)));
            }
            let e = io::Error::last_os_error();
            if e.kind() != io::ErrorKind::Interrupted {
                return Err(e);
            }
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.status.is_none() {
            let _ = self.reap();
        }
        if !self.swept {
            self.sweep();
        }
    }
}

#[cfg(target_os = "linux")]
pub(super) fn pidfd_of(pid: i32) -> Option<OwnedFd> {
    use rustix::process::{PidfdFlags, pidfd_open};
    pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()
}

#[cfg(not(target_os = "linux"))]
pub(super) fn pidfd_of(_pid: i32) -> Option<OwnedFd> {
    None
}

/// Has stdout and stderr of `command` go to `output`.
pub(super) fn speak_to(command: &mut Command, output: BorrowedFd<'_>) -> io::Result<()> {
    command
        .stdout(output.try_clone_to_owned()?)
        .stderr(output.try_clone_to_owned()?);
    Ok(())
}

/// Opens a log to add to it, in a folder that may not be there yet.
pub(super) fn open_log(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    File::options().create(true).append(true).open(path)
}

/// A request to [`poll`]: something to be read, or the other end closed.
pub(super) fn readable(fd: RawFd) -> libc::pollfd {
    libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    }
}

/// Waits until one of `fds` has something to say. A signal counts as nothing to read.
pub(super) fn poll(fds: &mut [libc::pollfd], patience: Duration) -> io::Result<()> {
    let millis = patience.as_micros().div_ceil(1000).min(i32::MAX as u128) as i32;
    // SAFETY: the slice is valid for the length of the call.
    if unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, millis) } >= 0 {
        return Ok(());
    }
    let e = io::Error::last_os_error();
    if e.kind() == io::ErrorKind::Interrupted {
        Ok(())
    } else {
        Err(e)
    }
}

/// The last lines of a log.
pub fn tail(path: &Path, lines: usize) -> String {
    const WINDOW: u64 = 64 * 1024;
    let read = || -> io::Result<String> {
        let mut file = File::open(path)?;
        let size = file.metadata()?.len();
        file.seek(SeekFrom::Start(size.saturating_sub(WINDOW)))?;
        let mut bytes = Vec::new();
        file.take(WINDOW).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let text = read().unwrap_or_default();
    // Of a line that was written over, as bars of progress are, what a terminal would show at the end.
    let over = |line: &str| {
        line.trim_end_matches('\r')
            .rsplit('\r')
            .next()
            .map(|last| printable(last).into_owned())
    };
    let all: Vec<_> = text.lines().filter_map(over).collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::base::process::Stat;
    use crate::worker::testing::eventually;

    #[test]
    fn a_job_is_over_when_whoever_left_its_group_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("pid");
        let mut command = Command::new("sh");
        let script = "(setsid sh -c 'echo $$ > $FILE; sleep 100' &); while [ ! -s $FILE ]; do sleep 0.01; done";
        command.args(["-c", script]).env("FILE", &file);
        let mut group = Group::spawn(&mut command, None).unwrap();
        assert!(!group.is_over());
        group.finish(Duration::from_secs(30)).unwrap();
        let pid: i32 = std::fs::read_to_string(&file)
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        // What other tests leave at this moment may keep it from being known, and they may end what this one has left.
        eventually("it is known", || {
            group.is_over() || {
                group.sweep();
                false
            }
        });
        assert!(Stat::of(pid).is_none());
    }
}
