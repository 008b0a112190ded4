//! `orch site`: what changed since a file, since a run of the history, and by itself since last week.

use jiff::{SignedDuration, Timestamp};
use orch::base::figures::moment;
use serde_json::{Value, json};

use crate::compare::day;
use crate::history::REPORT;
use crate::support::Sandbox;

fn ago(days: i64) -> String {
    moment(Timestamp::now() - SignedDuration::from_hours(24 * days))
}

/// One case, as it stood so many days ago.
fn report(days: i64, status: &str) -> Value {
    let mut report: Value = serde_json::from_str(REPORT).unwrap();
    let cases = report["cases"].as_array_mut().unwrap();
    cases.retain(|case| case["case"] == "bert:cpu-fp32");
    (cases[0]["measured"], cases[0]["cached"], cases[0]["status"]) =
        (json!(ago(days)), json!(false), json!(status));
    report
}

fn import(sandbox: &Sandbox, name: &str, report: &Value) {
    sandbox.write(name, report.to_string());
    sandbox
        .run(["history", "import", name])
        .success()
        .stderr_has("1 run taken in");
}

/// It was right 20 days ago, wrong 9 days ago, and is right since three days ago.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new().installs();
    for (days, status) in [(20, "PASS"), (9, "NUMERICS"), (3, "PASS")] {
        import(
            &sandbox,
            &format!("many/{days}.json"),
            &report(days, status),
        );
    }
    sandbox.file("head.json", report(0, "PASS").to_string())
}

/// The page of changes that came of it, and the base's name.
#[track_caller]
fn site(sandbox: &Sandbox, since: &[&str]) -> (Option<String>, Value) {
    let made = sandbox
        .run([&SITE[..], &["--json"], since].concat())
        .success()
        .json();
    let page = sandbox.path("public/changes.html");
    (
        page.exists().then(|| sandbox.read("public/changes.html")),
        made["since"].clone(),
    )
}

const SITE: [&str; 4] = ["site", "public", "--report", "head.json"];

#[track_caller]
fn changes(sandbox: &Sandbox, since: &str) -> String {
    site(sandbox, &["--since", since]).0.unwrap()
}

const FIXED: &str = "<h2>fixed <small>1</small></h2>";

#[test]
fn by_itself_it_says_what_changed_since_last_week() {
    let sandbox = sandbox();
    // Neither a part of the spec, nor another spec, nor another machine, nor what was interrupted is a base for this report.
    for (name, field, value) in [
        ("part", "/scope", "model:bert"),
        ("other", "/spec", "x.yaml"),
        ("away", "/host/name", "z"),
    ] {
        let mut other = report(8, "PASS");
        match field {
            "/scope" => other["scope"] = json!(value),
            _ => *other.pointer_mut(field).unwrap() = json!(value),
        }
        import(&sandbox, &format!("{name}.json"), &other);
    }
    let nine = ago(9);
    let compact: String = nine.chars().filter(char::is_ascii_alphanumeric).collect();
    let told = sandbox.run(SITE).success();
    told.stderr_has(&format!("what changed since run {}", &compact[..8]))
        .stderr_has("public/changes.html");
    let page = sandbox.read("public/changes.html");
    assert!(
        page.contains(FIXED)
            && page.contains(&format!("Since {} (run {}", &nine[..10], &compact[..8])),
        "{page}"
    );
    assert!(
        sandbox
            .read("public/feed.xml")
            .contains("<title>fixed: bert:cpu-fp32</title>")
    );
    // Of two reports no single run is the base, and nothing is newer than what is shown.
    sandbox
        .run(["site", "two", "--report", "head.json", "many/3.json"])
        .success();
    assert!(!sandbox.path("two/changes.html").exists());
    sandbox
        .run(["site", "old", "--report", "many/20.json"])
        .success();
    let page = sandbox.read("old/changes.html");
    assert!(
        page.contains(&format!("Since {}", &ago(20)[..10])) && page.contains("<p>Nothing.</p>"),
        "{page}"
    );
}

#[test]
fn without_a_run_that_is_a_week_old_nothing_changed_and_nothing_is_installed() {
    let sandbox = Sandbox::new()
        .installs()
        .file("head.json", report(0, "PASS").to_string());
    import(&sandbox, "young.json", &report(6, "NUMERICS"));
    assert_eq!(site(&sandbox, &[]), (None, Value::Null));
    import(&sandbox, "old.json", &report(7, "NUMERICS"));
    assert!(site(&sandbox, &[]).0.unwrap().contains(FIXED));
    // The same history where DuckDB is not: said once.
    let bare = Sandbox::new()
        .cache_of(&sandbox)
        .file("head.json", report(0, "PASS").to_string());
    let bare = bare.env(
        "ORCH_ENV_DIR",
        sandbox.path("no-envs").display().to_string(),
    );
    let told = bare.run(SITE).success();
    assert_eq!(
        told.stderr
            .matches("DuckDB, which reads it, is not installed")
            .count(),
        1,
        "{}",
        told.stderr
    );
    assert!(!bare.path("public/changes.html").exists() && !sandbox.path("no-envs").exists());
}

#[test]
fn the_base_is_what_compare_takes() {
    let sandbox = sandbox();
    let nine = ago(9);
    let three = ago(3);
    let compact: String = nine
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .take(8)
        .collect();
    for since in ["2", "5d", "1w", &nine[..10], &format!("{compact}T")] {
        assert!(changes(&sandbox, since).contains(FIXED), "{since}");
    }
    for since in ["1", "3", "14d", &three[..10], "many/20.json"] {
        assert!(
            changes(&sandbox, since).contains("<p>Nothing.</p>"),
            "{since}"
        );
    }
    // A folder of this machine is on no page.
    let path = sandbox.path("many/9.json").display().to_string();
    let page = changes(&sandbox, &path);
    assert!(
        page.contains(FIXED) && page.contains("(9.json)") && !page.contains("many/9.json"),
        "{page}"
    );
    let since = |name: &str| sandbox.run([&SITE[..], &["--since", name]].concat());
    since("no-such-branch")
        .code(2)
        .stderr_has("`no-such-branch` is no run of the history");
    since("99")
        .code(2)
        .stderr_has("`orch history` lists the runs");
    since("none.json")
        .code(2)
        .stderr_has("failed to read `none.json`");
    since("head.json").success();
}

#[test]
fn times_are_judged_by_how_much_they_vary_over_the_history() {
    let sandbox = Sandbox::new().installs();
    for number in 1..=9 {
        let name = format!("runs/{number:02}.json");
        import(
            &sandbox,
            &name,
            &day(number, 1.5 * (1.0 + 0.05 * f64::from(number % 2))),
        );
    }
    sandbox.write("head.json", day(12, 3.0).to_string());
    assert!(changes(&sandbox, "1").contains("executions of the history"));
    assert!(
        changes(&sandbox, "runs/09.json").contains("not confirmed</td>"),
        "by files alone nothing is known of that"
    );
}
