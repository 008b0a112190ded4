//! Killing by mark, in the watcher: a fork of a program with threads, so nothing may allocate and only system calls are
//! made. The mark is looked for in /proc/PID/environ, which a process cannot change once it runs.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::fs::{CWD, Mode, OFlags, RawDir, openat};
use rustix::io::read;

/// More than one look, because a process may start another one between being seen and being killed.
const LOOKS: usize = 10;
const CHUNK: usize = 64 * 1024;

/// Kills every process whose environment holds the entry `mark`, until none is left.
pub(super) fn kill(mark: &[u8]) {
    for _ in 0..LOOKS {
        if !kill_once(mark) {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// False if there was nobody.
fn kill_once(mark: &[u8]) -> bool {
    let mut found = false;
    let Ok(proc) = openat(CWD, c"/proc", OFlags::DIRECTORY, Mode::empty()) else {
        return false;
    };
    let mut buffer = [MaybeUninit::uninit(); 32 * 1024];
    let mut entries = RawDir::new(&proc, &mut buffer);
    while let Some(Ok(entry)) = entries.next() {
        let name = entry.file_name();
        if let Some(pid) = name.to_str().ok().and_then(|name| name.parse::<i32>().ok())
            && is_marked(&proc, name, mark)
        {
            found = true;
            // SAFETY: takes no pointers.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
    }
    found
}

fn is_marked(proc: &OwnedFd, pid: &CStr, mark: &[u8]) -> bool {
    let folder = openat(proc, pid, OFlags::DIRECTORY, Mode::empty());
    let Ok(file) =
        folder.and_then(|folder| openat(folder, c"environ", OFlags::empty(), Mode::empty()))
    else {
        return false;
    };
    let mut buffer = [0_u8; CHUNK];
    let mut kept = 0;
    while let Ok(count @ 1..) = read(&file, &mut buffer[kept..]) {
        let filled = kept + count;
        if holds(&buffer[..filled], mark) {
            return true;
        }
        // The mark may lie across the end of the chunk.
        kept = filled.min(mark.len());
        buffer.copy_within(filled - kept..filled, 0);
    }
    false
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
            command
                .arg("60")
                .env_clear()
                .env("A_LONG_ONE", "x".repeat(CHUNK - 30))
                .env(name, value);
            command.stdin(Stdio::null()).spawn().unwrap()
        };
        let mut ours = start(value);
        let mut other = start("another");
        // Its environment is that of the test until it has executed the program.
        std::thread::sleep(std::time::Duration::from_millis(100));
        kill(mark.as_bytes());
        assert!(!ours.wait().unwrap().success());
        assert!(other.try_wait().unwrap().is_none());
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
