//! The history as people ask it: the documented queries, formats, the runs and the series of a case; and that asking harms nothing.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::support::{Sandbox, installed};

/// A report of 206 cases on a machine that is not this one.
pub(crate) const REPORT: &str = include_str!("../fixtures/report/doc.json");
const PAGE: &str = include_str!("../../docs/history.md");

/// A history of one run of another machine.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new().installs().file("matrix.json", REPORT);
    sandbox
        .run(["history", "import", "matrix.json"])
        .success()
        .stderr_has("1 run taken in");
    sandbox
}

pub(crate) fn rows(sandbox: &Sandbox, sql: &str) -> Vec<Value> {
    sandbox
        .run(["query", sql, "--json"])
        .success()
        .json()
        .as_array()
        .unwrap()
        .clone()
}

pub(crate) fn number(sandbox: &Sandbox, sql: &str) -> i64 {
    let rows = rows(sandbox, sql);
    rows[0]
        .as_object()
        .unwrap()
        .values()
        .next()
        .unwrap()
        .as_i64()
        .unwrap()
}

/// What DuckDB's own shell says of a database.
pub(crate) fn shell(database: &Path, sql: &str) -> String {
    let output = Command::new(installed::duckdb())
        .arg("-csv")
        .arg(database)
        .arg(sql)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// The queries of the page, as they are printed.
fn documented() -> Vec<&'static str> {
    let blocks = PAGE
        .split("```sql\n")
        .skip(1)
        .map(|block| block.split("```").next().unwrap());
    blocks.flat_map(|block| block.split("\n\n")).collect()
}

#[test]
fn the_documented_queries_run_as_printed() {
    let sandbox = sandbox();
    let queries = documented();
    assert!(queries.len() >= 5, "{queries:?}");
    let mut answers: Vec<Vec<Value>> = queries.iter().map(|query| rows(&sandbox, query)).collect();
    // The first one stays within a model, and names the device that two backends share.
    let first = answers.remove(0);
    let of_bert: Vec<_> = first
        .iter()
        .filter(|row| row["model_id"] == "bert")
        .collect();
    assert!(
        of_bert.len() > 1
            && of_bert
                .iter()
                .any(|row| row["device"] == "AMD EPYC 9454 48-Core Processor"),
        "{of_bert:?}"
    );

    // By hand, from the document itself.
    let report: Value = serde_json::from_str(REPORT).unwrap();
    let passed: Vec<&Value> = report["cases"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|case| case["status"] == "PASS")
        .collect();
    let mean = |times: Vec<f64>| times.iter().sum::<f64>() / times.len() as f64 / 1000.0;
    let of = |backend: &str| {
        let own = passed.iter().filter(|case| case["backend"] == backend);
        mean(
            own.map(|case| case["metrics"]["median_ms"].as_f64().unwrap())
                .collect(),
        )
    };
    let on_cpu = answers[0]
        .iter()
        .find(|row| row["hardware"] == "cpu")
        .unwrap();
    assert!(
        (on_cpu["avg_time"].as_f64().unwrap() / of("cpu") - 1.0).abs() < 1e-9,
        "{on_cpu}"
    );
    let times: Vec<f64> = answers[0]
        .iter()
        .map(|row| row["avg_time"].as_f64().unwrap())
        .collect();
    assert!(times.is_sorted() && times.len() > 3, "{times:?}");
    // What stands for hardware is none, and says so.
    assert!(
        answers[0]
            .iter()
            .any(|row| row["hardware"] == "qnn (emulated)"),
        "{:?}",
        answers[0]
    );
    assert!(answers[0].iter().all(|row| row["hardware"] != "qnn"));
    assert!(
        answers[1]
            .iter()
            .any(|row| row["model_type"] == "encoder-only" && row["hardware"] == "cpu")
    );
    assert_eq!(answers[2].len(), 20);
    let most = passed
        .iter()
        .filter_map(|case| case["metrics"]["peak_rss_bytes"].as_f64())
        .fold(0.0, f64::max);
    assert_eq!(answers[2][0]["memory_usage"], most / 1048576.0);
}

#[test]
fn the_tables_have_the_documented_shape() {
    let sandbox = sandbox();
    let shape = |table: &str| {
        let told = rows(
            &sandbox,
            &format!("SELECT column_name, column_type FROM (DESCRIBE {table})"),
        );
        let told = told
            .iter()
            .map(|row| format!("{} {}", row["column_name"], row["column_type"]).replace('"', ""));
        told.collect::<Vec<_>>()
    };
    let expected = "id INTEGER, model_id VARCHAR, model_type VARCHAR, hardware VARCHAR, success BOOLEAN, load_time DOUBLE, \
        inference_time DOUBLE, memory_usage DOUBLE, error VARCHAR, timestamp TIMESTAMP, output_shape VARCHAR, backend VARCHAR, runtime VARCHAR, device VARCHAR";
    assert_eq!(shape("hardware_results").join(", "), expected);
    let expected = "id INTEGER, hardware_type VARCHAR, available BOOLEAN, name VARCHAR, features VARCHAR, timestamp TIMESTAMP";
    assert_eq!(shape("hardware_detection").join(", "), expected);
    assert_eq!(
        number(
            &sandbox,
            "SELECT count(*) - count(DISTINCT id) FROM hardware_results"
        ),
        0
    );
    // Each case that was executed, and only those.
    assert_eq!(
        number(
            &sandbox,
            "SELECT count(*) FROM hardware_results WHERE success"
        ),
        119
    );
    assert_eq!(
        number(
            &sandbox,
            "SELECT count(*) FROM hardware_results WHERE NOT success"
        ),
        8
    );
    let unavailable = "SELECT name, features FROM hardware_detection WHERE hardware_type = 'cuda' AND NOT available";
    assert!(
        rows(&sandbox, unavailable)[0]["features"]
            .as_str()
            .unwrap()
            .len()
            > 5
    );
    // Two backends may be one CPU.
    let cpus = "SELECT DISTINCT device FROM hardware_results WHERE backend IN ('cpu', 'openvino') AND success";
    assert_eq!(
        rows(&sandbox, cpus),
        [json!({"device": "AMD EPYC 9454 48-Core Processor"})]
    );
}

#[test]
fn answers_come_as_table_json_csv_and_parquet() {
    let sandbox = sandbox();
    let sql = "SELECT model, max(median_ms) AS ms, NULL AS nothing FROM executions GROUP BY model ORDER BY ms DESC NULLS LAST LIMIT 2";
    let table = sandbox.run(["query", sql]).success().stdout;
    let lines: Vec<&str> = table.lines().collect();
    assert!(
        lines[0].starts_with("model") && lines.len() == 3 && lines[1].ends_with('-'),
        "{table}"
    );
    let rows = rows(&sandbox, sql);
    assert_eq!(rows[0]["nothing"], Value::Null);
    assert!(lines[1].contains(rows[0]["model"].as_str().unwrap()));
    let csv = sandbox
        .run(["query", sql, "--format", "csv"])
        .success()
        .stdout;
    assert!(
        csv.starts_with("model,ms,nothing\n") && csv.lines().count() == 3,
        "{csv}"
    );
    let path = sandbox.path("deep/answer.parquet");
    sandbox
        .run([
            "query",
            sql,
            "--format",
            "parquet",
            "--output",
            path.to_str().unwrap(),
        ])
        .success();
    let read = shell(
        Path::new(":memory:"),
        &format!("SELECT model FROM '{}'", path.display()),
    );
    assert_eq!(read.lines().nth(1), rows[0]["model"].as_str(), "{read}");
    let none = sandbox
        .run(["query", "SELECT model FROM executions WHERE false"])
        .success()
        .stdout;
    assert!(none.starts_with("model\n"), "{none}");
}

#[test]
fn a_query_comes_from_stdin() {
    let sandbox = sandbox();
    let ask = |sql: &[u8]| {
        let mut command = sandbox.command(["query", "-", "--json"]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(sql).unwrap();
        sandbox.wait(child)
    };
    let sql = "-- how many\nSELECT count(*) AS n,\n  'it''s \"quoted\"' AS text\nFROM runs;\n";
    assert_eq!(
        ask(sql.as_bytes()).success().json(),
        json!([{"n": 1, "text": "it's \"quoted\""}])
    );
    ask(b"").code(2).stderr_has("it contains no query");
    ask(b"SELECT nothing FROM runs")
        .code(2)
        .stderr_has("nothing");
    ask(b"SELECT '\xff'")
        .code(2)
        .stderr_has("failed to read the query from stdin");
}

#[test]
fn a_query_changes_nothing_and_reaches_nothing() {
    let sandbox = sandbox().file("secret.csv", "a,b\n1,2\n");
    let before = number(&sandbox, "SELECT count(*) FROM executions");
    let secret = sandbox.path("secret.csv").display().to_string();
    let written = sandbox.path("written.csv").display().to_string();
    for statement in [
        "DELETE FROM executions",
        "DROP TABLE runs",
        "INSERT INTO history VALUES (7)",
        "SELECT 1; DELETE FROM executions",
        &format!("COPY runs TO '{written}'"),
        &format!("SELECT * FROM read_csv('{secret}')"),
        &format!("SELECT * FROM '{secret}'"),
        &format!("ATTACH '{written}' AS other"),
        "SET enable_external_access = true",
        "INSTALL httpfs",
    ] {
        let ended = sandbox.run(["query", statement]).code(2);
        assert!(ended.stdout.is_empty(), "{statement}: {}", ended.stdout);
    }
    assert!(!Path::new(&written).exists());
    assert_eq!(number(&sandbox, "SELECT count(*) FROM executions"), before);
    sandbox
        .run(["query", "SELECT nothing FROM runs"])
        .code(2)
        .stderr_has("nothing");
    sandbox
        .run(["query", " ; "])
        .code(2)
        .stderr_has("it contains no query");
}

#[test]
fn the_file_opens_in_duckdbs_own_shell() {
    let sandbox = sandbox();
    let path = sandbox.run(["history", "path"]).success().stdout;
    assert_eq!(
        shell(
            Path::new(path.trim()),
            "SELECT count(*) FROM hardware_results WHERE success"
        ),
        "count_star()\n119\n"
    );
}

/// The fixture as a run some days later, with one case that is slower, and another that was not executed again.
fn later(day: u32) -> Value {
    let mut report: Value = serde_json::from_str(REPORT).unwrap();
    for case in report["cases"].as_array_mut().unwrap() {
        match case["case"].as_str().unwrap() {
            "bert:cpu-fp32" => {
                case["measured"] = json!(format!("2026-02-{day:02}T08:00:00Z"));
                case["cached"] = json!(false);
                case["metrics"]["min_ms"] = json!(1.5186 * (1.0 + f64::from(day)));
            }
            _ => case["cached"] = json!(true),
        }
    }
    report
}

#[test]
fn a_kept_result_is_no_new_measurement() {
    let sandbox = sandbox();
    let before = number(&sandbox, "SELECT count(*) FROM executions");
    sandbox.write("later.json", later(1).to_string());
    sandbox.run(["history", "import", "later.json"]).success();
    assert_eq!(
        number(&sandbox, "SELECT count(*) FROM executions"),
        before + 1
    );
    let points = sandbox
        .run(["history", "bert:cpu-fp32", "--json"])
        .success()
        .json()["bert:cpu-fp32"]["executions"]
        .clone();
    assert_eq!(points.as_array().unwrap().len(), 2, "{points}");
    assert_eq!(points[1]["executed"], "2026-02-01T08:00:00Z");
    // The first was kept by the run that told of it, so who executed it is not known; the second's run is.
    assert_eq!(
        (&points[0]["run"], points[1]["run"].is_string()),
        (&Value::Null, true)
    );
    sandbox
        .run(["history", "bert:cpu-fp32"])
        .success()
        .stdout_has("+100.0 %");
    let runs = sandbox.run(["history", "--json"]).success().json();
    assert_eq!(
        (runs.as_array().unwrap().len(), &runs[1]["measured"]),
        (2, &json!(1))
    );
    // Once more the same file, or the same content under another name, is nothing new.
    sandbox.write("again.json", later(1).to_string());
    sandbox
        .run(["history", "import", "later.json", "again.json"])
        .success()
        .stderr_has("0 runs taken in");
    assert_eq!(number(&sandbox, "SELECT count(*) FROM runs"), 2);
    sandbox
        .run(["history", "bert:cqu-fp32"])
        .code(2)
        .stderr_has("did you mean `bert:cpu-fp32`?");
}

#[test]
fn a_history_says_what_the_weights_are() {
    let sandbox = sandbox();
    let told = "random weights: 15 models of 57.1 k to 1.2 M parameters";
    sandbox.run(["history"]).success().stdout_has(told);
    let runs = sandbox.run(["history", "--json"]).success().json();
    assert!(
        runs[0]["weights"][0].as_str().unwrap().starts_with(told),
        "{runs}"
    );
    sandbox
        .run(["history", "bert:cpu-fp32"])
        .success()
        .stdout_has("bert:cpu-fp32  83.9 k parameters, random weights");
    let series = sandbox
        .run(["history", "bert:cpu-fp32", "--json"])
        .success()
        .json();
    let point = &series["bert:cpu-fp32"]["executions"][0];
    assert_eq!(
        (&point["weights"], &point["parameters"]),
        (&json!("random"), &json!(83_904))
    );
}

#[test]
fn a_series_says_where_it_changed() {
    let sandbox = slower_since_the_seventh();
    sandbox
        .run(["history", "bert:cpu-fp32"])
        .success()
        .stdout_has("since 2026-02-07 08:00, build-07 is 19.9 % slower");
    let told = sandbox.run(["history", "bert*", "--json"]).success().json();
    let changes = &told["bert:cpu-fp32"]["changes"];
    assert_eq!(
        (changes.as_array().unwrap().len(), &changes[0]["executed"]),
        (1, &json!("2026-02-07T08:00:00Z"))
    );
    let last = sandbox
        .run(["history", "bert:cpu-fp32", "--last", "4", "--json"])
        .success()
        .json();
    assert_eq!(
        last["bert:cpu-fp32"]["executions"]
            .as_array()
            .unwrap()
            .len(),
        4
    );
}

#[test]
fn pages_show_the_course_of_a_case_where_there_is_a_history() {
    let sandbox = slower_since_the_seventh();
    sandbox
        .run(["site", "public", "--report", "many/12.json"])
        .success();
    let page = sandbox.read("public/pairs/bert/cpu-fp32.html");
    let told = "12 executions on one machine; since 2026-02-07 08:00 19.9 % slower";
    assert!(
        page.contains(told) && page.contains("data-course='{"),
        "{page}"
    );
    assert!(sandbox.read("public/history.js").contains("Plot"));
    // Without one there is none.
    let other = Sandbox::new()
        .installs()
        .file("matrix.json", later(1).to_string());
    other
        .run(["site", "public", "--report", "matrix.json"])
        .success();
    assert!(
        !other
            .read("public/pairs/bert/cpu-fp32.html")
            .contains("History")
    );
    assert!(!other.path("public/history.js").exists());
}

fn slower_since_the_seventh() -> Sandbox {
    let sandbox = Sandbox::new().installs();
    for day in 1..=12 {
        let mut report = later(day);
        let cases = report["cases"].as_array_mut().unwrap();
        cases.retain(|case| case["case"] == "bert:cpu-fp32");
        cases[0]["metrics"]["min_ms"] =
            json!(if day < 7 { 1.5 } else { 1.8 } + f64::from(day % 3) / 100.0);
        sandbox.write(&format!("many/{day:02}.json"), report.to_string());
    }
    sandbox.run(["history", "import", "many"]).success();
    sandbox
}

#[test]
fn what_is_no_run_is_not_taken_in() {
    let sandbox = Sandbox::new()
        .installs()
        .file("other.json", "{\"version\": 1}")
        .file("broken.json", "{");
    sandbox
        .run(["history", "import", "other.json"])
        .code(2)
        .stderr_has("neither a report of orch");
    sandbox
        .run(["history", "import", "broken.json"])
        .code(2)
        .stderr_has("`broken.json` cannot be imported into the history");
    let newer = REPORT.replacen("\"version\": 1", "\"version\": 9", 1);
    sandbox.write("newer.json", newer);
    sandbox
        .run(["history", "import", "newer.json"])
        .code(2)
        .stderr_has("it has version 9");
    sandbox
        .run(["history"])
        .success()
        .stderr_has("no run is recorded yet");
    fs::create_dir(sandbox.path("empty")).unwrap();
    sandbox
        .run(["history", "import", "empty"])
        .code(2)
        .stderr_has("holds neither files of runs");
}
