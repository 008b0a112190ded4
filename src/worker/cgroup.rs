//! Control groups of one orch and all that it starts, where they can be made: they bound how many processes there can be,
//! and end all of them at once when orch is gone, whatever they have done to their group, session and environment.
//!
//! Orch itself goes into them, once, and its children are born there: moving each child would make every fork on the
//! machine wait. The watcher, forked before, stays outside, ends what is left and removes them. Where none can be made,
//! nothing is different.

#![expect(
    clippy::disallowed_methods,
    reason = "writes the kernel's control files"
)]

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Mode, OFlags, open, rmdir};
use rustix::io::write;

use crate::device::Host;
use crate::device::cgroups::own;

/// The most processes and threads at a time, if not as many as [`most`] says.
const VARIABLE: &str = "ORCH_PIDS_MAX";
const AT_LEAST: u64 = 4096;
const PER_CORE: u64 = 1024;

/// The groups, one for each hierarchy; none where none can be made.
#[derive(Default)]
pub(super) struct Cell {
    groups: Vec<Group>,
}

struct Group {
    procs: PathBuf,
    dir: CString,
    /// Ends all in it when `1` is written there; not on kernels before 5.14, nor in version 1.
    kill: CString,
}

impl Cell {
    pub(super) fn make(name: &str) -> Self {
        let host = Host::real();
        let variable = host.env(VARIABLE).and_then(|text| text.trim().parse().ok());
        let limit = variable.unwrap_or_else(|| most(&host));
        let groups = own(&host)
            .into_iter()
            .filter_map(|parent| Group::make(&host.at(&parent), name, limit));
        Self {
            groups: groups.collect(),
        }
    }

    /// Moves this process into them, with all its threads.
    pub(super) fn enter(&self) {
        for group in &self.groups {
            // One that cannot be entered limits nothing, and is removed in the end.
            let _ = fs::write(&group.procs, "0");
        }
    }

    /// Ends all that is in them. Async-signal-safe.
    pub(super) fn kill(&self) {
        for group in &self.groups {
            if let Ok(file) = open(
                &*group.kill,
                OFlags::WRONLY | OFlags::CLOEXEC,
                Mode::empty(),
            ) {
                let _ = write(&file, b"1");
            }
        }
    }

    /// Removes them, as soon as who was ended in them is gone. Async-signal-safe.
    pub(super) fn remove(&self) {
        for group in &self.groups {
            let mut looks = 0..400;
            while rmdir(&*group.dir).is_err() && looks.next().is_some() {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

impl Group {
    fn make(parent: &Path, name: &str, limit: u64) -> Option<Self> {
        let dir = parent.join(name);
        fs::create_dir(&dir).ok()?;
        let text = |path: &Path| CString::new(path.as_os_str().as_bytes()).ok();
        // It is there where the group counts its processes.
        let max = dir.join("pids.max");
        if max.exists() {
            let _ = fs::write(max, limit.to_string());
        }
        Some(Self {
            procs: dir.join("cgroup.procs"),
            dir: text(&dir)?,
            kill: text(&dir.join("cgroup.kill"))?,
        })
    }
}

/// Enough for any machine's honest steps, and less than half of what the kernel can have.
fn most(host: &Host) -> u64 {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    let kernel = host
        .text("/proc/sys/kernel/pid_max")
        .and_then(|text| text.trim().parse::<u64>().ok());
    (cores * PER_CORE)
        .max(AT_LEAST)
        .min(kernel.map_or(u64::MAX, |most| most / 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_given_its_limit_and_takes_in_and_ends_by_its_files() {
        let parent = tempfile::tempdir().unwrap();
        // Files stand for the kernel's: the folder must not be there yet, so this one is made behind its back.
        let group = Group::make(parent.path(), "g", 7).unwrap();
        assert!(
            !parent.path().join("g/pids.max").exists(),
            "it counts nothing"
        );
        fs::write(parent.path().join("g/cgroup.kill"), "").unwrap();
        let cell = Cell {
            groups: vec![group],
        };
        cell.enter();
        cell.kill();
        let read = |name: &str| fs::read_to_string(parent.path().join("g").join(name)).unwrap();
        assert_eq!(
            (read("cgroup.procs").as_str(), read("cgroup.kill").as_str()),
            ("0", "1")
        );
        assert!(
            Group::make(parent.path(), "g", 7).is_none(),
            "it is somebody else's"
        );
        assert!(Group::make(Path::new("/nowhere"), "g", 7).is_none());
    }
}
