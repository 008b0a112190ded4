//! The value of a declared variable stays where it belongs: with the program that asked for it.

use std::path::Path;

use crate::support::Sandbox;

const VALUE: &str = "hunter2-hunter2-hunter2";
const OTHER: &str = "correct-horse-battery";

/// A step that prints its secret, whole and in pieces, and fails the first time.
fn sandbox() -> Sandbox {
    let script = "echo \"the token is $MY_TOKEN.\"; printf %s \"${MY_TOKEN%-*}\"; sleep 0.2; echo \"-${MY_TOKEN##*-}\"; \
                  case \"$MY_TOKEN\" in correct*) ;; *) echo \"refused: $MY_TOKEN\" >&2; exit 3;; esac; echo x > out";
    let argv = serde_json::json!(["sh", "-c", script]);
    let spec = format!(
        "version: 1\ncommands:\n  one: {{argv: {argv}, outputs: [out], env: [MY_TOKEN]}}\n"
    );
    Sandbox::new()
        .file("spec.yaml", spec)
        .env("MY_TOKEN", VALUE)
}

fn holds(dir: &Path, text: &str) -> Vec<String> {
    let files = walkdir::WalkDir::new(dir)
        .into_iter()
        .filter_map(Result::ok)
        .filter(|e| e.file_type().is_file());
    let found = files.filter(|file| {
        let bytes = std::fs::read(file.path()).unwrap();
        bytes
            .windows(text.len())
            .any(|window| window == text.as_bytes())
    });
    found
        .map(|file| file.path().display().to_string())
        .collect()
}

#[test]
fn it_stands_in_no_file_and_on_no_terminal() {
    let sandbox = sandbox();
    let failed = sandbox
        .run(["run", "spec.yaml", "--trace", "trace.json"])
        .code(1);
    failed
        .stderr_lacks(VALUE)
        .stdout_lacks(VALUE)
        .stderr_has("refused: [value of MY_TOKEN]");
    let log = sandbox
        .run(["log", "command:one"])
        .success()
        .stdout_lacks(VALUE);
    assert_eq!(
        log.stdout.matches("[value of MY_TOKEN]").count(),
        4,
        "{}",
        log.stdout
    );
    let sandbox = sandbox.env("MY_TOKEN", OTHER);
    let explain = ["explain", "command:one", "--spec", "spec.yaml"];
    for args in [&explain[..], &[&explain[..], &["--json"]].concat()] {
        let told = sandbox
            .run(args)
            .success()
            .stdout_lacks(VALUE)
            .stdout_lacks(OTHER);
        told.stdout_has("the value of MY_TOKEN changed");
    }
    let run = sandbox
        .run(["run", "spec.yaml", "--json"])
        .success()
        .stdout_lacks(VALUE)
        .stdout_lacks(OTHER);
    run.stderr_lacks(OTHER);
    sandbox
        .run(["history", "1", "--json"])
        .success()
        .stdout_lacks(VALUE)
        .stdout_lacks(OTHER);
    sandbox.run(["run", "spec.yaml"]).success();
    sandbox
        .run(["cache", "export", "all.tar", "--all"])
        .success();
    for value in [VALUE, OTHER] {
        assert_eq!(
            holds(&sandbox.path(""), value),
            Vec::<String>::new(),
            "{value}"
        );
    }
}

#[test]
fn a_password_in_an_address_is_not_written_down() {
    let sandbox = sandbox().env("MY_TOKEN", OTHER).env(
        "ORCH_REMOTE",
        "webdav://me:swordfish@127.0.0.1:9/x?sig=swordfish",
    );
    sandbox
        .run(["run", "spec.yaml"])
        .success()
        .stderr_lacks("swordfish");
    sandbox
        .run(["cache", "remote"])
        .stderr_lacks("swordfish")
        .stdout_lacks("swordfish");
    let sandbox = sandbox.env("ORCH_REMOTE", "me:swordfish@host");
    sandbox
        .run(["cache", "remote"])
        .stderr_lacks("swordfish")
        .stdout_lacks("swordfish");
    assert_eq!(
        holds(&sandbox.path("cache"), "swordfish"),
        Vec::<String>::new()
    );
}

/// As libraries do that cannot reach a server; the log alone has their words as they were.
#[test]
fn an_address_that_a_step_complains_of_is_shown_without_what_opens_doors() {
    let script = "echo failed: https://me:swordfish@host/x?sig=swordfish >&2; exit 3";
    let argv = serde_json::json!(["sh", "-c", script]);
    let spec = format!("version: 1\ncommands:\n  one: {{argv: {argv}, outputs: [out]}}\n");
    let sandbox = Sandbox::new().file("spec.yaml", spec);
    let told = sandbox
        .run(["run", "spec.yaml"])
        .code(1)
        .stderr_has("failed: https://host/x?…");
    told.stderr_lacks("swordfish").stdout_lacks("swordfish");
    for args in [
        &["history", "1"][..],
        &["history", "1", "--json"],
        &["output", "command:one", "--latest"],
    ] {
        sandbox
            .run(args)
            .stdout_lacks("swordfish")
            .stderr_lacks("swordfish");
    }
}

#[test]
fn equal_values_have_equal_keys_in_other_stores_and_a_salt_parts_them() {
    let run = |salt: &str| {
        let sandbox = sandbox().env("MY_TOKEN", OTHER).env("ORCH_KEY_SALT", salt);
        sandbox.run(["run", "spec.yaml"]).success();
        let told = sandbox
            .run(["explain", "command:one", "--spec", "spec.yaml", "--json"])
            .success();
        let line = told
            .stdout
            .lines()
            .find(|line| line.contains("env.MY_TOKEN"))
            .map(|line| line.trim().to_owned());
        line.expect("the key is told")
    };
    assert_eq!(run(""), run(""));
    assert_ne!(run(""), run("ours"));
    assert_eq!(run("ours"), run("ours"));
}

#[test]
fn a_new_store_is_its_owners_alone_and_one_that_was_there_is_left_as_it_is() {
    use std::os::unix::fs::PermissionsExt;
    let sandbox = sandbox().env("MY_TOKEN", OTHER);
    let mode = || {
        std::fs::metadata(sandbox.path("cache"))
            .unwrap()
            .permissions()
            .mode()
            & 0o7777
    };
    sandbox.run(["run", "spec.yaml"]).success();
    assert_eq!(mode(), 0o700);
    for shared in [0o755, 0o2775] {
        std::fs::set_permissions(sandbox.path("cache"), PermissionsExt::from_mode(shared)).unwrap();
        sandbox.run(["run", "spec.yaml"]).success();
        assert_eq!(mode(), shared);
    }
}
