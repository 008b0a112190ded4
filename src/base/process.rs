//! What several modules need of processes: one with a time limit, one that dies with its parent, and what the kernel says
//! of one.

use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// So much of what a program prints is kept; no program that prints a few lines prints more.
const LONGEST: u64 = 64 << 20;

/// Runs `command` to its end, with nothing on its stdin. None if it was killed because `limit` passed. With a process
/// group of its own, the group is killed in any case: who is left behind would keep the pipes open.
pub fn run_within(
    command: &mut Command,
    limit: Duration,
    own_group: bool,
) -> io::Result<Option<Output>> {
    if own_group {
        std::os::unix::process::CommandExt::process_group(command, 0);
    }
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let stdout = collected(child.stdout.take());
    let stderr = collected(child.stderr.take());
    let status = wait(&mut child, limit);
    if own_group {
        // SAFETY: kill with a negative process id signals that group, which is this child's own.
        unsafe { libc::kill(-(child.id() as libc::pid_t), libc::SIGKILL) };
    }
    let Some(status) = status? else {
        return Ok(None);
    };
    let bytes = |reader: JoinHandle<Vec<u8>>| reader.join().unwrap_or_default();
    Ok(Some(Output {
        status,
        stdout: bytes(stdout),
        stderr: bytes(stderr),
    }))
}

fn wait(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let start = Instant::now();
    let mut pause = Duration::from_micros(500);
    loop {
        match child.try_wait() {
            Ok(None) if start.elapsed() < limit => {
                thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(10));
            }
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return Ok(None);
            }
            other => return other,
        }
    }
}

fn collected(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = vec![];
        if let Some(pipe) = pipe {
            let _ = pipe.take(LONGEST).read_to_end(&mut bytes);
        }
        bytes
    })
}

/// Has the kernel kill the calling process when its parent ends, which is `parent`. For use between fork and exec:
/// system calls only. Nothing on systems that are not Linux.
pub fn die_with(parent: u32) {
    #[cfg(target_os = "linux")]
    // SAFETY: takes no pointers.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        // The parent may have died before the line above.
        if libc::getppid() != parent as libc::pid_t {
            libc::_exit(1);
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = parent;
}

/// The most memory that a process held, bytes.
pub fn peak_of(usage: &libc::rusage) -> u64 {
    // Linux counts in KiB, macOS in bytes.
    usage.ru_maxrss as u64 * if cfg!(target_os = "macos") { 1 } else { 1024 }
}

/// The most that this process held, bytes, or on Linux its parent when it was forked.
pub fn own_peak() -> Option<u64> {
    usage(libc::RUSAGE_SELF).map(|usage| peak_of(&usage))
}

/// CPU time of this process and of all that descend from it, those included that are over and were waited for.
pub fn family_cpu_seconds() -> Option<f64> {
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    let of = |usage: libc::rusage| seconds(usage.ru_utime) + seconds(usage.ru_stime);
    let own = of(usage(libc::RUSAGE_SELF)?) + of(usage(libc::RUSAGE_CHILDREN)?);
    let living = descendants(std::process::id() as i32)
        .into_iter()
        .filter_map(Stat::of);
    Some(own + living.map(|stat| stat.cpu as f64).sum::<f64>() / ticks_per_second()?)
}

/// The length of a tick in the kernel's tables of processes.
pub fn ticks_per_second() -> Option<f64> {
    // SAFETY: sysconf takes no pointers.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    (ticks > 0).then_some(ticks as f64)
}

/// How often the calling thread stopped computing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Switches {
    /// The kernel took the CPU from it.
    pub involuntary: u64,
    /// It waited for something.
    pub voluntary: u64,
}

/// None on systems that are not Linux.
pub fn switches() -> Option<Switches> {
    #[cfg(target_os = "linux")]
    return usage(libc::RUSAGE_THREAD).map(|usage| Switches {
        involuntary: usage.ru_nivcsw as u64,
        voluntary: usage.ru_nvcsw as u64,
    });
    #[cfg(not(target_os = "linux"))]
    None
}

fn usage(of: libc::c_int) -> Option<libc::rusage> {
    // SAFETY: an all-zero rusage is valid, and it lives as long as the call.
    let (code, usage) = unsafe {
        let mut usage = std::mem::zeroed();
        (libc::getrusage(of, &mut usage), usage)
    };
    (code == 0).then_some(usage)
}

/// CPU time of the calling thread.
pub fn thread_cpu() -> Option<Duration> {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU time of all threads of this process.
pub fn process_cpu() -> Option<Duration> {
    clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

fn clock(which: libc::clockid_t) -> Option<Duration> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the time lives as long as the call.
    let code = unsafe { libc::clock_gettime(which, &mut time) };
    (code == 0).then(|| Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}

/// How many threads this process has. None without /proc.
pub fn own_threads() -> Option<u32> {
    std::fs::read_dir("/proc/self/task")
        .ok()
        .map(|entries| entries.count() as u32)
}

/// The most memory that a living process held, by the kernel's mark of its address space, bytes. None without /proc.
pub fn high_water_mark(pid: i32) -> Option<u64> {
    of_status(pid, "VmHWM")
}

/// The memory that a living process holds, bytes. None without /proc.
pub fn held_now(pid: i32) -> Option<u64> {
    of_status(pid, "VmRSS")
}

fn of_status(pid: i32, name: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    kernel_bytes(&status, name)
}

/// A figure of one of the kernel's tables of `Name: 1 kB` lines, bytes.
pub fn kernel_bytes(table: &str, name: &str) -> Option<u64> {
    let figure = table.lines().find_map(|line| {
        line.strip_prefix(name)?
            .strip_prefix(':')?
            .strip_suffix("kB")
    })?;
    figure
        .trim()
        .parse::<u64>()
        .ok()
        .map(|kib| kib.saturating_mul(1024))
}

/// A process, as /proc has it.
#[derive(Debug, Clone, Copy)]
pub struct Stat {
    pub state: char,
    pub parent: i32,
    /// CPU time of it and of the children that it has waited for, in the kernel's ticks.
    pub cpu: u64,
    /// Ticks of the kernel from the machine's start to the process's: they tell it from a later one of its number.
    pub started: u64,
}

impl Stat {
    /// None where there is no such process, or no /proc.
    pub fn of(pid: i32) -> Option<Self> {
        let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name before the fields may hold anything, and ends with the last parenthesis.
        let mut fields = text.rsplit_once(") ")?.1.split(' ');
        let state = fields.next()?.chars().next()?;
        let parent = fields.next()?.parse().ok()?;
        fields.nth(8)?;
        let mut cpu = 0;
        for ticks in fields.by_ref().take(4) {
            cpu += ticks.parse::<u64>().ok()?;
        }
        Some(Self {
            state,
            parent,
            cpu,
            started: fields.nth(4)?.parse().ok()?,
        })
    }

    /// Neither a zombie nor gone.
    pub fn is_alive(&self) -> bool {
        !matches!(self.state, 'Z' | 'X')
    }
}

/// All processes, by number.
pub fn all() -> impl Iterator<Item = (i32, Stat)> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid| Some((pid, Stat::of(pid)?)))
}

/// All that descend from a process, its own children first.
pub fn descendants(leader: i32) -> Vec<i32> {
    let mut found = vec![leader];
    // Where the kernel keeps no lists of children (CONFIG_PROC_CHILDREN), every process names its parent.
    let has_lists = Path::new("/proc/thread-self/children").exists();
    let all: Vec<_> = if has_lists {
        Vec::new()
    } else {
        all().map(|(pid, stat)| (pid, stat.parent)).collect()
    };
    let mut at = 0;
    while let Some(pid) = found.get(at).copied() {
        found.extend(
            all.iter()
                .filter(|(_, parent)| *parent == pid)
                .map(|(child, _)| *child),
        );
        if has_lists {
            found.extend(listed(pid));
        }
        at += 1;
    }
    found.split_off(1)
}

/// The children that all threads of a process have.
fn listed(pid: i32) -> Vec<i32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    lists.flat_map(|list| numbers(&list)).collect()
}

/// The numbers in a list of children. Each is followed by a space; one that is cut off is left for the next look.
pub fn numbers(list: &str) -> Vec<i32> {
    list.split_inclusive(' ')
        .filter_map(|word| word.strip_suffix(' ')?.parse().ok())
        .collect()
}

/// Keeps the calling thread on one CPU: the one with this number among those that it may use, counted round and round.
#[cfg(target_os = "linux")]
pub fn stay_on_cpu(number: usize) {
    let size = std::mem::size_of::<libc::cpu_set_t>();
    // SAFETY: an all-zero set is valid, the sizes are those of the sets, and the numbers are below what a set holds.
    unsafe {
        let mut allowed: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size, &mut allowed) != 0 {
            return;
        }
        let cpus: Vec<usize> = (0..libc::CPU_SETSIZE as usize)
            .filter(|cpu| libc::CPU_ISSET(*cpu, &allowed))
            .collect();
        let Some(cpu) = cpus.get(number % cpus.len().max(1)) else {
            return;
        };
        let mut one: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(*cpu, &mut one);
        // Where it is refused, the kernel places the thread.
        let _ = libc::sched_setaffinity(0, size, &one);
    }
}

/// Elsewhere the kernel places it.
#[cfg(not(target_os = "linux"))]
pub fn stay_on_cpu(_number: usize) {}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, limit: Duration) -> Option<Output> {
        run_within(Command::new("/bin/sh").args(["-c", script]), limit, true).unwrap()
    }

    #[test]
    fn a_program_answers_and_a_slow_one_is_killed_with_its_children() {
        const LIMIT: Duration = Duration::from_secs(10);
        let output = sh("echo hello; echo sorry >&2; exit 3", LIMIT).unwrap();
        assert_eq!(
            (output.status.code(), &*output.stdout, &*output.stderr),
            (Some(3), &b"hello\n"[..], &b"sorry\n"[..])
        );
        let start = Instant::now();
        assert!(sh("sleep 30 & sleep 30", Duration::from_millis(50)).is_none());
        assert_eq!(sh("sleep 30 & echo done", LIMIT).unwrap().stdout, b"done\n");
        assert!(start.elapsed() < Duration::from_secs(5));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn cpu_time_of_descendants_counts_while_their_parents_live() {
        let script =
            "sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'; echo done; read line";
        let before = family_cpu_seconds().unwrap();
        let mut child = Command::new("sh")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut number = [0; 5];
        child
            .stdout
            .take()
            .unwrap()
            .read_exact(&mut number)
            .unwrap();
        // It waited for the one that computed, and this process for neither.
        assert!(Stat::of(child.id() as i32).unwrap().cpu >= 2);
        assert!(family_cpu_seconds().unwrap() - before >= 0.02);
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_is_identified_by_parent_and_start() {
        let own = std::process::id() as i32;
        let mut child = Command::new("sleep").arg("30").spawn().unwrap();
        let this = Stat::of(own).unwrap();
        let that = Stat::of(child.id() as i32).unwrap();
        assert!(that.parent == own && that.is_alive() && that.started >= this.started);
        assert!(all().any(|(pid, _)| pid == child.id() as i32));
        child.kill().unwrap();
        while Stat::of(child.id() as i32).is_some_and(|stat| stat.is_alive()) {}
        child.wait().unwrap();
        assert!(Stat::of(child.id() as i32).is_none());
    }
}
