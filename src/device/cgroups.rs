//! Control groups that a run may make for itself: one in which the kernel counts processes, one that ends all at once.
//!
//! Only below the group in which orch was started: its limits are respected.

use super::limits;
use crate::device::Host;

/// Folders of the control groups that this process is in, below which it may be able to make one: of version 2, and of
/// version 1's `pids` where that counts.
pub fn own(host: &Host) -> Vec<String> {
    let unified = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"].into_iter();
    let unified = unified.filter(|mount| host.exists(&format!("{mount}/cgroup.controllers")));
    let all = unified
        .map(|mount| ("", mount))
        .chain([("pids", "/sys/fs/cgroup/pids")]);
    all.filter_map(|(controller, mount)| own_of(host, controller, mount))
        .collect()
}

/// The most processes that the groups allow in which this process is, if they allow no more than some number.
pub fn most_processes(host: &Host) -> Option<u64> {
    let limit = |folder: &str| host.number::<u64>(&format!("{folder}/pids.max"));
    own(host)
        .iter()
        .filter_map(|folder| ancestors(folder).filter_map(limit).min())
        .min()
}

/// Whether a group that is made there counts its processes.
pub fn counts(host: &Host, folder: &str) -> bool {
    let enabled = host.text(&format!("{folder}/cgroup.subtree_control"));
    enabled.map_or(folder.starts_with("/sys/fs/cgroup/pids"), |all| {
        all.split_whitespace().any(|one| one == "pids")
    })
}

/// The process's own group. In a container the path may be the host's; then only the mount's root exists, and it is
/// ours.
fn own_of(host: &Host, controller: &str, mount: &str) -> Option<String> {
    let path = limits::own_group(host, controller)?;
    let path = path.trim_end_matches('/');
    let there = |folder: &String| host.exists(&format!("{folder}/cgroup.procs"));
    [format!("{mount}{path}"), mount.to_owned()]
        .into_iter()
        .find(there)
}

fn ancestors(folder: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(folder), |folder| {
        folder.rsplit_once('/').map(|(above, _)| above)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_2_counts_where_its_parent_lets_it() {
        let own_group = "sys/fs/cgroup/user.slice/a.scope";
        let (_dir, host) = Host::bare(&[
            ("proc/self/cgroup", "0::/user.slice/a.scope\n"),
            ("sys/fs/cgroup/cgroup.controllers", "cpu pids"),
            ("sys/fs/cgroup/user.slice/pids.max", "9000"),
            (&format!("{own_group}/cgroup.procs"), ""),
            (&format!("{own_group}/cgroup.subtree_control"), "memory"),
            (&format!("{own_group}/pids.max"), "max"),
        ]);
        assert_eq!(own(&host), [format!("/{own_group}")]);
        assert!(!counts(&host, &format!("/{own_group}")));
        assert_eq!(most_processes(&host), Some(9000), "of all groups above");
        std::fs::write(
            host.at(&format!("/{own_group}/cgroup.subtree_control")),
            "memory pids",
        )
        .unwrap();
        assert!(counts(&host, &format!("/{own_group}")));
    }

    #[test]
    fn beside_version_1_the_one_ends_and_the_other_counts() {
        let (_dir, host) = Host::bare(&[
            ("proc/self/cgroup", "8:pids:/job\n1:cpu:/\n0::/\n"),
            ("sys/fs/cgroup/unified/cgroup.controllers", ""),
            ("sys/fs/cgroup/unified/cgroup.procs", ""),
            ("sys/fs/cgroup/unified/cgroup.subtree_control", ""),
            // The job's own folder is the host's, and not to be seen here.
            ("sys/fs/cgroup/pids/cgroup.procs", ""),
        ]);
        assert_eq!(
            own(&host),
            ["/sys/fs/cgroup/unified", "/sys/fs/cgroup/pids"]
        );
        assert!(!counts(&host, "/sys/fs/cgroup/unified") && counts(&host, "/sys/fs/cgroup/pids"));
        assert_eq!(most_processes(&host), None);
    }

    #[test]
    fn without_control_groups_there_is_none() {
        assert_eq!(
            own(&Host::bare(&[("proc/self/cgroup", "0::/\n")]).1),
            Vec::<String>::new()
        );
        assert_eq!(own(&Host::bare(&[]).1), Vec::<String>::new());
    }
}
