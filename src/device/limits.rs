//! What this process may use of the machine: CPU affinity, and the limits of its control group (versions 1 and 2).

use super::host::{Host, field};
use crate::base::process::kernel_bytes;

/// How many CPUs a list such as `0-3,8` names; None for text that is no such list.
pub(crate) fn count(list: &str) -> Option<u32> {
    let mut total: u32 = 0;
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first: u32 = first.trim().parse().ok()?;
        let last: u32 = last.trim().parse().ok()?;
        total = total.checked_add(last.checked_sub(first)?.checked_add(1)?)?;
    }
    Some(total)
}

/// Hardware threads within the affinity and the CPU quota; at least one.
pub(crate) fn cores(host: &Host, online: u32) -> u32 {
    let status = host.text("/proc/self/status").unwrap_or_default();
    let affinity = field(&status, "Cpus_allowed_list", ':').and_then(count);
    affinity
        .unwrap_or(online)
        .min(quota(host).unwrap_or(online))
        .clamp(1, online.max(1))
}

/// The least memory limit of the control group and its ancestors, in bytes.
pub(crate) fn memory(host: &Host) -> Option<u64> {
    let v2 = folders(host, "")
        .into_iter()
        .map(|folder| format!("{folder}/memory.max"));
    let v1 = folders(host, "memory")
        .into_iter()
        .map(|folder| format!("{folder}/memory.limit_in_bytes"));
    v2.chain(v1).filter_map(|path| host.number(&path)).min()
}

/// A figure of the kernel's table of memory, bytes.
pub(super) fn meminfo(host: &Host, key: &str) -> Option<u64> {
    kernel_bytes(&host.text("/proc/meminfo")?, key)
}

/// Bytes that this process could take at most: the machine's memory, or the limit of its control group if that is less.
pub fn whole_memory(host: &Host) -> Option<u64> {
    let machine = meminfo(host, "MemTotal")?;
    Some(memory(host).map_or(machine, |limit| limit.min(machine)))
}

/// Bytes that this process could take now without anything being swapped or killed: what the kernel says is available,
/// and what the limit of its control group leaves. None where neither is known.
pub fn free_memory(host: &Host) -> Option<u64> {
    let mac = || host.sysctl().get("hw.memsize")?.parse().ok();
    let machine =
        meminfo(host, "MemAvailable").or_else(|| if host.os == "macos" { mac() } else { None });
    let v2 = left(host, "", ["memory.max", "memory.current", "inactive_file"]);
    let v1 = left(
        host,
        "memory",
        [
            "memory.limit_in_bytes",
            "memory.usage_in_bytes",
            "total_inactive_file",
        ],
    );
    v2.into_iter().chain(v1).chain(machine).min()
}

/// How many processes the kernel has killed for want of memory: in this process's control group where that counts them
/// (version 2 with all groups below it, version 1 without), else on the whole machine. A kill elsewhere on a shared host
/// is not counted where the group counts.
pub fn kernel_oom_kills(host: &Host) -> Option<u64> {
    let count = |path: &str| {
        let text = host.text(path)?;
        field(&text, "oom_kill", ' ')?.parse().ok()
    };
    let of_group = |controller: &str, file: &str| {
        folders(host, controller)
            .iter()
            .rev()
            .find_map(|folder| count(&format!("{folder}/{file}")))
    };
    of_group("", "memory.events")
        .or_else(|| of_group("memory", "memory.oom_control"))
        .or_else(|| count("/proc/vmstat"))
}

/// What each limit of the control group and its ancestors leaves. Cached files count as used there, and go under pressure.
fn left(host: &Host, controller: &str, [limit, usage, cached]: [&str; 3]) -> Vec<u64> {
    let left = folders(host, controller).into_iter().filter_map(|folder| {
        let number = |file: &str| host.number::<u64>(&format!("{folder}/{file}"));
        let limit = number(limit)?;
        let usage = number(usage)?;
        let stat = host
            .text(&format!("{folder}/memory.stat"))
            .unwrap_or_default();
        let cached = field(&stat, cached, ' ').and_then(|figure| figure.parse().ok());
        Some(limit.saturating_sub(usage.saturating_sub(cached.unwrap_or(0))))
    });
    left.collect()
}

/// The least CPU quota in whole threads, rounded up: a quota of 1.5 can keep two threads partly busy.
fn quota(host: &Host) -> Option<u32> {
    let threads = |quota: &str, period: &str| {
        let quota: u64 = quota.parse().ok()?;
        let period: u64 = period.parse().ok()?;
        (quota > 0 && period > 0).then(|| u32::try_from(quota.div_ceil(period)).ok())?
    };
    let v2 = folders(host, "").into_iter().filter_map(|folder| {
        let text = host.text(&format!("{folder}/cpu.max"))?;
        let (quota, period) = text.split_once(' ')?;
        threads(quota, period)
    });
    let v1 = folders(host, "cpu").into_iter().filter_map(|folder| {
        let read = |file: &str| host.text(&format!("{folder}/{file}"));
        threads(&read("cpu.cfs_quota_us")?, &read("cpu.cfs_period_us")?)
    });
    v2.chain(v1).min()
}

/// The path of this process's control group, as the kernel reports it. `controller` is empty for version 2.
pub(super) fn own_group(host: &Host, controller: &str) -> Option<String> {
    let text = host.text("/proc/self/cgroup")?;
    text.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let controllers = parts.next()?;
        let path = parts.next()?;
        controllers
            .split(',')
            .any(|name| name == controller)
            .then(|| path.to_owned())
    })
}

/// The folder of this process's control group and those above it. `controller` is empty for version 2.
///
/// In a container the path in `/proc/self/cgroup` may be the host's; then only the mount's root exists, and it is ours.
fn folders(host: &Host, controller: &str) -> Vec<String> {
    let Some(path) = own_group(host, controller) else {
        return vec![];
    };
    let mut found = vec![
        format!("/sys/fs/cgroup/{controller}")
            .trim_end_matches('/')
            .to_owned(),
    ];
    for part in path
        .split('/')
        .filter(|part| !part.is_empty() && *part != "..")
    {
        found.push(format!("{}/{part}", found[found.len() - 1]));
    }
    found
}

#[cfg(test)]
mod tests {
    use crate::device::Host;

    #[test]
    fn free_memory_is_the_least_of_what_machine_and_group_leave() {
        let (_root, host) = Host::bare(&[]);
        let put = |path: &str, text: &str| host.put(path, text);
        let free = || super::free_memory(&host);
        put(
            "proc/meminfo",
            "MemTotal: 9000 kB\nMemAvailable:    4096 kB\n",
        );
        assert_eq!(free(), Some(4096 * 1024));
        let whole = || super::whole_memory(&host);
        assert_eq!(whole(), Some(9000 * 1024));
        put("proc/self/cgroup", "0::/a/b\n");
        put("sys/fs/cgroup/a/memory.max", "max");
        put("sys/fs/cgroup/a/b/memory.max", "3000000");
        put("sys/fs/cgroup/a/b/memory.current", "1500000");
        assert_eq!(free(), Some(1_500_000));
        assert_eq!(whole(), Some(3_000_000));
        put(
            "sys/fs/cgroup/a/b/memory.stat",
            "anon 500000\ninactive_file 1000000\nactive_file 3\n",
        );
        assert_eq!(free(), Some(2_500_000));
    }

    #[test]
    fn kills_for_want_of_memory_are_those_of_the_own_group_where_it_counts_them() {
        let (_root, host) = Host::bare(&[]);
        let put = |path: &str, text: &str| host.put(path, text);
        let kills = || super::kernel_oom_kills(&host);
        assert_eq!(kills(), None);
        put(
            "proc/vmstat",
            "nr_free_pages 4335762\noom_kill 7\nnuma_hit 1\n",
        );
        assert_eq!(kills(), Some(7));
        // Version 1, and the hybrid of both: the memory is not counted by version 2.
        put("proc/self/cgroup", "4:memory:/ci/job\n1:cpu:/\n0::/\n");
        put(
            "sys/fs/cgroup/unified/memory.pressure",
            "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
        );
        assert_eq!(kills(), Some(7));
        put(
            "sys/fs/cgroup/memory/ci/job/memory.oom_control",
            "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
        );
        assert_eq!(kills(), Some(3));
        // Version 2, as systemd makes it for a user's scope.
        put(
            "proc/self/cgroup",
            "0::/user.slice/user-1000.slice/run-u12.scope\n",
        );
        let events =
            |kills| format!("low 0\nhigh 0\nmax 12\noom 1\noom_kill {kills}\noom_group_kill 0\n");
        put("sys/fs/cgroup/user.slice/memory.events", &events(5));
        put(
            "sys/fs/cgroup/user.slice/user-1000.slice/run-u12.scope/memory.events",
            &events(1),
        );
        assert_eq!(kills(), Some(1));
        // A container that gets the host's path and sees its own group as the root.
        put("proc/self/cgroup", "0::/system.slice/docker-1a.scope\n");
        put("sys/fs/cgroup/memory.events", &events(2));
        assert_eq!(kills(), Some(2));
    }

    #[test]
    fn lists_are_counted_and_nonsense_is_not() {
        assert_eq!(super::count("0-3,8"), Some(5));
        assert_eq!(super::count("0\n"), Some(1));
        for nonsense in ["", "a-b", "3-1", "0-4294967295,0-4294967295"] {
            assert_eq!(super::count(nonsense), None, "{nonsense:?}");
        }
    }
}
