//! Steps that allocate without end: they end as OOM, told apart from a crash, and take nothing else along.
//!
//! What needs a small machine gets one from the kernel: a control group with a limit of its own, below that of this test. Where none
//! can be made (not root, or a read-only `/sys/fs/cgroup`) these tests say so and check nothing.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Sandbox, marker};

/// Allocates until it is ended.
const WITHOUT_END: &str =
    "import itertools\nb = [bytearray(b'x') * (8 << 20) for i in itertools.count()]";

fn command(name: &str, argv: &[&str]) -> String {
    format!(
        "  {name}: {{argv: {}, outputs: [out]}}\n",
        serde_json::to_string(argv).unwrap()
    )
}

fn sandbox(commands: &[String]) -> Sandbox {
    Sandbox::new().file(
        "spec.yaml",
        format!("version: 1\ncommands:\n{}", commands.concat()),
    )
}

/// Outcome and reason of each step of the last run.
fn ends(sandbox: &Sandbox) -> BTreeMap<String, (String, String)> {
    let run = sandbox.run(["history", "1", "--json"]).success().json();
    let word = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let steps = run["steps"].as_array().unwrap().iter();
    steps
        .map(|step| {
            (
                word(&step["step"]),
                (word(&step["outcome"]), word(&step["reason"])),
            )
        })
        .collect()
}

#[cfg(target_os = "linux")]
#[test]
fn what_allocates_without_end_is_oom_and_what_is_killed_is_a_crash() {
    let below = format!("python3 -c \"{WITHOUT_END}\" & wait");
    let sandbox = sandbox(&[
        command("eats", &["python3", "-c", WITHOUT_END]),
        command("eats-below", &["sh", "-c", &below]),
        command(
            "refused",
            &["python3", "-c", "import os; b = b'x' * (1 << 60)"],
        ),
        command("killed", &["sh", "-c", "kill -KILL $$"]),
        command("good", &["sh", "-c", "sleep 0.5; echo x > out"]),
    ]);
    sandbox
        .run(["run", "spec.yaml", "--jobs", "5", "--job-memory", "200MiB"])
        .code(1);
    let ends = ends(&sandbox);
    let end = |name: &str| ends[&format!("command:{name}")].clone();
    for name in ["eats", "eats-below"] {
        let (outcome, reason) = end(name);
        assert_eq!(outcome, "OOM", "{name}: {reason}");
        assert!(
            reason.starts_with("it held ") && reason.ends_with("more than its limit of 200 MiB"),
            "{reason}"
        );
    }
    let (outcome, reason) = end("killed");
    assert!(
        outcome == "CRASH" && reason.contains("SIGKILL"),
        "{outcome} {reason}"
    );
    // It was told that there is no memory, and said so; nobody had to end it.
    let (outcome, reason) = end("refused");
    assert!(
        outcome == "FAIL" && reason.contains("MemoryError"),
        "{outcome} {reason}"
    );
    assert_eq!(end("good").0, "PASS");
}

/// A control group with a limit of memory; gone when dropped.
struct Group(PathBuf);

impl Group {
    /// Below this process's own (version 1), or beside it (version 2, where a group with processes has none below it).
    #[expect(
        clippy::print_stderr,
        reason = "what a test leaves out is shown with its output"
    )]
    fn new(bytes: u64) -> Option<Self> {
        let made = Self::of_version(1, bytes)
            .or_else(|why| Self::of_version(2, bytes).map_err(|e| format!("{why}; {e}")));
        made.inspect_err(|why| eprintln!("skipped: no control group can be made: {why}"))
            .ok()
    }

    fn of_version(version: u32, bytes: u64) -> Result<Self, String> {
        let text = fs::read_to_string("/proc/self/cgroup").map_err(|e| e.to_string())?;
        let (line, limit, mount) = match version {
            1 => (":memory:", "memory.limit_in_bytes", "/sys/fs/cgroup/memory"),
            _ => ("0::", "memory.max", "/sys/fs/cgroup"),
        };
        let path = text
            .lines()
            .find_map(|found| found.split_once(line).map(|(_, path)| path));
        let own = Path::new(mount).join(
            path.ok_or("this process is in none")?
                .trim_start_matches('/'),
        );
        let parent = if version == 1 {
            own.clone()
        } else {
            own.parent().unwrap_or(&own).to_owned()
        };
        let group = Self(parent.join(marker("group")));
        fs::create_dir(&group.0).map_err(|e| format!("version {version}: {e}"))?;
        fs::write(group.0.join(limit), bytes.to_string())
            .map_err(|e| format!("version {version}: {limit}: {e}"))?;
        Ok(group)
    }

    /// The command as it is run by a shell that has put itself in here.
    fn command(&self, sandbox: &Sandbox, args: &[&str]) -> Command {
        let inner = sandbox.command(args);
        let mut command = Command::new("sh");
        command.arg("-c").arg(format!(
            "echo $$ > '{}/cgroup.procs' && exec \"$0\" \"$@\"",
            self.0.display()
        ));
        command
            .arg(inner.get_program())
            .args(inner.get_args())
            .current_dir(sandbox.path(""))
            .env_clear();
        command.envs(
            inner
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        );
        command
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Those that were killed leave it in their own time.
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

/// Grows by 4 MiB at a time up to so many, and stays so long.
fn grows(mib: u32, seconds: u32) -> String {
    let steps = mib / 4;
    format!(
        "import time\nb = []\nfor i in range({steps}):\n    b.append(bytearray(b'x') * (4 << 20))\n    time.sleep(0.04)\n\
         time.sleep({seconds})\nopen('out', 'w').close()"
    )
}

#[cfg(target_os = "linux")]
#[test]
fn when_the_machine_is_nearly_full_its_largest_job_goes_and_the_others_go_on() {
    let Some(group) = Group::new(900 << 20) else {
        return;
    };
    let sandbox = sandbox(&[
        command("modest", &["python3", "-c", &grows(200, 8)]),
        command("large", &["python3", "-c", &grows(1200, 0)]),
    ]);
    // A job's own limit is not in the way, however little the other one holds as yet.
    let run = ["run", "spec.yaml", "--jobs", "2", "--job-memory", "100GiB"];
    let ended = group.command(&sandbox, &run).output().unwrap();
    assert_eq!(
        ended.status.code(),
        Some(1),
        "{}",
        String::from_utf8_lossy(&ended.stderr)
    );
    let ends = ends(&sandbox);
    assert_eq!(ends["command:modest"].0, "PASS", "{ends:?}");
    let (outcome, reason) = &ends["command:large"];
    assert_eq!(outcome, "OOM", "{reason}");
    let said = reason.starts_with("only ")
        && reason.contains("of the machine's 900 MiB were left, and it held ")
        && reason.ends_with("the most of all jobs");
    assert!(said, "{reason}");
}

#[cfg(target_os = "linux")]
#[test]
fn what_the_kernel_kills_for_want_of_memory_is_no_crash() {
    let Some(group) = Group::new(250 << 20) else {
        return;
    };
    // All at once and below a shell, so that orch hardly sees it coming; and no limit of orch's own is in the way.
    let script = "python3 -c \"b = bytearray(b'x') * (1 << 30)\"; exit $?";
    let sandbox = sandbox(&[
        command("eats", &["sh", "-c", script]),
        command("code", &["sh", "-c", "exit 137"]),
    ]);
    let run = ["run", "spec.yaml", "--job-memory", "100GiB", "--jobs", "1"];
    let ended = group.command(&sandbox, &run).output().unwrap();
    assert_eq!(
        ended.status.code(),
        Some(1),
        "{}",
        String::from_utf8_lossy(&ended.stderr)
    );
    let mut ends = ends(&sandbox);
    let (outcome, reason) = ends.remove("command:code").unwrap();
    assert_eq!(outcome, "FAIL", "nobody was killed meanwhile: {reason}");
    let (outcome, reason) = ends.remove("command:eats").unwrap();
    assert_eq!(outcome, "OOM", "{reason}");
    // Who of the two is faster in the last milliseconds is left open.
    let [by_kernel, by_orch] = [
        "the kernel's out-of-memory killer ended it",
        "of the machine's 250 MiB were left",
    ];
    assert!(
        reason.starts_with(by_kernel) || reason.contains(by_orch),
        "{reason}"
    );
}
