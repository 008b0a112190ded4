//! Starting a child so that it, and whatever it starts, can be ended for certain.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::worker::guard;

/// Leaders of the process groups that are alive, so that a second interrupt can end them all at once.
static GROUPS: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

/// A child that leads its own process group; dropping it ends the group.
pub(super) struct Group {
    child: Child,
    done: bool,
}

impl Group {
    /// Starts `command` with stdout and stderr going to the file `log`.
    pub(super) fn spawn(command: &mut Command, log: &Path) -> io::Result<Self> {
        if let Some(dir) = log.parent() {
            std::fs::create_dir_all(dir)?;
        }
        let log = File::options().create(true).append(true).open(log)?;
        command.stdout(log.try_clone()?).stderr(log).process_group(0);
        let guard = guard::socket()?;
        #[cfg(target_os = "linux")]
        let parent = std::process::id() as i32;
        // SAFETY: between fork and exec only async-signal-safe calls are made: prctl, getppid, _exit, getpid, send.
        unsafe {
            command.pre_exec(move || {
                #[cfg(target_os = "linux")]
                {
                    libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                    // The parent may have died before the line above.
                    if libc::getppid() != parent {
                        libc::_exit(1);
                    }
                }
                // It tells its own number, so that no moment is left in which it runs and is not known.
                guard::tell(guard, libc::getpid());
                Ok(())
            });
        }
        let child = command.spawn()?;
        groups().insert(child.id() as i32);
        Ok(Self { child, done: false })
    }

    pub(super) fn stdin(&mut self) -> Option<std::process::ChildStdin> {
        self.child.stdin.take()
    }

    pub(super) fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        let status = self.child.try_wait()?;
        if status.is_some() {
            self.end();
        }
        Ok(status)
    }

    /// Waits for the child to end by itself for at most `patience`, then ends the group.
    pub(super) fn finish(&mut self, patience: Duration) -> io::Result<ExitStatus> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.try_wait()? {
                return Ok(status);
            }
            if start.elapsed() > patience {
                self.kill();
                let status = self.child.wait()?;
                self.end();
                return Ok(status);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    pub(super) fn kill(&self) {
        kill_group(self.child.id() as i32);
    }

    /// Ends what the child left behind in its group. The leader's zombie held the number until now.
    fn end(&mut self) {
        if !self.done {
            self.done = true;
            let leader = self.child.id() as i32;
            kill_group(leader);
            groups().remove(&leader);
            if let Ok(guard) = guard::socket() {
                guard::tell(guard, -leader);
            }
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.done {
            self.kill();
            let _ = self.child.wait();
            self.end();
        }
    }
}

fn groups() -> std::sync::MutexGuard<'static, BTreeSet<i32>> {
    GROUPS.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn kill_group(leader: i32) {
    // SAFETY: kill takes no pointers; a group that is gone is an error that does not matter.
    unsafe { libc::kill(-leader, libc::SIGKILL) };
}

/// Ends every child of this process and all of their groups, at once.
pub fn kill_all() {
    for leader in groups().iter() {
        kill_group(*leader);
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
    let all: Vec<_> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}
