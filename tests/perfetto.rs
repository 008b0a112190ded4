//! Perfetto's own trace processor reads the trace of a real run: nothing dropped, slots as rows, the critical path marked.

mod support;

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use support::{Sandbox, installed};

/// A chain, four hundred short steps beside it, and one that fails.
fn spec() -> String {
    let mut spec = "version: 1
commands:
  first: {argv: [sh, -c, 'sleep 0.3; echo 1 > out'], outputs: [out]}
  second: {argv: [sh, -c, 'sleep 0.3; echo 2 > out'], outputs: [out], inputs: {x: {step: 'command:first'}}}
  third: {argv: [sh, -c, 'sleep 0.3; echo 3 > out'], outputs: [out], inputs: {x: {step: 'command:second'}}}
  bad: {argv: [sh, -c, 'exit 3'], outputs: [out]}
"
    .to_owned();
    for at in 0..400 {
        spec.push_str(&format!("  w{at}: {{write: {{out: 'content {at}'}}}}\n"));
    }
    spec
}

/// The rows that each query gives.
fn ask(trace: &Path, queries: &[&str]) -> Vec<Vec<Value>> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/perfetto/query.mjs");
    let output = installed::node()
        .arg(script)
        .arg(installed::perfetto())
        .arg(trace)
        .args(queries)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let answers = String::from_utf8(output.stdout).unwrap();
    let answers: Vec<Vec<Value>> = answers
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(answers.len(), queries.len());
    answers
}

#[test]
fn perfetto_reads_all_of_a_trace() {
    let sandbox = Sandbox::new().file("spec.yaml", spec());
    sandbox
        .run(["run", "spec.yaml", "--jobs", "3", "--trace", "trace.json"])
        .code(1);
    let trace: Value = serde_json::from_str(&sandbox.read("trace.json")).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let count = |phase: &str| events.iter().filter(|event| event["ph"] == phase).count();

    let answers = ask(
        &sandbox.path("trace.json"),
        &[
            "select name, value from stats where severity in ('error', 'data_loss') and value > 0",
            "select count(*), min(dur) >= 0, max(depth) from slice where category != ''",
            "select count(*) from flow",
            "select thread.name, slice.name from slice join thread_track on track_id = thread_track.id \
             join thread using (utid) order by ts",
            "select distinct slice.name from slice join args using (arg_set_id) \
             where args.key = 'args.critical' and args.int_value = 1 order by ts",
            "select args.string_value from slice join args using (arg_set_id) \
             where slice.name = 'command:bad' and args.key = 'args.outcome'",
            "select distinct counter_track.name from counter join counter_track on track_id = counter_track.id order by 1",
            "select name from process where name is not null",
        ],
    );
    let [
        troubles,
        slices,
        flows,
        rows,
        critical,
        outcome,
        counters,
        process,
    ] = &answers[..]
    else {
        panic!("{answers:?}")
    };
    assert_eq!(troubles, &Vec::<Value>::new());
    assert_eq!(
        slices,
        &[json!([count("X"), 1, 0])],
        "all of them, none longer than its row has room for"
    );
    assert_eq!(
        (flows, count("s")),
        (&vec![json!([2])], 2),
        "first to second to third"
    );

    let mut steps: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for row in rows {
        steps
            .entry(row[0].as_str().unwrap())
            .or_default()
            .push(row[1].as_str().unwrap());
    }
    let chain = ["command:first", "command:second", "command:third"];
    assert_eq!(steps["critical path"], chain);
    assert_eq!(critical, &chain.map(|name| json!([name])));
    assert_eq!(trace["otherData"]["critical path"], json!(chain));
    let in_slots: usize = steps
        .iter()
        .filter(|(row, _)| row.starts_with("job "))
        .map(|(_, steps)| steps.len())
        .sum();
    assert_eq!(in_slots, 404, "{:?}", steps.keys());
    assert!(
        steps.keys().filter(|row| row.starts_with("job ")).count() <= 3,
        "{:?}",
        steps.keys()
    );
    assert_eq!(outcome, &[json!(["FAIL"])]);
    assert_eq!(
        counters,
        &["steps ready", "steps running"].map(|name| json!([name]))
    );
    assert_eq!(process, &[json!(["orch run"])]);
}
