//! A forked watcher that ends the process groups which orch leaves behind when it is killed itself.
//!
//! The kernel ends orch's own children together with orch, but not what those have started. The watcher reads the numbers
//! of groups from a socket, positive when one begins, negative when it ended; when the socket closes, orch is gone, and
//! every group that had not ended is killed. A process that makes itself leader of a session of its own escapes.

use std::io;
use std::os::fd::{AsRawFd, IntoRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;

/// More groups than can be alive at a time.
const MOST: usize = 4096;

#[cfg(any(target_os = "linux", target_os = "android"))]
const FLAGS: libc::c_int = libc::MSG_NOSIGNAL;
/// Elsewhere the standard library marks sockets so that a closed one raises no signal.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const FLAGS: libc::c_int = 0;

/// orch's end of the socket; open until orch ends in any way. Starts the watcher on first use.
pub(super) fn socket() -> io::Result<RawFd> {
    static SOCKET: OnceLock<Result<RawFd, i32>> = OnceLock::new();
    let started = SOCKET.get_or_init(|| start().map_err(|e| e.raw_os_error().unwrap_or(libc::EIO)));
    started.map_err(io::Error::from_raw_os_error)
}

fn start() -> io::Result<RawFd> {
    let (ours, theirs) = UnixStream::pair()?;
    let socket = theirs.as_raw_fd();
    // SAFETY: other threads may hold locks, so the child makes system calls only, and never returns.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => watch(socket),
        _ => Ok(ours.into_raw_fd()),
    }
}

/// Tells the watcher that a group began (`group`) or ended (`-group`). Async-signal-safe, for use after a fork.
pub(super) fn tell(socket: RawFd, group: i32) {
    let bytes = group.to_ne_bytes();
    // SAFETY: the buffer is as long as it is said to be. A watcher that is gone cannot be told: nothing else depends on it.
    unsafe { libc::send(socket, bytes.as_ptr().cast(), bytes.len(), FLAGS) };
}

/// The watcher. Whatever is called here must be async-signal-safe, and nothing may allocate.
fn watch(socket: RawFd) -> ! {
    let mut groups = [0_i32; MOST];
    let mut bytes = [0_u8; 4];
    // SAFETY: plain system calls; the buffer is as long as it is said to be.
    unsafe {
        // Away from the terminal's interrupts, from orch's streams, its locks, and its end of the socket.
        libc::setsid();
        for other in (0..4096).filter(|fd| *fd != socket) {
            libc::close(other);
        }
        loop {
            match libc::recv(socket, bytes.as_mut_ptr().cast(), bytes.len(), libc::MSG_WAITALL) {
                4 => note(&mut groups, i32::from_ne_bytes(bytes)),
                -1 if *errno() == libc::EINTR => {}
                _ => break,
            }
        }
        for group in groups {
            if group > 1 {
                libc::kill(-group, libc::SIGKILL);
            }
        }
        libc::_exit(0)
    }
}

fn note(groups: &mut [i32; MOST], told: i32) {
    let (find, put) = if told > 0 { (0, told) } else { (told.wrapping_neg(), 0) };
    for slot in groups {
        if *slot == find {
            *slot = put;
            return;
        }
    }
}

unsafe fn errno() -> *mut libc::c_int {
    // SAFETY: gives the address of this thread's own error number.
    #[cfg(target_vendor = "apple")]
    return unsafe { libc::__error() };
    // SAFETY: as above.
    #[cfg(not(target_vendor = "apple"))]
    return unsafe { libc::__errno_location() };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_noted_until_they_end() {
        let mut groups = [0; MOST];
        [7, 8, -7, 9, -5].into_iter().for_each(|told| note(&mut groups, told));
        assert_eq!(groups[..3], [9, 8, 0]);
    }
}
