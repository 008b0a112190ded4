//! When a job must end before it ends by itself: an interrupt, its time, its memory, or the machine's.
//!
//! Who waits for a job looks here at every turn. A job that must end is first requested to (SIGTERM), because some have to
//! clean up behind themselves (a browser's profile, a port forwarded by adb), and killed when it has not ended within
//! [`GRACE`]. One that takes too much memory is killed at once.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, Instant};

use crate::base::figures::bytes;
use crate::base::lock;
use crate::device;
use crate::device::{Host, free_memory, whole_memory};
use crate::worker::{DOWNLOAD, Ended, Limits, TICK, family};

/// The time from the request to end to the kill. An interrupted run is gone within two seconds, the rest of its end
/// included.
pub(super) const GRACE: Duration = Duration::from_millis(1500);
/// How often all of a job's processes are measured, and not its leader alone. On kernels without lists of children this
/// reads the state of every process of the machine.
const WHOLE: Duration = Duration::from_millis(500);
/// The part of the memory that is left to the rest of the machine when a job has no limit of its own.
const RESERVE: f64 = 0.1;
/// The available part of the memory below which the largest job is ended, before the machine stands still.
const FLOOR: f64 = 0.05;
/// A job smaller than this part is not what fills the machine.
const WORTH: f64 = 0.05;
/// What a job that the kernel ended held is reported from so many bytes on: less was measured before it grew.
const REPORTED_FROM: u64 = 16 << 20;
/// What a job that was ended leaves takes a moment to be free again.
const RELIEF: Duration = Duration::from_secs(1);

/// What is to be done about a job.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    GoesOn,
    /// Returned once: it is to get SIGTERM.
    Terminate,
    /// Its time is over, [`Overseer::why`] says why.
    Kill,
}

pub(super) struct Overseer<'a> {
    limits: &'a Limits<'a>,
    start: Instant,
    /// The process whose memory is measured, once that is known.
    leader: Option<i32>,
    /// The beginning of the download that is under way.
    download: Option<Instant>,
    /// The time that downloads took which have ended.
    downloaded: Duration,
    next: Instant,
    next_whole: Instant,
    why: Option<(Ended, Instant)>,
    /// The kernel's count of kills for want of memory before this job can have been one of them.
    kernel_kills: Option<u64>,
}

impl<'a> Overseer<'a> {
    pub(super) fn new(limits: &'a Limits<'a>) -> Self {
        let start = Instant::now();
        Self {
            limits,
            start,
            leader: None,
            download: None,
            downloaded: Duration::ZERO,
            next: start + TICK,
            next_whole: start + WHOLE,
            why: None,
            kernel_kills: kernel_kills(),
        }
    }

    /// Whether the job has begun.
    pub(super) fn watches(&self) -> bool {
        self.leader.is_some()
    }

    /// The process whose memory, with all below it, is the job's.
    pub(super) fn watch(&mut self, leader: i32) {
        self.leader = Some(leader);
    }

    /// Notes that a download begins or ends. Its time counts against [`DOWNLOAD`] and not against the job's limit.
    pub(super) fn download(&mut self, begins: bool) {
        if let Some(began) = self.download.take() {
            self.downloaded += began.elapsed();
        }
        self.download = begins.then(Instant::now);
    }

    /// Nobody is to be measured any more: the number may be given away.
    pub(super) fn unwatch(&mut self) {
        if let Some(leader) = self.leader.take() {
            lock(&SIZES).remove(&leader);
        }
    }

    /// Cheap enough to be called at every turn; it looks once a tick.
    pub(super) fn look(&mut self) -> Verdict {
        let now = Instant::now();
        if now < self.next {
            return Verdict::GoesOn;
        }
        self.next = now + TICK;
        if let Some((_, kill_at)) = &self.why {
            return if now >= *kill_at {
                Verdict::Kill
            } else {
                Verdict::GoesOn
            };
        }
        if let Some(ended) = self.exceeded() {
            self.why = Some((ended, now + GRACE));
            return Verdict::Terminate;
        }
        if let Some(reason) = self
            .leader
            .and_then(|leader| self.too_much_memory(leader, now))
        {
            self.why = Some((Ended::OutOfMemory(reason), now));
            return Verdict::Kill;
        }
        Verdict::GoesOn
    }

    /// Why the job must end now, by its limits of time or an interrupt.
    fn exceeded(&self) -> Option<Ended> {
        let under_way = self
            .download
            .map_or(Duration::ZERO, |began| began.elapsed());
        let downloaded = self.downloaded + under_way;
        self.limits
            .exceeded(self.start + downloaded)
            .or_else(|| (downloaded >= DOWNLOAD).then_some(Ended::DownloadTimedOut))
    }

    /// Why the job was ended, if it was.
    pub(super) fn why(&mut self) -> Option<Ended> {
        self.why.take().map(|(ended, _)| ended)
    }

    /// How a job ended that gave no answer. What orch did itself is known by [`Overseer::why`].
    pub(super) fn death(&self, signal: Option<i32>, code: Option<i32>) -> Ended {
        // A shell passes on how its program ended by a code of its own.
        let is_killed = signal == Some(libc::SIGKILL) || code == Some(128 + libc::SIGKILL);
        if is_killed && self.kernel_kills.is_some() && kernel_kills() > self.kernel_kills {
            let held = self
                .last()
                .filter(|held| *held >= REPORTED_FROM)
                .map_or_else(String::new, |held| {
                    format!("; it held {} when it was last looked at", bytes(held))
                });
            return Ended::OutOfMemory(format!("the kernel's out-of-memory killer ended it{held}"));
        }
        Ended::Died { signal, code }
    }

    /// How a program ended whose exit code says how it went.
    pub(super) fn judge(&mut self, status: ExitStatus) -> Result<ExitStatus, Box<Ended>> {
        if let Some(why) = self.why() {
            return Err(Box::new(why));
        }
        match self.death(status.signal(), status.code()) {
            Ended::Died { .. } => Ok(status),
            other => Err(Box::new(other)),
        }
    }

    fn last(&self) -> Option<u64> {
        self.leader
            .and_then(|leader| lock(&SIZES).get(&leader).copied())
            .filter(|bytes| *bytes > 0)
    }

    fn too_much_memory(&mut self, leader: i32, now: Instant) -> Option<String> {
        let total = (*TOTAL)?;
        let most = self.limits.memory.unwrap_or(part(total, 1. - RESERVE));
        let mut held = family::held_bytes(leader)?;
        // Between looks at all of it, what stands below the leader is taken to be as large as it was.
        if now >= self.next_whole || self.last().is_some_and(|bytes| bytes > most / 2) {
            self.next_whole = now + WHOLE;
            held = family::family_bytes(leader)?;
        } else {
            held = held.max(self.last().unwrap_or(0));
        }
        lock(&SIZES).insert(leader, held);
        if held > most {
            // Shared pages were counted more than once.
            held = family::exact_bytes(leader).unwrap_or(held);
            lock(&SIZES).insert(leader, held);
            if held > most {
                let whose = if self.limits.memory.is_some() {
                    "its limit of"
                } else {
                    "what one job may use here,"
                };
                return Some(format!(
                    "it held {}, more than {whose} {}",
                    bytes(held),
                    bytes(most)
                ));
            }
        }
        if held >= part(total, WORTH) {
            self.fills_the_machine(leader, held)
        } else {
            None
        }
    }

    /// Why this job must go for the machine's sake: memory is nearly gone, and no other job holds more.
    fn fills_the_machine(&self, leader: i32, held: u64) -> Option<String> {
        static LAST_ENDED: Mutex<Option<Instant>> = Mutex::new(None);
        let total = (*TOTAL)?;
        let available = free_memory(&HOST)?;
        if available >= part(total, FLOOR)
            || lock(&SIZES)
                .iter()
                .any(|(other, size)| *other != leader && *size > held)
        {
            return None;
        }
        let mut last = lock(&LAST_ENDED);
        if last.is_some_and(|at| at.elapsed() < RELIEF) {
            return None;
        }
        *last = Some(Instant::now());
        let total = bytes(total);
        let available = bytes(available);
        let held = bytes(held);
        Some(format!(
            "only {available} of the machine's {total} were left, and it held {held}, the most of all jobs"
        ))
    }
}

impl Drop for Overseer<'_> {
    fn drop(&mut self) {
        self.unwatch();
    }
}

static HOST: LazyLock<Host> = LazyLock::new(Host::real);
static TOTAL: LazyLock<Option<u64>> = LazyLock::new(|| whole_memory(&HOST));
/// What each job that is watched held when it was last measured, by leader.
static SIZES: Mutex<BTreeMap<i32, u64>> = Mutex::new(BTreeMap::new());

/// The kernel's count of processes that it killed for want of memory; None where it keeps none.
fn kernel_kills() -> Option<u64> {
    device::kernel_oom_kills(&HOST)
}

fn part(bytes: u64, part: f64) -> u64 {
    (bytes as f64 * part) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::Cancel;

    #[test]
    fn downloads_have_a_limit_of_their_own() {
        let cancel = Cancel::default();
        let limits = Limits::of_time(Duration::from_secs(60), &cancel, "log".as_ref());
        let mut overseer = Overseer::new(&limits);
        overseer.downloaded = DOWNLOAD - Duration::from_secs(60);
        assert!(overseer.exceeded().is_none());
        overseer.downloaded = DOWNLOAD;
        assert!(matches!(overseer.exceeded(), Some(Ended::DownloadTimedOut)));
        // What ran out of its own time before is reported as that.
        overseer.start -= DOWNLOAD + Duration::from_secs(120);
        assert!(matches!(overseer.exceeded(), Some(Ended::TimedOut)));
    }
}
