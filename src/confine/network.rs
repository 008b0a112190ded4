//! A network namespace without an interface, for children without a network.
//!
//! Landlock denies TCP and the seccomp program all but the usual sockets, which leaves UDP. Only a process that may make
//! namespaces (root, as a rule) has this one. It is made once and joined by each child, since to make one takes longer than
//! a small step.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::sync::LazyLock;

/// The namespace, or None where this process may not make one.
pub(super) fn isolated() -> Option<&'static File> {
    static MADE: LazyLock<Option<File>> = LazyLock::new(|| {
        // A thread that leaves its namespace changes nothing for the process's other threads, and this one ends here.
        let made = std::thread::spawn(|| {
            // SAFETY: the call takes no pointer.
            let code = unsafe { libc::unshare(libc::CLONE_NEWNET) };
            if code != 0 {
                return None;
            }
            let namespace = File::open("/proc/thread-self/ns/net").ok()?;
            super::out_of_the_way(namespace.as_fd())
                .ok()
                .map(File::from)
        });
        made.join().ok().flatten()
    });
    MADE.as_ref()
}

/// Moves the calling process to the namespace. One system call, so it may be called between fork and exec.
pub(super) fn enter(namespace: &File) -> io::Result<()> {
    // SAFETY: the call takes no pointer.
    match unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
