//! Locks on the devices of this machine: a process holds one while it executes models there, so that what is timed has its
//! device to itself among all orch processes. Who needs which device is not decided here.
//!
//! | file | locked by | how |
//! |---|---|---|
//! | `NAME.queue` | whoever waits for `NAME`, until it has it | exclusively |
//! | `NAME` | whoever executes on it | exclusively for timed work, shared for other work |
//!
//! The queue keeps a stream of untimed work from overtaking a timed run that waits. The operating system lets go of the locks
//! (`flock`) when their process dies in any way. Several devices are locked in one order in all processes, so none waits for
//! another in a circle.
//!
//! Files are opened for reading only and below an open folder, never through a symbolic link, so that a folder which all
//! users write to (mode 1777) gives nobody a way to another one's files. Another user can keep a lock, and no more.

use std::cmp::Ordering as Order;
use std::fmt;
use std::fs::{File, TryLockError};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::Lease;
use crate::base::variable;

/// The variable that names another folder for the locks.
pub const FOLDER: &str = "ORCH_DEVICE_LOCK_DIR";
/// The folder of all users of this machine; that of one user ends in the user's number.
const SHARED_FOLDER: &str = "/tmp/orch-devices";
/// How often a process that waits looks whether it still should.
const TICK: Duration = Duration::from_millis(50);
/// Another user may be making the folder or the file: it is looked at again so often, after a moment each.
const TRIES: u32 = 4;
const MOMENT: Duration = Duration::from_millis(20);
/// Files that were not touched for days may be cleared away.
const DAY: Duration = Duration::from_secs(24 * 3600);
/// The name of the processor: it is locked last of all.
const CPU: &str = "cpu";

/// Whether others may use a device meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// Nobody: something is timed.
    Alone,
    /// Others that time nothing.
    Together,
}

/// One device and how it is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceUse {
    /// As this process calls it: `cuda:1`.
    name: String,
    /// As all processes call it: by its place on the bus or its UUID, where the prober knows one.
    file: String,
    share: Share,
}

impl DeviceUse {
    pub fn cpu(share: Share) -> Self {
        Self {
            name: CPU.to_owned(),
            file: CPU.to_owned(),
            share,
        }
    }

    pub fn leased(lease: &Lease, share: Share) -> Self {
        let known = lease.pci.as_ref().map(|pci| format!("pci-{pci}"));
        let known = known.or_else(|| lease.uuid.as_ref().map(|uuid| format!("uuid-{uuid}")));
        let identity = known.unwrap_or_else(|| format!("id-{}", lease.id));
        let plain = |c: char| {
            if c.is_ascii_alphanumeric() || c == '-' || c == '.' {
                c.to_ascii_lowercase()
            } else {
                '_'
            }
        };
        Self {
            name: lease.id.clone(),
            file: identity.chars().map(plain).collect(),
            share,
        }
    }

    /// The order in which devices are locked. The processor is last: who waits for a device keeps nobody from it.
    fn before(&self, other: &Self) -> Order {
        let place = |device: &Self| (device.file == CPU, device.file.clone());
        place(self).cmp(&place(other))
    }
}

/// A device that another process uses.
pub struct Wait<'a> {
    pub waited: Duration,
    folder: &'a Folder,
    device: &'a DeviceUse,
}

/// Looks at the lock once more, to say what the other process does.
impl fmt::Display for Wait<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DeviceUse { name, file, .. } = self.device;
        let does = if self.folder.is_measured(file) {
            "measures on it"
        } else {
            "uses it"
        };
        write!(f, "waiting for {name}: another orch {does}")
    }
}

/// Devices of this machine, held until this value goes.
#[derive(Debug)]
pub struct MachineLock {
    _files: Vec<File>,
    /// Why other processes are not kept away as they should be. A process says it once.
    pub note: Option<String>,
}

impl MachineLock {
    fn of(files: Vec<File>, note: Option<String>) -> Self {
        static WAS_NOTED: AtomicBool = AtomicBool::new(false);
        let note = note.filter(|_| !WAS_NOTED.swap(true, Ordering::Relaxed));
        Self {
            _files: files,
            note,
        }
    }

    /// Nothing is held.
    pub fn none() -> Self {
        Self::of(vec![], None)
    }

    /// Whether a process uses a device at this moment, so that whoever takes it for timed work may wait.
    pub fn is_in_use(device: &DeviceUse) -> bool {
        let taken = |folder: Folder| folder.lock(&device.file, Share::Alone, Patience::None);
        matches!(Folder::find().map(taken), Ok(Ok(None)))
    }

    /// Waits until no other process uses these devices in a way that excludes this one. None if `go_on`, called now and then
    /// while it waits, says no.
    pub fn take(uses: Vec<DeviceUse>, go_on: impl FnMut(&Wait) -> bool) -> Option<Self> {
        match Folder::find() {
            Ok(folder) => Self::take_in(folder, uses, go_on),
            Err(why) => Some(Self::of(vec![], Some(why))),
        }
    }

    fn take_in(
        folder: Folder,
        mut uses: Vec<DeviceUse>,
        mut go_on: impl FnMut(&Wait) -> bool,
    ) -> Option<Self> {
        uses.sort_by(DeviceUse::before);
        match folder.lock_all(&uses, Patience::None, |_| {}) {
            Ok(Some(files)) => return Some(Self::of(files, folder.note)),
            Ok(None) => {}
            Err(e) => return Some(folder.unusable(&e)),
        }
        let folder = Arc::new(folder);
        let uses = Arc::new(uses);
        let at = Arc::new(AtomicUsize::new(0));
        let (sender, receiver) = channel();
        let waiter = {
            let folder = folder.clone();
            let uses = uses.clone();
            let at = at.clone();
            // The kernel wakes whoever waits in a call of its own. Nothing ends that call, so it has a thread, which lets go
            // of the locks at once if nobody wants them any more.
            move || {
                let reached = |number| at.store(number, Ordering::Relaxed);
                let _ = sender.send(folder.lock_all(&uses, Patience::Endless, reached));
            }
        };
        thread::spawn(waiter);
        let start = Instant::now();
        loop {
            match receiver.recv_timeout(TICK) {
                Ok(Ok(files)) => {
                    let files = files.expect("BUG: a lock was waited for and not obtained");
                    return Some(Self::of(files, folder.note.clone()));
                }
                Ok(Err(e)) => return Some(folder.unusable(&e)),
                Err(RecvTimeoutError::Timeout) => {
                    let wait = Wait {
                        waited: start.elapsed(),
                        folder: &folder,
                        device: &uses[at.load(Ordering::Relaxed)],
                    };
                    if !go_on(&wait) {
                        return None;
                    }
                }
                Err(RecvTimeoutError::Disconnected) => {
                    panic!("BUG: the thread that waits for a lock is gone")
                }
            }
        }
    }
}

const UNLOCKED: &str = "other orch processes may measure on the same device at the same time";

fn hint() -> String {
    format!("\n  hint: {FOLDER} names a folder that all of them can write to")
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Patience {
    None,
    Endless,
}

/// The folder of the locks.
#[derive(Debug)]
struct Folder {
    descriptor: OwnedFd,
    path: PathBuf,
    /// Whom its locks do not keep away.
    note: Option<String>,
}

impl Folder {
    /// The folder that the environment names, else the one of all users, else that of this user; or why there is none.
    fn find() -> Result<Self, String> {
        if let Some(path) = variable::os(FOLDER).filter(|path| !path.is_empty()) {
            let path = PathBuf::from(path);
            let named =
                std::fs::create_dir_all(&path).and_then(|()| Self::open(&path, OFlags::empty()));
            return named.map_err(|e| format!("{UNLOCKED}: {FOLDER}={}: {e}", path.display()));
        }
        let shared = Path::new(SHARED_FOLDER);
        let why = match Self::of_all(shared) {
            Ok(folder) => return Ok(folder),
            Err(e) => format!("{}: {e}", shared.display()),
        };
        let user = rustix::process::geteuid().as_raw();
        let own = PathBuf::from(format!("{SHARED_FOLDER}-{user}"));
        match Self::of_user(&own, user) {
            Ok(folder) => Ok(Self {
                note: Some(format!(
                    "orch processes of other users may measure on the same device at the same time: {why}{}",
                    hint()
                )),
                ..folder
            }),
            Err(e) => Err(format!(
                "{UNLOCKED}: {why}; {}: {e}{}",
                own.display(),
                hint()
            )),
        }
    }

    fn open(path: &Path, flags: OFlags) -> io::Result<Self> {
        let flags = flags | OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self {
            descriptor: rustix::fs::open(path, flags, Mode::empty())?,
            path: path.to_owned(),
            note: None,
        })
    }

    fn made(path: &Path, mode: u32) -> io::Result<Self> {
        match rustix::fs::mkdir(path, Mode::from_raw_mode(mode)) {
            Ok(()) | Err(Errno::EXIST) => Self::open(path, OFlags::NOFOLLOW),
            Err(e) => Err(e.into()),
        }
    }

    /// A folder in which every user may make files, and nobody may remove another one's.
    fn of_all(path: &Path) -> io::Result<Self> {
        const ALL: u32 = 0o1777;
        let mut left = TRIES;
        loop {
            let folder = Self::made(path, ALL)?;
            let stat = rustix::fs::fstat(&folder.descriptor)?;
            let mode = Mode::from_raw_mode(stat.st_mode).as_raw_mode();
            if mode & ALL == ALL {
                return Ok(folder);
            }
            if stat.st_uid == rustix::process::geteuid().as_raw() {
                // The user's umask took what others need.
                rustix::fs::fchmod(&folder.descriptor, Mode::from_raw_mode(ALL))?;
                return Ok(folder);
            }
            left -= 1;
            if left == 0 {
                let user = stat.st_uid;
                return Err(io::Error::other(format!(
                    "it belongs to user {user} and is not open to all (mode {mode:o})"
                )));
            }
            thread::sleep(MOMENT);
        }
    }

    fn of_user(path: &Path, user: u32) -> io::Result<Self> {
        let folder = Self::made(path, 0o700)?;
        let owner = rustix::fs::fstat(&folder.descriptor)?.st_uid;
        if owner != user {
            return Err(io::Error::other(format!("it belongs to user {owner}")));
        }
        Ok(folder)
    }

    /// What is held where no file can be locked.
    fn unusable(&self, why: &io::Error) -> MachineLock {
        let path = self.path.display();
        MachineLock::of(vec![], Some(format!("{UNLOCKED}: {path}: {why}{}", hint())))
    }

    /// Locks all of these, which are in order. `reached` hears the position of each before it is locked.
    fn lock_all(
        &self,
        uses: &[DeviceUse],
        patience: Patience,
        reached: impl Fn(usize),
    ) -> io::Result<Option<Vec<File>>> {
        let mut held = Vec::new();
        for (at, DeviceUse { file, share, .. }) in uses.iter().enumerate() {
            reached(at);
            let queue = format!("{file}.queue");
            let Some(_place) = self.lock(&queue, Share::Alone, patience)? else {
                return Ok(None);
            };
            let Some(lock) = self.lock(file, *share, patience)? else {
                return Ok(None);
            };
            held.push(lock);
        }
        Ok(Some(held))
    }

    /// None if another process holds it and this one does not wait.
    fn lock(&self, name: &str, share: Share, patience: Patience) -> io::Result<Option<File>> {
        loop {
            let file = self.file(name)?;
            let locked = match (share, patience) {
                (Share::Alone, Patience::None) => tried(file.try_lock())?,
                (Share::Together, Patience::None) => tried(file.try_lock_shared())?,
                (Share::Alone, Patience::Endless) => waited(|| file.lock())?,
                (Share::Together, Patience::Endless) => waited(|| file.lock_shared())?,
            };
            if !locked {
                return Ok(None);
            }
            if self.has(name, &file)? {
                return Ok(Some(file));
            }
            // Somebody cleared the folder since it was opened: others lock another file of this name.
        }
    }

    /// Opens a file of this name, made for all users if it is missing.
    fn file(&self, name: &str) -> io::Result<File> {
        let flags =
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let mut left = TRIES;
        loop {
            let found = match rustix::fs::openat(&self.descriptor, name, flags, Mode::empty()) {
                Err(Errno::NOENT) => {
                    let mode = Mode::from_raw_mode(0o644);
                    let new = flags | OFlags::CREATE | OFlags::EXCL;
                    let made = rustix::fs::openat(&self.descriptor, name, new, mode);
                    if let Ok(made) = &made {
                        rustix::fs::fchmod(made, mode)?;
                    }
                    made
                }
                found => found,
            };
            let problem = match found {
                Ok(descriptor) => {
                    let stat = rustix::fs::fstat(&descriptor)?;
                    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
                        return Err(io::Error::other(format!("`{name}` is no file")));
                    }
                    let file = File::from(descriptor);
                    keep_young(&file);
                    return Ok(file);
                }
                Err(problem) => problem,
            };
            left -= 1;
            match problem {
                // Another process was quicker to make it, or is another user's and about to open it to all.
                Errno::EXIST | Errno::ACCESS if left > 0 => thread::sleep(MOMENT),
                problem => return Err(problem.into()),
            }
        }
    }

    /// Whether the folder still has this file under this name.
    fn has(&self, name: &str, file: &File) -> io::Result<bool> {
        let own = rustix::fs::fstat(file)?;
        match rustix::fs::statat(&self.descriptor, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => Ok((found.st_dev, found.st_ino) == (own.st_dev, own.st_ino)),
            Err(Errno::NOENT) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }

    /// Whether a process holds a device alone.
    fn is_measured(&self, name: &str) -> bool {
        matches!(self.lock(name, Share::Together, Patience::None), Ok(None))
    }
}

fn tried(result: Result<(), TryLockError>) -> io::Result<bool> {
    match result {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(e)) => Err(e),
    }
}

fn waited(mut wait: impl FnMut() -> io::Result<()>) -> io::Result<bool> {
    loop {
        match wait() {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            result => return result.map(|()| true),
        }
    }
}

/// Programs that clear temporary folders go by the age of files. Fails for another user's, which that one keeps.
fn keep_young(file: &File) {
    let is_old = file
        .metadata()
        .and_then(|meta| meta.modified())
        .is_ok_and(|time| time.elapsed().is_ok_and(|age| age > DAY));
    if is_old {
        let _ = file.set_modified(SystemTime::now());
    }
}

#[cfg(test)]
#[path = "machine_lock_tests.rs"]
mod tests;
