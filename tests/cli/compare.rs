//! `orch compare`: what differs between two reports, and when a gate closes.

use serde_json::{Value, json};

use crate::history::REPORT;
use crate::onnx::{RIGHT, expected, slow_linear};
use crate::ready_onnx::sandbox;
use crate::sizes::shell;
use crate::support::{Sandbox, env_dir};

const RUN: [&str; 2] = ["run", "specs/all.yaml"];

/// After one run, with its report as `base.json`.
fn ran(values: [f32; 3]) -> (Sandbox, Value) {
    let sandbox = sandbox(values);
    sandbox.run(RUN);
    let mut base: Value =
        serde_json::from_str(&sandbox.read("orch-out/report/matrix.json")).unwrap();
    let head = base.clone();
    // Of an earlier run, which found the same.
    base["run"]["started"] = json!("2026-01-01T00:00:00.000Z");
    sandbox.write("base.json", base.to_string());
    (sandbox, head)
}

/// What git says in a folder of the sandbox.
#[track_caller]
fn git(sandbox: &Sandbox, folder: &str, line: &str) -> String {
    let line = format!(
        "git -C {folder} -c user.name=x -c user.email=x@y.z -c init.defaultBranch=main {line}"
    );
    let (ended, told) = shell(sandbox, &line);
    assert!(ended, "{line}: {told}");
    told
}

fn kinds(sandbox: &Sandbox, head: &Value) -> Vec<(String, String)> {
    sandbox.write("head.json", head.to_string());
    let told = sandbox
        .run(["compare", "base.json", "head.json", "--json"])
        .success()
        .json();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    told["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| (text(&it["kind"]), text(&it["case"])))
        .collect()
}

#[test]
fn what_broke_closes_the_gate_and_what_is_the_same_does_not() {
    let (sandbox, _) = ran(RIGHT);
    sandbox
        .run(["compare", "base.json", "--gate"])
        .success()
        .stdout_has("2 the same · times of 2 cases compared");
    sandbox.write("models/expected/output_0.pb", expected([41.5, 51.5, 60.]));
    sandbox.run(RUN).code(1);
    sandbox.run(["compare", "base.json"]).success();
    let told = sandbox.run(["compare", "base.json", "--gate"]).code(1);
    let told = told
        .stdout_has("broken (2)")
        .stdout_has("linear:cpu-fp32       ✓ PASS → ✗ NUMERICS at run: tensor `y`");
    told.stdout_has("2 broken · 0 the same");
    let comment = sandbox.run([
        "compare",
        "base.json",
        "--gate",
        "--format",
        "markdown",
        "--output",
        "comment.md",
    ]);
    comment.code(1);
    assert!(
        sandbox
            .read("comment.md")
            .contains("#### broken (2)\n\n| case | change |"),
        "{}",
        sandbox.read("comment.md")
    );
    // The other way round it is a repair, which closes no gate.
    let back = sandbox
        .run([
            "compare",
            "orch-out/report/matrix.json",
            "base.json",
            "--gate",
        ])
        .success();
    back.stdout_has("fixed (2)");
}

#[test]
fn each_kind_of_change_is_reported_as_what_it_is() {
    let (sandbox, base) = ran(RIGHT);
    assert_eq!(kinds(&sandbox, &base), []);
    let with = |change: &dyn Fn(&mut Value)| {
        let mut head = base.clone();
        change(&mut head["cases"][0]);
        kinds(&sandbox, &head)
            .into_iter()
            .map(|(kind, case)| (kind, case == base["cases"][0]["case"]))
            .collect::<Vec<_>>()
    };
    let one = |kind: &str| vec![(kind.to_owned(), true)];
    let times = |by: f64| {
        move |case: &mut Value| {
            case["metrics"]["rounds"][0]["min_ms"] =
                json!(case["metrics"]["rounds"][0]["min_ms"].as_f64().unwrap() * by);
        }
    };
    assert_eq!(with(&times(1.1)), one("slower"));
    assert_eq!(with(&times(0.9)), one("faster"));
    assert_eq!(with(&times(1.02)), []);
    assert_eq!(
        with(&|case| case["status"] = json!("SKIP_UNAVAILABLE")),
        one("lost")
    );
    assert_eq!(
        with(&|case| case["status"] = json!("INDECISIVE")),
        one("lost")
    );
    assert_eq!(with(&|case| case["status"] = json!("CRASH")), one("broken"));
    let noise = |snr: f64| with(&|case| case["numerics"]["snr_db"] = json!(snr));
    // Where 50 dB are asked, more than 70 are all alike.
    assert_eq!((noise(128.0), noise(70.0)), (vec![], vec![]));
    assert_eq!(noise(52.0), one("less_accurate"));
    let larger = |case: &mut Value| {
        case["metrics"]["peak_rss_bytes"] =
            json!(case["metrics"]["peak_rss_bytes"].as_u64().unwrap() + (1 << 30));
    };
    assert_eq!(with(&larger), one("more_memory"));
    let mut fewer = base.clone();
    fewer["cases"].as_array_mut().unwrap().pop();
    assert_eq!(kinds(&sandbox, &fewer)[0].0, "gone");
    // On another machine neither times nor memory tell anything; what is right does.
    let mut elsewhere = base.clone();
    times(2.0)(&mut elsewhere["cases"][0]);
    larger(&mut elsewhere["cases"][0]);
    let mut moved = elsewhere.clone();
    for case in moved["cases"].as_array_mut().unwrap() {
        case["host"] = json!("another");
    }
    assert_eq!(kinds(&sandbox, &moved), []);
    let told = sandbox.run(["compare", "base.json", "head.json"]).success();
    told.stdout_has("2 measured on another machine")
        .stdout_lacks("accuracy was not compared");
    // Each case has a machine of its own: those of a merged report are of several.
    moved["cases"][0]["host"] = base["cases"][0]["host"].clone();
    let found = kinds(&sandbox, &moved);
    let found: Vec<&str> = found.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(found, ["slower", "more_memory"]);
    let told = sandbox.run(["compare", "base.json", "head.json"]).success();
    told.stdout_has("1 measured on another machine");
    // So has each CPU behind one name: its kernels round otherwise, too.
    for case in elsewhere["cases"].as_array_mut().unwrap() {
        case["cpu"]["identity"] = json!("AuthenticAMD 23/49/0");
        case["numerics"]["snr_db"] = json!(52.0);
    }
    assert_eq!(kinds(&sandbox, &elsewhere), []);
    let told = sandbox.run(["compare", "base.json", "head.json"]).success();
    told.stdout_has("2 measured on another machine")
        .stdout_has("2 whose accuracy was not compared: computed on another kind of CPU");
    // What was wrong has no time that could stand beside another.
    elsewhere = base.clone();
    elsewhere["cases"][0]["status"] = json!("NUMERICS");
    elsewhere["run"]["started"] = json!("2026-01-01T00:00:00.000Z");
    sandbox.write("base.json", elsewhere.to_string());
    elsewhere["run"]["started"] = base["run"]["started"].clone();
    times(2.0)(&mut elsewhere["cases"][0]);
    assert_eq!(kinds(&sandbox, &elsewhere), []);
}

#[test]
fn times_of_single_processes_are_suspicions_and_close_no_gate() {
    let (sandbox, mut head) = ran(RIGHT);
    head["cases"][0]["metrics"]["rounds"][0]["min_ms"] = json!(1000.0);
    sandbox.write("head.json", head.to_string());
    let told = sandbox
        .run(["compare", "base.json", "head.json", "--gate"])
        .success();
    told.stdout_has("slower (1)")
        .stdout_has("1000 ms (+")
        .stdout_has("not confirmed");
}

/// A hook of git's starts orch with variables that name the hook's repository.
#[test]
fn the_base_comes_from_the_repository_of_the_folder_whatever_a_hook_set() {
    let (sandbox, mut head) = ran(RIGHT);
    head["cases"][0]["metrics"]["rounds"][0]["min_ms"] = json!(1000.0);
    sandbox.write("head.json", head.to_string());
    sandbox.write("other/file", "");
    for (folder, files, branch) in [(".", "specs", "here"), ("other", "file", "there")] {
        for line in [
            "init -q",
            &format!("add {files}"),
            "commit -qm x",
            &format!("branch {branch}"),
        ] {
            git(&sandbox, folder, line);
        }
    }
    let other = sandbox.path("other/.git").display().to_string();
    let sandbox = sandbox
        .env("GIT_DIR", other)
        .env("GIT_INDEX_FILE", "no/such/index");
    let compare = ["compare", "base.json", "head.json", "--confirm", "there"];
    sandbox
        .run(compare)
        .code(2)
        .stderr_has("invalid reference: there")
        .stderr_lacks("is not in there");
}

/// The base's commit lacks the model's file.
#[test]
fn a_side_that_cannot_be_measured_again_is_no_pass() {
    let sandbox = sandbox(RIGHT);
    for line in ["init -q", "add specs", "commit -qm base"] {
        git(&sandbox, ".", line);
    }
    sandbox
        .run(["run", "specs/all.yaml", "-t", "cpu"])
        .success();
    let report = sandbox.read("orch-out/report/matrix.json");
    let mut base: Value = serde_json::from_str(&report).unwrap();
    base["run"]["started"] = json!("2026-01-01T00:00:00.000Z");
    // A mistyped revision is an error also where there is nothing to confirm.
    sandbox.write("base.json", base.to_string());
    for (revision, code) in [("HEAD", 0), ("HAED", 2)] {
        sandbox
            .run(["compare", "base.json", "--confirm", revision])
            .code(code);
    }
    for round in base["cases"][0]["metrics"]["rounds"]
        .as_array_mut()
        .unwrap()
    {
        round["min_ms"] = json!(1e-6);
    }
    sandbox.write("base.json", base.to_string());
    sandbox
        .run(["compare", "base.json", "--confirm", "HEAD", "--gate"])
        .code(2)
        .stderr_has("the base of linear:cpu-fp32 could not be measured again");
}

/// Measures both sides anew, at one commit and the next.
#[test]
#[ignore = "deep, and slow: `cargo test --test '*' -- --ignored`, as CI does"]
fn what_is_measured_again_in_turns_is_slower_or_is_not() {
    let sandbox = sandbox(RIGHT);
    let spec = sandbox.read("specs/all.yaml").replace(
        "\n  openvino: {runtime: openvino, backend: openvino, device: CPU, artefact: openvino, precisions: [fp32]}",
        "",
    );
    sandbox.write("specs/all.yaml", &spec);
    sandbox.write("models/linear.onnx", slow_linear(400));
    for line in ["init -q", "add specs models", "commit -qm base"] {
        git(&sandbox, ".", line);
    }
    sandbox.run(RUN).success();
    let measured = |name: &str| {
        let mut document: Value =
            serde_json::from_str(&sandbox.read("orch-out/report/matrix.json")).unwrap();
        document["run"]["started"] = json!("2026-01-01T00:00:00.000Z");
        sandbox.write(name, document.to_string());
        document
    };
    let confirm = ["compare", "base.json", "--confirm", "HEAD", "--gate"];
    // A base that looks faster than it is: the difference was never there.
    let mut base = measured("base.json");
    base["cases"][0]["metrics"]["rounds"][0]["min_ms"] = json!(1e-6);
    sandbox.write("base.json", base.to_string());
    let told = sandbox
        .run(confirm)
        .success()
        .stderr_has("round 5: base and head of 1 case");
    let is_gone = told
        .stdout
        .contains("1 of them only before both were measured again");
    assert!(
        is_gone || told.stdout.contains("cannot tell"),
        "{}",
        told.stdout
    );
    // Ten times as many nodes are slower on any machine.
    measured("base.json");
    sandbox.write("models/linear.onnx", slow_linear(4000));
    sandbox.run(RUN).success();
    sandbox
        .run(confirm)
        .code(1)
        .stdout_has("slower (1)")
        .stdout_lacks("not confirmed");
    assert_eq!(sandbox.read("base.json").matches("\"case\"").count(), 1);
    let (_, trees) = shell(&sandbox, "git worktree list");
    assert_eq!(trees.lines().count(), 1, "{trees}");
    sandbox
        .run(["compare", "base.json", "--confirm", "no-such-revision"])
        .code(2)
        .stderr_has("no-such-revision");
}

#[test]
fn what_is_no_report_is_refused_by_name() {
    let sandbox = Sandbox::new().file("a.json", "{}");
    sandbox
        .run(["compare", "a.json", "b.json"])
        .code(2)
        .stderr_has("`a.json` is no report of this orch: missing field");
    sandbox
        .run(["compare", "none.json"])
        .code(2)
        .stderr_has("failed to read `none.json`");
}

/// A run of another machine: one case, whose least time varies from day to day.
pub(super) fn day(number: u32, ms: f64) -> Value {
    let mut report: Value = serde_json::from_str(REPORT).unwrap();
    report["cases"]
        .as_array_mut()
        .unwrap()
        .retain(|case| case["case"] == "bert:cpu-fp32");
    let case = &mut report["cases"][0];
    let measured = format!("2026-02-{number:02}T08:00:00Z");
    case["measured"] = json!(measured);
    case["cached"] = json!(false);
    case["metrics"]["statistic"] = json!({"ms": ms, "basis": "least_wall"});
    case["metrics"]["rounds"] = json!([{"round": 1, "measured": measured, "load_ms": 60.0, "first_ms": 4.0, "warmup": 3,
        "samples": 20, "min_ms": ms, "median_ms": 1.1 * ms}]);
    report
}

#[test]
fn runs_of_the_history_are_compared_by_how_much_they_vary_there() {
    let sandbox = Sandbox::new().installs();
    let import = |number: u32, ms: f64| {
        let name = format!("runs/{number:02}.json");
        sandbox.write(&name, day(number, ms).to_string());
        sandbox.run(["history", "import", &name]).success();
    };
    (1..=6).for_each(|number| import(number, 1.5 * (1.0 + 0.05 * f64::from(number % 2))));
    // Of too few executions nothing is known: what differs by 3 % is suspected.
    import(9, 1.6);
    sandbox
        .run(["compare", "2026-02-06", "1"])
        .success()
        .stdout_has("slower (1)")
        .stdout_lacks("of the history");
    import(10, 1.5);
    import(11, 1.6);
    let told = sandbox
        .run(["compare", "2026-02-06", "1"])
        .success()
        .stdout_lacks("slower");
    told.stdout_has("times of 1 case compared, 1 by how much they vary over the history")
        .stdout_has("1 that vary too much over the history to tell");
    let json = sandbox
        .run(["compare", "2026-02-06", "1", "--json"])
        .success()
        .json();
    assert_eq!(json["unsettled"][0]["noise"]["executions"], 9, "{json}");
    // More than it ever varied, by a file against a run, and by name.
    sandbox.write("slow.json", day(12, 3.0).to_string());
    let told = sandbox
        .run(["compare", "2", "slow.json"])
        .success()
        .stdout_has("slower (1)");
    told.stdout_has("executions of the history")
        .stdout_has("base  run 20260210T");
    sandbox
        .run(["compare", "20260210T", "slow.json"])
        .success()
        .stdout_has("slower (1)");
    sandbox
        .run(["compare", "no-such-branch", "1"])
        .code(2)
        .stderr_has("`no-such-branch` is no run of the history");
    sandbox
        .run(["compare", "99", "1"])
        .code(2)
        .stderr_has("`orch history` lists the runs");
    // The last that is so old; all of them are.
    sandbox
        .run(["compare", "7d", "2"])
        .success()
        .stdout_has("base  run 20260211T")
        .stdout_has("head  run 20260210T");
    sandbox
        .run(["compare", "7d", "1"])
        .code(2)
        .stderr_has("base and head are one run");
}

/// A project with two commits and a run at each, the second of which broke it.
#[test]
fn runs_are_found_by_the_revisions_that_they_ran_at() {
    let sandbox = sandbox(RIGHT).env("ORCH_ENV_DIR", env_dir().display().to_string());
    let git = |line: &str| git(&sandbox, ".", line);
    for line in ["init -q", "add specs models", "commit -qm right", "tag v1"] {
        git(line);
    }
    sandbox.run(RUN).success();
    sandbox.write("models/expected/output_0.pb", expected([41.5, 51.5, 60.]));
    for line in ["commit -qam wrong", "branch topic/wrong"] {
        git(line);
    }
    sandbox.run(RUN).code(1);
    let commit = |name: &str| git(&format!("rev-parse {name}")).trim().to_owned();
    let right = commit("v1");
    let wrong = commit("HEAD");
    for (base, head) in [
        ("v1", "HEAD"),
        (&right[..7], &wrong[..7]),
        ("HEAD~1", "topic/wrong"),
        (&right, "main"),
    ] {
        let told = sandbox
            .run(["compare", base, head, "--gate"])
            .code(1)
            .stdout_has("broken (2)");
        for (side, commit) in [("base", &right), ("head", &wrong)] {
            let line = told
                .stdout
                .lines()
                .find(|line| line.starts_with(side))
                .unwrap();
            assert!(
                line.contains(&format!(" at {}", &commit[..9])),
                "{base} {head}: {line}"
            );
        }
    }
    // The head is the last run's report, which is that of the second commit, and so is the last run of the history.
    sandbox
        .run(["compare", "v1"])
        .success()
        .stdout_has("broken (2)");
    sandbox
        .run(["compare", "main", "1"])
        .code(2)
        .stderr_has("base and head are one run");
    sandbox
        .run(["compare", "main", "v1", "--gate"])
        .success()
        .stdout_has("fixed (2)");
    // Nothing ran at this commit yet.
    git("commit -q --allow-empty -m unseen");
    sandbox
        .run(["compare", "HEAD", "1"])
        .code(2)
        .stderr_has("`HEAD` is no run of the history");
    sandbox
        .run(["compare", "topic/gone", "1"])
        .code(2)
        .stderr_has("`topic/gone` is no run of the history");
}
