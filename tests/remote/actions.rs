//! Results shared through the action cache of a real server of the Remote Execution API, and what a broken one costs.

use crate::left::is_left;
use crate::servers::{Server, casd, free_port, is_done_without};
use crate::support;
use crate::{RUN, checkout, files, is_shared, is_shared_in_parts};

const WHAT: &str = "the action cache of a Remote Execution API server";

fn url(server: &Server) -> String {
    format!("grpc://127.0.0.1:{}", server.port)
}

#[test]
fn two_checkouts_share_an_action_cache() {
    if is_done_without(WHAT) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let server = casd(dir.path(), free_port(), &[]);
    is_shared(|| checkout(&url(&server)));
    is_shared_in_parts(|| checkout(&url(&server)));
    is_left(&url(&server));
    checkout(&url(&server))
        .run(["cache", "remote"])
        .success()
        .stdout_has("mode: read-write");
}

#[test]
fn what_is_only_read_gets_nothing_and_what_is_lost_is_made_again() {
    if is_done_without(WHAT) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let server = casd(dir.path(), free_port(), &[]);
    let is_empty =
        |path: &std::path::PathBuf| std::fs::metadata(path).is_ok_and(|meta| meta.len() == 0);
    let blobs = || -> Vec<_> {
        files(&dir.path().join("cas/objects"))
            .into_iter()
            .filter(|path| !is_empty(path))
            .collect()
    };
    let reader = || checkout(&url(&server)).env("ORCH_REMOTE_MODE", "read-only");
    reader()
        .run(RUN)
        .success()
        .summary([("executed", 2)])
        .stderr_lacks("remote:");
    assert_eq!(blobs(), Vec::<std::path::PathBuf>::new());
    reader()
        .run(["cache", "remote"])
        .success()
        .stdout_has("mode: read-only");
    checkout(&url(&server))
        .run(RUN)
        .success()
        .stderr_has("2 uploads");
    reader()
        .run(RUN)
        .success()
        .summary([("executed", 0), ("fetched", 2)])
        .stderr_lacks("warning");

    let content = || {
        blobs()
            .into_iter()
            .find(|path| std::fs::read(path).is_ok_and(|bytes| bytes == b"content\n"))
    };
    std::fs::remove_file(content().unwrap()).unwrap();
    let ended = checkout(&url(&server))
        .run(RUN)
        .success()
        .summary([("executed", 1), ("hits", 1)]);
    ended.stderr_has("1 upload");
    checkout(&url(&server))
        .run(RUN)
        .success()
        .summary([("executed", 0)])
        .stderr_lacks("warning");

    // Other content under its name: found out, whoever finds it first.
    support::flip_byte(&content().unwrap());
    let spoilt = reader();
    let ended = spoilt.run(RUN).success();
    assert!(
        ended.json()["summary"]["executed"].as_u64().unwrap() >= 1,
        "{}",
        ended.stderr
    );
    assert_eq!(
        spoilt.output("command:second", "twice"),
        "content\ncontent\n"
    );
    spoilt.run(["cache", "verify"]).success();
}

#[test]
fn a_server_that_goes_and_comes_or_never_answers_costs_no_result() {
    if is_done_without(WHAT) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let port = free_port();
    let patience = "[remote]\ntimeout = 1\nretries = 1\nurl = 'set by the variable'\n";
    let away = || checkout(&format!("grpc://127.0.0.1:{port}")).file("orch.toml", patience);
    let first = away();
    let ended = first.run(RUN).success().summary([("executed", 2)]);
    ended
        .stderr_has("warning remote: ")
        .stderr_has("onnection refused")
        .stderr_has("2 not uploaded yet");
    let server = casd(dir.path(), port, &[]);
    first
        .run(["cache", "push"])
        .success()
        .stderr_has("2 uploads");
    away()
        .run(RUN)
        .success()
        .summary([("executed", 0)])
        .stderr_lacks("warning");
    server.kill();
    away()
        .run(RUN)
        .success()
        .summary([("executed", 2)])
        .stderr_has("warning remote: ");
    let _again = casd(dir.path(), port, &[]);
    away()
        .run(RUN)
        .success()
        .summary([("executed", 0)])
        .stderr_lacks("warning");

    let liar = crate::servers::Liar::new(
        std::path::Path::new("/nowhere"),
        crate::servers::Manner::Hang,
    );
    let (ended, took) = crate::timed(|| {
        checkout(&liar.url().replace("http", "grpc"))
            .file("orch.toml", patience)
            .run(RUN)
    });
    ended
        .success()
        .summary([("executed", 2)])
        .stderr_has("timeout");
    assert!(
        took < support::beside_load(std::time::Duration::from_secs(20)),
        "{took:?}"
    );
}

#[test]
fn with_a_key_only_signed_results_are_believed() {
    if is_done_without(WHAT) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let server = casd(dir.path(), free_port(), &[]);
    let with = |key: &str| checkout(&url(&server)).env("ORCH_REMOTE_KEY", key);
    checkout(&url(&server))
        .run(RUN)
        .success()
        .stderr_has("2 uploads");
    with("ours")
        .run(RUN)
        .success()
        .summary([("executed", 2)])
        .stderr_has("2 results refused (not signed)");
    with("ours")
        .run(RUN)
        .success()
        .summary([("executed", 0)])
        .stderr_lacks("warning");
}
