//! Stamps of files: what one call to the kernel returns, and whether it may be believed.
//!
//! A stamp never enters a key: it only decides whether content that was hashed before must be hashed again. The change
//! time is in it because, unlike the modification time, no tool can set it back.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// Nanoseconds since 1970.
pub type Moment = i64;

const SECOND: Moment = 1_000_000_000;
/// How long after a change a second one could still leave the same stamp: several ticks of a kernel's clock.
const MARGIN: Moment = SECOND / 10;
/// [`MARGIN`] for a file system that counts in seconds.
const COARSE_MARGIN: Moment = 2 * SECOND;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    pub size: u64,
    pub modified: Moment,
    pub changed: Moment,
    pub inode: u64,
}

impl Stamp {
    pub const BYTES: usize = 32;
    /// Stands where nothing is.
    pub const ABSENT: Self = Self {
        size: 0,
        modified: 0,
        changed: 0,
        inode: 0,
    };

    pub fn of(path: &Path) -> io::Result<Self> {
        std::fs::metadata(path).map(|meta| Self::from(&meta))
    }

    /// Whether content read at `at` or later may have changed afterwards under this very stamp.
    pub fn is_racy(&self, at: Moment) -> bool {
        let margin = if self.is_coarse() {
            COARSE_MARGIN
        } else {
            MARGIN
        };
        self.modified.max(self.changed) > at - margin
    }

    /// Whether whatever changes from `clock` on, a moment of [`stamp_clock`], gets another stamp.
    pub fn is_before(&self, clock: Moment) -> bool {
        let margin = if self.is_coarse() && *self != Self::ABSENT {
            COARSE_MARGIN
        } else {
            0
        };
        self.changed < clock - margin
    }

    /// A file system that counts in seconds leaves such stamps, and hardly ever another.
    fn is_coarse(&self) -> bool {
        self.modified % SECOND == 0 && self.changed % SECOND == 0
    }

    pub fn bytes(&self) -> [u8; Self::BYTES] {
        let words = [
            self.size,
            self.modified as u64,
            self.changed as u64,
            self.inode,
        ]
        .map(u64::to_le_bytes);
        words.as_flattened().try_into().expect("BUG: four words")
    }

    pub fn from_bytes(bytes: &[u8]) -> Self {
        let word =
            |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("BUG: eight bytes"));
        Self {
            size: word(0),
            modified: word(8) as Moment,
            changed: word(16) as Moment,
            inode: word(24),
        }
    }
}

impl From<&Metadata> for Stamp {
    fn from(meta: &Metadata) -> Self {
        Self {
            size: meta.len(),
            modified: meta.mtime() * SECOND + meta.mtime_nsec(),
            changed: meta.ctime() * SECOND + meta.ctime_nsec(),
            inode: meta.ino(),
        }
    }
}

pub fn now() -> Moment {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_nanos() as Moment
}

/// The clock that stamps are taken from: whatever changes from now on gets this moment or a later one.
///
/// It stands still for a few milliseconds at a time, so a stamp that is older than it can no longer be given again.
#[cfg(target_os = "linux")]
pub fn stamp_clock() -> Moment {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a timespec of our own.
    match unsafe { libc::clock_gettime(libc::CLOCK_REALTIME_COARSE, &mut time) } {
        0 => time.tv_sec * SECOND + time.tv_nsec,
        _ => now() - MARGIN,
    }
}

#[cfg(not(target_os = "linux"))]
pub fn stamp_clock() -> Moment {
    now() - MARGIN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_read_back_as_it_was() {
        let stamp = Stamp {
            size: 1,
            modified: -2,
            changed: i64::MAX,
            inode: u64::MAX,
        };
        assert_eq!(Stamp::from_bytes(&stamp.bytes()), stamp);
    }

    #[test]
    fn a_fresh_stamp_is_not_trusted_and_a_coarse_one_for_longer() {
        let stamp = |changed: Moment| Stamp {
            size: 1,
            modified: 0,
            changed,
            inode: 1,
        };
        let at = 1_000 * SECOND;
        assert!(stamp(at - MARGIN / 2 + 1).is_racy(at));
        assert!(stamp(at + 5).is_racy(at));
        assert!(!stamp(at - MARGIN - 1).is_racy(at));
        assert!(
            stamp(at - SECOND).is_racy(at),
            "whole seconds may be a file system's grain"
        );
        assert!(!stamp(at - 3 * SECOND).is_racy(at));
    }
}
