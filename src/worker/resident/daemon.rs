//! The daemon: it keeps fork servers, one for each origin, and hands callers on to them. It reads no answer and knows no job.

#![expect(
    clippy::disallowed_methods,
    reason = "makes and removes its folder, its lock and its socket"
)]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use rustix::fs::{MemfdFlags, memfd_create};

use crate::base::Digest;
use crate::base::figures::bytes;
use crate::worker::process::{poll, readable};
use crate::worker::resident::fork_server::{ForkServer, LOG};
use crate::worker::resident::socket::{Channel, MOST_DESCRIPTORS, listen_at};
use crate::worker::resident::{Hello, Machine, Origin, PROTOCOL, Place, Request, Word, own_user};
use crate::worker::{Bounds, Cancel};

/// How long a caller may take to send its request.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often the daemon looks at what no descriptor reports: interrupts, idle fork servers and their memory.
const TURN: Duration = Duration::from_millis(500);
/// Callers that have connected and not sent their request.
const MOST_CALLERS: usize = 256;

/// Serves callers until `cancel`. `note` gets a line for each fork server that starts or ends.
///
/// The calling thread must be the process's first: the kernel ends fork servers together with the thread that started them.
pub fn serve(
    place: &Place,
    bounds: Bounds,
    cancel: &Cancel,
    note: &dyn Fn(&str),
) -> anyhow::Result<()> {
    let _only = claim(place)?;
    let socket = place.socket();
    // One that a killed daemon left: the lock says that nobody listens there.
    match fs::remove_file(&socket) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            return Err(e).with_context(|| format!("failed to remove `{}`", socket.display()));
        }
        _ => {}
    }
    forget_logs(&place.folder);
    let listener = listen_at(&socket)
        .with_context(|| format!("failed to listen at `{}`", socket.display()))?;
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o600))?;
    let secret = Secret::make().context("failed to make a secret")?;
    note(&format!("listens at {}", socket.display()));
    let mut daemon = Daemon {
        folder: &place.folder,
        bounds,
        machine: Machine::here(),
        secret,
        callers: BTreeMap::new(),
        fork_servers: Vec::new(),
        note,
    };
    let ended = daemon.run(&listener, cancel);
    let _ = fs::remove_file(&socket);
    ended
}

/// Makes the folder if need be, and holds its lock: one daemon listens there.
fn claim(place: &Place) -> anyhow::Result<File> {
    let folder = &place.folder;
    if !folder.exists() {
        let mut builder = fs::DirBuilder::new();
        let made = builder.recursive(true).mode(0o700).create(folder);
        made.with_context(|| format!("failed to create `{}`", folder.display()))?;
    }
    place.must_be_private()?;
    let path = folder.join("daemon.lock");
    let mut lock = File::options()
        .create(true)
        .read(true)
        .append(true)
        .open(&path)
        .with_context(|| format!("failed to open `{}`", path.display()))?;
    if lock.try_lock().is_err() {
        let holder = fs::read_to_string(&path).unwrap_or_default();
        bail!(
            "a daemon of this user runs already (process {}, `{}`)",
            holder.trim(),
            place.socket().display()
        );
    }
    lock.set_len(0)?;
    writeln!(lock, "{}", std::process::id())?;
    Ok(lock)
}

/// Removes the logs of an earlier daemon's fork servers.
fn forget_logs(folder: &Path) {
    let is_log = |name: &str| name.starts_with(LOG) && name.ends_with(".log");
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(is_log) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Known to whoever can read this process's descriptors: the user's processes that are not confined.
struct Secret {
    text: String,
    file: File,
}

impl Secret {
    fn make() -> io::Result<Self> {
        let mut random = [0; 32];
        File::open("/dev/urandom")?.read_exact(&mut random)?;
        let text = Digest::of(&random).to_string();
        let mut file = File::from(memfd_create("orch-secret", MemfdFlags::CLOEXEC)?);
        file.write_all(text.as_bytes())?;
        Ok(Self { text, file })
    }
}

/// A connection whose request has not come.
struct Caller {
    channel: Channel,
    since: Instant,
}

struct Daemon<'a> {
    folder: &'a Path,
    bounds: Bounds,
    machine: Machine,
    secret: Secret,
    /// By descriptor.
    callers: BTreeMap<i32, Caller>,
    fork_servers: Vec<ForkServer>,
    note: &'a dyn Fn(&str),
}

impl Daemon<'_> {
    fn run(&mut self, listener: &OwnedFd, cancel: &Cancel) -> anyhow::Result<()> {
        while !cancel.is_cancelled() {
            let callers = self.callers.keys().copied();
            let servers = self.fork_servers.iter().map(ForkServer::fd);
            let mut fds: Vec<_> = std::iter::once(listener.as_raw_fd())
                .chain(callers)
                .chain(servers)
                .map(readable)
                .collect();
            poll(&mut fds, TURN).context("failed to wait for callers")?;
            let ready = |fd: i32| fds.iter().any(|poll| poll.fd == fd && poll.revents != 0);
            self.hear(ready);
            let asked: Vec<_> = self
                .callers
                .keys()
                .copied()
                .filter(|fd| ready(*fd))
                .collect();
            for fd in asked {
                if let Some(caller) = self.callers.remove(&fd) {
                    self.answer(&caller.channel);
                }
            }
            if ready(listener.as_raw_fd()) {
                self.accept(listener);
            }
            self.callers
                .retain(|_, caller| caller.since.elapsed() < PATIENCE);
            self.end_idle();
        }
        Ok(())
    }

    /// Takes in what fork servers tell, and forgets those that have ended.
    fn hear(&mut self, ready: impl Fn(i32) -> bool) {
        let note = self.note;
        self.fork_servers.retain_mut(|server| {
            let lives = !ready(server.fd()) || server.hear();
            if !lives {
                note(&format!("{} has ended", server.name));
            }
            lives
        });
    }

    /// Lets in callers of this user, and tells them where the secret is.
    fn accept(&mut self, listener: &OwnedFd) {
        while self.callers.len() < MOST_CALLERS {
            let Ok(channel) = Channel::accept(listener) else {
                return;
            };
            let hello = Hello {
                protocol: PROTOCOL,
                secret: self.secret.file.as_raw_fd(),
            };
            let is_own = channel.peer().is_ok_and(|(_, user)| user == own_user());
            if is_own && channel.send(&hello, &[]).is_ok() {
                let since = Instant::now();
                self.callers.insert(channel.fd(), Caller { channel, since });
            }
        }
    }

    fn answer(&mut self, channel: &Channel) {
        let word = match self.take(channel) {
            Ok(()) => Word::Taken,
            Err(error) => Word::Refused(format!("{error:#}")),
        };
        // A caller that is gone hears nothing.
        let _ = channel.send(&word, &[]);
    }

    /// Reads a request and hands the caller on to the fork server of its origin.
    fn take(&mut self, channel: &Channel) -> anyhow::Result<()> {
        let message = channel.receive()?;
        let request: Request = message.read()?;
        ensure!(
            request.secret == self.secret.text,
            "the caller does not know the secret"
        );
        ensure!(
            message.descriptors.len() == MOST_DESCRIPTORS - 1,
            "the request has {} descriptors",
            message.descriptors.len()
        );
        ensure!(
            request.machine == self.machine,
            "the caller has other CPUs or another limit of memory than the daemon"
        );
        let mut passed: Vec<_> = message.descriptors.iter().map(AsFd::as_fd).collect();
        passed.push(channel.borrow());
        let at = self.of(request.origin)?;
        self.fork_servers[at]
            .hand_on(&request.start, &passed)
            .context("the fork server takes nothing")
    }

    /// The fork server of an origin: the one that lives, or a fresh one.
    fn of(&mut self, origin: Origin) -> anyhow::Result<usize> {
        let known = |server: &ForkServer| server.origin == origin;
        if let Some(at) = self.fork_servers.iter().position(known) {
            return Ok(at);
        }
        while self.fork_servers.len() >= self.bounds.most {
            ensure!(
                self.end_longest_idle("another takes its place"),
                "all {} fork servers are at work",
                self.bounds.most
            );
        }
        let server = ForkServer::start(origin, self.folder).context("no fork server starts")?;
        (self.note)(&format!("{} starts, process {}", server.name, server.pid()));
        self.fork_servers.push(server);
        Ok(self.fork_servers.len() - 1)
    }

    fn end_idle(&mut self) {
        let bound = self.bounds.idle;
        let is_over = |server: &ForkServer| server.idle().is_some_and(|idle| idle >= bound);
        while let Some(at) = self.fork_servers.iter().position(is_over) {
            let server = self.fork_servers.remove(at);
            (self.note)(&format!("{} ends: nobody used it", server.name));
        }
        loop {
            let held: u64 = self.fork_servers.iter().map(ForkServer::held).sum();
            let most = self.bounds.memory;
            let why = || format!("all hold {}, more than {}", bytes(held), bytes(most));
            if held <= most || !self.end_longest_idle(&why()) {
                return;
            }
        }
    }

    /// Ends the fork server that was idle for longest; false if all are at work.
    fn end_longest_idle(&mut self, why: &str) -> bool {
        let idle = self
            .fork_servers
            .iter()
            .enumerate()
            .filter_map(|(at, server)| Some((server.idle()?, at)));
        let Some((_, at)) = idle.max() else {
            return false;
        };
        let server = self.fork_servers.remove(at);
        (self.note)(&format!("{} ends: {why}", server.name));
        true
    }
}
