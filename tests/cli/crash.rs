//! Killed, interrupted, and run twice at the same time: the store stays whole, no process is left, nothing is done twice.

use std::time::Duration;

use crate::support::{Sandbox, eventually, marker, processes_with, signal};

const RUN: [&str; 5] = ["run", "spec.yaml", "--json", "--jobs", "2"];
const STEPS: u64 = 4;

/// Steps that say in a file that they began, and sleep; their sleepers carry the marker.
fn sleepers(seconds: f32, marker: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    let began = sandbox.path("seen/began");
    let mut spec = String::from("version: 1\ncommands:\n");
    for n in 0..STEPS {
        let script = format!(
            "echo {n} >> {}; sh -c \"sleep {seconds}; : {marker}\"; echo {n} > out",
            began.display()
        );
        spec.push_str(&format!(
            "  s{n}: {{argv: [sh, -c, '{script}'], outputs: [out], writable: [seen]}}\n"
        ));
    }
    sandbox.file("spec.yaml", spec)
}

fn began(sandbox: &Sandbox) -> u64 {
    std::fs::read_to_string(sandbox.path("seen/began"))
        .unwrap_or_default()
        .lines()
        .count() as u64
}

#[test]
fn a_kill_at_any_moment_harms_nothing() {
    for moment_ms in [5, 40, 150, 300, 450, 700] {
        let marker = marker("kill");
        let sandbox = sleepers(0.25, &marker);
        let mut child = sandbox.spawn(RUN);
        std::thread::sleep(Duration::from_millis(moment_ms));
        signal(&child, libc::SIGKILL);
        child.wait().unwrap();
        eventually(&format!("no process is left after {moment_ms} ms"), || {
            processes_with(&marker).is_empty()
        });
        sandbox
            .run(["cache", "verify"])
            .success()
            .stdout_has("everything is as it was published");
        let held = sandbox.stats()["held"].as_u64().unwrap();
        let document = sandbox.run(RUN).success().json();
        assert_eq!(
            document["summary"]["executed"].as_u64().unwrap() + held,
            STEPS,
            "after {moment_ms} ms"
        );
        sandbox.run(["cache", "verify"]).success();
        // A child that was being started holds the dead run's lock until it is gone as well: the next one sweeps.
        eventually("what the killed one left is swept", || {
            sandbox.run(["cache", "gc", "--max-size", "1G"]).success();
            sandbox.stored_files("tmp").is_empty()
        });
        sandbox
            .run(RUN)
            .success()
            .summary([("executed", 0), ("hits", STEPS)]);
    }
}

#[test]
fn a_kill_while_children_sleep_leaves_no_orphan() {
    let marker = marker("orphan");
    let sandbox = sleepers(300.0, &marker);
    let mut child = sandbox.spawn(RUN);
    eventually("two steps began", || {
        began(&sandbox) == 2 && processes_with(&marker).len() >= 4
    });
    signal(&child, libc::SIGKILL);
    child.wait().unwrap();
    eventually("no process is left", || processes_with(&marker).is_empty());
}

#[cfg(target_os = "linux")]
#[test]
fn a_kill_leaves_nobody_who_left_group_and_session_either() {
    let marker = marker("session");
    let script = format!(
        "(setsid sh -c 'sleep 300; : {marker}' < /dev/null &); touch began; sleep 300; : {marker}"
    );
    let argv = serde_json::to_string(&["sh", "-c", &script]).unwrap();
    let spec = format!("version: 1\ncommands:\n  s: {{argv: {argv}, outputs: [out]}}\n");
    for number in [libc::SIGKILL, libc::SIGINT] {
        let sandbox = Sandbox::new().file("spec.yaml", &spec);
        let mut child = sandbox.spawn(RUN);
        eventually("all began", || processes_with(&marker).len() >= 2);
        signal(&child, number);
        child.wait().unwrap();
        eventually("no process is left", || processes_with(&marker).is_empty());
    }
}

#[test]
fn an_interrupt_ends_the_children_and_keeps_what_is_done() {
    let marker = marker("interrupt");
    let sandbox = sleepers(1.0, &marker);
    let child = sandbox.spawn(RUN);
    eventually("two steps are done and two began", || began(&sandbox) == 4);
    signal(&child, libc::SIGINT);
    let ended = sandbox.wait(child).code(130);
    assert!(ended.json()["summary"]["executed"].as_u64().unwrap() >= 2);
    assert_eq!(processes_with(&marker), Vec::<u32>::new());
    assert!(
        sandbox.stored_files("tmp").is_empty(),
        "{:?}",
        sandbox.stored_files("tmp")
    );
    sandbox
        .run(RUN)
        .success()
        .summary([("executed", 2), ("hits", 2)]);
    assert_eq!(began(&sandbox), 6, "only the interrupted two began again");
}

#[test]
fn two_at_the_same_time_do_each_step_once() {
    let sandbox = sleepers(0.3, "together");
    let children = [sandbox.spawn(RUN), sandbox.spawn(RUN), sandbox.spawn(RUN)];
    for child in children {
        sandbox.wait(child).success();
    }
    assert_eq!(began(&sandbox), STEPS);
    sandbox.run(["cache", "verify"]).success();
}
