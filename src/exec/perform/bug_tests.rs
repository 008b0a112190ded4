//! Panics of every kind in a run of the real executor: each is one outcome, and the run ends.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use serde_json::json;

use super::*;
use crate::base::Bug;
use crate::device::Backend;
use crate::event::{Event, Listener};
use crate::exec::tests::{host, options};
use crate::exec::{Context, Options, Probe, probe, run};
use crate::plan::Plan;
use crate::provision::Provision;
use crate::record::{Outcome, Record};
use crate::step::{
    Code, CommandCall, Judgement, Places, Requirement, Stage, Step, StepKind, WRITE, Work,
};
use crate::toolchain::EnvName;

/// Panics where its step's parameter says.
struct Panics;

impl StepKind for Panics {
    fn name(&self) -> &'static str {
        "panics"
    }

    fn code(&self, step: &Step) -> &Code {
        WRITE.code(step)
    }

    fn requires(&self, step: &Step) -> Vec<Requirement> {
        if step.params.json()["where"] == "setup" {
            vec![Requirement::Env(EnvName::Ort)]
        } else {
            vec![]
        }
    }

    fn lower(&self, step: &Step, places: &Places) -> anyhow::Result<Work> {
        let absent = places.inputs.get("absent");
        match step.params.json()["where"].as_str().unwrap() {
            "lower" => absent
                .map(|_| Work::Files(vec![]))
                .ok_or(())
                .map_err(|()| panic!("BUG: no input `absent`")),
            "work" => Ok(Work::Pure(Box::new(|| Vec::new().remove(7)))),
            "judge" => Ok(Work::Judge(Box::new(|| -> anyhow::Result<Judgement> {
                std::panic::panic_any(7)
            }))),
            "error" => Ok(Work::Pure(Box::new(|| {
                anyhow::bail!(Bug::new("a step of no kind"))
            }))),
            "sleep" => {
                let argv = ["sleep", "300"].map(str::to_owned).into();
                Ok(Work::Command(CommandCall {
                    argv,
                    ..CommandCall::default()
                }))
            }
            "decide" => Ok(Work::Pure(Box::new(|| {
                std::thread::sleep(Duration::from_secs(1));
                Ok(())
            }))),
            "not" => Ok(Work::Files(vec![("x".into(), b"x".to_vec())])),
            other => unreachable!("{other}"),
        }
    }
}

/// Keeps the events that it gets, and panics when an installation begins, or on the deciding thread.
#[derive(Default)]
struct Heard(Mutex<Vec<Event>>);

impl Listener for Heard {
    fn tell(&self, event: Event) {
        assert!(
            !matches!(event, Event::SetupStarted { .. }),
            "an installer's bug"
        );
        let is_decided =
            matches!(&event, Event::StepFinished { step, .. } if &**step == "generate:decide");
        assert!(!is_decided, "a bug where it is decided");
        self.0.lock().unwrap().push(event);
    }
}

struct Mad;

impl Probe for Mad {
    fn query(&self, backend: &str) -> Backend {
        panic!("a driver of {backend}")
    }
}

fn plan(places: &[&str]) -> Plan {
    let steps = places.iter().map(|place| {
        let name = format!("generate:{place}");
        let params = json!({"where": place});
        Step {
            retries: Some(1),
            ..Step::new(name, Stage::Generate, &Panics, params, vec![], 300)
        }
    });
    Plan::new(steps.collect(), vec![], vec![], BTreeMap::new())
}

struct Ended {
    steps: Vec<(Outcome, String)>,
    met_bug: bool,
    records: Vec<Option<Record>>,
    /// What a second run would find held.
    held: Vec<bool>,
    logs: Vec<String>,
    events: Vec<Event>,
}

/// A run of steps that panic at these places. It must end, so it has a thread of its own.
fn ran(places: &'static [&str]) -> Ended {
    let (sender, receiver) = channel();
    std::thread::spawn(move || drop(sender.send(run_here(places))));
    receiver
        .recv_timeout(Duration::from_secs(60))
        .expect("the run waits for ever, or panicked")
}

fn run_here(places: &[&str]) -> Ended {
    let dir = tempfile::tempdir().unwrap();
    let store = DiskStore::open(&dir.path().join("store")).unwrap();
    let cancel = Cancel::default();
    let provision = Provision::new(dir.path().join("envs"), None, cancel.clone()).unwrap();
    let plan = plan(places);
    let heard = Heard::default();
    let options = Options {
        wanted: Some(plan.ids().collect()),
        ..options(dir.path())
    };
    let finished = run(&Context {
        plan: &plan,
        store: &store,
        provision: &provision,
        listener: &heard,
        inventory: &[],
        probe: &Mad,
        host: &host(),
        options: &options,
        cancel: &cancel,
        remote: None,
        away: None,
    })
    .unwrap();
    let records = places
        .iter()
        .map(|place| store.latest(&format!("generate:{place}")).unwrap());
    let records: Vec<Option<Record>> = records.collect();
    let held = |record: &Record| {
        let key = record.key.digest();
        store.lookup(&key).unwrap().is_some() || store.failure(&key).unwrap().is_some()
    };
    let log = |place: &&str| {
        std::fs::read_to_string(store.log_path(&format!("generate:{place}"))).unwrap_or_default()
    };
    Ended {
        steps: finished
            .results
            .iter()
            .map(|r| (r.outcome, r.reason.clone().unwrap_or_default()))
            .collect(),
        met_bug: finished.met_bug,
        held: records
            .iter()
            .map(|record| record.as_ref().is_some_and(held))
            .collect(),
        records,
        logs: places.iter().map(log).collect(),
        events: heard.0.into_inner().unwrap(),
    }
}

#[test]
fn a_panic_is_an_outcome_of_its_step_and_the_others_go_on() {
    let ended = ran(&["lower", "work", "not", "judge"]);
    assert!(ended.met_bug);
    assert_eq!(ended.steps[2].0, Outcome::Pass);
    assert_eq!(
        ended.held,
        [false, false, true, false],
        "a bug is neither a hit nor stands"
    );
    for (at, expected) in [
        (
            0,
            "BUG: no input `absent` at src/exec/perform/bug_tests.rs:",
        ),
        (
            1,
            "BUG: removal index (is 7) should be < len (is 0) at src/exec/",
        ),
        (
            3,
            "BUG: without a message at src/exec/perform/bug_tests.rs:",
        ),
    ] {
        let (outcome, reason) = &ended.steps[at];
        assert!(
            *outcome == Outcome::Fail && reason.starts_with(expected),
            "{outcome:?} {reason}"
        );
        let record = &ended.records[at];
        let log = &ended.logs[at];
        let record = record.as_ref().expect("a failure is on record");
        assert!(record.attempts.is_empty(), "a bug is not tried again");
        assert!(
            log.starts_with("BUG: ") && log.contains("bug_tests"),
            "no backtrace: {log}"
        );
    }
}

#[test]
fn a_panic_of_an_installer_fails_those_that_wait_for_it() {
    let ended = ran(&["setup", "not"]);
    assert!(ended.met_bug);
    let [(outcome, reason), (other, _)] = &ended.steps[..] else {
        panic!("{:?}", ended.steps)
    };
    assert_eq!((*outcome, *other), (Outcome::Fail, Outcome::Pass));
    assert!(
        reason.contains(
            "could not be set up: BUG: an installer's bug at src/exec/perform/bug_tests.rs:"
        ),
        "{reason}"
    );
    assert!(ended.records[0].is_none(), "nothing was executed");
    let is_reported = |event: &Event| matches!(event, Event::SetupFinished { error: Some(why), .. } if why.contains("BUG:"));
    assert!(ended.events.iter().any(is_reported), "{:?}", ended.events);
}

#[test]
fn a_panic_of_a_prober_is_a_device_that_is_not_there() {
    let dir = tempfile::tempdir().unwrap();
    let store = DiskStore::open(dir.path()).unwrap();
    let bugs = Bugs::new(&store);
    let answer = probe::all(&Mad, &bugs).remove(0);
    assert!(bugs.met() && !answer.available);
    let reason = answer.reason.unwrap();
    assert!(
        reason.starts_with("BUG: a driver of cuda at src/exec/perform/bug_tests.rs:"),
        "{reason}"
    );
    let log = reason
        .split_once("backtrace: ")
        .unwrap()
        .1
        .trim_end_matches(')');
    assert!(std::fs::read_to_string(log).unwrap().contains("bug_tests"));
}

#[test]
fn a_panic_where_it_is_decided_ends_what_executes() {
    let (sender, receiver) = channel::<()>();
    std::thread::spawn(move || {
        let _until_it_ends = sender;
        run_here(&["sleep", "decide"])
    });
    let ended = receiver.recv_timeout(Duration::from_secs(60));
    assert_eq!(
        ended,
        Err(RecvTimeoutError::Disconnected),
        "it waits for a step of which nobody will hear"
    );
}

#[test]
fn an_error_about_what_cannot_happen_is_a_bug_too() {
    let ended = ran(&["error"]);
    assert!(ended.met_bug);
    assert_eq!(
        ended.steps[0],
        (Outcome::Fail, "BUG: a step of no kind".into())
    );
    assert_eq!(ended.held, [false]);
}

#[test]
fn a_run_without_a_bug_met_none() {
    let ended = ran(&["not"]);
    assert!(!ended.met_bug);
    assert_eq!(ended.steps[0].0, Outcome::Pass);
}
