//! The last step: results of all steps → one document → pages in the store.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde::Serialize;
use serde_json::{Value, json};

use crate::base::figures;
use crate::base::{Digest, fs as bfs};
use crate::device::Backend;
use crate::event::{Event, Execution, Holds, Load, Slot, Span};
use crate::exec::perform::error_text;
use crate::exec::schedule::consult::why_missed;
use crate::exec::state::{How, StepResult};
use crate::exec::{Context, Finished, case};
use crate::key::{KeyDoc, MissReason};
use crate::record::{Outcome, Record};
use crate::report::{self, CaseResult, Excluded, ReportDoc, Summary};
use crate::step::StepId;
use crate::store::{FileDigests, StoreError};

/// The version of the document's shape.
const DOC_VERSION: u32 = 1;

/// A report's files by name.
pub struct Pages(pub Vec<(&'static str, Vec<u8>)>);

impl Pages {
    pub fn of(doc: &ReportDoc) -> anyhow::Result<Self> {
        Ok(Self(vec![
            ("matrix.json", report::json::render(doc).into_bytes()),
            ("matrix.md", report::markdown::render(doc).into_bytes()),
            ("index.html", report::html::render(doc)?.into_bytes()),
            ("junit.xml", report::junit::render(doc).into_bytes()),
        ]))
    }
}

pub(super) fn finish(
    context: &Context<'_>,
    mut results: Vec<StepResult>,
    files: FileDigests,
    met_bug: bool,
    clock: Instant,
) -> Result<Finished, StoreError> {
    let interrupted = context.cancel.is_cancelled();
    let id = context.plan.report;
    let asked = context.options.wanted.as_ref().is_none_or(|wanted| wanted.contains(&id));
    let mut report = None;
    if asked && !interrupted {
        let key = key(context, report_doc(context, &results, 0.0));
        let is_right = |record: &Record| record.output.is_some_and(|digest| is_whole(context, &digest));
        let held = context.store.lookup(&key.digest()).unwrap_or_else(|e| {
            let text = format!("{}; the report is made again", error_text(&e.into()));
            context.listener.tell(Event::Warning { text });
            None
        });
        let mut held = held.filter(is_right).filter(|_| !context.options.rerun.contains(&id));
        let mut lock = None;
        if held.is_none() && !context.store.is_read_only() {
            // Another orch that came to the same results may be making it.
            lock = context.store.lock_key(&key.digest(), |_| !context.cancel.is_cancelled())?;
            let made = context.store.lookup(&key.digest()).ok().flatten();
            held = made.filter(is_right).filter(|_| !context.options.rerun.contains(&id));
        }
        let result = match held {
            Some(record) => StepResult::hit(record),
            // It is told all the same; only its pages are kept nowhere.
            None if context.store.is_read_only() => {
                let text = "the store is read-only here, so no pages are made: `orch report --output FILE` writes one";
                context.listener.tell(Event::Warning { text: text.into() });
                StepResult::not_needed()
            }
            None => {
                // The page says how the run that made it went, itself included.
                results[id.0 as usize] = StepResult { how: How::Executed, ..StepResult::not_needed() };
                let doc = report_doc(context, &results, clock.elapsed().as_secs_f64());
                make(context, id, key, &doc)?
            }
        };
        drop(lock);
        report = result.output();
        results[id.0 as usize] = result;
    }
    let seconds = clock.elapsed().as_secs_f64();
    let doc = report_doc(context, &results, seconds);
    let failed = doc.summary.failed + doc.summary.failed_steps > 0;
    Ok(Finished { results, interrupted, failed, met_bug, seconds, report, doc, files })
}

/// Whether a report's tree is as it was published. A damaged one is taken away.
fn is_whole(context: &Context<'_>, digest: &Digest) -> bool {
    if !context.store.has_tree(digest) {
        return false;
    }
    let Err(e) = context.store.check_tree(digest) else { return true };
    let text = match context.store.discard_tree(digest) {
        Ok(()) => error_text(&e.into()),
        Err(stays) => format!("{}; {}", error_text(&e.into()), error_text(&stays.into())),
    };
    context.listener.tell(Event::Warning { text: format!("{text}; the report is made again") });
    false
}

fn make(context: &Context<'_>, id: StepId, key: KeyDoc, doc: &ReportDoc) -> Result<StepResult, StoreError> {
    let step = context.plan.step(id).name.clone();
    let clock = Instant::now();
    let started = figures::now();
    let asked = context.options.rerun.contains(&id);
    let why = if asked { MissReason::Asked } else { why_missed(context.store.latest(&step).ok().flatten(), &key) };
    context.listener.tell(Event::StepStarted {
        step: step.clone(),
        reason: why.clone(),
        slot: Slot::Main,
        waited: Duration::ZERO,
        waited_for: None,
        holds: Holds::ONE_CORE,
        load: Load { running: 1, ready: 0 },
    });
    let made = || -> anyhow::Result<Digest> {
        let scratch = context.store.scratch()?;
        let out = scratch.dir("report")?;
        for (name, bytes) in Pages::of(doc)?.0 {
            let path = out.join(name);
            std::fs::write(&path, bytes)
                .map_err(bfs::with_remedy)
                .with_context(|| format!("failed to write {}", path.display()))?;
        }
        Ok(context.store.publish(&out)?)
    };
    let (outcome, reason, output) = match made() {
        Ok(digest) => (Outcome::Pass, None, Some(digest)),
        Err(e) => (Outcome::Fail, Some(error_text(&e)), None),
    };
    let record = Record {
        step: step.clone(),
        key,
        outcome,
        reason: reason.clone(),
        output,
        started,
        seconds: clock.elapsed().as_secs_f64(),
        host: context.host.report.name.clone(),
        facts: Default::default(),
        measure: None,
        numerics: None,
        repro: None,
        why: Some(why),
        attempts: Vec::new(),
        stands: None,
    };
    context.store.remember(&record)?;
    context.listener.tell(Event::StepFinished {
        step,
        outcome,
        reason,
        seconds: record.seconds,
        log: None,
        repro: None,
        execution: Some(Execution { key: record.key.digest(), span: Span { begin: clock, end: Instant::now() } }),
        load: Load::default(),
    });
    Ok(StepResult::executed(record))
}

/// What the report shows, without what differs between two runs that found the same. Cases may be thousands, so their
/// lines are added in the order in which they stand.
pub(super) fn key(context: &Context<'_>, mut doc: ReportDoc) -> KeyDoc {
    let mut key = KeyDoc::default();
    let step = context.plan.step(context.plan.report);
    for case in &mut doc.cases {
        (case.cached, case.known_since) = (false, None);
    }
    let mut cases: Vec<_> = doc.cases.iter().map(|case| (case_line(case), case)).collect();
    cases.sort_by(|(one, _), (other, _)| one.cmp(other));
    cases.into_iter().for_each(|(line, case)| key.set(line, digest(case)));
    key.set("kind", step.kind.name());
    key.set("code", step.kind.code(step).digest().short());
    key.set("orch", &doc.orch);
    key.set("spec", &doc.spec);
    if let Some(scope) = &doc.scope {
        key.set("scope", scope);
    }
    key.set("host", digest(&doc.host).short());
    key.set("excluded", digest(&doc.excluded));
    for backend in &doc.backends {
        key.set(format!("backend.{}", backend.name), digest(&stable_backend(backend)));
    }
    if !doc.flaky_steps.is_empty() {
        let stable: Vec<_> = doc.flaky_steps.iter().map(|step| (&step.step, &step.reason, &step.executed)).collect();
        key.set("flaky", digest(&stable));
    }
    // The page has the order of the spec.
    let order: Vec<_> = doc.cases.iter().filter_map(|case| case.steps.last()).collect();
    key.set("order", digest(&order));
    key
}

/// As its verdict is called, which tells batch and sequence length too: `case.bert:cpu-fp32`.
fn case_line(case: &CaseResult) -> String {
    let verdict = case.steps.last().map_or("", String::as_str);
    format!("case.{}", verdict.split_once(':').map_or(verdict, |(_, name)| name))
}

fn digest(shown: &impl Serialize) -> Digest {
    Digest::of(&serde_json::to_vec(shown).expect("BUG: what a page shows serialises"))
}

/// A backend without its facts: how much memory is free at the moment makes no other report. Nor does what a browser's
/// device calls itself, once somebody has asked it.
pub fn stable_backend(backend: &Backend) -> Value {
    let devices = backend.devices.iter().map(|device| json!([device.id, device.known_as(), device.kind]));
    let devices: Vec<_> = devices.collect();
    json!([backend.available, backend.reason, backend.remedy, devices])
}

/// The document that every page and `--json` is made of.
pub fn report_doc(context: &Context<'_>, results: &[StepResult], seconds: f64) -> ReportDoc {
    let cases: Vec<_> = context
        .plan
        .cases
        .iter()
        .filter(|planned| results[planned.judge.0 as usize].how != How::NotNeeded)
        .map(|planned| case::result(context, results, planned))
        .collect();
    let excluded: Vec<_> = context
        .plan
        .excluded
        .iter()
        .map(|excluded| Excluded {
            case: excluded.case.id(),
            dims: excluded.case.dims.clone(),
            model: excluded.case.model.clone(),
            target: excluded.case.target.clone(),
            precision: excluded.case.precision.word().into(),
            reason: excluded.reason.clone(),
        })
        .collect();
    let how = |how: How| results.iter().filter(|result| result.how == how).count() as u32;
    let failed_before = results.iter().filter(|result| result.failed_before).count() as u32;
    let summary = Summary {
        steps: results.len() as u32 - how(How::NotNeeded),
        executed: how(How::Executed),
        hits: how(How::Hit) - failed_before,
        failed_before,
        fetched: results.iter().filter(|result| result.fetched).count() as u32,
        failed_steps: case::failed_steps(context.plan, results).len() as u32,
        seconds,
        ..Summary::of(&cases, &excluded)
    };
    ReportDoc {
        version: DOC_VERSION,
        spec: context.options.spec.clone(),
        scope: context.options.scope.clone(),
        orch: env!("CARGO_PKG_VERSION").into(),
        host: context.host.report.clone(),
        summary,
        cases,
        flaky_steps: case::flaky_steps(context, results),
        excluded,
        backends: context.inventory.to_vec(),
    }
}
