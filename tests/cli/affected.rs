//! `--affected BASE`: exactly the steps that a git revision defines otherwise, and no change to the user's checkout.

use std::fs;
use std::process::Command;

use crate::support::Sandbox;

/// words.txt → sorted → first; other.txt → aside; the folder `many` → counted.
const SPEC: &str = "version: 1
include: [more.yaml]
commands:
  sorted:
    argv: [sh, -c, 'sort -u words.txt > sorted.txt']
    inputs: {words.txt: {file: ../data/words.txt}}
    outputs: [sorted.txt]
  first:
    argv: [sh, -c, 'head -n 1 in/sorted.txt > first.txt']
    inputs: {in: {step: 'command:sorted'}}
    outputs: [first.txt]
  counted:
    argv: [sh, -c, 'ls many | wc -l > count.txt']
    inputs: {many: {file: ../data/many}}
    outputs: [count.txt]
";
const MORE: &str = "commands:
  aside:
    argv: [sh, -c, 'cp other.txt copy.txt']
    inputs: {other.txt: {file: ../data/other.txt}}
    outputs: [copy.txt]
";
const RUN: [&str; 5] = ["run", "proj/specs/all.yaml", "--json", "--affected", "main"];

fn git(sandbox: &Sandbox, args: &[&str]) -> String {
    let mut command = Command::new("git");
    command.arg("-C").arg(sandbox.path("proj")).args([
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@b",
        "-c",
    ]);
    command.args(["protocol.file.allow=always"]).args(args);
    let output = command
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "git {args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn commit(sandbox: &Sandbox) {
    git(sandbox, &["add", "-A"]);
    git(sandbox, &["commit", "-q", "-m", "x"]);
}

fn files() -> Sandbox {
    Sandbox::new()
        .file("proj/specs/all.yaml", SPEC)
        .file("proj/specs/more.yaml", MORE)
        .file("proj/data/words.txt", "b\na\n")
        .file("proj/data/other.txt", "x")
        .file("proj/data/many/one", "1")
}

/// A repository `proj` with one commit on `main`.
fn repository() -> Sandbox {
    let sandbox = files();
    git(&sandbox, &["init", "-q", "-b", "main"]);
    commit(&sandbox);
    sandbox
}

/// The steps that a plan since `main` would run, reports aside.
fn affected(sandbox: &Sandbox) -> Vec<String> {
    let plan = sandbox
        .run([
            "plan",
            "proj/specs/all.yaml",
            "--json",
            "--affected",
            "main",
        ])
        .success()
        .json();
    let steps = plan["steps"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|step| step["verdict"] == "run");
    let mut names: Vec<String> = steps
        .map(|step| step["step"].as_str().unwrap().to_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn nothing_differs_is_green_and_reported() {
    let sandbox = repository();
    let commit = git(&sandbox, &["rev-parse", "HEAD"]);
    let ended = sandbox.run(RUN).success().stderr_lacks("command:");
    let ended = ended.stderr_has(&format!(
        "nothing differs from main ({}): nothing to run",
        &commit[..12]
    ));
    assert_eq!(
        ended.json()["scope"],
        format!("affected since main ({})", &commit[..12])
    );
    assert_eq!(affected(&sandbox), Vec::<String>::new());
    // Comments and the order of keys define nothing.
    sandbox.write("proj/specs/more.yaml", format!("# new\n{MORE}"));
    sandbox.run(RUN).success().stderr_has("nothing differs");
}

#[test]
fn a_change_affects_what_reads_it_directly_or_by_way_of_others() {
    let sandbox = repository();
    sandbox.write("proj/data/words.txt", "c\n");
    let ended = sandbox
        .run(RUN)
        .success()
        .stderr_has("2 steps differ from main");
    let ended = ended
        .stderr_has("command:sorted: input.words.txt changed (")
        .stderr_has("command:first: after command:sorted");
    let ended = ended
        .stderr_has("ok    command:sorted")
        .stderr_has("ok    command:first")
        .stderr_lacks("ok    command:aside");
    ended.summary([("executed", 2)]);
    // What is affected and done already is a hit, as ever.
    sandbox
        .run(RUN)
        .success()
        .summary([("executed", 0), ("hits", 2)]);
    commit(&sandbox);
    sandbox.run(RUN).success().stderr_has("nothing differs");
    let back = [
        "run",
        "proj/specs/all.yaml",
        "--json",
        "--affected",
        "HEAD~1",
    ];
    sandbox
        .run(back)
        .success()
        .stderr_has("2 steps differ from HEAD~1");
}

#[test]
fn each_kind_of_change_affects_its_own_steps() {
    let sandbox = repository();
    // So that what an affected step needs is there, and does not show.
    sandbox.run(["run", "proj/specs/all.yaml"]).success();
    let try_one = |path: &str, text: &str, expected: &[&str]| {
        let path = format!("proj/{path}");
        let before = fs::read(sandbox.path(&path)).ok();
        sandbox.write(&path, text);
        assert_eq!(affected(&sandbox), expected, "{path}");
        match before {
            Some(bytes) => sandbox.write(&path, bytes),
            None => fs::remove_file(sandbox.path(&path)).unwrap(),
        }
        assert_eq!(affected(&sandbox), Vec::<String>::new(), "{path} as it was");
    };
    try_one("data/other.txt", "y", &["command:aside"]);
    try_one(
        "data/many/two",
        "not even added to git",
        &["command:counted"],
    );
    try_one(
        "specs/more.yaml",
        &MORE.replace("cp other", "cp -f other"),
        &["command:aside"],
    );
    try_one(
        "specs/all.yaml",
        &SPEC.replace("head -n 1", "head -n 2"),
        &["command:first"],
    );
    // Another name alone would be another step with the same key: affected, and held.
    let renamed = SPEC
        .replace("  counted:", "  renamed:")
        .replace("wc -l", "wc -c");
    try_one("specs/all.yaml", &renamed, &["command:renamed"]);
    try_one("README", "nothing reads it", &[]);
    try_one(
        "specs/all.yaml",
        &SPEC.replace("sort -u", "sort"),
        &["command:first", "command:sorted"],
    );
}

#[test]
fn what_an_affected_step_needs_comes_along() {
    let sandbox = repository();
    sandbox.write(
        "proj/specs/all.yaml",
        SPEC.replace("head -n 1", "head -n 2"),
    );
    let ended = sandbox.run(RUN).success().stderr_has("1 step differs");
    ended
        .stderr_has("ok    command:sorted")
        .stderr_has("ok    command:first")
        .summary([("executed", 2)]);
}

#[test]
fn the_checkout_is_left_as_it_was() {
    let sandbox = repository();
    sandbox.write("proj/data/words.txt", "staged\n");
    git(&sandbox, &["add", "-A"]);
    sandbox.write("proj/data/words.txt", "c\n");
    let state = |sandbox: &Sandbox| {
        let index = fs::read(sandbox.path("proj/.git/index")).unwrap();
        (
            git(sandbox, &["status", "--porcelain"]),
            git(sandbox, &["worktree", "list"]),
            index,
        )
    };
    let before = state(&sandbox);
    // As in a hook of another repository.
    let sandbox = sandbox
        .env("GIT_DIR", "/nowhere")
        .env("GIT_INDEX_FILE", "/nowhere/index");
    sandbox.run(RUN).success().stderr_has("2 steps differ");
    assert_eq!(before, state(&sandbox));
    assert!(
        sandbox.stored_files("tmp").is_empty(),
        "{:?}",
        sandbox.stored_files("tmp")
    );
}

#[test]
fn files_outside_the_repository_are_what_they_are_now() {
    let outside = |sandbox: &Sandbox| {
        MORE.replace(
            "../data/other.txt",
            &sandbox.path("outside.txt").display().to_string(),
        )
    };
    let sandbox = files()
        .file("outside.txt", "1")
        .file("beside/more.txt", "1");
    sandbox.write("proj/specs/more.yaml", outside(&sandbox));
    sandbox.write(
        "proj/specs/all.yaml",
        SPEC.replace("../data/many", "../../beside"),
    );
    git(&sandbox, &["init", "-q", "-b", "main"]);
    commit(&sandbox);
    sandbox.write("outside.txt", "2");
    sandbox.write("beside/more.txt", "2");
    assert_eq!(affected(&sandbox), Vec::<String>::new());
}

#[test]
fn a_spec_outside_that_is_included_is_taken_as_it_is_now() {
    let sandbox = files();
    fs::rename(
        sandbox.path("proj/specs/more.yaml"),
        sandbox.path("more.yaml"),
    )
    .unwrap();
    sandbox.write("more.yaml", MORE.replace("../data", "proj/data"));
    sandbox.write(
        "proj/specs/all.yaml",
        SPEC.replace("[more.yaml]", "[../../more.yaml]"),
    );
    git(&sandbox, &["init", "-q", "-b", "main"]);
    commit(&sandbox);
    assert_eq!(affected(&sandbox), Vec::<String>::new());
    sandbox.write("proj/data/other.txt", "2");
    assert_eq!(affected(&sandbox), ["command:aside"]);
}

#[test]
fn links_and_attributes_are_followed_as_in_a_checkout() {
    let sandbox = files().file(
        "proj/.gitattributes",
        "*.txt text eol=crlf\ndata export-ignore\n",
    );
    fs::remove_file(sandbox.path("proj/data/other.txt")).unwrap();
    std::os::unix::fs::symlink("real.dat", sandbox.path("proj/data/other.txt")).unwrap();
    sandbox.write("proj/data/real.dat", "x");
    git(&sandbox, &["init", "-q", "-b", "main"]);
    commit(&sandbox);
    // As a fresh checkout would have it.
    fs::remove_file(sandbox.path("proj/data/words.txt")).unwrap();
    git(&sandbox, &["checkout", "--", "data/words.txt"]);
    assert_eq!(sandbox.read("proj/data/words.txt"), "b\r\na\r\n");
    assert_eq!(affected(&sandbox), Vec::<String>::new());
    sandbox.write("proj/data/real.dat", "y");
    assert_eq!(affected(&sandbox), ["command:aside"]);
}

#[test]
fn submodules_are_compared_at_the_commit_that_the_revision_names() {
    let sandbox = files();
    let sub = Sandbox::new().file("proj/one", "1");
    git(&sub, &["init", "-q", "-b", "main"]);
    commit(&sub);
    fs::remove_dir_all(sandbox.path("proj/data/many")).unwrap();
    git(&sandbox, &["init", "-q", "-b", "main"]);
    git(
        &sandbox,
        &[
            "submodule",
            "--quiet",
            "add",
            &sub.path("proj").display().to_string(),
            "data/many",
        ],
    );
    commit(&sandbox);
    // The file `.git` of a submodule is part of the folder that the step reads, and of no commit.
    sandbox.write(
        "proj/specs/all.yaml",
        SPEC.replace("../data/many", "../data/many/one"),
    );
    commit(&sandbox);
    assert_eq!(affected(&sandbox), Vec::<String>::new());
    sandbox.write("proj/data/many/one", "2");
    assert_eq!(affected(&sandbox), ["command:counted"]);
    fs::remove_file(sandbox.path("proj/data/many/.git")).unwrap();
    let ended = sandbox
        .run(RUN)
        .success()
        .stderr_has("submodule `[DIR]/proj/data/many` is not here as main");
    ended.stderr_has("ok    command:counted");
}

#[test]
fn without_a_spec_at_the_revision_everything_is_affected() {
    let sandbox = repository();
    fs::rename(
        sandbox.path("proj/specs/all.yaml"),
        sandbox.path("proj/specs/new.yaml"),
    )
    .unwrap();
    let ended = sandbox
        .run(["run", "proj/specs/new.yaml", "--json", "--affected", "main"])
        .success();
    let ended = ended
        .stderr_has("`specs/new.yaml` is not in main (")
        .stderr_has("everything counts as affected");
    ended.summary([("executed", 4)]);

    let sandbox = files();
    sandbox.write("proj/specs/all.yaml", "version: 1\nnonsense: {}\n");
    git(&sandbox, &["init", "-q", "-b", "main"]);
    commit(&sandbox);
    sandbox.write("proj/specs/all.yaml", SPEC);
    let ended = sandbox
        .run(RUN)
        .success()
        .stderr_has("`specs/all.yaml` as of main (")
        .stderr_has("nonsense");
    ended
        .stderr_has("everything counts as affected")
        .summary([("executed", 4)]);
}

#[test]
fn it_goes_together_with_a_partition_and_with_steps() {
    let sandbox = repository();
    sandbox.write("proj/data/words.txt", "c\n");
    sandbox.write("proj/data/other.txt", "c\n");
    let mut ran = 0;
    for n in 1..=3 {
        let part = format!("slice:{n}/3");
        let ended = sandbox
            .run([&RUN[..], &["--partition", &part]].concat())
            .success();
        let scope = ended.json()["scope"].as_str().unwrap().to_owned();
        assert!(
            scope.starts_with("affected since main (")
                && scope.ends_with(&format!("), partition {part}")),
            "{scope}"
        );
        ran += ["sorted", "first", "aside"]
            .iter()
            .filter(|n| ended.stderr.contains(&format!("ok    command:{n}")))
            .count();
    }
    assert_eq!(ran, 3);
    let ended = sandbox
        .run([&RUN[..], &["--step", "command:counted"]].concat())
        .success();
    ended.stderr_has("nothing differs from main");
}

#[test]
fn mistakes_are_reported_with_a_remedy() {
    let sandbox = repository();
    let base = |base: &str| {
        sandbox
            .run(["run", "proj/specs/all.yaml", &format!("--affected={base}")])
            .code(2)
    };
    base("mian")
        .stderr_has("git has no revision `mian`")
        .stderr_has("did you mean `main`?");
    base("v9.9.9")
        .stderr_has("git has no revision `v9.9.9`")
        .stderr_has("hint: give a branch");
    base("--all").stderr_has("git has no revision `--all`");

    commit_twice_and_clone_shallowly(&sandbox);
    let ended = sandbox
        .run([
            "run",
            "shallow/specs/all.yaml",
            "--affected",
            "0123456789abcdef",
        ])
        .code(2);
    ended
        .stderr_has("this clone is shallow")
        .stderr_has("fetch-depth: 0");

    let bare = Sandbox::new().file(
        "specs/all.yaml",
        "version: 1\ncommands:\n  a: {argv: [x], outputs: [o]}\n",
    );
    let bare = bare.env("GIT_CEILING_DIRECTORIES", env!("CARGO_TARGET_TMPDIR"));
    bare.run(["run", "--affected", "main"])
        .code(2)
        .stderr_has("is not in a git repository")
        .stderr_has("hint: without");
    let none = bare.env("PATH", "/nowhere");
    none.run(["run", "--affected", "main"])
        .code(2)
        .stderr_has("git is needed for this, and is not on PATH");
}

fn commit_twice_and_clone_shallowly(sandbox: &Sandbox) {
    sandbox.write("proj/data/other.txt", "2");
    commit(sandbox);
    let from = format!("file://{}", sandbox.path("proj").display());
    git(
        sandbox,
        &["clone", "-q", "--depth", "1", &from, "../shallow"],
    );
}
