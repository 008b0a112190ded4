//! Programs that start processes without end. Each bomb here is bounded by its own counter as well, so that a limit that
//! does not hold costs a few hundred sleepers and not the machine.
//!
//! They need a control group that counts processes; where none can be made (not root, or a read-only `/sys/fs/cgroup`)
//! they say so and check nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::support::{Sandbox, beside_load, marker};

const BOMB: usize = 300;

/// Starts sleepers until the kernel refuses, at most [`BOMB`]; tells how many; waits if `WAIT` is set. Each leaves group,
/// session and environment behind, so that nothing but a control group knows it.
const CODE: &str = r#"
import os, sys, time
started = 0
for _ in range(int(sys.argv[1])):
    try:
        pid = os.fork()
    except OSError:
        break
    if pid == 0:
        os.setsid()
        os.execve("/bin/sleep", [sys.argv[2], "120"], {})
    started += 1
open("out", "w").write(str(started))
time.sleep(float(sys.argv[3]))
"#;

/// Where groups that count are made here, in versions 1 and 2.
fn groups() -> Vec<PathBuf> {
    [
        "/sys/fs/cgroup/pids",
        "/sys/fs/cgroup/unified",
        "/sys/fs/cgroup",
    ]
    .map(PathBuf::from)
    .into()
}

/// Names of groups that an orch has made.
fn made() -> Vec<PathBuf> {
    let below = groups()
        .into_iter()
        .flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten());
    let made = below.filter(|entry| entry.file_name().to_string_lossy().starts_with("orch-"));
    made.map(|entry| entry.path()).collect()
}

fn can_count() -> bool {
    let at = Path::new("/sys/fs/cgroup/pids").join(marker("probe"));
    let can = fs::create_dir(&at).is_ok() && at.join("pids.max").exists();
    let _ = fs::remove_dir(&at);
    if !can {
        crate::skipped("no control group that counts processes can be made here");
    }
    can
}

fn bomb(mark: &str, wait: f64) -> Sandbox {
    let sandbox = Sandbox::new();
    let argv = [
        "python3",
        "-c",
        CODE,
        &BOMB.to_string(),
        mark,
        &wait.to_string(),
    ];
    let argv = serde_json::to_string(&argv).unwrap();
    sandbox.file(
        "spec.yaml",
        format!("version: 1\ncommands:\n  bomb: {{argv: {argv}, outputs: [out]}}\n"),
    )
}

/// Sleepers of a bomb that are alive. Their environment is empty; their arguments are not.
fn alive(mark: &str) -> usize {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let lines = all.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines
        .filter(|line| line.starts_with(mark.as_bytes()))
        .count()
}

fn gone(mark: &str, within: Duration) {
    let begin = Instant::now();
    while alive(mark) > 0 {
        assert!(
            begin.elapsed() < beside_load(within),
            "{} are alive",
            alive(mark)
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_bomb_ends_at_the_limit_and_nothing_of_it_outlives_the_run() {
    if !can_count() {
        return;
    }
    let mark = marker("bomb");
    let sandbox = bomb(&mark, 0.0).env("ORCH_PIDS_MAX", "64");
    sandbox.run(["run", "spec.yaml"]).success();
    let started: usize = sandbox.output("command:bomb", "out").parse().unwrap();
    assert!((20..64).contains(&started), "{started} were started");
    gone(&mark, Duration::from_secs(1));
}

#[test]
fn a_bomb_does_not_outlive_an_orch_that_is_killed() {
    if !can_count() {
        return;
    }
    let mark = marker("bomb");
    let sandbox = bomb(&mark, 100.0).env("ORCH_PIDS_MAX", "200");
    let mut orch = sandbox.spawn(["run", "spec.yaml"]);
    let begin = Instant::now();
    while alive(&mark) < 100 && begin.elapsed() < beside_load(Duration::from_secs(60)) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let met = alive(&mark);
    let own = format!("orch-{}-", orch.id());
    let is_own = |path: &PathBuf| {
        path.file_name()
            .unwrap()
            .to_string_lossy()
            .starts_with(&own)
    };
    let has_group = made().iter().any(is_own);
    orch.kill().unwrap();
    orch.wait().unwrap();
    assert!(
        (100..200).contains(&met) && has_group,
        "{met} were alive; {:?}",
        made()
    );
    gone(&mark, Duration::from_secs(1));
    let begin = Instant::now();
    while made().iter().any(is_own) {
        assert!(
            begin.elapsed() < beside_load(Duration::from_secs(5)),
            "its groups stay: {:?}",
            made()
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}
