//! What stays on the server that executed it, and what is fetched from there when.

use std::fs;
use std::path::{Path, PathBuf};

use crate::SPEC;
use crate::execution::{Lab, WHAT};
use crate::servers::is_done_without;
use crate::support::{Sandbox, eventually, flip_byte, processes_with};

const TWICE: &str = "content\ncontent\n";
/// It reads a variable, so it executes here.
const HERE: &str = "  third: {argv: [sh, -c, 'cat x/twice x/twice > out'], outputs: [out], env: [HOME], \
                    inputs: {x: {step: 'command:second'}}}\n";

fn checkout() -> Sandbox {
    Sandbox::new().file("spec.yaml", format!("{SPEC}{HERE}"))
}

fn run<'a>(url: &'a str, step: &'a str, download: &'a str) -> Vec<&'a str> {
    let all = [
        "run",
        "spec.yaml",
        "--json",
        "--executor",
        url,
        "--where",
        "remote",
    ];
    [&all[..], &["--step", step, "--download", download]].concat()
}

/// The contents that a checkout's store has, sorted.
fn held(sandbox: &Sandbox) -> Vec<String> {
    let mut all: Vec<_> = sandbox
        .stored_files("blobs")
        .iter()
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    all.sort();
    all
}

#[test]
fn what_nothing_here_reads_stays_there() {
    if is_done_without(WHAT) {
        return;
    }
    let lab = Lab::new();
    let url = lab.url();
    let sandbox = checkout();
    sandbox
        .run(run(&url, "command:second", "none"))
        .success()
        .summary([("executed", 2), ("failed", 0)]);
    assert_eq!(held(&sandbox), [""; 0]);
    // Nothing says that it is here: the server is asked, and nobody works.
    sandbox
        .run(run(&url, "command:second", "none"))
        .success()
        .summary([("executed", 0), ("fetched", 2)]);
    assert_eq!(held(&sandbox), [""; 0]);
    // What was asked for, and not what it was made of.
    sandbox
        .run(run(&url, "command:second", "toplevel"))
        .success()
        .summary([("executed", 0), ("fetched", 2)]);
    assert_eq!(held(&sandbox), [TWICE]);
    assert_eq!(sandbox.output("command:second", "twice"), TWICE);
    sandbox.run(["cache", "verify"]).success();
    // The rest, once it is asked for.
    sandbox
        .run(run(&url, "command:*", "all"))
        .success()
        .summary([("failed", 0)]);
    assert_eq!(sandbox.output("command:first", "file"), "content\n");
    sandbox
        .run(["run", "spec.yaml", "--json", "--step", "command:*"])
        .success()
        .summary([("executed", 0)]);
}

#[test]
fn what_something_here_reads_is_fetched_then() {
    if is_done_without(WHAT) {
        return;
    }
    let lab = Lab::new();
    let url = lab.url();
    let sandbox = checkout();
    let ended = sandbox
        .run(run(&url, "command:third", "none"))
        .success()
        .summary([("executed", 3), ("failed", 0)]);
    ended.stderr_lacks("warning");
    assert_eq!(
        held(&sandbox),
        [TWICE.to_owned(), TWICE.repeat(2)],
        "and not what `second` was made of"
    );
    sandbox.run(["cache", "verify"]).success();
    // Kept as if it had been fetched at once.
    assert_eq!(sandbox.output("command:second", "twice"), TWICE);
}

#[test]
fn what_is_gone_or_spoilt_there_is_made_again_or_fails() {
    if is_done_without(WHAT) {
        return;
    }
    let lab = Lab::new();
    let url = lab.url();
    checkout()
        .run(run(&url, "command:second", "none"))
        .success();
    // A step here reads it.
    fs::remove_file(with_content(lab.blobs(), TWICE)).unwrap();
    let second = checkout();
    second
        .run(run(&url, "command:third", "none"))
        .success()
        .summary([("failed", 0)]);
    assert_eq!(second.output("command:third", "out"), TWICE.repeat(2));
    // A step there reads it, whose own result nobody knows yet.
    fs::remove_file(with_content(lab.blobs(), "content\n")).unwrap();
    let third = Sandbox::new().file(
        "spec.yaml",
        SPEC.replace("cat x/file x/file", "cat x/file x/file x/file"),
    );
    third
        .run(run(&url, "command:second", "toplevel"))
        .success()
        .summary([("failed", 0)]);
    assert_eq!(
        third.output("command:second", "twice"),
        "content\n".repeat(3)
    );
    // Other content under the same name: nothing that is wrong is ever kept.
    flip_byte(&with_content(lab.blobs(), TWICE));
    let fourth = checkout();
    let ended = fourth.run(run(&url, "command:third", "none"));
    match ended.code {
        Some(0) => assert_eq!(fourth.output("command:third", "out"), TWICE.repeat(2)),
        _ => assert_eq!(held(&fourth), [""; 0], "{}", ended.stderr),
    }
}

/// `late` reads what `first` left there, once `gate` ended; it executes there, or here.
fn gated(gate: &Path, is_here: bool) -> String {
    let at = gate.display();
    let env = if is_here { "env: [HOME], " } else { "" };
    format!(
        "{SPEC}  gate: {{argv: [sh, -c, 'while test ! -e {at}/go; do sleep 0.1; done; echo > out'], outputs: [out], \
         inputs: {{x: {{step: 'command:second'}}}}, timeout_seconds: 60}}\n  late: {{argv: [sh, -c, 'cat x/file > out'], \
         outputs: [out], {env}inputs: {{x: {{step: 'command:first'}}, y: {{step: 'command:gate'}}}}}}\n"
    )
}

#[test]
fn what_is_lost_there_in_mid_run_is_made_again() {
    if is_done_without(WHAT) {
        return;
    }
    for is_here in [true, false] {
        let lab = Lab::new();
        loses_in_mid_run(&lab.url(), || lab.blobs(), is_here);
    }
}

/// On a server with these blobs: what a step reads here, or there.
pub(crate) fn loses_in_mid_run(url: &str, blobs: impl Fn() -> Vec<PathBuf>, is_here: bool) {
    let gate = tempfile::tempdir().unwrap();
    let sandbox = Sandbox::new().file("spec.yaml", gated(gate.path(), is_here));
    let child = sandbox.spawn(run(url, "command:late", "none"));
    let marker = format!("{}/go", gate.path().display());
    eventually("the gate is shut", || !processes_with(&marker).is_empty());
    fs::remove_file(with_content(blobs(), "content\n")).unwrap();
    fs::write(gate.path().join("go"), "").unwrap();
    let ended = sandbox.wait(child).success().summary([("failed", 0)]);
    ended
        .stderr_has("the output of command:first is lost (it was left on")
        .stderr_has("it runs again");
    let held = held(&sandbox);
    assert!(
        held.contains(&"content\n".to_owned()),
        "what was lost is fetched when it is made again: {held:?}"
    );
    sandbox
        .run(run(url, "command:late", "all"))
        .success()
        .summary([("failed", 0)]);
    assert_eq!(sandbox.output("command:late", "out"), "content\n");
}

pub(crate) fn with_content(blobs: Vec<PathBuf>, content: &str) -> PathBuf {
    let is_it = |path: &PathBuf| fs::read(path).is_ok_and(|bytes| bytes == content.as_bytes());
    blobs
        .into_iter()
        .find(is_it)
        .unwrap_or_else(|| panic!("no blob has the content {content:?}"))
}

#[test]
fn a_download_without_an_executor_is_a_mistake() {
    checkout()
        .run(["run", "spec.yaml", "--download", "none"])
        .code(2)
        .stderr_has("no executor is named");
}
