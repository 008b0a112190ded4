//! Who descends from whom, and what memory they hold, as the kernel tells it.
//!
//! A process that its parent left behind goes to the nearest ancestor that takes in orphans (`PR_SET_CHILD_SUBREAPER`).
//! Every leader of a group is told to be one, and orch is one: so whoever a job started stands below its leader as long
//! as that lives, in whatever session or group, and becomes a child of orch's own when the leader ends. On systems that
//! are not Linux only groups are known, and a process that leaves its group is not seen.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod nothing;

#[cfg(target_os = "linux")]
pub(super) use linux::{adopt_orphans, end_below, exact_bytes, family_bytes, held_bytes, knows_all, sweep};
#[cfg(not(target_os = "linux"))]
pub(super) use nothing::{adopt_orphans, end_below, exact_bytes, family_bytes, held_bytes, knows_all, sweep};

use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// Held for reading while a child comes into being or is reaped, and for writing while strays are looked for: a child
/// that is not known yet, or no longer, looks like a stray.
static CHANGING: RwLock<()> = RwLock::new(());

pub(super) fn changing() -> RwLockReadGuard<'static, ()> {
    CHANGING.read().unwrap_or_else(PoisonError::into_inner)
}
