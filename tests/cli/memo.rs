//! Runs in which nothing changed: what they look at, what makes them look at everything, and that whatever they say is what
//! an ordinary run would say.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::support::{Ended, Sandbox, WITHOUT_DEVICE, flip_byte};

const RUN: [&str; 3] = ["run", "all.yaml", "--json"];

/// words.txt → sorted → first; tree/ → listed; and one that reads a variable.
const SPEC: &str = "version: 1
include: [more.yaml]
commands:
  sorted: {argv: [sh, -c, 'sort -u words.txt > out'], inputs: {words.txt: {file: data/words.txt}}, outputs: [out]}
  first: {argv: [sh, -c, 'head -n 1 in/out > out'], inputs: {in: {step: 'command:sorted'}}, outputs: [out]}
  listed: {argv: [sh, -c, 'cd in; find . -type f | sort | xargs cat > ../out'], inputs: {in: {file: data/tree}}, outputs: [out]}
";
const MORE: &str = "version: 1
commands:
  said: {argv: [sh, -c, 'echo \"${SAID-nothing}\" > out'], outputs: [out], env: [SAID]}
";
const STEPS: u64 = 4;

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new()
        .file("all.yaml", SPEC)
        .file("more.yaml", MORE)
        .file("data/words.txt", "b\na\n");
    sandbox
        .file("data/tree/one", "1\n")
        .file("data/tree/deep/two", "2\n")
}

/// After a first run, with everything old enough to be believed by its stamp.
fn with_memo() -> Sandbox {
    let sandbox = sandbox();
    sandbox.run(RUN).success().summary([("executed", STEPS)]);
    // The first look finds files that were written a moment ago, and believes only their content.
    path(sandbox.run(RUN).success(), "memo");
    std::thread::sleep(Duration::from_millis(120));
    path(sandbox.run(RUN).success(), "memo");
    sandbox
}

#[track_caller]
fn path(ended: Ended, expected: &str) -> Ended {
    let document = ended.json();
    assert_eq!(document["summary"]["path"], expected, "{document:#}");
    ended
}

/// A null run on the short way.
#[track_caller]
fn is_a_memo(sandbox: &Sandbox) {
    path(sandbox.run(RUN).success(), "memo").summary([
        ("steps", STEPS),
        ("executed", 0),
        ("hits", STEPS),
    ]);
}

/// The next run looks at everything, executes so many steps, and leaves a new settlement.
#[track_caller]
fn outdates(sandbox: &Sandbox, executed: u64) {
    let ended = path(sandbox.run(RUN).success(), "full");
    ended.summary([
        ("steps", STEPS),
        ("executed", executed),
        ("hits", STEPS - executed),
    ]);
    is_a_memo(sandbox);
}

fn memo_file(sandbox: &Sandbox) -> PathBuf {
    sandbox.stored_files("memos").into_iter().next().unwrap()
}

fn set_modified(path: &Path, to: SystemTime) {
    fs::File::options()
        .write(true)
        .open(path)
        .unwrap()
        .set_modified(to)
        .unwrap();
}

#[test]
fn a_memo_prints_what_an_ordinary_run_prints() {
    let sandbox = with_memo();
    let without_time = |mut document: Value| {
        document["summary"]["seconds"] = Value::Null;
        document["summary"]["path"] = Value::Null;
        document["run"] = Value::Null;
        document
    };
    let short = path(sandbox.run(RUN).success(), "memo").json();
    let text = sandbox.run(["run", "all.yaml"]).success();
    fs::remove_dir_all(sandbox.store("memos")).unwrap();
    let long = path(sandbox.run(RUN).success(), "full").json();
    fs::remove_dir_all(sandbox.store("memos")).unwrap();
    let long_text = sandbox.run(["run", "all.yaml"]).success();
    assert_eq!(without_time(short), without_time(long));
    let counts = |ended: &Ended| ended.stdout.rsplit_once("date").unwrap().0.to_owned();
    assert_eq!(counts(&text), counts(&long_text));
    assert_eq!(text.stderr, long_text.stderr);
}

#[test]
fn a_spec_an_included_one_or_a_variable_outdates_it() {
    let sandbox = with_memo();
    sandbox.write("all.yaml", format!("{SPEC}# a comment\n"));
    outdates(&sandbox, 0);
    sandbox.write("more.yaml", MORE.replace("nothing", "silence"));
    outdates(&sandbox, 1);
    let sandbox = sandbox.env("SAID", "word").env("UNDECLARED", "x");
    outdates(&sandbox, 1);
    let sandbox = sandbox.env("UNDECLARED", "y");
    is_a_memo(&sandbox);
}

#[test]
fn what_changes_no_content_does_not_unsettle() {
    let sandbox = with_memo();
    let now = SystemTime::now();
    for name in ["all.yaml", "more.yaml", "data/words.txt", "data/tree/one"] {
        set_modified(&sandbox.path(name), now - Duration::from_secs(5));
        is_a_memo(&sandbox);
    }
    sandbox.write("data/words.txt", "b\na\n");
    is_a_memo(&sandbox);
    path(
        sandbox
            .run(["run", "all.yaml", "--json", "--jobs", "1"])
            .success(),
        "memo",
    );
    path(
        sandbox
            .run(["run", "all.yaml", "--json", "--fail-fast"])
            .success(),
        "memo",
    );
}

#[test]
fn what_was_touched_is_hashed_once_and_then_believed_again() {
    let sandbox = with_memo();
    let stamp = |path: &Path| {
        fs::metadata(path)
            .map(|meta| (meta.mtime_nsec(), meta.ino()))
            .unwrap()
    };
    set_modified(
        &sandbox.path("data/words.txt"),
        SystemTime::now() - Duration::from_secs(9),
    );
    std::thread::sleep(Duration::from_millis(120));
    let memo = memo_file(&sandbox);
    let before = stamp(&memo);
    is_a_memo(&sandbox);
    let refreshed = stamp(&memo);
    assert_ne!(before, refreshed, "the new stamp is not on record");
    is_a_memo(&sandbox);
    assert_eq!(stamp(&memo), refreshed, "a null run writes nothing");
}

#[test]
fn content_of_the_same_size_and_time_is_noticed() {
    let sandbox = with_memo();
    let file = sandbox.path("data/words.txt");
    let modified = fs::metadata(&file).unwrap().modified().unwrap();
    fs::write(&file, "d\nc\n").unwrap();
    set_modified(&file, modified);
    path(sandbox.run(RUN).success(), "full").summary([("executed", 2), ("hits", STEPS - 2)]);
    is_a_memo(&sandbox);
}

#[test]
fn a_file_changed_in_the_moment_of_the_run_is_noticed() {
    let sandbox = sandbox();
    for (n, words) in ["b\na\n", "y\nx\n", "w\nv\n", "s\nr\n"]
        .into_iter()
        .enumerate()
    {
        sandbox.write("data/words.txt", words);
        let ended = sandbox.run(RUN).success();
        assert!(
            n == 0 || ended.json()["summary"]["executed"] == 2,
            "{words:?}"
        );
    }
}

#[test]
fn what_lies_below_a_changed_source_runs() {
    let sandbox = with_memo();
    sandbox.write("data/words.txt", "0\nb\na\n");
    let ended = path(sandbox.run(RUN).success(), "full");
    let ended = ended
        .stderr_has("ok    command:sorted")
        .stderr_has("ok    command:first")
        .stderr_lacks("listed");
    ended.summary([("steps", STEPS), ("executed", 2), ("hits", STEPS - 2)]);
    is_a_memo(&sandbox);
    // Back again: the store holds all of it.
    std::thread::sleep(Duration::from_millis(120));
    sandbox.write("data/words.txt", "b\na\n");
    path(sandbox.run(RUN).success(), "full").summary([("executed", 0), ("hits", STEPS)]);
    is_a_memo(&sandbox);
}

#[test]
fn an_unchanged_output_stops_the_wave() {
    let sandbox = with_memo();
    sandbox.write("data/words.txt", "a\nb\nb\n");
    let ended = path(sandbox.run(RUN).success(), "full").stderr_has("same  command:sorted");
    ended
        .stderr_lacks("command:first")
        .summary([("executed", 1), ("hits", STEPS - 1)]);
    is_a_memo(&sandbox);
}

#[test]
fn a_folder_is_watched_with_all_that_is_in_it() {
    let sandbox = with_memo();
    sandbox.write("data/tree/deep/two", "3\n");
    path(sandbox.run(RUN).success(), "full").summary([("executed", 1)]);
    is_a_memo(&sandbox);
    sandbox.write("data/tree/deep/three", "3\n");
    unsettles_folder(&sandbox, 1);
    fs::remove_file(sandbox.path("data/tree/deep/three")).unwrap();
    unsettles_folder(&sandbox, 0);
    fs::create_dir(sandbox.path("data/tree/empty")).unwrap();
    unsettles_folder(&sandbox, 0);
    sandbox.write("data/tree/empty/four", "4\n");
    unsettles_folder(&sandbox, 1);
}

/// A folder that has just changed is listed once more.
#[track_caller]
fn unsettles_folder(sandbox: &Sandbox, executed: u64) {
    path(sandbox.run(RUN).success(), "full")
        .summary([("executed", executed), ("hits", STEPS - executed)]);
    std::thread::sleep(Duration::from_millis(120));
    sandbox.run(RUN).success().summary([("executed", 0)]);
    is_a_memo(sandbox);
}

#[test]
fn a_file_that_is_gone_is_reported_and_its_return_is_nothing_new() {
    let sandbox = with_memo();
    fs::remove_file(sandbox.path("data/words.txt")).unwrap();
    sandbox.run(RUN).code(1);
    sandbox.run(RUN).code(1);
    sandbox.write("data/words.txt", "b\na\n");
    sandbox
        .run(RUN)
        .success()
        .summary([("executed", 0), ("hits", STEPS)]);
    is_a_memo(&sandbox);
}

#[test]
fn what_was_taken_out_of_the_store_is_made_again() {
    let sandbox = with_memo();
    fs::remove_file(sandbox.blob("nothing\n")).unwrap();
    outdates(&sandbox, 1);
    fs::remove_file(sandbox.store("log")).unwrap();
    outdates(&sandbox, STEPS);
}

#[test]
fn a_page_that_is_gone_or_changed_is_put_back() {
    let sandbox = with_memo();
    for name in ["index.html", "matrix.json"] {
        let page = sandbox.path(&format!("orch-out/report/{name}"));
        let whole = fs::read(&page).unwrap();
        fs::remove_file(&page).unwrap();
        outdates(&sandbox, 0);
        let made = fs::read(&page).unwrap();
        // It says how the run that wrote it went, and that one executed nothing.
        assert!(
            made != whole && made.len().abs_diff(whole.len()) < 100,
            "{name}"
        );
        fs::write(&page, "mine").unwrap();
        outdates(&sandbox, 0);
        assert!(
            fs::read(&page).unwrap().len().abs_diff(whole.len()) < 100,
            "{name}"
        );
        assert_eq!(
            sandbox.read(&format!("orch-out/report/{name}.edited")),
            "mine"
        );
    }
}

#[test]
fn a_damaged_memo_is_none() {
    let sandbox = with_memo();
    let file = memo_file(&sandbox);
    let whole = fs::read(&file).unwrap();
    for at in (0..whole.len())
        .step_by(whole.len() / 12)
        .chain([whole.len() - 50, whole.len() - 1])
    {
        let mut bytes = whole.clone();
        bytes[at] ^= 4;
        fs::write(&file, bytes).unwrap();
        // A part that this run does not read may be damaged unseen; what it says is right.
        sandbox
            .run(RUN)
            .success()
            .summary([("steps", STEPS), ("executed", 0), ("hits", STEPS)]);
        fs::write(&file, &whole[..at]).unwrap();
        path(sandbox.run(RUN).success(), "full").summary([("executed", 0), ("hits", STEPS)]);
        is_a_memo(&sandbox);
    }
    flip_byte(&file);
    sandbox.write("data/words.txt", "z\n");
    sandbox
        .run(RUN)
        .success()
        .summary([("executed", 2), ("hits", STEPS - 2)]);
    is_a_memo(&sandbox);
}

#[test]
fn a_damaged_input_is_made_again() {
    let spec = "version: 1
commands:
  a: {argv: [cp, in, out], inputs: {in: {file: a.txt}}, outputs: [out]}
  b: {argv: [cp, in, out], inputs: {in: {file: b.txt}}, outputs: [out]}
  both: {argv: [sh, -c, 'cat a/out b/out > out'], inputs: {a: {step: 'command:a'}, b: {step: 'command:b'}}, outputs: [out]}
";
    let sandbox = Sandbox::new()
        .file("all.yaml", spec)
        .file("a.txt", "a\n")
        .file("b.txt", "of b\n");
    sandbox.run(RUN).success().summary([("executed", 3)]);
    let of_b = sandbox.blob("of b\n");
    // In place, so that no folder of the store shows it.
    let mut permissions = fs::metadata(&of_b).unwrap().permissions();
    #[allow(clippy::permissions_set_readonly_false, reason = "the test's own file")]
    permissions.set_readonly(false);
    fs::set_permissions(&of_b, permissions).unwrap();
    fs::write(&of_b, "OF B\n").unwrap();
    sandbox.write("a.txt", "other\n");
    let ended =
        path(sandbox.run(RUN).success(), "full").stderr_has("the output of command:b is lost");
    ended.summary([("steps", 3), ("executed", 3), ("hits", 0)]);
    // Something was taken out of the store while it ran, so one more look at all of it is due.
    path(sandbox.run(RUN).success(), "full").summary([("executed", 0), ("hits", 3)]);
    path(sandbox.run(RUN).success(), "memo").summary([("executed", 0), ("hits", 3)]);
}

#[test]
fn a_run_with_anything_left_to_do_does_not_settle() {
    let sandbox = Sandbox::new().file(
        "all.yaml",
        "version: 1\ncommands:\n  good: {argv: [cp, in, out], inputs: {in: {file: in}}, outputs: [out]}\n  bad: {argv: ['false'], outputs: [out]}\n",
    );
    sandbox.write("in", "x");
    for _ in 0..2 {
        path(sandbox.run(RUN).code(1), "full");
        assert!(sandbox.stored_files("memos").is_empty());
    }
}

#[test]
fn a_failure_stays_one_until_it_is_mended() {
    let spec = "version: 1\ncommands:\n  c: {argv: [sh, -c, 'grep -q good in && echo ok > out'], inputs: {in: {file: in}}, outputs: [out]}\n  d: {argv: [cp, -r, in, out], inputs: {in: {step: 'command:c'}}, outputs: [out]}\n";
    let sandbox = Sandbox::new().file("all.yaml", spec).file("in", "good\n");
    sandbox.run(RUN).success().summary([("executed", 2)]);
    sandbox.write("in", "bad\n");
    path(sandbox.run(RUN).code(1), "full")
        .stderr_has("FAIL  command:c")
        .summary([("steps", 2), ("executed", 1), ("hits", 0)]);
    sandbox
        .run(RUN)
        .code(1)
        .summary([("steps", 2), ("executed", 1), ("hits", 0)]);
    sandbox.write("in", "good again\n");
    sandbox
        .run(RUN)
        .success()
        .summary([("steps", 2), ("executed", 1), ("hits", 1)]);
    path(sandbox.run(RUN).success(), "memo").summary([("executed", 0), ("hits", 2)]);
}

#[test]
fn a_plan_with_cases_settles_too_and_its_tests_are_watched() {
    let command = "commands:
  c: {argv: [cp, in, out], inputs: {in: {file: in}}, outputs: [out]}
";
    let spec = format!("{WITHOUT_DEVICE}{command}");
    let sandbox = Sandbox::new().file("all.yaml", spec).file("in", "1\n");
    let first = sandbox.run(RUN).code(3).json();
    let again = path(sandbox.run(RUN).code(3), "memo").json();
    assert_eq!(again["summary"]["executed"], 0);
    assert_eq!(again["summary"]["unavailable"], 1);
    let backends = |document: &Value| document["backends"].as_array().unwrap().len();
    assert_eq!(
        (backends(&again), &again["excluded"]),
        (backends(&first), &first["excluded"])
    );
    assert_eq!(again["cases"][0]["reason"], first["cases"][0]["reason"]);
    sandbox.write("in", "2\n");
    path(sandbox.run(RUN).code(3), "full").summary([("executed", 1), ("unavailable", 1)]);
    let test = sandbox.path("orch-out/tests/test_bert_mps-fp32.py");
    fs::remove_file(&test).unwrap();
    path(sandbox.run(RUN).code(3), "full").summary([("executed", 0)]);
    assert!(test.exists());
    path(sandbox.run(RUN).code(3), "memo");
}

#[test]
fn old_memos_are_removed() {
    let sandbox = with_memo();
    for n in 0..20 {
        sandbox
            .run(["run", "all.yaml", "--out-dir", &format!("out-{n}")])
            .success();
    }
    assert_eq!(sandbox.stored_files("memos").len(), 16);
    path(
        sandbox
            .run(["run", "all.yaml", "--json", "--out-dir", "out-19"])
            .success(),
        "memo",
    );
}

#[test]
fn two_at_a_time_agree() {
    let sandbox = with_memo();
    for words in ["1\n", "2\n", "3\n"] {
        sandbox.write("data/words.txt", words);
        let children = [sandbox.spawn(RUN), sandbox.spawn(RUN), sandbox.spawn(RUN)];
        let executed: u64 = children
            .map(|child| {
                sandbox.wait(child).success().json()["summary"]["executed"]
                    .as_u64()
                    .unwrap()
            })
            .iter()
            .sum();
        assert_eq!(executed, 2, "{words:?}");
        sandbox
            .run(RUN)
            .success()
            .summary([("executed", 0), ("hits", STEPS)]);
    }
    is_a_memo(&sandbox);
}
