//! Killing by mark, in the watcher: a fork of a program with threads, so nothing may allocate and only system calls are
//! made. The mark is looked for in /proc/PID/environ, which a process cannot change once it runs.

use std::ffi::c_char;

/// More than one look, because a process may start another one between being seen and being killed.
const LOOKS: usize = 10;
const CHUNK: usize = 64 * 1024;

/// Kills every process whose environment holds the entry `mark`, until none is left.
pub(super) fn kill(mark: &[u8]) {
    for _ in 0..LOOKS {
        if !kill_once(mark) {
            return;
        }
        // SAFETY: takes no pointers.
        unsafe { libc::usleep(5_000) };
    }
}

/// False if there was nobody.
fn kill_once(mark: &[u8]) -> bool {
    let mut found = false;
    // SAFETY: the path ends with zero; the descriptor is this function's.
    let proc = unsafe { libc::open(c"/proc".as_ptr(), libc::O_RDONLY | libc::O_DIRECTORY) };
    let mut entries = [0_u64; 4096];
    loop {
        let size = size_of_val(&entries);
        // SAFETY: the buffer is as long as it is said to be, and aligned for the entries.
        let read = unsafe { libc::syscall(libc::SYS_getdents64, proc, entries.as_mut_ptr(), size) };
        if read <= 0 {
            break;
        }
        let mut at = 0;
        while at < read as usize {
            // SAFETY: the kernel wrote whole entries, one behind the other; each name ends with zero.
            unsafe {
                let entry = entries.as_ptr().cast::<u8>().add(at).cast::<libc::dirent64>();
                at += usize::from((*entry).d_reclen);
                if let Some(pid) = number((&raw const (*entry).d_name).cast())
                    && is_marked(pid, mark)
                {
                    found = true;
                    libc::kill(pid, libc::SIGKILL);
                }
            }
        }
    }
    // SAFETY: its own descriptor; an invalid one is an error that does not matter.
    unsafe { libc::close(proc) };
    found
}

/// The number that a name consists of.
///
/// # Safety
/// The name must end with zero.
unsafe fn number(mut name: *const c_char) -> Option<i32> {
    let mut number = 0_i32;
    // SAFETY: it goes up to the zero.
    unsafe {
        while *name != 0 {
            let digit = (*name as u8).wrapping_sub(b'0');
            if digit > 9 {
                return None;
            }
            number = number.checked_mul(10)?.checked_add(i32::from(digit))?;
            name = name.add(1);
        }
    }
    Some(number)
}

fn is_marked(pid: i32, mark: &[u8]) -> bool {
    let mut path = *b"/proc/0000000000/environ\0";
    // Leading zeros are no name that the kernel knows, so the number begins behind slashes, which it takes for one.
    let (mut rest, mut at) = (pid, b"/proc/0000000000".len());
    while at > b"/proc/".len() {
        at -= 1;
        path[at] = if rest > 0 { b'0' + (rest % 10) as u8 } else { b'/' };
        rest /= 10;
    }
    // SAFETY: the path ends with zero; the buffer is as long as it is said to be; the descriptor is this function's.
    unsafe {
        let file = libc::open(path.as_ptr().cast(), libc::O_RDONLY);
        if file < 0 {
            return false;
        }
        let mut buffer = [0_u8; CHUNK];
        let mut kept = 0;
        let mut found = false;
        loop {
            let read = libc::read(file, buffer.as_mut_ptr().add(kept).cast(), CHUNK - kept);
            if read <= 0 {
                break;
            }
            let filled = kept + read as usize;
            if holds(&buffer[..filled], mark) {
                found = true;
                break;
            }
            // The mark may lie across the end of the chunk.
            kept = filled.min(mark.len());
            buffer.copy_within(filled - kept..filled, 0);
        }
        libc::close(file);
        found
    }
}

/// The mark ends in what only this orch has, so it is no part of another entry.
fn holds(environ: &[u8], mark: &[u8]) -> bool {
    environ.windows(mark.len()).any(|window| window == mark)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn only_who_carries_the_mark_is_killed() {
        let mark = format!("ORCH_TEST_MARK=a-{}", std::process::id());
        let (name, value) = mark.split_once('=').unwrap();
        let start = |value: &str| {
            let mut command = Command::new("sleep");
            // Long enough that the mark lies in the second chunk.
            command.arg("60").env_clear().env("A_LONG_ONE", "x".repeat(CHUNK - 30)).env(name, value);
            command.stdin(Stdio::null()).spawn().unwrap()
        };
        let (mut ours, mut other) = (start(value), start("another"));
        // Its environment is that of the test until it has executed the program.
        std::thread::sleep(std::time::Duration::from_millis(100));
        kill(mark.as_bytes());
        assert!(!ours.wait().unwrap().success());
        assert!(other.try_wait().unwrap().is_none());
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
