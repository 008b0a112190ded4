//! What keeps the history: files of runs, one for each; concurrent runs and imports; kills; older and newer databases; the store's
//! garbage collection; damage.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use super::history::{REPORT, number, rows, shell};
use crate::support::{Sandbox, WITHOUT_DEVICE, flip_byte, signal};

const RUN: [&str; 2] = ["run", "all.yaml"];

fn sandbox() -> Sandbox {
    Sandbox::new().installs().file("all.yaml", WITHOUT_DEVICE)
}

fn database(sandbox: &Sandbox) -> PathBuf {
    sandbox.path("cache/history/history.duckdb")
}

/// Reports of one run each, by day: `many/01.json` and so on.
fn reports(sandbox: &Sandbox, days: u32) {
    let report: Value = serde_json::from_str(REPORT).unwrap();
    for day in 1..=days {
        let mut report = report.clone();
        for case in report["cases"].as_array_mut().unwrap() {
            if case["measured"].is_string() {
                case["measured"] = json!(format!(
                    "2026-02-{:02}T{:02}:00:00Z",
                    1 + day / 24,
                    day % 24
                ));
                case["cached"] = json!(false);
            }
        }
        sandbox.write(&format!("many/{day:02}.json"), report.to_string());
    }
}

/// All is there, and all of it once.
#[track_caller]
fn whole(sandbox: &Sandbox, runs: i64) {
    assert_eq!(number(sandbox, "SELECT count(*) FROM runs"), runs);
    assert_eq!(number(sandbox, "SELECT count(*) FROM results"), 206 * runs);
    assert_eq!(
        number(
            sandbox,
            "SELECT count(*) FROM (SELECT DISTINCT run, case_id FROM results)"
        ),
        206 * runs
    );
    assert_eq!(
        number(
            sandbox,
            "SELECT count(*) FROM executions WHERE median_ms IS NOT NULL"
        ),
        121 * runs
    );
    let twice = "SELECT count(*) - count(DISTINCT (execution, round, sample)) FROM samples";
    assert_eq!(number(sandbox, twice), 0);
    let lost = "SELECT count(*) FROM executions WHERE samples <> (SELECT count(*) FROM samples s WHERE s.execution = executions.execution)";
    assert_eq!(number(sandbox, lost), 0);
}

#[test]
fn a_run_leaves_one_file_and_one_that_changes_nothing_none() {
    let sandbox = sandbox();
    sandbox.run(RUN).code(3);
    assert_eq!(sandbox.results().len(), 1);
    assert!(!database(&sandbox).exists(), "a run imports nothing");
    std::thread::sleep(Duration::from_millis(120));
    let path =
        || sandbox.run(["run", "all.yaml", "--json"]).code(3).json()["summary"]["path"].clone();
    while path() != "memo" {}
    let left = sandbox.results().len();
    assert_eq!(path(), "memo");
    assert_eq!(sandbox.results().len(), left);
    let runs = sandbox.run(["history", "--json"]).success().json();
    assert_eq!(
        (&runs[0]["cases"], &runs[0]["measured"]),
        (&json!(1), &json!(0))
    );
    assert!(
        runs[0]["command"]
            .as_str()
            .unwrap()
            .starts_with("orch run all.yaml"),
        "{runs}"
    );
    let state = rows(&sandbox, "SELECT DISTINCT state, execution FROM results");
    assert_eq!(
        state,
        [json!({"state": "SKIP_UNAVAILABLE", "execution": null})]
    );
    assert_eq!(number(&sandbox, "SELECT count(*) FROM hardware_results"), 0);
    assert!(
        number(
            &sandbox,
            "SELECT count(*) FROM hardware_detection WHERE hardware_type = 'cpu' AND available"
        ) > 0
    );
}

#[test]
fn a_run_says_of_which_commit_it_is_and_a_new_commit_without_work_is_reported() {
    let sandbox = sandbox();
    let git = |args: &[&str]| {
        let mut command = Command::new("git");
        command
            .arg("-C")
            .arg(sandbox.path("."))
            .args(["-c", "user.name=a", "-c", "user.email=a@b.c"])
            .args(args);
        let output = command.env_remove("GIT_DIR").output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    git(&["init", "--quiet", "--initial-branch=main"]);
    git(&["add", "all.yaml"]);
    git(&["commit", "--quiet", "-m", "first"]);
    std::thread::sleep(Duration::from_millis(120));
    let path =
        || sandbox.run(["run", "all.yaml", "--json"]).code(3).json()["summary"]["path"].clone();
    while path() != "memo" {}
    let before = sandbox.results().len();
    let first = git(&["rev-parse", "HEAD"]);
    git(&["commit", "--quiet", "--allow-empty", "-m", "second"]);
    for _ in 0..3 {
        assert_eq!(path(), "memo");
    }
    assert_eq!(sandbox.results().len(), before + 1, "once for each commit");
    let runs = sandbox.run(["history", "--json"]).success().json();
    let runs = runs.as_array().unwrap();
    assert_eq!(runs[0]["git_revision"], *first);
    let last = runs.last().unwrap();
    assert_eq!(last["git_revision"], *git(&["rev-parse", "HEAD"]));
    assert_eq!(
        (&last["git_branch"], &last["git_dirty"], &last["cases"]),
        (&json!("main"), &json!(false), &json!(1))
    );
    assert!(last["same_as"].is_string(), "{last}");
    let kept = rows(
        &sandbox,
        &format!(
            "SELECT kept, state FROM results WHERE run = '{}'",
            last["run"].as_str().unwrap()
        ),
    );
    assert_eq!(kept, [json!({"kept": true, "state": "SKIP_UNAVAILABLE"})]);
}

#[test]
fn files_of_runs_and_the_folders_of_a_history_are_imported_as_they_are() {
    let from = sandbox();
    from.run(RUN).code(3);
    reports(&from, 2);
    from.run(["history", "import", "many"]).success();
    let to = Sandbox::new().installs();
    let import = |path: PathBuf| {
        to.run(["history", "import", path.to_str().unwrap()])
            .success()
    };
    let own = from.results().pop().unwrap();
    import(own.clone()).stderr_has("1 run taken in");
    let runs = |sandbox: &Sandbox| {
        rows(
            sandbox,
            "SELECT * EXCLUDE (imported_from) FROM runs ORDER BY run",
        )
    };
    // All that a report does not say is there too.
    assert_eq!(runs(&to), runs(&from)[2..]);
    assert!(
        runs(&to)[0]["command"]
            .as_str()
            .unwrap()
            .starts_with("orch run all.yaml")
    );
    let name = own.file_name().unwrap().to_str().unwrap();
    assert_eq!(
        rows(&to, "SELECT imported_from FROM runs"),
        [json!({"imported_from": name})]
    );
    import(from.path("cache/history")).stderr_has("2 runs taken in");
    assert_eq!(runs(&to), runs(&from));
    for query in [
        "SELECT * FROM steps ORDER BY ALL",
        "SELECT run, case_id, host, state, execution FROM results ORDER BY ALL",
    ] {
        assert_eq!(rows(&to, query), rows(&from, query));
    }
    assert_eq!(number(&to, "SELECT count(*) FROM results"), 2 * 206 + 1);
    // Of the folder in it there is nothing new.
    import(from.path("cache/history/runs")).stderr_has("0 runs taken in");
    assert_eq!(to.results().len(), 3);
}

#[test]
fn eight_runs_at_once_are_all_in_it_while_others_read() {
    let sandbox = sandbox();
    sandbox.run(["history"]).success();
    let runs: Vec<_> = (0..8)
        .map(|at| sandbox.spawn(["run", "all.yaml", "--out-dir", &format!("out{at}")]))
        .collect();
    let asked: Vec<_> = (0..4)
        .map(|_| sandbox.spawn(["query", "SELECT count(*) FROM results"]))
        .collect();
    runs.into_iter()
        .for_each(|run| drop(sandbox.wait(run).code(3)));
    asked
        .into_iter()
        .for_each(|query| drop(sandbox.wait(query).success()));
    assert_eq!(number(&sandbox, "SELECT count(*) FROM runs"), 8);
    assert_eq!(
        number(&sandbox, "SELECT count(DISTINCT run) FROM results"),
        8
    );
    assert_eq!(sandbox.results().len(), 8);
}

#[test]
fn eight_imports_at_once_lose_and_double_nothing() {
    let sandbox = Sandbox::new().installs();
    reports(&sandbox, 8);
    let import = |day: u32| {
        sandbox.spawn([
            "history",
            "import",
            &format!("many/{day:02}.json"),
            "many/01.json",
        ])
    };
    let imports: Vec<_> = (1..=8).map(import).collect();
    imports
        .into_iter()
        .for_each(|import| drop(sandbox.wait(import).success()));
    whole(&sandbox, 8);
}

#[test]
fn a_kill_at_any_moment_loses_and_doubles_nothing() {
    let sandbox = Sandbox::new().installs();
    // While the database is made, and then while runs are added to it, of which DuckDB's log has the first.
    for (days, pause) in [(4, 40), (24, 90)] {
        reports(&sandbox, days);
        let mut killed = 0;
        for moment in 1..=8 {
            let mut import = sandbox.spawn(["history", "import", "many"]);
            std::thread::sleep(Duration::from_millis(pause * moment));
            killed += usize::from(import.try_wait().unwrap().is_none());
            signal(&import, libc::SIGKILL);
            let _ = import.wait();
        }
        assert!(killed > 3, "it was too fast to be killed");
        sandbox.run(["history", "import", "many"]).success();
        whole(&sandbox, i64::from(days));
    }
}

#[test]
fn collecting_the_stores_garbage_and_losing_the_database_lose_no_history() {
    let sandbox = sandbox().file("matrix.json", REPORT);
    sandbox.run(["history", "import", "matrix.json"]).success();
    sandbox.run(RUN).code(3);
    let told = || {
        (
            number(&sandbox, "SELECT count(*) FROM runs"),
            number(&sandbox, "SELECT count(*) FROM samples"),
        )
    };
    let before = told();
    assert_eq!(before.0, 2);
    sandbox.run(["cache", "gc", "--max-size", "0"]).success();
    assert_eq!(told(), before);
    fs::remove_file(database(&sandbox)).unwrap();
    assert_eq!(told(), before);
    // Damage is told, with what to do, and undone.
    fs::write(
        database(&sandbox),
        "no database at all, and longer than a header, ".repeat(1000),
    )
    .unwrap();
    sandbox
        .run(["history"])
        .code(2)
        .stderr_has("orch history rebuild");
    sandbox
        .run(["history", "rebuild"])
        .success()
        .stderr_has("2 runs in");
    assert_eq!(told(), before);
}

#[test]
fn a_damaged_file_of_a_run_is_reported_and_the_others_are_read() {
    let sandbox = Sandbox::new().installs();
    reports(&sandbox, 2);
    sandbox.run(["history", "import", "many"]).success();
    flip_byte(&sandbox.results()[0]);
    fs::remove_file(database(&sandbox)).unwrap();
    sandbox
        .run(["history"])
        .success()
        .stderr_has("a run is missing from the history")
        .stderr_has("it is damaged");
    whole(&sandbox, 1);
}

#[test]
fn a_copy_of_a_runs_file_is_named_and_the_others_are_read() {
    let sandbox = Sandbox::new().installs();
    reports(&sandbox, 2);
    sandbox.run(["history", "import", "many"]).success();
    let first = sandbox.results().remove(0);
    fs::copy(&first, first.with_file_name("backup.json.gz")).unwrap();
    fs::remove_file(database(&sandbox)).unwrap();
    sandbox
        .run(["history"])
        .success()
        .stderr_has("backup.json.gz` is a copy of the file of run");
    whole(&sandbox, 2);
}

#[test]
fn a_damaged_block_of_the_database_does_not_stop_a_rebuild() {
    let sandbox = Sandbox::new().installs();
    reports(&sandbox, 2);
    sandbox.run(["history", "import", "many"]).success();
    let mut bytes = fs::read(database(&sandbox)).unwrap();
    // Behind the headers, every block.
    for at in (3 * 4096 + 100..bytes.len()).step_by(4096) {
        bytes[at] ^= 0xff;
    }
    fs::write(database(&sandbox), bytes).unwrap();
    sandbox
        .run(["history", "rebuild"])
        .success()
        .stderr_has("2 runs in");
    whole(&sandbox, 2);
}

#[test]
fn a_run_file_that_names_another_folder_is_refused() {
    let sandbox = Sandbox::new().installs();
    let about = r#"{"run":"../../../x","started":"2026-01-31T08:00:00.000Z","interrupted":false}"#;
    sandbox.write("odd.json", format!(r#"{{"version":1,"about":{about}}}"#));
    sandbox
        .run(["history", "import", "odd.json"])
        .code(2)
        .stderr_has("`../../../x` is no name of a run");
    assert!(!sandbox.path("x.json.gz").exists());
}

#[test]
fn an_older_database_migrates_with_what_only_it_has_and_a_newer_one_is_refused() {
    let sandbox = Sandbox::new().installs();
    reports(&sandbox, 2);
    sandbox.run(["history", "import", "many"]).success();
    let first = sandbox.results().remove(0);
    fs::remove_file(&first).unwrap();
    // As an orch had it that knew neither this column nor this table.
    shell(
        &database(&sandbox),
        "UPDATE history SET version = 0; DROP VIEW hardware_detection; DROP VIEW hardware_results; DROP TABLE steps; \
         ALTER TABLE executions DROP COLUMN stand_in; ALTER TABLE runs ADD COLUMN gone INTEGER",
    );
    sandbox
        .run(["history"])
        .success()
        .stderr_has("of an older orch");
    whole(&sandbox, 2);
    let stand_ins = rows(
        &sandbox,
        "SELECT run, count(stand_in) > 0 AS told FROM executions WHERE run IS NOT NULL GROUP BY run ORDER BY run",
    );
    assert_eq!(
        (&stand_ins[0]["told"], &stand_ins[1]["told"]),
        (&json!(false), &json!(true)),
        "{stand_ins:?}"
    );
    shell(&database(&sandbox), "UPDATE history SET version = 99");
    sandbox
        .run(["history"])
        .code(2)
        .stderr_has("the history has version 99")
        .stderr_has("newer orch");
    sandbox
        .run(["history", "rebuild"])
        .code(2)
        .stderr_has("version 99");
}

#[test]
fn another_program_that_has_it_open_is_named() {
    let sandbox = Sandbox::new().installs();
    reports(&sandbox, 2);
    sandbox.run(["history", "import", "many/01.json"]).success();
    let mut other = Command::new(crate::support::installed::duckdb());
    let mut other = other
        .arg("-csv")
        .arg(database(&sandbox))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    writeln!(other.stdin.as_mut().unwrap(), "SELECT 42;").unwrap();
    let mut answer = [0; 2];
    other
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut answer)
        .unwrap();
    sandbox
        .run(["query", "SELECT count(*) FROM runs"])
        .code(2)
        .stderr_has("if another program has it open, close it there");
    // What is imported meanwhile is taken in afterwards.
    sandbox.run(["history", "import", "many/02.json"]).code(2);
    drop(other.stdin.take());
    other.wait().unwrap();
    whole(&sandbox, 2);
}
