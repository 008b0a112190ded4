//! What executes beside what, as a recorded run's trace shows it: no step waits for what is free, nothing is given twice.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;

use crate::ready_onnx;
use crate::support::{Sandbox, beside_load};

/// One execution in a trace. Times in microseconds.
#[derive(Debug)]
pub(super) struct Slice {
    pub(super) name: String,
    pub(super) row: String,
    ready: u64,
    pub(super) begin: u64,
    pub(super) end: u64,
    pub(super) cores: u64,
    memory: u64,
    waited_for: Option<String>,
}

pub(super) struct Trace {
    pub(super) slices: Vec<Slice>,
    jobs: u64,
    memory: u64,
}

impl Trace {
    pub(super) fn of(sandbox: &Sandbox) -> Self {
        let trace: Value = serde_json::from_str(&sandbox.read("trace.json")).unwrap();
        let events = trace["traceEvents"].as_array().unwrap();
        let row = |tid: &Value| {
            let named = |event: &&Value| event["name"] == "thread_name" && event["tid"] == *tid;
            events.iter().find(named).unwrap()["args"]["name"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        let is_slot = |row: &str| row == "exclusive" || row.starts_with("job ");
        let slices = events
            .iter()
            .filter(|event| event["ph"] == "X" && is_slot(&row(&event["tid"])));
        let slices = slices.map(|event| {
            let begin = event["ts"].as_u64().unwrap();
            let args = &event["args"];
            Slice {
                name: event["name"].as_str().unwrap().to_owned(),
                row: row(&event["tid"]),
                ready: begin.saturating_sub((args["waited ms"].as_f64().unwrap() * 1e3) as u64),
                begin,
                end: begin + event["dur"].as_u64().unwrap(),
                cores: args["holds"]["cores"].as_u64().unwrap(),
                memory: args["holds"]["memory"].as_u64().unwrap_or(0),
                waited_for: args["waited for"].as_str().map(str::to_owned),
            }
        });
        let other = &trace["otherData"];
        Self {
            slices: slices.collect(),
            jobs: other["jobs"].as_u64().unwrap(),
            memory: other["memory"].as_u64().unwrap(),
        }
    }

    fn at(&self, moment: u64) -> impl Iterator<Item = &Slice> {
        self.slices
            .iter()
            .filter(move |slice| slice.begin <= moment && moment < slice.end)
    }

    /// Checks each stretch of time between two events.
    #[track_caller]
    fn check(&self) {
        // Handing a step to a thread takes a moment, longer on a busy machine.
        let moment = beside_load(Duration::from_millis(150)).as_micros() as u64;
        let mut moments: Vec<u64> = self
            .slices
            .iter()
            .flat_map(|slice| [slice.ready, slice.begin, slice.end])
            .collect();
        moments.sort_unstable();
        moments.dedup();
        for stretch in moments.windows(2) {
            let running: Vec<&Slice> = self.at(stretch[0]).collect();
            let exclusive = running.iter().any(|slice| slice.row == "exclusive");
            let cores: u64 = running.iter().map(|slice| slice.cores).sum();
            let memory: u64 = running.iter().map(|slice| slice.memory).sum();
            assert!(!exclusive || running.len() == 1, "not alone: {running:?}");
            assert!(
                cores <= self.jobs && memory <= self.memory,
                "too much: {running:?}"
            );
            if stretch[1] - stretch[0] < moment {
                continue;
            }
            let waiting = self
                .slices
                .iter()
                .filter(|slice| slice.ready <= stretch[0] && stretch[1] <= slice.begin);
            for slice in waiting {
                let fits = match slice.row.as_str() {
                    "exclusive" => running.is_empty(),
                    _ => {
                        !exclusive
                            && cores + slice.cores <= self.jobs
                            && memory + slice.memory <= self.memory
                    }
                };
                assert!(
                    !fits,
                    "{slice:?} waited from {} to {} beside {running:?}",
                    stretch[0], stretch[1]
                );
                assert!(
                    slice.waited_for.is_some(),
                    "{slice:?} does not say what it waited for"
                );
            }
        }
    }

    fn find(&self, name: &str) -> &Slice {
        self.slices
            .iter()
            .find(|slice| slice.name == name)
            .unwrap_or_else(|| panic!("no {name}: {:?}", self.slices))
    }

    /// The most steps at one time.
    fn most(&self) -> usize {
        self.slices
            .iter()
            .map(|slice| self.at(slice.begin).count())
            .max()
            .unwrap_or(0)
    }
}

#[test]
fn no_step_waits_while_its_slot_is_free_and_its_inputs_are_there() {
    let mut spec = String::from("version: 1\ncommands:\n");
    for n in 0..4 {
        let sleep = |step: u32| format!("sleep 0.{}; echo x > out", 2 + (n * 3 + step * 2) % 5);
        spec.push_str(&format!(
            "  a{n}: {{argv: [sh, -c, '{}'], outputs: [out]}}\n",
            sleep(0)
        ));
        let next = sleep(1);
        let input = format!("{{in: {{step: 'command:a{n}'}}}}");
        spec.push_str(&format!(
            "  b{n}: {{argv: [sh, -c, '{next}'], inputs: {input}, outputs: [out]}}\n"
        ));
    }
    let sandbox = Sandbox::new().file("spec.yaml", spec);
    sandbox
        .run(["run", "spec.yaml", "--jobs", "3", "--trace", "trace.json"])
        .success();
    let trace = Trace::of(&sandbox);
    assert_eq!((trace.slices.len(), trace.most()), (8, 3));
    trace.check();
    assert_eq!(
        trace.find("command:a3").waited_for.as_deref(),
        Some("cores")
    );
    assert_eq!(trace.find("command:a0").waited_for, None);
}

/// Four steps that hold 150 MB each for a moment.
fn eaters() -> Sandbox {
    let mut spec = String::from("version: 1\ncommands:\n");
    for n in 0..4 {
        let script = format!(
            "dd if=/dev/zero of=/dev/null bs=150M count=2 2> err; sleep 0.4; echo {n} > out"
        );
        spec.push_str(&format!(
            "  c{n}: {{argv: [sh, -c, '{script}'], outputs: [out]}}\n"
        ));
    }
    let sandbox = Sandbox::new().file("spec.yaml", spec);
    sandbox
        .run([
            "run",
            "spec.yaml",
            "--jobs",
            "4",
            "--memory",
            "1GiB",
            "--trace",
            "trace.json",
        ])
        .success();
    // Of a command nothing is known before it has run.
    assert!(
        Trace::of(&sandbox)
            .slices
            .iter()
            .all(|slice| slice.memory == 0)
    );
    sandbox
}

#[test]
fn the_memory_that_a_step_took_is_kept_free_for_it_the_next_time() {
    let sandbox = eaters();
    let again = [
        "run",
        "spec.yaml",
        "--rerun",
        "command",
        "--jobs",
        "4",
        "--trace",
        "trace.json",
        "--memory",
    ];
    sandbox
        .run(again.iter().chain(&["400MiB"]))
        .success()
        .stderr_lacks("runs alone");
    let trace = Trace::of(&sandbox);
    trace.check();
    assert!(
        trace
            .slices
            .iter()
            .all(|slice| (150 << 20..=200 << 20).contains(&slice.memory)),
        "{:?}",
        trace.slices
    );
    assert_eq!(trace.most(), 2);
    assert!(
        trace
            .slices
            .iter()
            .any(|slice| slice.waited_for.as_deref() == Some("memory")),
        "{:?}",
        trace.slices
    );
}

#[test]
fn a_step_that_is_larger_than_the_machine_runs_alone_and_says_so() {
    let sandbox = eaters();
    let again = [
        "run",
        "spec.yaml",
        "--rerun",
        "command",
        "--jobs",
        "4",
        "--trace",
        "trace.json",
        "--memory",
        "100M",
    ];
    sandbox
        .run(again)
        .success()
        .stderr_has("warning command:c0 may take")
        .stderr_has("are free: it runs alone");
    let trace = Trace::of(&sandbox);
    trace.check();
    assert!(trace.slices.iter().all(|slice| slice.row == "exclusive"));
    assert_eq!(trace.most(), 1);
}

#[test]
fn memory_that_the_spec_states_is_kept_free_from_the_first_run_on_and_a_wrong_statement_is_reported()
 {
    let mut spec = String::from("version: 1\ncommands:\n");
    for n in 0..4 {
        let script = format!(
            "dd if=/dev/zero of=/dev/null bs=150M count=2 2> err; sleep 0.4; echo {n} > out"
        );
        let memory = if n == 0 { "100 MiB" } else { "200 MiB" };
        spec.push_str(&format!(
            "  c{n}: {{argv: [sh, -c, '{script}'], outputs: [out], memory: {memory}}}\n"
        ));
    }
    let sandbox = Sandbox::new().file("spec.yaml", spec);
    let run = [
        "run",
        "spec.yaml",
        "--jobs",
        "4",
        "--memory",
        "450MiB",
        "--trace",
        "trace.json",
    ];
    let ended = sandbox.run(run).success();
    let ended = ended
        .stderr_has("warning command:c0 took 15")
        .stderr_has("of memory, and its `memory` says 100 MiB");
    ended
        .stderr_lacks("command:c1 took")
        .stderr_lacks("runs alone");
    let trace = Trace::of(&sandbox);
    trace.check();
    let claimed = |name: &str| trace.find(name).memory;
    assert_eq!(
        ["command:c0", "command:c1", "command:c3"].map(claimed),
        [100 << 20, 200 << 20, 200 << 20]
    );
    assert_eq!(trace.most(), 2);
    // It is no part of a key.
    sandbox.write(
        "spec.yaml",
        sandbox.read("spec.yaml").replace("200 MiB", "1 GiB"),
    );
    sandbox
        .run(["run", "spec.yaml"])
        .success()
        .stderr_lacks("took");
    let again = sandbox.run(["run", "spec.yaml", "--json"]).success();
    again.summary([("executed", 0)]);
}

#[test]
fn a_size_that_is_none_is_refused() {
    let sandbox = Sandbox::new().file("spec.yaml", "version: 1\n");
    sandbox
        .run(["run", "spec.yaml", "--memory", "lots"])
        .code(2)
        .stderr_has("`lots` is no size");
}

#[test]
fn a_timed_run_on_the_cpu_has_the_machine_to_itself() {
    let sandbox = ready_onnx::sandbox(crate::onnx::RIGHT);
    let mut spec = sandbox.read("specs/all.yaml") + "commands:\n";
    for n in 0..5 {
        spec.push_str(&format!(
            "  c{n}: {{argv: [sh, -c, 'sleep 0.3; echo x > out'], outputs: [out]}}\n"
        ));
    }
    sandbox.write("specs/all.yaml", spec);
    sandbox
        .run([
            "run",
            "specs/all.yaml",
            "--jobs",
            "3",
            "--remeasure",
            "0",
            "--trace",
            "trace.json",
        ])
        .success();
    let trace = Trace::of(&sandbox);
    trace.check();
    let runs: Vec<_> = trace
        .slices
        .iter()
        .filter(|slice| slice.name.starts_with("run:"))
        .collect();
    assert_eq!(runs.len(), 2);
    assert!(
        runs.iter()
            .all(|run| run.row == "exclusive" && run.cores == 3),
        "{runs:?}"
    );
    let reasons: Vec<_> = runs
        .iter()
        .filter_map(|run| run.waited_for.as_deref())
        .collect();
    assert!(
        reasons
            .iter()
            .all(|why| ["idle host", "exclusive host"].contains(why))
            && !reasons.is_empty(),
        "{runs:?}"
    );
}

/// Steps so short that they are handed out before the one before them has ended.
fn short_steps(sandbox: &Sandbox, jobs: &str) -> Trace {
    let mut spec = String::from("version: 1\ncommands:\n");
    for n in 0..60 {
        spec.push_str(&format!(
            "  c{n:02}: {{argv: [sh, -c, 'echo {n} > out'], outputs: [out]}}\n"
        ));
    }
    sandbox.write("short.yaml", spec);
    sandbox
        .run(["run", "short.yaml", "--jobs", jobs, "--trace", "trace.json"])
        .success();
    Trace::of(sandbox)
}

#[test]
fn short_steps_follow_each_other_in_their_order_and_never_share_a_row() {
    let trace = short_steps(&Sandbox::new(), "2");
    trace.check();
    assert_eq!(trace.slices.len(), 60);
    let rows: BTreeSet<_> = trace.slices.iter().map(|slice| &slice.row).collect();
    assert_eq!(rows.len(), 2);
    for row in rows {
        let mut slices: Vec<_> = trace
            .slices
            .iter()
            .filter(|slice| slice.row == *row)
            .collect();
        slices.sort_by_key(|slice| slice.begin);
        assert!(slices.len() > 5, "{row}: {}", slices.len());
        for pair in slices.windows(2) {
            assert!(
                pair[0].end <= pair[1].begin && pair[0].name < pair[1].name,
                "{pair:?}"
            );
        }
    }
}

#[test]
fn after_a_failure_that_is_to_end_the_run_no_short_step_begins() {
    let mut spec = String::from("version: 1\ncommands:\n");
    for n in 0..60 {
        let script = if n == 20 {
            "exit 3".to_owned()
        } else {
            format!("echo {n} > out")
        };
        spec.push_str(&format!(
            "  c{n:02}: {{argv: [sh, -c, '{script}'], outputs: [out]}}\n"
        ));
    }
    let sandbox = Sandbox::new().file("spec.yaml", spec);
    sandbox
        .run(["run", "spec.yaml", "--jobs", "1", "--keep-going", "never"])
        .code(1)
        .stdout_has(", 1 failed ");
    assert_eq!(sandbox.stats()["stages"]["command"]["records"], 21);
}
