//! The events of the file. Times are microseconds; every complete event lies on a row of its own kind, and no two on one
//! row overlap.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde_json::{Value, json};

use crate::journal::{ExecutedStep, Head};
use crate::plan::Plan;
use crate::record::Outcome;
use crate::step::{Source, StepId};
use crate::trace::Story;

const PID: u32 = 1;
const MAIN: u32 = 1;
const CRITICAL: u32 = 2;
const EXCLUSIVE: u32 = 3;
const JOBS: u32 = 10;
const DEVICES: u32 = 90_000;
const SETUPS: u32 = 100_000;
/// More arrows than these make viewers slow and say nothing.
const ARROWS: usize = 50_000;

pub(super) fn document(
    story: &Story,
    now: f64,
    plan: &Plan,
    (head, memory): (&Head, u64),
) -> Vec<u8> {
    let by_id: HashMap<StepId, &ExecutedStep> = story
        .steps
        .iter()
        .filter_map(|ran| Some((plan.find(&ran.step)?, ran)))
        .collect();
    let path = plan.critical_path(|id| by_id.get(&id).map(|ran| ran.seconds));
    let mut trace = Trace {
        events: Vec::new(),
        rows: BTreeMap::new(),
    };
    trace.frame(story, now);
    let critical: HashSet<StepId> = path.iter().copied().collect();
    for ran in &story.steps {
        let is_critical = plan
            .find(&ran.step)
            .is_some_and(|id| critical.contains(&id));
        trace.step(row_of(ran), ran, is_critical);
    }
    for ran in &story.returned {
        trace.step(row_of(ran), ran, false);
    }
    for id in &path {
        trace.step(CRITICAL, by_id[id], true);
    }
    trace.devices(story);
    trace.memory(story);
    for (at, load) in &story.loads {
        trace.push(
            &json!({"ph": "C", "pid": PID, "tid": MAIN, "name": "steps", "ts": us(*at),
            "args": {"running": load.running, "ready": load.ready}}),
        );
    }
    let left_out = trace.arrows(plan, &by_id);
    let total: f64 = path.iter().map(|id| by_id[id].seconds).sum();
    let mut other = json!({
        "orch": env!("CARGO_PKG_VERSION"), "command": head.command, "host": head.host, "started": head.started,
        "jobs": head.jobs, "memory": memory, "seconds": now, "executed": story.steps.len(), "interrupted": story.interrupted.is_some(),
        "critical path": path.iter().map(|id| plan.step(*id).name.as_str()).collect::<Vec<_>>(),
        "critical path seconds": us(total) as f64 / 1e6,
    });
    if story.steps.is_empty() {
        other["note"] = "no step was executed in this run".into();
    }
    if left_out > 0 {
        other["arrows left out"] = left_out.into();
    }
    trace.finish(other)
}

struct Trace {
    /// Written out at once, with the time to sort them by: as values they would take five times the memory.
    events: Vec<(u64, String)>,
    rows: BTreeMap<u32, String>,
}

impl Trace {
    /// What is not a step: consulting, setups, warnings, the interrupt.
    fn frame(&mut self, story: &Story, now: f64) {
        self.row(MAIN, "main");
        let consulted = story.consulted.unwrap_or(now);
        self.complete(
            MAIN,
            "plan, and consult the store",
            "orch",
            0.0,
            consulted,
            json!({}),
        );
        for (number, setup) in story.setups.iter().enumerate() {
            let row = SETUPS + number as u32;
            self.row(row, &format!("setup: {}", setup.what));
            self.complete(
                row,
                &setup.what,
                "setup",
                setup.at,
                setup.seconds,
                json!({"error": setup.error}),
            );
        }
        let marks = story
            .warnings
            .iter()
            .map(|(at, text)| (*at, format!("warning: {text}")));
        for (at, name) in marks.chain(story.interrupted.map(|at| (at, "interrupted".to_owned()))) {
            self.push(
                &json!({"ph": "i", "s": "g", "pid": PID, "tid": MAIN, "name": name, "ts": us(at)}),
            );
        }
    }

    fn step(&mut self, row: u32, ran: &ExecutedStep, critical: bool) {
        let name = match row {
            MAIN => "main".to_owned(),
            CRITICAL => "critical path".to_owned(),
            EXCLUSIVE => "exclusive".to_owned(),
            job => format!("job {}", job - JOBS),
        };
        self.row(row, &name);
        let stage = ran.step.split(':').next().unwrap_or_default();
        let args = json!({
            "outcome": ran.outcome, "why": ran.why, "reason": ran.reason, "key": ran.key,
            "waited ms": us(ran.waited) as f64 / 1e3, "waited for": ran.waited_for, "holds": ran.holds,
            "critical": critical,
        });
        // Names of Chrome's fixed palette; Perfetto chooses its own colours.
        let colour = match ran.outcome {
            Outcome::Pass | Outcome::Flaky if critical => Some("yellow"),
            Outcome::Pass => None,
            outcome if outcome.is_failure() => Some("terrible"),
            _ => Some("grey"),
        };
        let mut event = slice(row, &ran.step, stage, ran.at, ran.seconds, args);
        if let Some(colour) = colour {
            event["cname"] = colour.into();
        }
        self.push(&event);
    }

    /// Arrows from each executed step to the executed steps that read its output. Gives how many were left out.
    fn arrows(&mut self, plan: &Plan, by_id: &HashMap<StepId, &ExecutedStep>) -> usize {
        let mut ids: Vec<_> = by_id.keys().copied().collect();
        ids.sort();
        let mut drawn = 0;
        for to in ids {
            for (_, source) in &plan.step(to).inputs {
                let Source::Step(from) = source else { continue };
                let Some(made) = by_id.get(from) else {
                    continue;
                };
                drawn += 1;
                if drawn > ARROWS {
                    continue;
                }
                let reads = by_id[&to];
                // Within the slices that it links, or the viewer binds it to none.
                let end = (us(made.at) + us(made.seconds))
                    .saturating_sub(1)
                    .max(us(made.at));
                self.push(
                    &json!({"ph": "s", "pid": PID, "tid": row_of(made), "cat": "reads", "name": "reads", "id": drawn,
                    "ts": end}),
                );
                self.push(
                    &json!({"ph": "f", "bp": "e", "pid": PID, "tid": row_of(reads), "cat": "reads", "name": "reads",
                    "id": drawn, "ts": us(reads.at)}),
                );
            }
        }
        drawn.saturating_sub(ARROWS)
    }

    /// A row for each device, with the steps that held it.
    fn devices(&mut self, story: &Story) {
        let steps = || story.steps.iter().chain(&story.returned);
        let tokens: BTreeSet<&str> = steps()
            .filter_map(|ran| ran.holds.device.as_deref())
            .collect();
        for (row, token) in (DEVICES..).zip(tokens) {
            self.row(row, &format!("device {token}"));
            for ran in steps().filter(|ran| ran.holds.device.as_deref() == Some(token)) {
                self.complete(
                    row,
                    &ran.step,
                    "device",
                    ran.at,
                    ran.seconds,
                    json!({"outcome": ran.outcome}),
                );
            }
        }
    }

    /// The memory that executing steps were expected to take, wherever it changes. Nothing if no step was expected to.
    fn memory(&mut self, story: &Story) {
        let mut changes = Vec::new();
        for ran in story
            .steps
            .iter()
            .chain(&story.returned)
            .filter(|ran| ran.holds.memory > 0)
        {
            changes.push((us(ran.at), ran.holds.memory as i64));
            changes.push((us(ran.at) + us(ran.seconds), -(ran.holds.memory as i64)));
        }
        // What is given back comes before what is taken at the same moment.
        changes.sort_unstable();
        let mut claimed = 0;
        for (ts, change) in changes {
            claimed += change;
            self.push(
                &json!({"ph": "C", "pid": PID, "tid": MAIN, "name": "memory", "ts": ts, "args": {"bytes": claimed}}),
            );
        }
    }

    fn row(&mut self, tid: u32, name: &str) {
        self.rows.entry(tid).or_insert_with(|| name.to_owned());
    }

    fn complete(
        &mut self,
        tid: u32,
        name: &str,
        category: &str,
        at: f64,
        seconds: f64,
        args: Value,
    ) {
        self.push(&slice(tid, name, category, at, seconds, args));
    }

    fn push(&mut self, event: &Value) {
        self.events
            .push((event["ts"].as_u64().unwrap_or(0), event.to_string()));
    }

    fn finish(self, other: Value) -> Vec<u8> {
        let mut all = vec![
            json!({"ph": "M", "pid": PID, "tid": MAIN, "name": "process_name", "args": {"name": "orch run"}}),
        ];
        for (tid, name) in &self.rows {
            all.push(json!({"ph": "M", "pid": PID, "tid": tid, "name": "thread_name", "args": {"name": name}}));
            all.push(
                json!({"ph": "M", "pid": PID, "tid": tid, "name": "thread_sort_index", "args": {"sort_index": tid}}),
            );
        }
        let mut events = self.events;
        events.sort_by_key(|(ts, _)| *ts);
        let lines: Vec<_> = all
            .iter()
            .map(Value::to_string)
            .chain(events.into_iter().map(|(_, event)| event))
            .collect();
        // One event a line: such a file can be read, and compared by line.
        format!(
            "{{\"displayTimeUnit\":\"ms\",\"otherData\":{other},\"traceEvents\":[\n{}\n]}}\n",
            lines.join(",\n")
        )
        .into_bytes()
    }
}

/// A complete event.
fn slice(tid: u32, name: &str, category: &str, at: f64, seconds: f64, args: Value) -> Value {
    json!({"ph": "X", "pid": PID, "tid": tid, "name": name, "cat": category, "ts": us(at), "dur": us(seconds), "args": args})
}

/// Whole microseconds.
fn us(seconds: f64) -> u64 {
    (seconds * 1e6).round() as u64
}

fn row_of(ran: &ExecutedStep) -> u32 {
    match ran.slot.as_deref() {
        Some("exclusive") => EXCLUSIVE,
        Some(slot) => slot
            .strip_prefix("job ")
            .and_then(|n| n.parse::<u32>().ok())
            .map_or(MAIN, |n| JOBS + n),
        None => MAIN,
    }
}
