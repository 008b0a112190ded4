//! A caller of the daemon, and the server that it gets there.
//!
//! Every failure before the server is forked is a reason to start one's own. A server whose daemon, fork server or connection
//! ends is a server that died.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, PipeReader};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::process::{ChildStdin, Command};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use rustix::process::{Signal, pidfd_send_signal};

use crate::base::process::Stat;
use crate::worker::guard;
use crate::worker::process::{pidfd_of, poll, readable};
use crate::worker::resident::socket::Channel;
use crate::worker::resident::{
    Hello, Machine, Origin, PROTOCOL, Place, Request, Start, Word, is_per_caller, own_user,
};

/// How long the daemon may take for an answer before a caller starts its own server.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a fork server may take until the server is forked. It imports first; a stopped one never does.
const IMPORTING: Duration = Duration::from_secs(120);
/// How long who is killed may take to be gone.
const DYING: Duration = Duration::from_secs(2);
/// Resource limits have the numbers below this one.
const LIMITS: u32 = 16;
/// What daemon and caller must share, or numbers of processes and paths mean something else there.
const NAMESPACES: [&str; 5] = ["ipc", "mnt", "net", "pid", "user"];

/// What the daemon is called for: a server, as a command would start it.
pub(in crate::worker) struct Call<'a> {
    pub(in crate::worker) command: &'a Command,
    pub(in crate::worker) preload: &'a [&'a str],
    pub(in crate::worker) installations: &'a [String],
    pub(in crate::worker) log: &'a File,
}

/// A server that was forked for this caller, or will be.
pub(in crate::worker) struct Resident {
    channel: Channel,
    since: Instant,
    server: Option<(i32, Option<OwnedFd>)>,
    ended: Option<String>,
}

/// What a caller gets: its end of the orders, that of the answers, and the server.
pub(in crate::worker) struct Called {
    pub(in crate::worker) orders: ChildStdin,
    pub(in crate::worker) answers: PipeReader,
    pub(in crate::worker) resident: Resident,
}

/// Calls the daemon. None where there is none; an error says why it serves nobody like this caller.
pub(in crate::worker) fn call(place: &Place, call: &Call<'_>) -> anyhow::Result<Option<Called>> {
    let path = place.socket();
    if !path.exists() {
        return Ok(None);
    }
    place.must_be_private()?;
    let channel = Channel::open(&path)?;
    let (daemon, user) = channel.peer()?;
    ensure!(user == own_user(), "the daemon is another user's");
    ensure!(daemon > 0, "the daemon is in another PID namespace");
    let hello: Hello = channel.receive_within(PATIENCE)?.read()?;
    ensure!(
        hello.protocol == PROTOCOL,
        "the daemon is of another version: it speaks protocol {}, and this orch {PROTOCOL}",
        hello.protocol
    );
    let secret = fs::read_to_string(format!("/proc/{daemon}/fd/{}", hello.secret))
        .context("this process may not look into the daemon")?;
    must_share_namespaces(daemon)?;
    let request = Request {
        secret,
        origin: origin(call)?,
        machine: Machine::here(),
        start: start(call.command)?,
    };
    let (orders, our_orders) = io::pipe()?;
    let (our_answers, answers) = io::pipe()?;
    channel.send(
        &request,
        &[orders.as_fd(), call.log.as_fd(), answers.as_fd()],
    )?;
    drop((orders, answers));
    let mut resident = Resident {
        channel,
        since: Instant::now(),
        server: None,
        ended: None,
    };
    match resident.channel.receive_within(PATIENCE)?.read()? {
        Word::Refused(why) => bail!("the daemon refuses: {why}"),
        word => resident.note(word),
    }
    Ok(Some(Called {
        orders: ChildStdin::from(OwnedFd::from(our_orders)),
        answers: our_answers,
        resident,
    }))
}

fn must_share_namespaces(daemon: i32) -> anyhow::Result<()> {
    for name in NAMESPACES {
        let of = |process: &str| fs::read_link(format!("/proc/{process}/ns/{name}"));
        ensure!(
            of("self")? == of(&daemon.to_string())?,
            "the daemon is in another namespace ({name})"
        );
    }
    let root = |path: String| fs::metadata(path).map(|meta| (meta.dev(), meta.ino()));
    ensure!(
        root("/".into())? == root(format!("/proc/{daemon}/root"))?,
        "the daemon has another root folder"
    );
    Ok(())
}

fn origin(call: &Call<'_>) -> anyhow::Result<Origin> {
    let command = call.command;
    let mut environment = environment(command)?;
    environment.retain(|(name, _)| !is_per_caller(name));
    Ok(Origin {
        program: text(command.get_program())?,
        args: command.get_args().map(text).collect::<Result<_, _>>()?,
        environment: environment.into_iter().collect(),
        preload: call.preload.iter().map(|name| (*name).into()).collect(),
        installations: call.installations.to_vec(),
    })
}

fn start(command: &Command) -> anyhow::Result<Start> {
    let mut env = environment(command)?;
    env.push((guard::MARK.into(), guard::mark().into()));
    let cwd = match command.get_current_dir() {
        Some(folder) => std::path::absolute(folder)?,
        None => std::env::current_dir()?,
    };
    Ok(Start {
        env: env.into_iter().collect(),
        cwd: text(cwd.as_os_str())?,
        umask: umask()?,
        nice: nice(),
        limits: (0..LIMITS).map(limit).collect(),
    })
}

/// The variables that a command sets. It has dropped all others.
fn environment(command: &Command) -> anyhow::Result<Vec<(String, String)>> {
    let set = command
        .get_envs()
        .filter_map(|(name, value)| Some((name, value?)));
    set.map(|(name, value)| Ok((text(name)?, text(value)?)))
        .collect()
}

fn text(value: &OsStr) -> anyhow::Result<String> {
    let text = value.to_str();
    Ok(text
        .with_context(|| format!("`{}` is not UTF-8", value.display()))?
        .to_owned())
}

/// Read from the kernel's table, because asking by `umask` sets it.
fn umask() -> anyhow::Result<u32> {
    let status = fs::read_to_string("/proc/self/status")?;
    let octal = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    let octal = octal.context("the kernel does not tell the umask")?;
    Ok(u32::from_str_radix(octal.trim(), 8)?)
}

fn nice() -> i32 {
    // SAFETY: takes no pointers.
    unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
}

/// The soft and the hard limit of a kind; -1 is no limit, as Python writes it.
fn limit(kind: u32) -> (i64, i64) {
    let mut limit = libc::rlimit {
        rlim_cur: libc::RLIM_INFINITY,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: the pointer is valid for the length of the call; an unknown kind leaves it as it is.
    unsafe { libc::getrlimit(kind as _, &raw mut limit) };
    let number = |limit: libc::rlim_t| i64::try_from(limit).unwrap_or(-1);
    (number(limit.rlim_cur), number(limit.rlim_max))
}

impl Resident {
    /// Readable when something was told, or the connection has ended.
    pub(in crate::worker) fn fd(&self) -> i32 {
        self.channel.fd()
    }

    /// The process of the server, once it is forked.
    pub(in crate::worker) fn pid(&self) -> Option<i32> {
        self.server.as_ref().map(|(pid, _)| *pid)
    }

    fn note(&mut self, word: Word) {
        match word {
            Word::Taken | Word::Refused(_) => {}
            Word::Forked(pid) => self.server = Some((pid, pidfd_of(pid))),
            Word::Ended(how) => self.ended = Some(how),
        }
    }

    /// Whether the server has ended.
    pub(in crate::worker) fn has_ended(&mut self) -> bool {
        while self.ended.is_none() {
            match self.channel.receive().and_then(|message| message.read()) {
                Ok(word) => self.note(word),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => self.ended = Some("its fork server is gone".into()),
            }
        }
        if self.server.is_none() && self.since.elapsed() > IMPORTING {
            let late = format!("it was not forked within {} s", IMPORTING.as_secs());
            self.ended.get_or_insert(late);
        }
        self.ended.is_some()
    }

    /// Waits for its end for at most `patience`, then ends it; gives how it ended. None of it and of `jobs` is left then.
    pub(in crate::worker) fn finish(&mut self, patience: Duration, jobs: &[i32]) -> String {
        let start = Instant::now();
        while !self.has_ended() && start.elapsed() < patience {
            let left = patience.saturating_sub(start.elapsed());
            let _ = poll(&mut [readable(self.fd())], left);
        }
        // A server that is forked from now on cannot report so, and serves nobody.
        self.channel.close();
        let had_ended = self.ended.is_some();
        self.ended.get_or_insert("it did not end by itself".into());
        while let Ok(word) = self.channel.receive().and_then(|message| message.read()) {
            if !had_ended || matches!(word, Word::Forked(_)) {
                self.note(word);
            }
        }
        if let Some((_, Some(pidfd))) = &self.server {
            // Its jobs die with it, by the kernel.
            let _ = pidfd_send_signal(pidfd, Signal::KILL);
            let _ = poll(&mut [readable(pidfd.as_raw_fd())], DYING);
        }
        let start = Instant::now();
        let lives = |pid: &i32| Stat::of(*pid).is_some_and(|stat| stat.is_alive());
        while jobs.iter().any(lives) && start.elapsed() < DYING {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.ended.clone().unwrap_or_default()
    }
}
