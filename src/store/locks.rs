//! One key is executed by one thread of one process at a time, on the whole machine.
//!
//! Between processes this is a lock on one byte of one file, at a place that the key gives: no file is made for a key, and
//! the operating system lets go of the lock when its owner dies in any way. Within a process it is a set, since such locks
//! do not keep threads apart.

use std::collections::HashSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::base::{Digest, lock};
use crate::store::{Result, StoreError, open_or_read};

#[derive(Debug)]
pub(super) struct Locks {
    path: PathBuf,
    file: Arc<File>,
    mine: Arc<Mutex<HashSet<u64>>>,
}

/// Held while a key is being executed.
#[derive(Debug)]
pub struct KeyLock {
    file: Arc<File>,
    place: u64,
    mine: Arc<Mutex<HashSet<u64>>>,
}

impl Locks {
    pub(super) fn open(dir: &Path) -> Result<Self> {
        let path = dir.join("keys.lock");
        let open = open_or_read(
            &path,
            File::options().write(true).create(true).truncate(false),
        );
        let (file, _) = open.map_err(StoreError::io("open", &path))?;
        Ok(Self {
            file: Arc::new(file),
            path,
            mine: Arc::default(),
        })
    }

    /// Waits for a key. None if `go_on`, called now and then with how long it has waited, says no.
    pub(super) fn lock(
        &self,
        key: &Digest,
        mut go_on: impl FnMut(Duration) -> bool,
    ) -> Result<Option<KeyLock>> {
        let first: [u8; 8] = key.bytes()[..8]
            .try_into()
            .expect("BUG: a digest has 32 bytes");
        // Offsets are signed.
        let place = u64::from_le_bytes(first) >> 2;
        let file = self.file.clone();
        let start = std::time::Instant::now();
        let mut pause = Duration::from_millis(1);
        loop {
            let free = lock(&self.mine).insert(place);
            if free {
                match region::try_lock(&file, place) {
                    Ok(true) => {
                        return Ok(Some(KeyLock {
                            file,
                            place,
                            mine: self.mine.clone(),
                        }));
                    }
                    other => {
                        lock(&self.mine).remove(&place);
                        other.map_err(StoreError::io("lock", &self.path))?;
                    }
                }
            }
            if !go_on(start.elapsed()) {
                return Ok(None);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(50));
        }
    }
}

impl Drop for KeyLock {
    fn drop(&mut self) {
        region::unlock(&self.file, self.place);
        lock(&self.mine).remove(&self.place);
    }
}

/// Locks on one byte, owned by the open file, not by the process.
#[cfg(any(target_os = "linux", target_os = "android"))]
mod region {
    use std::fs::File;
    use std::io;
    use std::os::fd::AsRawFd;

    fn set(file: &File, place: u64, kind: libc::c_int) -> io::Result<()> {
        // SAFETY: all zeros is a valid value of this plain structure.
        let mut lock: libc::flock = unsafe { std::mem::zeroed() };
        lock.l_type = kind as libc::c_short;
        lock.l_whence = libc::SEEK_SET as libc::c_short;
        lock.l_start = place as libc::off_t;
        lock.l_len = 1;
        // SAFETY: the descriptor is open and the structure outlives the call.
        match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    pub(super) fn try_lock(file: &File, place: u64) -> io::Result<bool> {
        match set(file, place, libc::F_WRLCK) {
            Ok(()) => Ok(true),
            Err(e) if matches!(e.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
            Err(e) => Err(e),
        }
    }

    pub(super) fn unlock(file: &File, place: u64) {
        let _ = set(file, place, libc::F_UNLCK);
    }
}

/// Elsewhere one lock serves all keys between processes: from its first execution until it ends, a process keeps others
/// from executing.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod region {
    use std::fs::File;
    use std::io;

    pub(super) fn try_lock(file: &File, _: u64) -> io::Result<bool> {
        match file.try_lock() {
            Ok(()) => Ok(true),
            Err(std::fs::TryLockError::WouldBlock) => Ok(false),
            Err(std::fs::TryLockError::Error(e)) => Err(e),
        }
    }

    // The lock goes with the process.
    pub(super) fn unlock(_: &File, _: u64) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_held_once_by_threads_and_by_processes() {
        let dir = tempfile::tempdir().unwrap();
        let key = Digest::of(b"a");
        let other = Digest::of(b"b");
        let ours = Locks::open(dir.path()).unwrap();
        let theirs = Locks::open(dir.path()).unwrap(); // another open file, as in another process
        let never = |_: Duration| false;
        let held = ours.lock(&key, never).unwrap().unwrap();
        assert!(ours.lock(&key, never).unwrap().is_none());
        #[cfg(target_os = "linux")]
        {
            assert!(theirs.lock(&key, never).unwrap().is_none());
            assert!(theirs.lock(&other, never).unwrap().is_some());
        }
        drop(held);
        assert!(theirs.lock(&key, never).unwrap().is_some());
        assert!(ours.lock(&other, never).unwrap().is_some());
    }
}
