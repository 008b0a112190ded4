//! A long-lived Python server: imports its packages once, forks for each job.

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;
use std::process::{ChildStdin, Command};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::runtime::{Job, Reply};
use crate::worker::oneshot::{Lines, Next, spawn_with_result_pipe};
use crate::worker::process::Group;
use crate::worker::{Ended, Limits, TICK};

/// Jobs are sent from any thread; each waits for its own replies.
pub struct Server {
    shared: Arc<Shared>,
}

struct Shared {
    stdin: Mutex<Option<ChildStdin>>,
    waiting: Mutex<HashMap<u32, Sender<Reply>>>,
    /// How the server ended, once it has.
    ended: Mutex<Option<String>>,
}

impl Server {
    /// Starts `command` as a server. `preload` is imported before the first fork.
    ///
    /// The calling thread must outlive the server: the kernel ends the child with the thread that started it.
    pub fn start(mut command: Command, preload: &[&str], log: &Path) -> std::io::Result<Self> {
        let (reader, mut group) = spawn_with_result_pipe(&mut command, log)?;
        let mut stdin = group.stdin().expect("BUG: stdin is piped");
        writeln!(stdin, "{}", json!({"preload": preload}))?;
        let shared =
            Arc::new(Shared { stdin: Mutex::new(Some(stdin)), waiting: Mutex::default(), ended: Mutex::default() });
        let listener = shared.clone();
        std::thread::Builder::new()
            .name("python-server".into())
            .spawn(move || listener.listen(Lines::new(reader), group))?;
        Ok(Self { shared })
    }

    pub fn has_ended(&self) -> bool {
        self.shared.why_ended().is_some()
    }

    /// Sends a job and waits until it ended.
    pub fn run(&self, job: &Job, limits: &Limits<'_>) -> Ended {
        let start = Instant::now();
        let (sender, receiver) = channel();
        self.shared.waiting().insert(job.id, sender);
        let ended = match self.shared.send(&serde_json::to_value(job).expect("BUG: a job serialises")) {
            Ok(()) => self.wait(&receiver, job.id, start, limits),
            Err(e) => self
                .shared
                .why_ended()
                .unwrap_or(Ended::Broken(format!("failed to send a job to the Python server: {e}"))),
        };
        self.shared.waiting().remove(&job.id);
        ended
    }

    fn wait(&self, receiver: &Receiver<Reply>, id: u32, start: Instant, limits: &Limits<'_>) -> Ended {
        loop {
            if let Some(ended) = limits.exceeded(start) {
                let _ = self.shared.send(&json!({"cancel": id}));
                // The slot is free only when the job's processes are gone; the server says so.
                let _ = receiver.recv_timeout(Duration::from_secs(5));
                return ended;
            }
            match receiver.recv_timeout(TICK) {
                Ok(Reply::Progress { text, .. }) => (limits.progress)(&text),
                Ok(Reply::Result { output, .. }) => return Ended::Answered(output),
                Ok(Reply::Died { signal, code, .. }) => return Ended::Died { signal, code },
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return self.shared.why_ended().unwrap_or(Ended::Broken("the Python server ended".into()));
                }
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // End of input ends the server and its jobs.
        self.shared.stdin.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
    }
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, HashMap<u32, Sender<Reply>>> {
        self.waiting.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn send(&self, line: &serde_json::Value) -> std::io::Result<()> {
        let mut stdin = self.stdin.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match stdin.as_mut() {
            Some(pipe) => writeln!(pipe, "{line}"),
            None => Err(std::io::Error::other("it was closed")),
        }
    }

    fn why_ended(&self) -> Option<Ended> {
        self.ended.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone().map(Ended::Broken)
    }

    /// Hands each reply to the job that waits for it, until the server ends.
    fn listen(&self, mut lines: Lines, mut group: Group) {
        let why = loop {
            match lines.next(Duration::from_secs(1)) {
                Next::Line(bytes) => match serde_json::from_slice::<Reply>(&bytes) {
                    Ok(reply) => self.pass_on(reply),
                    Err(e) => break format!("the Python server wrote junk on its result descriptor: {e}"),
                },
                Next::Nothing => {}
                Next::End => break "the Python server ended".to_owned(),
                Next::TooLong => break "the Python server's answer is too long".to_owned(),
                Next::Failed(e) => break format!("failed to read from the Python server: {e}"),
            }
        };
        let status = group.finish(Duration::from_secs(5));
        let why = status.map_or(why.clone(), |status| format!("{why} ({status})"));
        *self.ended.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(why);
        self.waiting().clear(); // wakes every waiting job
    }

    fn pass_on(&self, reply: Reply) {
        let (Reply::Progress { id, .. } | Reply::Result { id, .. } | Reply::Died { id, .. }) = &reply;
        if let Some(sender) = self.waiting().get(id) {
            let _ = sender.send(reply);
        }
    }
}
