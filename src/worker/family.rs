//! Who descends from whom, and what memory they hold, as the kernel reports it.
//!
//! A process that its parent left behind goes to the nearest ancestor that takes in orphans (`PR_SET_CHILD_SUBREAPER`).
//! Every leader of a group is made one, and orch is one: so whoever a job started stands below its leader as long
//! as that lives, in whatever session or group, and becomes a child of orch's own when the leader ends. On systems that
//! are not Linux, which have no /proc, only groups are known, and a process that leaves its group is not seen.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{LazyLock, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

use crate::base::process::{self, Stat, descendants, kernel_bytes, numbers};

/// Held for reading while a child comes into being or is reaped, and for writing while strays are looked for: a child
/// that is not known yet, or no longer, looks like a stray.
static CHANGING: RwLock<()> = RwLock::new(());

pub(super) fn changing() -> RwLockReadGuard<'static, ()> {
    CHANGING.read().unwrap_or_else(PoisonError::into_inner)
}

/// How long processes that are killed may take to be gone, and new ones to stop appearing.
const DYING: Duration = Duration::from_secs(2);

/// Makes orphans below this process its children from now on.
pub(super) fn adopt_orphans() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    Ok(())
}

/// Kills all that stand below a living leader, also those that appear meanwhile. The leader is halted first, so that
/// what loses its parent stays below it.
pub(super) fn end_below(leader: i32) {
    // SAFETY: takes no pointers. The leader is not reaped yet, so the number is its own.
    unsafe { libc::kill(leader, libc::SIGSTOP) };
    let start = Instant::now();
    loop {
        let living: Vec<_> = descendants(leader)
            .into_iter()
            .filter(|pid| is_alive(*pid))
            .collect();
        if living.is_empty() || start.elapsed() > DYING {
            return;
        }
        for pid in living {
            // SAFETY: takes no pointers. The number was read a moment ago; its parent, which could reap it, is halted,
            // killed or was a descendant as well.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
        std::thread::sleep(Duration::from_micros(500));
    }
}

/// Ends the children of this process that no job has any more: what leaders that have ended left behind. Gives their
/// names. A child in orch's own group was started by other parts of orch, and is left alone.
pub(super) fn sweep(known: impl Fn(i32) -> bool) -> Vec<String> {
    let mut names = Vec::new();
    let start = Instant::now();
    loop {
        // Almost always there is none, and nobody has to wait.
        if strays(&known).is_empty() {
            return names;
        }
        let changing = CHANGING.write().unwrap_or_else(PoisonError::into_inner);
        for pid in strays(&known) {
            if is_alive(pid) {
                names.push(name(pid));
            }
            // SAFETY: a child of this process that is not reaped, so the number is its own; the pointer may be null.
            unsafe {
                libc::kill(pid, libc::SIGKILL);
                libc::waitpid(pid, std::ptr::null_mut(), 0);
            }
        }
        drop(changing);
        // What stood below them stands below orch now.
        if start.elapsed() > DYING {
            return names;
        }
    }
}

/// Children of this process that are not known. Orphans become children of the main thread, so that list is the one to
/// look at. It holds what the main thread has started, too, and the children of threads that have ended.
fn strays(known: impl Fn(i32) -> bool) -> Vec<i32> {
    let own = std::process::id() as i32;
    let children = match main_thread_s() {
        Some((children, _)) => children,
        None => process::all()
            .filter(|(_, stat)| stat.parent == own)
            .map(|(pid, _)| pid)
            .collect(),
    };
    // SAFETY: takes no pointers.
    let group = |pid: i32| unsafe { libc::getpgid(pid) };
    let own_group = group(0);
    children
        .into_iter()
        .filter(|pid| !known(*pid) && group(*pid) != own_group)
        .collect()
}

/// Whether all children are known, so that nobody is left of a leader which this thread has started and reaped. Orphans
/// are the main thread's; a leader can also make siblings of its own (`CLONE_PARENT`), which are this thread's. False
/// where the kernel does not tell.
///
/// Nobody has to wait for this. A list may leave out a child if one before it is reaped while the list is read; but that
/// one stands in what was read, and who is reaped is not known any more.
pub(super) fn knows_all(known: impl Fn(i32) -> bool) -> bool {
    let Some((orphans, is_whole)) = main_thread_s() else {
        return false;
    };
    let Ok(own) = fs::read_to_string("/proc/thread-self/children") else {
        return false;
    };
    is_whole && orphans.into_iter().chain(numbers(&own)).all(known)
}

/// The children of the main thread, and whether that is all of them; None where the kernel keeps no lists
/// (CONFIG_PROC_CHILDREN).
fn main_thread_s() -> Option<(Vec<i32>, bool)> {
    // Opened once: each step looks at it.
    static LIST: LazyLock<Option<File>> = LazyLock::new(|| {
        File::open(format!("/proc/self/task/{}/children", std::process::id())).ok()
    });
    let mut buffer = [0; 4096];
    let read = LIST.as_ref()?.read_at(&mut buffer, 0).ok()?;
    Some((
        numbers(&String::from_utf8_lossy(&buffer[..read])),
        read < buffer.len(),
    ))
}

fn is_alive(pid: i32) -> bool {
    Stat::of(pid).is_some_and(|stat| stat.is_alive())
}

fn name(pid: i32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm"))
        .map_or_else(|_| "?".into(), |name| name.trim_end().to_owned())
}

/// The memory that one process holds and nobody can take back from it: its own pages, those in swap, and shared ones.
/// Mapped files do not count, because the kernel drops them at need. None once it has ended.
pub(super) fn held_bytes(pid: i32) -> Option<u64> {
    sum(
        &format!("/proc/{pid}/status"),
        &["RssAnon", "RssShmem", "VmSwap"],
    )
}

/// [`held_bytes`] of a leader and all its descendants. Shared pages count once for each process, so this is never too little.
pub(super) fn family_bytes(leader: i32) -> Option<u64> {
    Some(
        held_bytes(leader)?
            + descendants(leader)
                .into_iter()
                .filter_map(held_bytes)
                .sum::<u64>(),
    )
}

/// [`family_bytes`] with each shared page counted once. It walks all pages: milliseconds for a large process.
pub(super) fn exact_bytes(leader: i32) -> Option<u64> {
    let of = |pid: i32| {
        sum(
            &format!("/proc/{pid}/smaps_rollup"),
            &["Pss_Anon", "Pss_Shmem", "SwapPss"],
        )
    };
    let own = of(leader)?;
    Some(own + descendants(leader).into_iter().filter_map(of).sum::<u64>())
}

/// Sums figures of a table of the kernel. None if it has none of them.
fn sum(path: &str, names: &[&str]) -> Option<u64> {
    let table = fs::read_to_string(path).ok()?;
    names
        .iter()
        .filter_map(|name| kernel_bytes(&table, name))
        .reduce(|all, one| all + one)
}
