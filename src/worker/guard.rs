//! A forked watcher that ends the process groups which orch leaves behind when it is killed itself.
//!
//! The kernel ends orch's own children together with orch, but not what those have started. The numbers of all groups
//! that are alive stand in a table that orch, its children before they execute anything, and the watcher share. The
//! watcher sleeps on a socket; when that closes, orch is gone, and every group that still stands in the table is
//! killed, and then, on Linux, all in this orch's control group, where it has one, and every process that carries the
//! mark of this orch in its environment: those that left their group. Elsewhere a process that makes itself leader of a session of its own escapes.

#[cfg(target_os = "linux")]
mod marked;

use std::io;
use std::os::fd::{AsRawFd, IntoRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{LazyLock, Mutex};

#[cfg(target_os = "linux")]
use crate::base::lock;
use crate::worker::cgroup::Cell;
use crate::worker::family;

/// More groups than can be alive at a time.
const MOST: usize = 4096;

type Table = [AtomicI32; MOST];

/// The variable in the environment of every child, with what no other orch has as its value.
pub(super) const MARK: &str = "ORCH_RUN";

struct Guard {
    table: &'static Table,
    watcher: i32,
    /// Places in the table that no group has.
    free: Mutex<Vec<usize>>,
}

/// A place in the table, for one group; empty again when dropped.
pub(super) struct Slot {
    guard: &'static Guard,
    at: usize,
}

impl Slot {
    /// A place for a group that is about to begin. Starts the watcher on first use.
    pub(super) fn take() -> io::Result<Self> {
        let guard = guard()?;
        let at = lock(&guard.free).pop();
        let at = at.ok_or_else(|| {
            io::Error::other(format!("{MOST} processes run already, which is the most"))
        })?;
        Ok(Self { guard, at })
    }

    /// The place for the number of the group. A child writes its own number there, before it executes anything, so that
    /// no moment is left in which it runs and is not known; a store into shared memory is safe after a fork.
    pub(super) fn place(&self) -> &'static AtomicI32 {
        &self.guard.table[self.at]
    }
}

/// The value of [`MARK`] for the children of this process.
pub(super) fn mark() -> &'static str {
    static VALUE: LazyLock<String> = LazyLock::new(|| {
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or_default();
        format!("{}-{}", std::process::id(), now.as_nanos())
    });
    &VALUE
}

/// Ends what leaders that have ended left behind; gives the names of the processes.
pub(super) fn sweep() -> Vec<String> {
    guard().map_or_else(
        |_| Vec::new(),
        |guard| family::sweep(|pid| guard.knows(pid)),
    )
}

/// Whether nobody is left of a leader that this thread has started and reaped. False may only mean that this cannot be
/// known, or not at this moment.
pub(super) fn knows_all() -> bool {
    guard().is_ok_and(|guard| family::knows_all(|pid| guard.knows(pid)))
}

impl Guard {
    fn knows(&self, pid: i32) -> bool {
        pid == self.watcher
            || self
                .table
                .iter()
                .any(|slot| slot.load(Ordering::SeqCst) == pid)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.place().store(0, Ordering::SeqCst);
        lock(&self.guard.free).push(self.at);
    }
}

fn guard() -> io::Result<&'static Guard> {
    static GUARD: LazyLock<Result<Guard, i32>> =
        LazyLock::new(|| start().map_err(|e| e.raw_os_error().unwrap_or(libc::EIO)));
    GUARD
        .as_ref()
        .map_err(|code| io::Error::from_raw_os_error(*code))
}

fn start() -> io::Result<Guard> {
    let table = shared_table()?;
    family::adopt_orphans()?;
    #[cfg(target_os = "linux")]
    let mark = format!("{MARK}={}", mark());
    #[cfg(target_os = "linux")]
    let cell = Cell::make(&format!("orch-{}", self::mark()));
    let (ours, theirs) = UnixStream::pair()?;
    let socket = theirs.as_raw_fd();
    // SAFETY: other threads may hold locks, so the child makes system calls only, and never returns.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            watch(socket, table);
            #[cfg(target_os = "linux")]
            {
                cell.kill();
                marked::kill(mark.as_bytes());
                cell.remove();
            }
            // SAFETY: takes no pointers.
            unsafe { libc::_exit(0) }
        }
        watcher => {
            // Open until orch ends in any way.
            let _ = ours.into_raw_fd();
            #[cfg(target_os = "linux")]
            cell.enter();
            Ok(Guard {
                table,
                watcher,
                free: Mutex::new((0..MOST).rev().collect()),
            })
        }
    }
}

fn shared_table() -> io::Result<&'static Table> {
    let size = size_of::<Table>();
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a fresh anonymous mapping, never unmapped; it is zeroed, and zero is a valid AtomicI32.
    unsafe {
        let at = libc::mmap(
            std::ptr::null_mut(),
            size,
            rights,
            libc::MAP_SHARED | libc::MAP_ANON,
            -1,
            0,
        );
        if at == libc::MAP_FAILED {
            Err(io::Error::last_os_error())
        } else {
            Ok(&*at.cast::<Table>())
        }
    }
}

/// The watcher, until orch is gone. Whatever is called here must be async-signal-safe, and nothing may allocate.
fn watch(socket: RawFd, table: &Table) {
    let mut byte = 0_u8;
    // SAFETY: plain system calls; the buffer is as long as the length that is passed.
    unsafe {
        // Away from the terminal's interrupts, from orch's streams, its locks, and its end of the socket.
        libc::setsid();
        for other in (0..4096).filter(|fd| *fd != socket) {
            libc::close(other);
        }
        // Nobody writes: it returns when the other end closes, or by a signal.
        while libc::recv(socket, (&raw mut byte).cast(), 1, 0) == -1 && was_interrupted() {}
    }
    kill_groups(table);
}

fn kill_groups(table: &Table) {
    for slot in table {
        let group = slot.load(Ordering::SeqCst);
        if group > 1 {
            // SAFETY: kill takes no pointers; a group that is gone is an error that does not matter.
            unsafe { libc::kill(-group, libc::SIGKILL) };
        }
    }
}

/// Ends every child of this process and all of their groups, at once.
pub fn kill_all() {
    if let Ok(guard) = guard() {
        kill_groups(guard.table);
    }
}

fn was_interrupted() -> bool {
    io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_belongs_to_one_group_until_it_is_dropped() {
        let [one, two] = [Slot::take().unwrap(), Slot::take().unwrap()];
        assert_ne!(one.at, two.at);
        let place = one.place();
        // No process has this number: it is above the kernel's limit of 2^22.
        place.store(1 << 23, Ordering::SeqCst);
        drop(one);
        assert_eq!(place.load(Ordering::SeqCst), 0);
    }
}
