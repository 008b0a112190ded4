//! One fork server, as the daemon sees it: a Python that has imported the packages of an environment.

#![expect(
    clippy::disallowed_methods,
    reason = "starts fork servers, and makes their logs"
)]

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, RawFd};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use command_fds::{CommandFdExt, FdMapping};
use serde::Deserialize;
use serde_json::json;

use crate::base::Digest;
use crate::worker::family;
use crate::worker::process::{Group, speak_to};
use crate::worker::resident::socket::Channel;
use crate::worker::resident::{Origin, PROTOCOL, Start};

/// The descriptor on which a fork server hears the daemon, and the variable that says so.
const LISTEN_FD: i32 = 3;
const LISTEN: &str = "ORCH_LISTEN_FD";

/// How the names of their logs begin.
pub(super) const LOG: &str = "fork-server-";

pub(super) struct ForkServer {
    pub(super) origin: Origin,
    /// For people: the environment, and the beginning of the digest of its origin.
    pub(super) name: String,
    group: Group,
    channel: Channel,
    /// How many callers it was sent, and how many of their servers have ended.
    sent: u64,
    ended: u64,
    used: Instant,
}

/// What a fork server tells: how many of its servers have ended by now. The first tells that it is ready.
#[derive(Deserialize)]
struct Told {
    ended: u64,
}

impl ForkServer {
    /// Starts one, which imports what it is to import. To be called by a thread that lives as long as the daemon.
    pub(super) fn start(origin: Origin, folder: &Path) -> io::Result<Self> {
        let digest = Digest::of(&serde_json::to_vec(&origin)?);
        let environment = Path::new(&origin.program)
            .ancestors()
            .nth(2)
            .and_then(Path::file_name)
            .map_or("environment".into(), |name| name.to_string_lossy());
        let name = format!("{environment} {}", digest.short());
        let log = File::create(folder.join(format!("{LOG}{}.log", digest.short())))?;
        let (channel, theirs) = Channel::pair()?;
        let mut command = Command::new(&origin.program);
        command
            .args(&origin.args)
            .env_clear()
            .envs(&origin.environment)
            .env(LISTEN, LISTEN_FD.to_string())
            // The folder in which it starts holds no modules.
            .env("PYTHONSAFEPATH", "1")
            .current_dir(folder)
            .stdin(Stdio::null());
        speak_to(&mut command, log.as_fd())?;
        command
            .fd_mappings(vec![FdMapping {
                parent_fd: theirs,
                child_fd: LISTEN_FD,
            }])
            .map_err(|e| io::Error::other(e.to_string()))?;
        let group = Group::spawn(&mut command, None)?;
        let first = json!({"protocol": PROTOCOL, "preload": origin.preload});
        channel.send(&first, &[])?;
        Ok(Self {
            origin,
            name,
            group,
            channel,
            sent: 0,
            ended: 0,
            used: Instant::now(),
        })
    }

    /// Hands a caller on: the descriptors of its server's orders, log and answers, and the connection to it.
    pub(super) fn hand_on(
        &mut self,
        start: &Start,
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        self.channel.send(start, descriptors)?;
        self.sent += 1;
        self.used = Instant::now();
        Ok(())
    }

    /// Readable when it has something to tell, or has ended.
    pub(super) fn fd(&self) -> RawFd {
        self.channel.fd()
    }

    /// Takes in what it tells; false once it has ended.
    pub(super) fn hear(&mut self) -> bool {
        loop {
            match self.channel.receive().and_then(|message| message.read()) {
                Ok(Told { ended }) => {
                    self.ended = ended;
                    self.used = Instant::now();
                }
                Err(e) => return e.kind() == io::ErrorKind::WouldBlock,
            }
        }
    }

    /// For how long no server of it has been at work; None while one is.
    pub(super) fn idle(&self) -> Option<Duration> {
        (self.sent == self.ended).then(|| self.used.elapsed())
    }

    /// Bytes that it holds, and that its forks share.
    pub(super) fn held(&self) -> u64 {
        family::held_bytes(self.group.leader()).unwrap_or(0)
    }

    pub(super) fn pid(&self) -> i32 {
        self.group.leader()
    }
}
