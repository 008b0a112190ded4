//! The scheduler without threads: messages in, effects out. Nothing executes; the store is empty.

use std::time::Duration;

use serde_json::json;

use super::*;
use crate::base::Digest;
use crate::exec::host::HostFacts;
use crate::exec::perform::task::Task;
use crate::exec::schedule::lookup::Looked;
use crate::exec::tests::{host, options};
use crate::key::{KeyDoc, MissReason};
use crate::plan::Plan;
use crate::provision::Provision;
use crate::step::{MATERIALISE, RENDER, Requirement, Source, Stage, Step, StepKind};
use crate::store::DiskStore;
use crate::worker::Cancel;

/// A plan with an empty store.
struct House {
    _dir: tempfile::TempDir,
    plan: Plan,
    store: DiskStore,
    provision: Provision,
    host: HostFacts,
    options: Options,
}

impl House {
    /// A plan of steps that read those at these positions; each is tried twice, on one core.
    fn new(steps: &[(&str, &'static dyn StepKind, &[u32])]) -> Self {
        let step = |&(name, kind, reads): &(&str, &'static dyn StepKind, &[u32])| {
            let inputs = reads
                .iter()
                .map(|from| (from.to_string().into(), Source::Step(StepId(*from))))
                .collect();
            Step {
                retries: Some(1),
                ..Step::new(name, Stage::Generate, kind, json!({}), inputs, 9)
            }
        };
        let plan = Plan::new(
            steps.iter().map(step).collect(),
            vec![],
            vec![],
            BTreeMap::new(),
        );
        let dir = tempfile::tempdir().unwrap();
        let store = DiskStore::open(&dir.path().join("store")).unwrap();
        let provision = Provision::new(dir.path().join("envs"), None, Cancel::default()).unwrap();
        let wanted = Some(plan.ids().collect());
        let options = Options {
            jobs: 1,
            wanted,
            ..options(dir.path())
        };
        Self {
            _dir: dir,
            plan,
            store,
            provision,
            host: host(),
            options,
        }
    }

    /// About to execute, at the returned time.
    fn begun(&self, shared: bool) -> (Scheduler<'_>, Instant) {
        let Self {
            plan,
            store,
            provision,
            host,
            options,
            ..
        } = self;
        let now = Instant::now();
        let world = World {
            plan,
            store,
            provision,
            inventory: &[],
            host,
            options,
            remote: None,
        };
        let mut scheduler = Scheduler::new(world, now);
        scheduler.consult_all();
        scheduler.begin(shared, now);
        (scheduler, now)
    }
}

/// What is to be done after a turn, in a word each, and the steps that start.
fn turn<'a>(scheduler: &mut Scheduler<'a>, now: Instant) -> (Vec<String>, Vec<Task<'a>>) {
    scheduler.advance(now);
    let mut started = Vec::new();
    let words = std::mem::take(&mut scheduler.effects)
        .into_iter()
        .map(|effect| match effect {
            Effect::Tell(Event::StepFinished { step, outcome, .. }) => {
                format!("{step} {}", outcome.label())
            }
            Effect::Tell(Event::StepReturned { step, .. }) => format!("{step} returned"),
            Effect::Tell(Event::Fetched { step, .. }) => format!("{step} fetched"),
            Effect::Tell(Event::Warning { .. }) => "warning".to_owned(),
            Effect::Tell(Event::Interrupted) => "interrupted".to_owned(),
            Effect::Tell(other) => format!("{other:?}"),
            Effect::Start(task, Event::StepStarted { step, .. }) => {
                assert_eq!(task.step.name, step);
                started.push(*task);
                format!("start {step}")
            }
            Effect::Start(_, other) => panic!("{other:?}"),
            Effect::Query(id, _) => format!("ask {}", id.0),
            Effect::Install(required) => format!("install {:?}", required.requirement),
            Effect::ProbeSizes => "ask sizes".to_owned(),
            Effect::KeepLog { of_attempt, .. } => {
                format!("keep {}", of_attempt.file_name().unwrap().display())
            }
        });
    (words.collect(), started)
}

/// [`turn`], after a message.
fn after<'a>(
    scheduler: &mut Scheduler<'a>,
    message: Message,
    now: Instant,
) -> (Vec<String>, Vec<Task<'a>>) {
    scheduler.receive(message, now);
    turn(scheduler, now)
}

/// How a step that was started ended.
fn ended(task: Task<'_>, outcome: Outcome) -> Message {
    let id = task.id;
    let transient = !outcome.is_made();
    let record = record(&task.step.name, task.key, task.why, outcome);
    let log = transient.then(|| "a log".to_owned());
    let span = Span {
        begin: Instant::now(),
        end: Instant::now(),
    };
    Message::Performed(
        id,
        Performed::Executed {
            record: Box::new(record),
            unchanged: false,
            transient,
        },
        log,
        span,
    )
}

fn record(step: &str, key: KeyDoc, why: MissReason, outcome: Outcome) -> Record {
    let output = outcome.is_made().then(|| Digest::of(step.as_bytes()));
    Record {
        step: step.to_owned(),
        key,
        outcome,
        output,
        why: Some(why),
        ..Record::default()
    }
}

const PAIR: &[(&str, &dyn StepKind, &[u32])] = &[("a", &RENDER, &[]), ("b", &RENDER, &[0])];

#[test]
fn a_step_starts_when_what_it_reads_is_made_and_the_run_is_over_when_nothing_is_left() {
    let house = House::new(PAIR);
    let (mut scheduler, now) = house.begun(false);
    let (words, mut started) = turn(&mut scheduler, now);
    assert_eq!(words, ["start a"]);
    let (words, mut started) = after(&mut scheduler, ended(started.remove(0), Outcome::Pass), now);
    assert_eq!(words, ["a PASS", "start b"]);
    assert!(!scheduler.is_over());
    assert_eq!(
        after(&mut scheduler, ended(started.remove(0), Outcome::Pass), now).0,
        ["b PASS"]
    );
    assert!(scheduler.is_over());
}

#[test]
fn a_failure_that_may_pass_is_tried_again_after_its_pause_and_the_second_one_counts() {
    let house = House::new(PAIR);
    let (mut scheduler, now) = house.begun(false);
    let (_, mut started) = turn(&mut scheduler, now);
    assert_eq!(
        after(
            &mut scheduler,
            ended(started.remove(0), Outcome::Timeout),
            now
        )
        .0,
        ["keep a.1.attempt", "warning", "a returned"]
    );
    assert!(!scheduler.is_over());
    let later = now + Duration::from_secs(2);
    let (words, mut started) = turn(&mut scheduler, later);
    assert_eq!(words, ["start a"]);
    assert_eq!(started[0].attempts[0].log.as_deref(), Some("a.1.attempt"));
    assert_eq!(
        after(
            &mut scheduler,
            ended(started.remove(0), Outcome::Timeout),
            later
        )
        .0,
        ["a TIMEOUT"]
    );
    assert!(scheduler.is_over());
    let b = scheduler.steps.result(StepId(1)).unwrap();
    assert_eq!((b.outcome, b.blamed), (Outcome::Timeout, Some(StepId(0))));
}

#[test]
fn questions_change_nothing() {
    let house = House::new(PAIR);
    let (mut scheduler, now) = house.begun(true);
    assert_eq!(turn(&mut scheduler, now).0, ["ask 0"]);
    for _ in 0..3 {
        assert!(scheduler.may_try_again(StepId(0), Outcome::Fail));
        assert!(matches!(
            scheduler.steps.look_at(StepId(0)),
            Looked::Ready(_, MissReason::NeverRan, _)
        ));
    }
    assert_eq!(turn(&mut scheduler, now).0, [""; 0]);
}

#[test]
fn what_does_not_start_gives_back_what_it_held_and_is_started_once_more() {
    let house = House::new(PAIR);
    let (mut scheduler, mut now) = house.begun(false);
    for words in [&["start a", "warning"][..], &["start a", "a FAIL"]] {
        let (mut effects, mut started) = turn(&mut scheduler, now);
        let Task {
            id,
            key,
            why: reason,
            ..
        } = started.remove(0);
        let why = "no server".into();
        let at = String::new();
        scheduler.receive(
            Message::NotStarted {
                id,
                key,
                reason,
                why,
                at,
            },
            now,
        );
        assert!(scheduler.slots.machine.is_idle());
        effects.extend(turn(&mut scheduler, now).0);
        assert_eq!(effects, words);
        now += Duration::from_secs(2);
    }
    assert!(scheduler.is_over());
}

#[test]
fn an_interruption_ends_pauses_and_starts_nothing_more() {
    let house = House::new(&[("a", &RENDER, &[]), ("b", &RENDER, &[])]);
    let (mut scheduler, now) = house.begun(false);
    let (words, mut started) = turn(&mut scheduler, now);
    assert_eq!(words, ["start a"], "there is one core");
    let (words, mut started) = after(
        &mut scheduler,
        ended(started.remove(0), Outcome::Crash),
        now,
    );
    assert_eq!(words.last().unwrap(), "start b");
    assert_eq!(
        after(&mut scheduler, Message::Interrupted, now).0,
        ["interrupted", "a CRASH"]
    );
    assert!(!scheduler.is_over(), "one executes");
    assert_eq!(
        after(&mut scheduler, ended(started.remove(0), Outcome::Fail), now).0,
        ["b FAIL"],
        "nothing is tried again"
    );
    assert!(scheduler.is_over());
}

#[test]
fn what_another_machine_may_have_is_queried_before_anything_is_installed() {
    let house = House::new(&[("a", &MATERIALISE, &[]), ("b", &MATERIALISE, &[])]);
    let (mut scheduler, now) = house.begun(true);
    assert_eq!(turn(&mut scheduler, now).0, ["ask 0", "ask 1"]);
    let StepState::Ready { key, reason } = scheduler.steps.state(StepId(0)) else {
        panic!("it is not ready")
    };
    let found = record("a", key.clone(), reason.clone(), Outcome::Pass);
    assert_eq!(
        after(
            &mut scheduler,
            Message::Answered(StepId(0), Some(Box::new(found))),
            now
        )
        .0,
        ["a fetched"]
    );
    assert_eq!(
        after(&mut scheduler, Message::Answered(StepId(1), None), now).0,
        ["install Env(Torch)"]
    );
    assert!(!scheduler.is_over());
    scheduler.receive(
        Message::Installed(
            Requirement::Env(crate::toolchain::EnvName::Torch).into(),
            Err("no net".into()),
        ),
        now,
    );
    assert_eq!(turn(&mut scheduler, now).0, ["b FAIL"]);
    assert!(scheduler.is_over());
}
