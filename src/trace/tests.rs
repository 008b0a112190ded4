//! The shape of the file, and the critical path of a graph whose answer is known.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::*;
use crate::event::{Holds, Slot};
use crate::record::Outcome;

/// a → b → d and a → c → d; all trivial commands.
fn plan() -> (tempfile::TempDir, Plan) {
    let dir = tempfile::tempdir().unwrap();
    let spec = "version: 1
commands:
  a: {argv: [x], outputs: [o]}
  b: {argv: [x], inputs: {in: {step: 'command:a'}}, outputs: [o]}
  c: {argv: [x], inputs: {in: {step: 'command:a'}}, outputs: [o]}
  d: {argv: [x], inputs: {b: {step: 'command:b'}, c: {step: 'command:c'}}, outputs: [o]}
";
    std::fs::write(dir.path().join("spec.yaml"), spec).unwrap();
    let spec = crate::spec::Spec::load(&dir.path().join("spec.yaml")).unwrap();
    let matrix = crate::matrix::Matrix::of(&spec);
    let plan = crate::plan::build(&spec, &matrix).unwrap();
    (dir, plan)
}

fn tell(recorder: &Recorder, step: &str, slot: Slot, from_ms: u64, until_ms: u64) {
    record_holding(recorder, step, slot, from_ms, until_ms, Holds::ONE_CORE);
}

fn record_holding(
    recorder: &Recorder,
    step: &str,
    slot: Slot,
    from_ms: u64,
    until_ms: u64,
    holds: Holds,
) {
    recorder.tell(Event::began(step, slot, Some("memory"), holds));
    let at = |ms| recorder.start + Duration::from_millis(ms);
    recorder.tell(Event::ended(
        step,
        Outcome::Pass,
        None,
        at(from_ms),
        at(until_ms),
    ));
}

fn document(recorder: &Recorder, plan: &Plan) -> Value {
    let dir = tempfile::tempdir().unwrap();
    let [started, command, folder, host, again] =
        ["2026", "orch run", "/", "here", "orch run"].map(str::to_owned);
    let head = Head {
        version: 1,
        started,
        command,
        folder,
        host,
        jobs: 2,
        again,
    };
    recorder
        .write(&dir.path().join("t.json"), plan, &head, 1 << 30)
        .unwrap();
    serde_json::from_slice(&std::fs::read(dir.path().join("t.json")).unwrap()).unwrap()
}

#[test]
fn the_longest_chain_is_the_critical_path_also_across_steps_that_did_not_execute() {
    let (_dir, plan) = plan();
    let names = |seconds: &[(&str, f64)]| {
        let find = |id| {
            seconds
                .iter()
                .find(|(name, _)| plan.find(name) == Some(id))
                .map(|(_, s)| *s)
        };
        let path = plan.critical_path(find);
        path.into_iter()
            .map(|id| plan.step(id).name.clone())
            .collect::<Vec<_>>()
    };
    let long_c = [
        ("command:a", 1.0),
        ("command:b", 1.0),
        ("command:c", 3.0),
        ("command:d", 1.0),
    ];
    assert_eq!(names(&long_c), ["command:a", "command:c", "command:d"]);
    assert_eq!(
        names(&[("command:a", 1.0), ("command:d", 1.0)]),
        ["command:a", "command:d"]
    );
    assert_eq!(
        names(&[("command:b", 1.0), ("command:c", 2.0)]),
        ["command:c"]
    );
    assert!(names(&[]).is_empty());
}

#[test]
fn rows_slices_arrows_and_counters() {
    let (_dir, plan) = plan();
    let recorder = Recorder::new(Instant::now());
    recorder.tell(Event::Started {
        steps: 4,
        to_run: 4,
        cases: 0,
        recorded: BTreeMap::new(),
    });
    tell(&recorder, "command:a", Slot::Job(0), 10, 20);
    tell(&recorder, "command:b", Slot::Job(0), 20, 25);
    tell(&recorder, "command:c", Slot::Job(1), 20, 40);
    tell(&recorder, "command:d", Slot::Exclusive, 40, 45);
    let document = document(&recorder, &plan);
    let events = document["traceEvents"].as_array().unwrap();
    let of = |phase: &str| {
        events
            .iter()
            .filter(|e| e["ph"] == phase)
            .cloned()
            .collect::<Vec<_>>()
    };
    let rows: Vec<_> = of("M")
        .iter()
        .filter(|e| e["name"] == "thread_name")
        .map(|e| e["args"]["name"].clone())
        .collect();
    assert_eq!(
        rows,
        ["main", "critical path", "exclusive", "job 0", "job 1"]
    );
    let c = events
        .iter()
        .find(|e| e["name"] == "command:c" && e["tid"] == 11)
        .unwrap();
    assert_eq!(
        (c["ts"].as_f64(), c["dur"].as_f64()),
        (Some(20_000.0), Some(20_000.0))
    );
    assert_eq!(
        (&c["args"]["critical"], &c["args"]["waited ms"]),
        (&Value::Bool(true), &5.0.into())
    );
    assert_eq!(c["args"]["why"], "never ran");
    let path: Vec<_> = of("X")
        .into_iter()
        .filter(|e| e["tid"] == 2)
        .map(|e| e["name"].clone())
        .collect();
    assert_eq!(path, ["command:a", "command:c", "command:d"]);
    assert_eq!((of("s").len(), of("f").len()), (4, 4));
    assert_eq!(of("C").len(), 8);
    assert_eq!(document["otherData"]["critical path seconds"], 0.035);
}

#[test]
fn devices_have_rows_and_memory_a_counter() {
    let (_dir, plan) = plan();
    let recorder = Recorder::new(Instant::now());
    recorder.tell(Event::Started {
        steps: 4,
        to_run: 4,
        cases: 0,
        recorded: BTreeMap::new(),
    });
    let on = |device: Option<&str>| Holds {
        cores: 1,
        memory: 100,
        device: device.map(str::to_owned),
        vram: 0,
    };
    record_holding(
        &recorder,
        "command:a",
        Slot::Job(0),
        10,
        20,
        on(Some("cuda:1")),
    );
    record_holding(
        &recorder,
        "command:b",
        Slot::Job(1),
        15,
        20,
        on(Some("cuda:0")),
    );
    record_holding(&recorder, "command:c", Slot::Job(0), 20, 25, on(None));
    let document = document(&recorder, &plan);
    let events = document["traceEvents"].as_array().unwrap();
    let named = |name: &'static str| events.iter().filter(move |e| e["name"] == name);
    let rows: Vec<_> = named("thread_name")
        .map(|e| e["args"]["name"].clone())
        .collect();
    assert_eq!(
        rows,
        [
            "main",
            "critical path",
            "job 0",
            "job 1",
            "device cuda:0",
            "device cuda:1"
        ]
    );
    assert_eq!(
        named("command:a").filter(|e| e["cat"] == "device").count(),
        1
    );
    let claimed: Vec<_> = named("memory")
        .map(|e| (e["ts"].as_u64(), e["args"]["bytes"].as_i64()))
        .collect();
    let at = |ms: u64, bytes| (Some(ms * 1000), Some(bytes));
    assert_eq!(
        claimed,
        [
            at(10, 100),
            at(15, 200),
            at(20, 100),
            at(20, 0),
            at(20, 100),
            at(25, 0)
        ]
    );
    let b = named("command:b").find(|e| e["cat"] == "command").unwrap();
    assert_eq!(
        (&b["args"]["waited for"], &b["args"]["holds"]["device"]),
        (&"memory".into(), &"cuda:0".into())
    );
}

#[test]
fn a_run_in_which_nothing_ran_is_a_valid_trace_that_says_so() {
    let (_dir, plan) = plan();
    let recorder = Recorder::new(Instant::now());
    recorder.tell(Event::Started {
        steps: 4,
        to_run: 0,
        cases: 0,
        recorded: BTreeMap::new(),
    });
    let document = document(&recorder, &plan);
    assert_eq!(
        document["otherData"]["note"],
        "no step was executed in this run"
    );
    assert!(
        document["traceEvents"]
            .as_array()
            .unwrap()
            .iter()
            .all(|e| e["tid"] == 1)
    );
}
