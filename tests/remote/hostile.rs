//! Remotes that lie, stall or break: a run becomes slower at most.

use std::path::Path;
use std::time::Duration;

use crate::servers::{Liar, Manner};
use crate::support::{Sandbox, beside_load, eventually, flip_byte, signal};
use crate::{RUN, SPEC, checkout, files, timed};

/// A folder that holds the results of [`SPEC`].
fn filled() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    checkout(&format!("file://{}", dir.path().display()))
        .run(RUN)
        .success();
    dir
}

fn patience(seconds: f64) -> String {
    format!("[remote]\ntimeout = {seconds}\nretries = 1\nurl = 'set by the variable'\n")
}

fn of(dir: &Path, manner: Manner) -> Sandbox {
    let liar = Liar::new(dir, manner);
    checkout(&liar.url()).file("orch.toml", patience(0.5))
}

#[test]
fn an_honest_server_of_files_is_read() {
    let dir = filled();
    of(dir.path(), Manner::Honest)
        .run(RUN)
        .success()
        .summary([("executed", 0)])
        .stderr_lacks("warning");
    let empty = tempfile::tempdir().unwrap();
    let ended = of(empty.path(), Manner::Honest)
        .run(RUN)
        .success()
        .summary([("executed", 2)]);
    ended.stderr_lacks("warning").stderr_lacks("remote:");
}

#[test]
fn whatever_a_server_answers_the_run_is_right() {
    let dir = filled();
    for (manner, what) in [
        (Manner::Page, "2 results refused (unreadable)"),
        (Manner::Changed, "2 results refused (wrong content)"),
        (Manner::Endless, "2 results refused (wrong content)"),
        (Manner::Torn, "2 results refused (wrong content)"),
        (Manner::Error500, "2 errors"),
        (Manner::Hang, "2 timeouts"),
        (Manner::Drip, "2 timeouts"),
    ] {
        let sandbox = of(dir.path(), manner);
        let (ended, took) = timed(|| sandbox.run(RUN));
        ended
            .success()
            .summary([("executed", 2), ("failed", 0)])
            .stderr_has("warning remote: ")
            .stderr_has(what);
        assert_eq!(
            sandbox.output("command:second", "twice"),
            "content\ncontent\n"
        );
        sandbox.run(["cache", "verify"]).success();
        assert!(
            sandbox.stored_files("tmp").is_empty(),
            "{:?}",
            sandbox.stored_files("tmp")
        );
        assert!(
            took < beside_load(Duration::from_secs(30)),
            "{what}: {took:?}"
        );
    }
}

#[test]
fn a_server_that_hangs_is_given_up_once_and_for_all() {
    // A chain, so that no two questions overlap: 40 x 0.5 s if each were waited for.
    let mut spec =
        "version: 1\ncommands:\n  c0: {argv: [sh, -c, 'echo x > out'], outputs: [out]}\n"
            .to_owned();
    for at in 1..40 {
        let above = at - 1;
        spec.push_str(&format!(
            "  c{at}: {{argv: [sh, -c, 'echo {at} > out'], outputs: [out], inputs: {{x: {{step: 'command:c{above}'}}}}}}\n"
        ));
    }
    let liar = Liar::new(Path::new("/nowhere"), Manner::Hang);
    let sandbox = checkout(&liar.url())
        .file("spec.yaml", spec)
        .file("orch.toml", patience(0.5));
    let (ended, took) = timed(|| sandbox.run(RUN));
    let ended = ended.success().summary([("executed", 40)]);
    ended
        .stderr_has("failed 5 times in a row (last: no answer in time); going on without it")
        .stderr_has("5 timeouts");
    assert!(took < beside_load(Duration::from_secs(12)), "{took:?}");
}

#[test]
fn no_server_is_reported_and_costs_little() {
    let port = crate::servers::free_port();
    let sandbox =
        checkout(&format!("webdav+http://127.0.0.1:{port}/")).file("orch.toml", patience(2.0));
    let ended = sandbox.run(RUN).success().summary([("executed", 2)]);
    ended
        .stderr_has("warning remote: ")
        .stderr_has("2 not uploaded yet")
        .stderr_has("onnection refused");
}

#[test]
fn wrong_content_on_the_remote_is_replaced_by_who_makes_it_again() {
    let dir = filled();
    let url = format!("file://{}", dir.path().display());
    let blobs = files(&dir.path().join("v2/blobs"));
    for blob in &blobs {
        flip_byte(blob);
    }
    let ended = checkout(&url).run(RUN).success().summary([("executed", 2)]);
    ended
        .stderr_has("2 results refused (wrong content)")
        .stderr_has("2 uploads");
    checkout(&url)
        .run(RUN)
        .success()
        .summary([("executed", 0)])
        .stderr_lacks("warning");
}

#[test]
fn a_result_under_the_name_of_another_is_refused() {
    let dir = filled();
    let results = files(&dir.path().join("v2/results"));
    let [a, b] = results.as_slice() else {
        panic!("{results:?}")
    };
    let of_a = std::fs::read(a).unwrap();
    let of_b = std::fs::read(b).unwrap();
    std::fs::write(a, of_b).unwrap();
    std::fs::write(b, of_a).unwrap();
    let ended = checkout(&format!("file://{}", dir.path().display()))
        .run(RUN)
        .success();
    ended
        .summary([("executed", 2)])
        .stderr_has("2 results refused (of another key)");
}

#[test]
fn with_a_key_only_signed_results_are_believed() {
    let dir = filled();
    let url = format!("file://{}", dir.path().display());
    let with = |key: &str| checkout(&url).env("ORCH_REMOTE_KEY", key);
    let ended = with("ours").run(RUN).success().summary([("executed", 2)]);
    ended
        .stderr_has("2 results refused (not signed)")
        .stderr_has("2 uploads");
    with("ours")
        .run(RUN)
        .success()
        .summary([("executed", 0)])
        .stderr_lacks("warning");
    with("ours")
        .run(["cache", "remote"])
        .success()
        .stdout_has("only results signed");
    let ended = with("theirs")
        .env("ORCH_REMOTE_MODE", "read-only")
        .run(RUN)
        .success();
    ended
        .summary([("executed", 2)])
        .stderr_has("2 results refused (wrong signature)");
    // A forged result: well-formed, of the right key, with content to match, by someone without the key.
    let forged = Sandbox::new()
        .file("spec.yaml", SPEC)
        .env("ORCH_REMOTE", &url);
    let again = [
        "run",
        "spec.yaml",
        "--json",
        "--step",
        "command:*",
        "--rerun",
        "command:*",
    ];
    forged.run(again).success().stderr_has("2 uploads");
    with("ours")
        .run(RUN)
        .success()
        .summary([("executed", 2)])
        .stderr_has("2 results refused (not signed)");
}

#[test]
fn an_interrupt_waits_for_no_remote() {
    let liar = Liar::new(Path::new("/nowhere"), Manner::Hang);
    let sandbox = checkout(&liar.url()).file("orch.toml", patience(300.0));
    let child = sandbox.spawn(RUN);
    eventually("it asks", || liar.connections() > 0);
    signal(&child, libc::SIGINT);
    let (ended, took) = timed(|| sandbox.wait(child));
    ended.code(130);
    assert!(took < beside_load(Duration::from_secs(5)), "{took:?}");
}

#[test]
fn what_an_interrupt_or_a_kill_left_unsent_is_still_known() {
    for (number, code) in [(libc::SIGINT, Some(0)), (libc::SIGKILL, None)] {
        let liar = Liar::new(Path::new("/nowhere"), Manner::HangOnWrite);
        let url = liar.url().replace("http://", "webdav+http://");
        let sandbox = checkout(&url).file("orch.toml", patience(300.0));
        let child = sandbox.spawn(RUN);
        let pending = || {
            files(&sandbox.store("remote"))
                .first()
                .map(std::fs::read_to_string)
        };
        eventually(
            "two are to be sent",
            || matches!(pending(), Some(Ok(text)) if text.lines().count() == 2),
        );
        // By now it has nothing to do but to wait for them.
        std::thread::sleep(Duration::from_millis(500));
        signal(&child, number);
        let (ended, took) = timed(|| sandbox.wait(child));
        assert_eq!(ended.code, code);
        assert!(took < beside_load(Duration::from_secs(5)), "{took:?}");
        if code.is_some() {
            ended
                .summary([("executed", 2)])
                .stderr_has("2 not uploaded yet");
        }
        assert_eq!(
            sandbox.run(["cache", "remote", "--json"]).success().json()["pending"],
            2
        );
    }
}
