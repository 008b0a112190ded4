//! Rounds: how often and in which order cases are measured, and what is made of it.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::onnx::RIGHT;
use crate::ready_onnx::{SPEC, sandbox};
use crate::support::Sandbox;

/// A round that is measured again has another place among them.
const BENCH: [&str; 7] = [
    "bench",
    "specs/all.yaml",
    "--json",
    "--rounds",
    "3",
    "--remeasure",
    "0",
];

fn rounds(document: &Value) -> Vec<&Value> {
    let cases = document["cases"].as_array().unwrap().iter();
    cases
        .flat_map(|case| case["metrics"]["rounds"].as_array().unwrap())
        .collect()
}

/// The places among all rounds, by which round it is.
fn places(document: &Value, round: u64) -> BTreeSet<u64> {
    let of_round = rounds(document)
        .into_iter()
        .filter(|one| one["round"] == round);
    of_round
        .map(|one| one["order"]["place"].as_u64().unwrap())
        .collect()
}

#[test]
fn rounds_are_processes_of_their_own_interleaved_over_the_cases_and_measured_anew() {
    let sandbox = sandbox(RIGHT);
    let first = sandbox
        .run([&BENCH[..], &["--seed", "7"]].concat())
        .success()
        .summary([("cases", 2), ("passed", 2)]);
    let first = first.json();
    assert_eq!(rounds(&first).len(), 6);
    for (round, expected) in [(1, [0, 1]), (2, [2, 3]), (3, [4, 5])] {
        assert_eq!(places(&first, round), expected.into(), "round {round}");
    }
    assert!(
        rounds(&first)
            .iter()
            .all(|round| round["order"]["seed"] == 7)
    );
    for case in first["cases"].as_array().unwrap() {
        let metrics = &case["metrics"];
        let rounds = case["metrics"]["rounds"].as_array().unwrap();
        let least = rounds
            .iter()
            .map(|round| round["min_ms"].as_f64().unwrap())
            .reduce(f64::min)
            .unwrap();
        assert_eq!(
            metrics["statistic"],
            serde_json::json!({"ms": least, "basis": "least_wall"})
        );
        let low = metrics["median_low_ms"].as_f64().unwrap();
        let high = metrics["median_high_ms"].as_f64().unwrap();
        let median = metrics["median_ms"].as_f64().unwrap();
        assert!(
            low <= median && median <= high && low < high,
            "{low} {median} {high}"
        );
        let samples: u64 = rounds
            .iter()
            .map(|round| round["samples"].as_u64().unwrap())
            .sum();
        assert_eq!(
            (
                metrics["samples"].as_u64(),
                metrics["samples_ms"].as_array().unwrap().len() as u64
            ),
            (Some(samples), samples)
        );
        for round in rounds {
            assert_eq!(
                round["conditions"]["yardstick_ms"].as_array().map(Vec::len),
                Some(2),
                "{round:#}"
            );
            assert!(
                round["threads"].as_u64() >= Some(1) && round["cpu_p10_ms"].is_f64(),
                "{round:#}"
            );
        }
    }
    let order = |document: &Value| {
        rounds(document)
            .iter()
            .map(|round| round["order"]["place"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        order(
            &sandbox
                .run([&BENCH[..], &["--seed", "7"]].concat())
                .success()
                .json()
        ),
        order(&first)
    );
    let other = |seed: &str| {
        order(
            &sandbox
                .run([&BENCH[..], &["--seed", seed]].concat())
                .success()
                .json(),
        )
    };
    assert!(
        ["8", "9", "10"]
            .into_iter()
            .any(|seed| other(seed) != order(&first)),
        "every seed gives one order"
    );
    // Nothing is taken from the store, and then all is.
    let again = sandbox.run(BENCH).success().json();
    let started = |document: &Value| {
        rounds(document)
            .iter()
            .map(|round| round["measured"].to_string())
            .collect::<Vec<_>>()
    };
    assert!(
        again["summary"]["executed"].as_u64() >= Some(6),
        "{:#}",
        again["summary"]
    );
    let held = ["run", "specs/all.yaml", "--json", "--rounds", "3"];
    let held = sandbox
        .run(held)
        .success()
        .summary([("executed", 0), ("passed", 2)])
        .json();
    assert_eq!(started(&held), started(&again));
    // The first round is the run of those who ask for one.
    let one = sandbox
        .run(["run", "specs/all.yaml", "--json"])
        .success()
        .summary([("executed", 0), ("passed", 2)])
        .json();
    assert_eq!(rounds(&one).len(), 2);
    assert!(
        one["cases"][0]["metrics"].get("median_low_ms").is_none(),
        "one process shows no spread"
    );
    // More rounds are measured, and those that are held stay.
    sandbox
        .run(["run", "specs/all.yaml", "--rounds", "4", "--json"])
        .success()
        .summary([("executed", 2), ("passed", 2)]);
}

#[test]
fn a_spec_may_set_rounds_and_a_round_that_fails_is_the_case_s_failure() {
    let sandbox = sandbox(RIGHT);
    sandbox.write(
        "specs/all.yaml",
        SPEC.replace("samples: 6", "samples: 6, rounds: 2"),
    );
    let run = ["run", "specs/all.yaml", "--json", "-t", "cpu"];
    assert_eq!(rounds(&sandbox.run(run).success().json()).len(), 2);
    sandbox
        .run(["plan", "specs/all.yaml", "--all", "-t", "cpu"])
        .success()
        .stdout_has("run:linear:cpu-fp32:round-2");
    // The others are held, and this one does not get far.
    let short = ["--rounds", "3", "--job-memory", "8MiB"];
    let failed = sandbox
        .run([&run[..], &short].concat())
        .code(1)
        .summary([("executed", 1), ("failed", 1)])
        .json();
    let case = &failed["cases"][0];
    assert_eq!(
        (&case["status"], &case["stage"]),
        (&"OOM".into(), &"run".into()),
        "{case:#}"
    );
    assert!(
        case["reason"]
            .as_str()
            .unwrap()
            .starts_with("round 3 of 3: "),
        "{case:#}"
    );
    assert!(
        case["repro"].as_str().unwrap().contains("--rounds 3 "),
        "{case:#}"
    );
    for (rounds, told) in [
        ("0", "`rounds` must be 1 to 99, found 0"),
        ("100", "found 100"),
    ] {
        sandbox.write(
            "specs/all.yaml",
            SPEC.replace("samples: 6", &format!("samples: 6, rounds: {rounds}")),
        );
        sandbox.run(run).code(2).stderr_has(told);
    }
}

#[test]
fn a_target_fixes_its_threads_and_the_record_says_how_many_there_were() {
    let sandbox = sandbox(RIGHT);
    let with = |threads: &str| {
        SPEC.replace(
            "precisions: [fp32]}",
            &format!("precisions: [fp32], options: {{threads: {threads}}}}}"),
        )
    };
    sandbox.write("specs/all.yaml", with("1"));
    let document = sandbox
        .run(["run", "specs/all.yaml", "--json"])
        .success()
        .json();
    assert_eq!(
        document["cases"][0]["metrics"]["rounds"][0]["threads"], 1,
        "{:#}",
        document["cases"][0]
    );
    sandbox.write("specs/all.yaml", with("0"));
    sandbox
        .run(["run", "specs/all.yaml"])
        .code(1)
        .stderr_has("the option `threads` is 0; it takes a whole number, at least 1");
    sandbox.write("specs/all.yaml", with("many"));
    sandbox
        .run(["run", "specs/all.yaml"])
        .code(1)
        .stderr_has("the option `threads` is \"many\"; it takes a whole number");
}

#[test]
fn what_is_not_timed_has_no_rounds() {
    let sandbox = Sandbox::new().file(
        "specs/all.yaml",
        SPEC.replace("{warmup: 1, samples: 6}", "none"),
    );
    sandbox
        .run(BENCH)
        .code(2)
        .stderr_has("none of the selected cases is timed");
    sandbox
        .run(["bench", "specs/all.yaml", "--check"])
        .code(2)
        .stderr_has("--check");
    sandbox
        .run(["run", "specs/all.yaml", "--rounds", "3", "--check"])
        .code(2)
        .stderr_has("cannot be used with");
}
