//! Results shared between checkouts through real servers, and what is left of a run when a server is none.

mod actions;
mod clouds;
mod door;
mod download;
mod execution;
mod hostile;
mod labels;
mod labels_models;
mod left;
mod nativelink;
mod proxy;
mod servers;
#[path = "../support/mod.rs"]
mod support;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use servers::{free_port, is_done_without, s3, webdav};
use support::{Ended, Sandbox};

/// Two steps, of which the second reads the first; three files, one of them executable and one empty.
pub(crate) const SPEC: &str = "version: 1
commands:
  first: {argv: [sh, -c, 'echo content > file; echo \"#!/bin/sh\" > tool; chmod +x tool; : > empty'], \
    outputs: [file, tool, empty]}
  second: {argv: [sh, -c, 'test -x x/tool && cat x/file x/file > twice'], outputs: [twice], \
    inputs: {x: {step: 'command:first'}}}
";
/// Everything but the page, which is of this run and made here.
pub(crate) const RUN: [&str; 5] = ["run", "spec.yaml", "--json", "--step", "command:*"];

/// A checkout with a store of its own.
pub(crate) fn checkout(remote: &str) -> Sandbox {
    Sandbox::new()
        .file("spec.yaml", SPEC)
        .env("ORCH_REMOTE", remote)
}

/// Files below a folder.
pub(crate) fn files(dir: &Path) -> Vec<PathBuf> {
    let all = walkdir::WalkDir::new(dir)
        .sort_by_file_name()
        .into_iter()
        .flatten();
    all.filter(|entry| entry.file_type().is_file())
        .map(|entry| entry.into_path())
        .collect()
}

/// Looks at one checkout that makes everything and a second one that has to make nothing.
pub(crate) fn is_shared(new: impl Fn() -> Sandbox) {
    let first = new();
    first
        .run(RUN)
        .success()
        .summary([("steps", 2), ("executed", 2), ("hits", 0)])
        .stderr_has("remote: 2 uploads")
        .stderr_lacks("warning");
    assert_eq!(
        first.run(["cache", "remote", "--json"]).success().json()["pending"],
        0
    );

    let second = new();
    let ended = second.run(RUN).success().summary([
        ("steps", 2),
        ("executed", 0),
        ("hits", 2),
        ("fetched", 2),
    ]);
    ended
        .stderr_has("remote: 2 hits")
        .stderr_has("got   command:second made 20")
        .stderr_lacks("warning");
    assert_eq!(
        second.output("command:second", "twice"),
        "content\ncontent\n"
    );
    assert_eq!(second.output("command:first", "empty"), "");
    second.run(["cache", "verify"]).success();
    // What it got is its own now.
    second
        .run(RUN)
        .success()
        .summary([("executed", 0)])
        .stderr_lacks("remote");

    // The records stay those of who made them, and say how to do it again here.
    let explained = second
        .run(["explain", "command:second", "--spec", "spec.yaml"])
        .success();
    assert!(!explained.stdout.is_empty());

    // A third one that changes something gets what is above the change, and makes the rest.
    let third = new().file("spec.yaml", SPEC.replace("cat x/file x/file", "cat x/file"));
    third
        .run(RUN)
        .success()
        .summary([("executed", 1), ("hits", 1)])
        .stderr_has("remote: 1 hit");
}

/// As `is_shared`, with content that is sent in several parts.
pub(crate) fn is_shared_in_parts(new: impl Fn() -> Sandbox) {
    let large = "version: 1\ncommands:\n  large: {argv: [sh, -c, 'yes 0123456789abcde | head -c 40000000 > file'], \
                 outputs: [file]}\n";
    for executed in [1, 0] {
        let checkout = new().file("spec.yaml", large);
        checkout
            .run(RUN)
            .success()
            .summary([("executed", executed)])
            .stderr_has("(38 MiB)")
            .stderr_lacks("warning");
    }
}

#[test]
fn two_checkouts_share_a_folder() {
    let dir = tempfile::tempdir().unwrap();
    is_shared(|| checkout(&format!("file://{}", dir.path().display())));
}

#[test]
fn two_checkouts_share_an_s3_bucket() {
    if is_done_without("S3") {
        return;
    }
    let server = s3("bucket");
    let options = format!(
        "[remote]\nurl = 's3://bucket/some/prefix'\noptions = {{endpoint = 'http://127.0.0.1:{}', region = 'us-east-1'}}",
        server.port
    );
    let new = || {
        let checkout = Sandbox::new()
            .file("spec.yaml", SPEC)
            .file("orch.toml", &options);
        checkout
            .env("AWS_ACCESS_KEY_ID", "test")
            .env("AWS_SECRET_ACCESS_KEY", "test")
    };
    is_shared(new);
    is_shared_in_parts(new);
    let nowhere = new().file("orch.toml", options.replace("s3://bucket", "s3://nowhere"));
    nowhere
        .run(["cache", "remote"])
        .code(1)
        .stdout_has("not reachable: NoSuchBucket");
}

#[test]
fn two_checkouts_share_a_webdav_folder() {
    if is_done_without("WebDAV") {
        return;
    }
    let dir = tempfile::Builder::new()
        .prefix("orch-dav-")
        .tempdir_in("/tmp")
        .unwrap();
    let server = webdav(dir.path(), free_port());
    let url = format!("webdav+http://127.0.0.1:{}/some/folder", server.port);
    let with = |password: &str| {
        let checkout = checkout(&url).env("ORCH_REMOTE_OPTION_USERNAME", "me");
        checkout.env("ORCH_REMOTE_OPTION_PASSWORD", password)
    };
    is_shared(|| with("word"));
    with("wrong")
        .run(RUN)
        .success()
        .summary([("executed", 2)])
        .stderr_has("warning remote: ")
        .stderr_has("not uploaded yet");
    with("wrong")
        .run(["cache", "remote"])
        .code(1)
        .stdout_has("not reachable");
    with("word")
        .run(["cache", "remote"])
        .success()
        .stdout_has("reachable (")
        .stdout_has("mode: read-write");
}

#[test]
fn uploads_go_on_after_a_server_was_away() {
    if is_done_without("a WebDAV server that goes and comes") {
        return;
    }
    let dir = tempfile::Builder::new()
        .prefix("orch-dav-")
        .tempdir_in("/tmp")
        .unwrap();
    let port = free_port();
    let slow = "version: 1\ncommands:\n  a: {argv: [sh, -c, 'echo a > out'], outputs: [out]}\n  b: {argv: [sh, -c, \
                'while test -e WAIT; do sleep 0.05; done; cat x/out > out'], outputs: [out], inputs: {x: {step: \
                'command:a'}}}\n";
    let away = dir.path().join("away");
    let slow = slow.replace("WAIT", away.to_str().unwrap());
    std::fs::write(&away, "").unwrap();
    let new = || {
        let checkout = Sandbox::new().file("spec.yaml", &slow);
        checkout.env(
            "ORCH_REMOTE",
            format!("webdav+http://me:word@127.0.0.1:{port}/"),
        )
    };
    let first = new();
    let server = webdav(dir.path(), port);
    let child = first.spawn(RUN);
    support::eventually("the first result is uploaded", || {
        files(&dir.path().join("data/v2/results")).len() == 1
    });
    drop(server);
    std::fs::remove_file(&away).unwrap();
    let ended = first.wait(child).success().summary([("executed", 2)]);
    ended
        .stderr_has("1 upload")
        .stderr_has("1 not uploaded yet");
    assert_eq!(
        first.run(["cache", "remote", "--json"]).code(1).json()["pending"],
        1
    );

    let server = webdav(dir.path(), port);
    first
        .run(["cache", "push"])
        .success()
        .stderr_has("1 upload");
    assert_eq!(
        first.run(["cache", "remote", "--json"]).success().json()["pending"],
        0
    );
    first
        .run(["cache", "push"])
        .success()
        .stderr_has("nothing is pending");
    new().run(RUN).success().summary([("executed", 0)]);

    // The next run goes on as well, even one with nothing to do.
    drop(server);
    let other = new().file("spec.yaml", slow.replace("echo a", "echo other"));
    other.run(RUN).success().stderr_has("2 not uploaded yet");
    let _server = webdav(dir.path(), port);
    other
        .run(RUN)
        .success()
        .summary([("executed", 0)])
        .stderr_has("2 uploads")
        .stderr_lacks("not uploaded");
}

#[test]
fn what_is_only_read_gets_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("file://{}", dir.path().display());
    let reader = checkout(&url).env("ORCH_REMOTE_MODE", "read-only");
    reader
        .run(RUN)
        .success()
        .summary([("executed", 2)])
        .stderr_lacks("remote:");
    reader
        .run(["cache", "push"])
        .code(2)
        .stderr_has("is read-only");
    reader
        .run(["cache", "remote"])
        .success()
        .stdout_has("mode: read-only");
    assert_eq!(files(dir.path()), Vec::<PathBuf>::new());

    checkout(&url).run(RUN).success();
    let before = files(dir.path());
    assert!(before.len() > 4);
    let second = checkout(&url).env("ORCH_REMOTE_MODE", "read-only");
    second.run(RUN).success().summary([("executed", 0)]);
    let changed = second.file("spec.yaml", SPEC.replace("echo content", "echo other"));
    changed.run(RUN).success().summary([("executed", 2)]);
    assert_eq!(files(dir.path()), before);
}

#[test]
fn failures_and_what_was_requested_are_this_machines_own() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("file://{}", dir.path().display());
    let bad =
        "version: 1\ncommands:\n  bad: {argv: [sh, -c, 'echo x > out; exit 1'], outputs: [out]}\n";
    let sandbox = checkout(&url).file("spec.yaml", bad);
    sandbox.run(RUN).code(1).stderr_lacks("upload");
    assert_eq!(files(dir.path()), Vec::<PathBuf>::new());

    checkout(&url).run(RUN).success();
    let again = [
        "run",
        "spec.yaml",
        "--json",
        "--step",
        "command:*",
        "--rerun",
        "command:*",
    ];
    checkout(&url)
        .run(again)
        .success()
        .summary([("executed", 2)]);
    let alone = [
        "run",
        "spec.yaml",
        "--json",
        "--step",
        "command:*",
        "--no-remote",
    ];
    checkout(&url)
        .run(alone)
        .success()
        .summary([("executed", 2)])
        .stderr_lacks("remote");
    checkout(&url)
        .env("ORCH_REMOTE", "")
        .run(RUN)
        .success()
        .summary([("executed", 2)])
        .stderr_lacks("remote");
}

#[test]
fn a_store_that_was_there_before_can_be_sent() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("file://{}", dir.path().display());
    let early = Sandbox::new().file("spec.yaml", SPEC);
    early.run(RUN).success();
    let early = early.env("ORCH_REMOTE", &url);
    early
        .run(["cache", "push"])
        .success()
        .stderr_has("nothing is pending");
    early
        .run(["cache", "push", "--all"])
        .success()
        .stderr_has("2 uploads");
    checkout(&url).run(RUN).success().summary([("executed", 0)]);
}

#[test]
fn lost_and_damaged_outputs_come_back_from_the_remote() {
    let dir = tempfile::tempdir().unwrap();
    let sandbox = checkout(&format!("file://{}", dir.path().display()));
    sandbox.run(RUN).success();
    std::fs::remove_file(sandbox.blob("content\ncontent\n")).unwrap();
    sandbox
        .run(RUN)
        .success()
        .summary([("executed", 0), ("hits", 2)])
        .stderr_has("remote: 1 hit");
    assert_eq!(
        sandbox.output("command:second", "twice"),
        "content\ncontent\n"
    );
}

#[test]
fn a_run_shares_beside_its_memo() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("file://{}", dir.path().display());
    let spec = "version: 1\ncommands:\n  one: {argv: [sort, -o, out, in], outputs: [out], inputs: {in: {file: data}}}\n";
    let new = |data: &str| {
        Sandbox::new()
            .file("spec.yaml", spec)
            .file("data", data)
            .env("ORCH_REMOTE", &url)
    };
    let plain = ["run", "spec.yaml", "--json"];
    let path = |ended: &Ended| ended.json()["summary"]["path"].clone();
    let first = new("b\na\n");
    first.run(plain).success().stderr_has("remote: 1 upload");
    support::eventually("it is settled", || {
        path(&first.run(plain).success()) == "memo"
    });
    first.write("data", "d\nc\n");
    let ended = first.run(plain).success().stderr_has("remote: 1 upload");
    assert_eq!(path(&ended), "full");

    let second = new("b\na\n");
    second.run(plain).success().summary([("fetched", 1)]);
    support::eventually("it is settled", || {
        path(&second.run(plain).success()) == "memo"
    });
    assert!(
        second.run(plain).success().json()["summary"]["fetched"].is_null(),
        "this run fetched nothing"
    );
    second.write("data", "d\nc\n");
    let ended = second
        .run(plain)
        .success()
        .summary([("executed", 0), ("fetched", 1)]);
    assert_eq!(path(&ended), "full");
    assert_eq!(second.output("command:one", "out"), "c\nd\n");
    second
        .run(["run", "spec.yaml", "--json", "--no-remote"])
        .success()
        .stderr_lacks("remote");

    // What a crash left unsent is sent by a run that has nothing else to do.
    let results = dir.path().join("v2/results");
    std::fs::remove_dir_all(&results).unwrap();
    let away = format!("{}.away", dir.path().display());
    std::fs::rename(dir.path(), &away).unwrap();
    std::fs::write(dir.path(), "no folder").unwrap();
    first.write("data", "f\ne\n");
    first.run(plain).success().stderr_has("1 not uploaded yet");
    std::fs::remove_file(dir.path()).unwrap();
    std::fs::rename(&away, dir.path()).unwrap();
    first
        .run(plain)
        .success()
        .summary([("executed", 0)])
        .stderr_has("remote: 1 upload");
    assert_eq!(files(&results).len(), 1);
}

#[test]
fn a_mistake_in_the_configuration_is_reported_with_its_place() {
    let bad = |text: &str| {
        Sandbox::new()
            .file("spec.yaml", SPEC)
            .file("orch.toml", text)
            .run(RUN)
            .code(2)
    };
    let ended: Ended = bad("[remote]\nurl = 's3://b'\nmod = 'read-only'");
    ended
        .stderr_has("orch.toml cannot be read")
        .stderr_has("line 3")
        .stderr_has("`mode`");
    bad("[remote]\nurl = 's3:/b'")
        .stderr_has("is no URL")
        .stderr_has("hint: s3://bucket/prefix");
    bad("[remote]\nurl = 's3://b'\noptions = {endpont = 'x'}")
        .stderr_has("did you mean `endpoint`?");
    bad("[remote]\nurl = 'http://h'\nmode = 'read-write'").stderr_has("only be read");
    Sandbox::new()
        .run(["cache", "remote"])
        .code(2)
        .stderr_has("no remote store is configured");
}

/// How long something took.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    (work(), start.elapsed())
}
