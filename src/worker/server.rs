//! A long-lived Python server: imports its packages once, forks for each job.

#[cfg(target_os = "linux")]
use std::collections::BTreeMap;
use std::collections::HashMap;
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::process::{ChildStdin, Command};
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::base::figures::bytes;
use crate::base::lock;
use crate::runtime::{Job, Reply};
use crate::worker::lines::{Lines, Next};
use crate::worker::oneshot::spawn_with_result_pipe;
use crate::worker::output_log::OutputLog;
use crate::worker::oversee::{GRACE, Overseer, Verdict};
use crate::worker::process::{Group, open_log, poll, readable};
#[cfg(target_os = "linux")]
use crate::worker::resident::{self, Call, Place, Resident};
use crate::worker::{Ended, Limits, TICK, family};

/// How long a server may take to report that a job which it had to end is gone.
const CLEARING: Duration = Duration::from_secs(5);
/// A server that has forked so often gives way to a fresh one: by then the import is nothing beside the jobs.
const MOST_JOBS: u32 = 500;
/// And one that has grown by so much, bytes. It does no work itself, so it should not grow at all.
const MOST_GROWTH: u64 = 512 << 20;

/// Jobs are sent from any thread; each waits for its own replies.
pub struct Server {
    shared: Arc<Shared>,
    is_resident: bool,
    jobs: AtomicU32,
    /// Bytes that it held when it was first looked at after a job.
    first_held: Mutex<Option<u64>>,
}

struct Shared {
    /// 0 until it is known.
    pid: AtomicI32,
    stdin: Mutex<Option<ChildStdin>>,
    waiting: Mutex<HashMap<u32, Waker>>,
    /// How the server ended, once it has.
    ended: Mutex<Option<String>>,
}

/// How the listener reaches a job's thread, which waits on descriptors.
struct Waker {
    replies: Sender<Reply>,
    wake: PipeWriter,
}

impl Server {
    /// Starts `command` as a server. `preload` is imported before the first fork.
    ///
    /// The calling thread must outlive the server: the kernel ends the child with the thread that started it.
    pub fn start(mut command: Command, preload: &[&str], log: &Path) -> std::io::Result<Self> {
        let (lines, mut group) =
            spawn_with_result_pipe(&mut command, open_log(log)?.as_fd(), None)?;
        let mut stdin = group.stdin().expect("BUG: stdin is piped");
        writeln!(stdin, "{}", json!({"preload": preload}))?;
        Self::of(stdin, lines, Process::Own(group))
    }

    /// Has the daemon fork a server, as `command` would start it. None where no daemon runs; an error says why the daemon
    /// serves nobody like this process.
    #[cfg(target_os = "linux")]
    pub fn call(
        place: &Place,
        command: &Command,
        preload: &[&str],
        installations: &[String],
        log: &Path,
    ) -> anyhow::Result<Option<Self>> {
        let called = resident::call(
            place,
            &Call {
                command,
                preload,
                installations,
                log: &open_log(log)?,
            },
        )?;
        let Some(called) = called else {
            return Ok(None);
        };
        let lines = Lines::new(called.answers)?;
        let process = Process::Resident(called.resident, BTreeMap::new());
        Ok(Some(Self::of(called.orders, lines, process)?))
    }

    fn of(stdin: ChildStdin, lines: Lines, process: Process) -> std::io::Result<Self> {
        let is_resident = process.is_resident();
        let shared = Arc::new(Shared {
            pid: AtomicI32::new(process.pid().unwrap_or(0)),
            stdin: Mutex::new(Some(stdin)),
            waiting: Mutex::default(),
            ended: Mutex::default(),
        });
        let listener = shared.clone();
        std::thread::Builder::new()
            .name("python-server".into())
            .spawn(move || listener.listen(lines, process))?;
        Ok(Self {
            shared,
            is_resident,
            jobs: AtomicU32::new(0),
            first_held: Mutex::default(),
        })
    }

    /// Whether it was forked by the daemon.
    pub fn is_resident(&self) -> bool {
        self.is_resident
    }

    fn pid(&self) -> i32 {
        self.shared.pid.load(Ordering::Relaxed)
    }

    /// Why a fresh one should take over, if it should: it has ended, has done many jobs, or has grown. The jobs that it has
    /// are done by it; dropped after the last of them, it ends.
    pub fn why_replace(&self) -> Option<String> {
        if let Some(Ended::ServerDied(why)) = self.shared.why_ended() {
            return Some(why);
        }
        let jobs = self.jobs.load(Ordering::Relaxed);
        if jobs >= MOST_JOBS {
            return Some(format!("process {} has done {jobs} jobs", self.pid()));
        }
        let held = if jobs > 0 {
            family::held_bytes(self.pid())
        } else {
            None
        }?;
        let first = *lock(&self.first_held).get_or_insert(held);
        let [from, to] = [first, held].map(bytes);
        (held > first + MOST_GROWTH).then(|| {
            format!(
                "process {} grew from {from} to {to} in {jobs} jobs",
                self.pid()
            )
        })
    }

    /// Sends a job and waits until it ended.
    pub fn run(&self, job: &Job, limits: &Limits<'_>) -> Ended {
        self.jobs.fetch_add(1, Ordering::Relaxed);
        let (output_log, (wakened, wake)) = match (OutputLog::named(limits.log), std::io::pipe()) {
            (Ok(output_log), Ok(wake)) => (output_log, wake),
            (Err(e), _) | (_, Err(e)) => {
                return Ended::Broken(format!("failed to make a pipe: {e}"));
            }
        };
        let (replies, receiver) = channel();
        lock(&self.shared.waiting).insert(job.id, Waker { replies, wake });
        let mut order = job.clone();
        order.log = output_log.name().map(Path::to_owned);
        let order = serde_json::to_value(order).expect("BUG: a job serialises");
        let mut waiting = Waiting {
            id: job.id,
            receiver,
            wakened,
            output_log,
            overseer: Overseer::new(limits),
            clear_by: None,
        };
        let ended = match self.shared.send(&order) {
            Ok(()) => waiting.wait(&self.shared, limits),
            Err(e) => self.shared.why_ended().unwrap_or_else(|| {
                Ended::ServerDied(format!("failed to send a job to the Python server: {e}"))
            }),
        };
        lock(&self.shared.waiting).remove(&job.id);
        waiting.output_log.end(ended)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // End of input ends the server and its jobs.
        lock(&self.shared.stdin).take();
    }
}

/// A job that the server has.
struct Waiting<'a> {
    id: u32,
    receiver: Receiver<Reply>,
    wakened: PipeReader,
    output_log: OutputLog<'a>,
    overseer: Overseer<'a>,
    /// The moment when the server must have reported that a job which it had to end is gone.
    clear_by: Option<Instant>,
}

impl Waiting<'_> {
    fn wait(&mut self, server: &Shared, limits: &Limits<'_>) -> Ended {
        loop {
            let mut fds = [self.wakened.as_raw_fd(), self.output_log.fd()].map(readable);
            if let Err(e) = poll(&mut fds, TICK) {
                return Ended::Broken(format!("failed to wait for the Python server: {e}"));
            }
            if fds[1].revents != 0 {
                self.output_log.take_in();
            }
            if fds[0].revents & libc::POLLIN != 0 {
                let _ = self.wakened.read(&mut [0; 64]);
            }
            if let Some(ended) = self.hear(server, limits) {
                return self.overseer.why().unwrap_or(ended);
            }
            if self.clear_by.is_some_and(|by| Instant::now() >= by) {
                return self
                    .overseer
                    .why()
                    .expect("BUG: a job is cleared for no reason");
            }
            // The server asks it to end, and kills it after the grace; what is left to do here is to wait for its word.
            let grace = match self.overseer.look() {
                Verdict::Terminate => GRACE,
                Verdict::Kill if self.clear_by.is_none() => Duration::ZERO,
                Verdict::Kill | Verdict::GoesOn => continue,
            };
            let _ = server.send(&json!({"cancel": self.id, "grace": grace.as_secs_f64()}));
            // A server that still imports hears nothing for seconds. It ends with the run, and the job has not begun.
            if limits.cancel.is_cancelled() && !self.overseer.watches() {
                return self
                    .overseer
                    .why()
                    .expect("BUG: a job is given up for no reason");
            }
            self.clear_by = Some(Instant::now() + grace + CLEARING);
        }
    }

    fn hear(&mut self, server: &Shared, limits: &Limits<'_>) -> Option<Ended> {
        loop {
            match self.receiver.try_recv() {
                Ok(Reply::Progress { text, .. }) => (limits.progress)(&text),
                Ok(Reply::Started { pid, .. }) => {
                    self.output_log.forget_name();
                    self.overseer.watch(pid);
                }
                Ok(Reply::Download { begins, .. }) => self.overseer.download(begins),
                Ok(Reply::Result { output, .. }) => return Some(Ended::Answered(output)),
                Ok(Reply::Died { signal, code, .. }) => {
                    return Some(self.overseer.death(signal, code));
                }
                Err(TryRecvError::Empty) => return None,
                Err(TryRecvError::Disconnected) => {
                    return Some(
                        server
                            .why_ended()
                            .unwrap_or(Ended::ServerDied("the Python server ended".into())),
                    );
                }
            }
        }
    }
}

impl Shared {
    fn send(&self, line: &serde_json::Value) -> std::io::Result<()> {
        let mut stdin = lock(&self.stdin);
        match stdin.as_mut() {
            Some(pipe) => writeln!(pipe, "{line}"),
            None => Err(std::io::Error::other("it was closed")),
        }
    }

    fn why_ended(&self) -> Option<Ended> {
        lock(&self.ended).clone().map(Ended::ServerDied)
    }

    /// Hands each reply to the job that waits for it, until the server ends.
    fn listen(&self, mut lines: Lines, mut process: Process) {
        let why = loop {
            match lines.next() {
                Next::Line(bytes) => match serde_json::from_slice::<Reply>(&bytes) {
                    Ok(reply) => {
                        process.note(&reply);
                        self.pass_on(reply);
                    }
                    Err(e) => {
                        break format!(
                            "the Python server wrote invalid data to its result descriptor: {e}"
                        );
                    }
                },
                Next::Nothing => {
                    // Its end is looked for as well: something that it started may hold the descriptor open.
                    let mut fds = [lines.fd(), process.fd()].map(readable);
                    let _ = poll(&mut fds, Duration::from_secs(1));
                    if fds[0].revents == 0 && process.has_ended() {
                        break "the Python server ended".to_owned();
                    }
                    if let Some(pid) = process.pid() {
                        self.pid.store(pid, Ordering::Relaxed);
                    }
                }
                Next::End(_) => break "the Python server ended".to_owned(),
                Next::TooLong(_) => break "the Python server's answer is too long".to_owned(),
                Next::Failed(e) => break format!("failed to read from the Python server: {e}"),
            }
        };
        let why = match process.finish(Duration::from_secs(5)) {
            Some(status) => format!("{why} ({status})"),
            None => why,
        };
        *lock(&self.ended) = Some(why);
        lock(&self.waiting).clear(); // wakes every waiting job
    }

    fn pass_on(&self, reply: Reply) {
        if let Some(waker) = lock(&self.waiting).get_mut(&reply.id()) {
            let _ = waker.replies.send(reply);
            let _ = waker.wake.write(b"x");
        }
    }
}

/// The process behind a server.
enum Process {
    Own(Group),
    /// The daemon's, with the processes of its jobs.
    #[cfg(target_os = "linux")]
    Resident(Resident, BTreeMap<u32, i32>),
}

impl Process {
    fn is_resident(&self) -> bool {
        !matches!(self, Self::Own(_))
    }

    fn pid(&self) -> Option<i32> {
        match self {
            Self::Own(group) => Some(group.leader()),
            #[cfg(target_os = "linux")]
            Self::Resident(resident, _) => resident.pid(),
        }
    }

    /// A descriptor that is readable once it has ended; negative where there is none.
    fn fd(&self) -> i32 {
        match self {
            Self::Own(group) => group.pidfd().unwrap_or(-1),
            #[cfg(target_os = "linux")]
            Self::Resident(resident, _) => resident.fd(),
        }
    }

    fn has_ended(&mut self) -> bool {
        match self {
            Self::Own(group) => group
                .wait(Duration::ZERO)
                .is_ok_and(|status| status.is_some()),
            #[cfg(target_os = "linux")]
            Self::Resident(resident, _) => resident.has_ended(),
        }
    }

    /// Takes note of the jobs that begin and end.
    fn note(&mut self, reply: &Reply) {
        #[cfg(target_os = "linux")]
        if let Self::Resident(_, jobs) = self {
            match reply {
                Reply::Started { id, pid } => drop(jobs.insert(*id, *pid)),
                Reply::Result { id, .. } | Reply::Died { id, .. } => drop(jobs.remove(id)),
                _ => {}
            }
        }
        let _ = reply;
    }

    /// Waits for its end for at most `patience`, then ends it with all its jobs; gives how it ended.
    fn finish(&mut self, patience: Duration) -> Option<String> {
        match self {
            Self::Own(group) => {
                let status = group.finish(patience);
                group.sweep();
                status.ok().map(|status| status.to_string())
            }
            #[cfg(target_os = "linux")]
            Self::Resident(resident, jobs) => {
                let jobs: Vec<_> = jobs.values().copied().collect();
                Some(resident.finish(patience, &jobs))
            }
        }
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
