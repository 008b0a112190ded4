//! A store that may only be read serves whoever only reads.

use std::fs;
use std::process::Command;

use crate::support::{Ended, Sandbox, skipped};

const SPEC: &str = "version: 1
commands:
  one: {argv: [sh, -c, 'cat in > out; echo said'], inputs: {in: {file: in.txt}}, outputs: [out]}
";
const NOBODY: &str = "65534";

/// Starts orch on a mount of the store that is read-only for everybody.
const MOUNTED: [&str; 6] = [
    "unshare",
    "-rm",
    "sh",
    "-ec",
    "mount --bind cache cache; mount -o remount,ro,bind cache; exec \"$@\"",
    "sh",
];
/// Starts orch as somebody who may read the store, which is root's.
const OTHERS: [&str; 7] = [
    "setpriv",
    "--reuid",
    NOBODY,
    "--regid",
    NOBODY,
    "--clear-groups",
    "--",
];

/// A store that is full, and settled; and a folder in which everybody may write.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new().file("spec.yaml", SPEC).file("in.txt", "A");
    sandbox.run(["run", "spec.yaml"]).success();
    let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    fs::set_permissions(sandbox.path(""), everybody).unwrap();
    for folder in ["cache", "cache/v2"] {
        // Others may be let in, whatever a new store's mode is.
        fs::set_permissions(
            sandbox.path(folder),
            std::os::unix::fs::PermissionsExt::from_mode(0o755),
        )
        .unwrap();
    }
    sandbox
}

fn each_way(check: impl Fn(&Sandbox, &dyn Fn(&[&str]) -> Ended)) {
    let may = |argv: &[&str]| {
        Command::new(argv[0])
            .args(&argv[1..])
            .output()
            .is_ok_and(|ended| ended.status.success())
    };
    if may(&["unshare", "-rm", "true"]) {
        let sandbox = sandbox();
        check(&sandbox, &|args| sandbox.run_through(MOUNTED, args));
    } else {
        skipped("no mount namespace can be made here");
    }
    let sandbox = sandbox();
    // SAFETY: it takes and changes nothing.
    let is_root = unsafe { libc::geteuid() } == 0;
    if is_root && sandbox.run_through(OTHERS, &["--version"]).code == Some(0) {
        check(&sandbox, &|args| sandbox.run_through(OTHERS, args));
    } else {
        skipped("nobody cannot start orch here");
    }
}

fn listing(sandbox: &Sandbox) -> Vec<(std::path::PathBuf, std::time::SystemTime)> {
    let all = walkdir::WalkDir::new(sandbox.path("cache"))
        .sort_by_file_name()
        .into_iter()
        .flatten();
    all.map(|entry| {
        (
            entry.path().to_owned(),
            entry.metadata().unwrap().modified().unwrap(),
        )
    })
    .collect()
}

#[test]
fn every_command_that_reads_is_served() {
    each_way(|sandbox, orch| {
        let before = listing(sandbox);
        let spec = ["--spec", "spec.yaml"];
        orch(&["plan", "spec.yaml"])
            .success()
            .stdout_has("0 would run");
        orch(&["report", "spec.yaml", "--format", "json"]);
        orch(&[
            "report",
            "spec.yaml",
            "--format",
            "html",
            "--output",
            "page.html",
        ]);
        orch(&[&["explain", "command:one"], &spec[..]].concat())
            .success()
            .stdout_has("up to date");
        orch(&[&["log", "command:one"], &spec[..]].concat())
            .success()
            .stdout_has("said");
        orch(&["history", "1"]).success().stdout_has("command:one");
        orch(&["plan", "spec.yaml", "--format", "dot"]).success();
        assert_eq!(
            orch(&[&["output", "command:one", "--cat", "out"], &spec[..]].concat())
                .success()
                .stdout,
            "A"
        );
        orch(&[&["output", "command:one", "--to", "got"], &spec[..]].concat()).success();
        orch(&["cache", "stats"]).success();
        orch(&["cache", "verify"])
            .success()
            .stdout_has("everything is as it was published");
        orch(&["cache", "export", "a.tar", "spec.yaml"])
            .success()
            .stdout_has("1 record");
        orch(&["cache", "gc", "--dry-run"])
            .success()
            .stdout_has("would remove");
        orch(&["devices"]).success();
        // Settled, and the ordinary way.
        orch(&["run", "spec.yaml", "--out-dir", "pages", "--json"])
            .success()
            .summary([("executed", 0), ("hits", 1)]);
        orch(&["run", "spec.yaml", "--step", "command:one", "--json"])
            .success()
            .summary([("executed", 0), ("hits", 1)]);
        assert_eq!(
            (sandbox.read("got/out"), listing(sandbox)),
            ("A".into(), before)
        );
        assert!(
            sandbox.path("pages/report/index.html").is_file()
                && sandbox.path("page.html").is_file()
        );
    });
}

#[test]
fn what_would_write_says_that_it_cannot() {
    each_way(|sandbox, orch| {
        let before = listing(sandbox);
        orch(&["cache", "gc", "--max-size", "0"])
            .code(2)
            .stderr_has("is read-only here: nothing can be collected");
        sandbox.write("a.tar", "");
        orch(&["cache", "import", "a.tar"])
            .code(2)
            .stderr_has("is read-only here: nothing can be imported");
        // What runs would be done in vain.
        sandbox.write("in.txt", "B");
        let ended = orch(&["run", "spec.yaml", "--out-dir", "vain"])
            .code(2)
            .stderr_has("`command:one` would run, and the result could not be");
        ended
            .stderr_has("hint: name another store with --cache-dir")
            .stderr_lacks("said");
        sandbox.write("in.txt", "A");
        // Another selection has other pages, and these are no part of the store.
        sandbox.write("other.yaml", SPEC);
        orch(&["run", "other.yaml", "--out-dir", "other"])
            .success()
            .stderr_has("report: other/report/index.html");
        assert_eq!(listing(sandbox), before);
    });
}
