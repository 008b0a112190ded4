//! The events of the file. Times are microseconds; every complete event lies on a row of its own kind, and no two on one
//! row overlap.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::{Value, json};

use crate::journal::Ran;
use crate::plan::Plan;
use crate::record::Outcome;
use crate::step::{Source, StepId};
use crate::trace::{About, Story, critical_path};

const PID: u32 = 1;
const MAIN: u32 = 1;
const CRITICAL: u32 = 2;
const EXCLUSIVE: u32 = 3;
const JOBS: u32 = 10;
const SETUPS: u32 = 100_000;
/// More arrows than these make viewers slow and say nothing.
const ARROWS: usize = 50_000;

pub(super) fn document(story: &Story, now: f64, plan: &Plan, about: &About<'_>) -> Vec<u8> {
    let by_id: HashMap<StepId, &Ran> =
        story.steps.iter().filter_map(|ran| Some((plan.find(&ran.step)?, ran))).collect();
    let path = critical_path(plan, &|id| by_id.get(&id).map(|ran| ran.seconds));
    let mut trace = Trace { events: Vec::new(), rows: BTreeSet::new() };
    trace.frame(story, now);
    let critical: HashSet<StepId> = path.iter().copied().collect();
    for ran in &story.steps {
        let is_critical = plan.find(&ran.step).is_some_and(|id| critical.contains(&id));
        trace.step(row_of(ran), ran, is_critical);
    }
    for ran in &story.returned {
        trace.step(row_of(ran), ran, false);
    }
    for id in &path {
        trace.step(CRITICAL, by_id[id], true);
    }
    for (at, load) in &story.loads {
        trace.events.push(json!({"ph": "C", "pid": PID, "tid": MAIN, "name": "steps", "ts": us(*at),
            "args": {"running": load.running, "ready": load.ready}}));
    }
    let left_out = trace.arrows(plan, &by_id);
    let total: f64 = path.iter().map(|id| by_id[id].seconds).sum();
    let mut other = json!({
        "orch": env!("CARGO_PKG_VERSION"), "command": about.command, "host": about.host, "started": about.started,
        "jobs": about.jobs, "seconds": now, "executed": story.steps.len(), "interrupted": story.interrupted.is_some(),
        "critical path": path.iter().map(|id| plan.step(*id).name.as_str()).collect::<Vec<_>>(),
        "critical path seconds": total,
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
    events: Vec<Value>,
    rows: BTreeSet<(u32, String)>,
}

impl Trace {
    /// What is not a step: consulting, setups, warnings, the interrupt.
    fn frame(&mut self, story: &Story, now: f64) {
        self.row(MAIN, "main");
        let consulted = story.consulted.unwrap_or(now);
        self.complete(MAIN, "consult the store", "orch", 0.0, consulted, json!({}));
        for (number, setup) in story.setups.iter().enumerate() {
            let row = SETUPS + number as u32;
            self.row(row, &format!("setup: {}", setup.what));
            self.complete(row, &setup.what, "setup", setup.at, setup.seconds, json!({"error": setup.error}));
        }
        let marks = story.warnings.iter().map(|(at, text)| (*at, format!("warning: {text}")));
        for (at, name) in marks.chain(story.interrupted.map(|at| (at, "interrupted".to_owned()))) {
            self.events.push(json!({"ph": "i", "s": "g", "pid": PID, "tid": MAIN, "name": name, "ts": us(at)}));
        }
    }

    fn step(&mut self, row: u32, ran: &Ran, critical: bool) {
        let name = match row {
            MAIN => "main".to_owned(),
            CRITICAL => "critical path".to_owned(),
            EXCLUSIVE => "exclusive".to_owned(),
            job => format!("job {}", job - JOBS),
        };
        self.row(row, &name);
        let stage = ran.step.split(':').next().unwrap_or_default();
        let args = json!({
            "outcome": ran.outcome, "why": ran.why, "reason": ran.reason, "key": ran.key, "waited ms": us(ran.waited) / 1e3,
            "critical": critical,
        });
        self.complete(row, &ran.step, stage, ran.at, ran.seconds, args);
        // Names of Chrome's fixed palette; Perfetto chooses its own colours.
        let colour = match ran.outcome {
            Outcome::Pass if critical => Some("yellow"),
            Outcome::Pass => None,
            outcome if outcome.is_failure() => Some("terrible"),
            _ => Some("grey"),
        };
        if let (Some(colour), Some(event)) = (colour, self.events.last_mut()) {
            event["cname"] = colour.into();
        }
    }

    /// Arrows from each executed step to the executed steps that read its output. Gives how many were left out.
    fn arrows(&mut self, plan: &Plan, by_id: &HashMap<StepId, &Ran>) -> usize {
        let mut ids: Vec<_> = by_id.keys().copied().collect();
        ids.sort();
        let mut drawn = 0;
        for to in ids {
            for (_, source) in &plan.step(to).inputs {
                let Source::Step(from) = source else { continue };
                let Some(made) = by_id.get(from) else { continue };
                drawn += 1;
                if drawn > ARROWS {
                    continue;
                }
                let reads = by_id[&to];
                // Within the slices that it links, or the viewer binds it to none.
                let end = (us(made.at) + us(made.seconds) - 0.001).max(us(made.at));
                let common = json!({"pid": PID, "cat": "reads", "name": "reads", "id": drawn});
                for (row, ts, more) in [
                    (row_of(made), end, json!({"ph": "s"})),
                    (row_of(reads), us(reads.at), json!({"ph": "f", "bp": "e"})),
                ] {
                    let mut event = common.clone();
                    event["tid"] = row.into();
                    event["ts"] = ts.into();
                    event
                        .as_object_mut()
                        .expect("BUG: an event is an object")
                        .extend(more.as_object().cloned().unwrap_or_default());
                    self.events.push(event);
                }
            }
        }
        drawn.saturating_sub(ARROWS)
    }

    fn row(&mut self, tid: u32, name: &str) {
        if !self.rows.iter().any(|(known, _)| *known == tid) {
            self.rows.insert((tid, name.to_owned()));
        }
    }

    fn complete(&mut self, tid: u32, name: &str, category: &str, at: f64, seconds: f64, args: Value) {
        self.events.push(json!({"ph": "X", "pid": PID, "tid": tid, "name": name, "cat": category, "ts": us(at),
            "dur": us(seconds), "args": args}));
    }

    fn finish(self, other: Value) -> Vec<u8> {
        let mut all =
            vec![json!({"ph": "M", "pid": PID, "tid": MAIN, "name": "process_name", "args": {"name": "orch run"}})];
        for (tid, name) in &self.rows {
            all.push(json!({"ph": "M", "pid": PID, "tid": tid, "name": "thread_name", "args": {"name": name}}));
            all.push(
                json!({"ph": "M", "pid": PID, "tid": tid, "name": "thread_sort_index", "args": {"sort_index": tid}}),
            );
        }
        let mut events = self.events;
        events.sort_by(|a, b| a["ts"].as_f64().unwrap_or(0.0).total_cmp(&b["ts"].as_f64().unwrap_or(0.0)));
        // One event a line: such a file can be read, and compared by line.
        let lines: Vec<_> = all.iter().chain(&events).map(Value::to_string).collect();
        format!("{{\"displayTimeUnit\":\"ms\",\"otherData\":{other},\"traceEvents\":[\n{}\n]}}\n", lines.join(",\n"))
            .into_bytes()
    }
}

/// Microseconds, rounded to whole ones.
fn us(seconds: f64) -> f64 {
    (seconds * 1e6).round()
}

fn row_of(ran: &Ran) -> u32 {
    match ran.slot.as_deref() {
        Some("exclusive") => EXCLUSIVE,
        Some(slot) => slot.strip_prefix("job ").and_then(|n| n.parse::<u32>().ok()).map_or(MAIN, |n| JOBS + n),
        None => MAIN,
    }
}
