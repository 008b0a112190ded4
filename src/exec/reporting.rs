//! The last step: results of all steps → one document → pages in the store.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::base::{Digest, fs as bfs};
use crate::device::Backend;
use crate::event::{Event, Execution, Holds, Load, Slot, Span};
use crate::exec::consult::why_missed;
use crate::exec::perform::error_text;
use crate::exec::state::{How, StepResult};
use crate::exec::{Context, Finished, reproducer};
use crate::key::{KeyDoc, MissReason};
use crate::plan::PlannedCase;
use crate::record::{Outcome, Record};
use crate::report::{self, CaseResult, Excluded, ReportDoc, Summary};
use crate::step::{RunParams, StepId};
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
    clock: Instant,
) -> Result<Finished, StoreError> {
    let interrupted = context.cancel.is_cancelled();
    let id = context.plan.report;
    let asked = context.options.wanted.as_ref().is_none_or(|wanted| wanted.contains(&id));
    let mut report = None;
    if asked && !interrupted {
        let key = key(context, &report_doc(context, &results, 0.0));
        let is_right = |record: &Record| record.output.is_some_and(|digest| is_whole(context, &digest));
        let held = context.store.lookup(&key.digest()).unwrap_or_else(|e| {
            let text = format!("{}; the report is made again", error_text(&e.into()));
            context.listener.tell(Event::Warning { text });
            None
        });
        let mut held = held.filter(is_right).filter(|_| !context.options.rerun.contains(&id));
        let mut lock = None;
        if held.is_none() {
            // Another orch that came to the same results may be making it.
            lock = context.store.lock_key(&key.digest(), |_| !context.cancel.is_cancelled())?;
            let made = context.store.lookup(&key.digest()).ok().flatten();
            held = made.filter(is_right).filter(|_| !context.options.rerun.contains(&id));
        }
        let result = match held {
            Some(record) => StepResult::hit(record),
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
    Ok(Finished { results, interrupted, seconds, report, doc, files })
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
    let started = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
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
        facts: Value::Null,
        measure: None,
        numerics: None,
        repro: None,
        why: Some(why),
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

/// What the report shows, without what differs between two runs that found the same.
pub(super) fn key(context: &Context<'_>, doc: &ReportDoc) -> KeyDoc {
    let mut key = KeyDoc::default();
    let step = context.plan.step(context.plan.report);
    key.set("kind", step.kind.name());
    key.set("code", step.kind.code(step).digest().short());
    key.set("orch", &doc.orch);
    key.set("spec", &doc.spec);
    if let Some(scope) = &doc.scope {
        key.set("scope", scope);
    }
    key.set("host", Digest::of(json!(doc.host).to_string().as_bytes()).short());
    key.set("excluded", Digest::of(json!(doc.excluded).to_string().as_bytes()));
    for backend in &doc.backends {
        key.set(format!("backend.{}", backend.name), Digest::of(stable_backend(backend).to_string().as_bytes()));
    }
    // The page has the order of the spec.
    let order: Vec<_> = doc.cases.iter().filter_map(|case| case.steps.last()).collect();
    key.set("order", Digest::of(json!(order).to_string().as_bytes()));
    for case in &doc.cases {
        let stable = CaseResult { cached: false, ..case.clone() };
        // The run's name, which tells batch and sequence length too: `case.run:bert:cpu-fp32`.
        let run = case.steps.last().map_or("", String::as_str);
        key.set(format!("case.{run}"), Digest::of(json!(stable).to_string().as_bytes()));
    }
    key
}

/// A backend without its facts: how much memory is free at the moment makes no other report.
pub fn stable_backend(backend: &Backend) -> Value {
    let devices: Vec<_> = backend.devices.iter().map(|device| json!([device.id, device.name, device.kind])).collect();
    json!([backend.available, backend.reason, backend.remedy, devices])
}

/// The document that every page and `--json` is made of.
pub fn report_doc(context: &Context<'_>, results: &[StepResult], seconds: f64) -> ReportDoc {
    let cases: Vec<_> = context
        .plan
        .cases
        .iter()
        .filter(|planned| results[planned.run.0 as usize].how != How::NotNeeded)
        .map(|planned| case_result(context, results, planned))
        .collect();
    let excluded: Vec<_> = context
        .plan
        .excluded
        .iter()
        .map(|excluded| Excluded {
            model: excluded.case.model.clone(),
            target: excluded.case.target.clone(),
            precision: excluded.case.precision.word().into(),
            reason: excluded.reason.clone(),
        })
        .collect();
    let how = |how: How| results.iter().filter(|result| result.how == how).count() as u32;
    let count = |test: &dyn Fn(Outcome) -> bool| cases.iter().filter(|case| test(case.status)).count() as u32;
    let summary = Summary {
        steps: results.len() as u32 - how(How::NotNeeded),
        executed: how(How::Executed),
        hits: how(How::Hit),
        fetched: results.iter().filter(|result| result.fetched).count() as u32,
        cases: cases.len() as u32,
        passed: count(&|o| o == Outcome::Pass),
        failed: count(&Outcome::is_failure),
        unavailable: count(&|o| o == Outcome::SkipUnavailable),
        unsupported: count(&|o| o == Outcome::SkipUnsupported),
        incomplete: count(&|o| o == Outcome::Incomplete),
        excluded: excluded.len() as u32,
        seconds,
        path: report::RunPath::Full,
    };
    ReportDoc {
        version: DOC_VERSION,
        spec: context.options.spec.clone(),
        scope: context.options.scope.clone(),
        orch: env!("CARGO_PKG_VERSION").into(),
        host: context.host.report.clone(),
        summary,
        cases,
        excluded,
        backends: context.inventory.to_vec(),
    }
}

fn case_result(context: &Context<'_>, results: &[StepResult], planned: &PlannedCase) -> CaseResult {
    let plan = context.plan;
    let case = &planned.case;
    let result = &results[planned.run.0 as usize];
    let step = plan.step(planned.run);
    let params = RunParams::of(step);
    let model = &plan.model_facts[&case.model];
    let record = result.record.as_deref();
    let measure = record.and_then(|record| record.measure.as_ref());
    let at = result.blamed.unwrap_or(planned.run);
    CaseResult {
        model: case.model.clone(),
        family: model.family.clone(),
        task: model.task.clone(),
        pipeline: case.pipeline.clone(),
        target: case.target.clone(),
        precision: case.precision.word().into(),
        chosen: case.chosen.clone(),
        backend: params.backend.clone(),
        status: result.outcome,
        stage: (result.outcome != Outcome::Pass).then(|| plan.step(at).stage.name().to_owned()),
        reason: result.reason.clone(),
        requested_device: measure.map_or_else(|| params.requested_device(), |measure| measure.requested_device.clone()),
        actual_device: measure.map(|measure| measure.actual_device.clone()),
        cached: result.how == How::Hit,
        measured: record.map(|record| record.started.clone()),
        metrics: measure.and_then(report::stats::metrics),
        numerics: record.and_then(|record| record.numerics.clone()),
        placement: measure.map(|measure| measure.placement.clone()).unwrap_or_default(),
        facts: facts(context, results, planned),
        repro: repro(context, results, planned, at),
        steps: planned.chain.iter().map(|id| plan.step(*id).name.clone()).collect(),
    }
}

/// Facts of the run and of the steps above it, by step; and the versions that they name, together.
fn facts(context: &Context<'_>, results: &[StepResult], planned: &PlannedCase) -> Value {
    let mut by_step = serde_json::Map::new();
    let mut versions = serde_json::Map::new();
    for id in &planned.chain {
        let Some(record) = &results[id.0 as usize].record else { continue };
        if record.facts.is_null() {
            continue;
        }
        versions.extend(record.facts["versions"].as_object().cloned().unwrap_or_default());
        // Native runtimes name their library's version beside what else they say.
        for name in ["onnxruntime", "openvino", "torch", "qnn_sdk"] {
            if let Some(version) = record.facts.get(name).filter(|value| value.is_string()) {
                versions.insert(name.to_owned(), version.clone());
            }
        }
        by_step.insert(context.plan.step(*id).name.clone(), record.facts.clone());
    }
    by_step.insert("versions".into(), Value::Object(versions));
    Value::Object(by_step)
}

/// The generated test is the reproducer of its cell, as soon as there is something for it to load; before that it is
/// the step at which the cell ended.
fn repro(context: &Context<'_>, results: &[StepResult], planned: &PlannedCase, at: StepId) -> Option<String> {
    let run = &results[planned.run.0 as usize];
    if run.outcome == Outcome::SkipUnavailable {
        return None;
    }
    if at != planned.run {
        let name = &context.plan.step(at).name;
        return Some(reproducer(&context.options.again(), name));
    }
    let file = crate::step::test_file_name(&planned.case.model, &planned.case.name);
    let env = crate::step::test_env(&RunParams::of(context.plan.step(planned.run)));
    let python = context.provision.env(env).ok()?.python;
    let python = shown(&python);
    Some(format!("{python} {}/tests/{file}", context.options.out_dir.display()))
}

/// A path relative to where the user stands, if it lies there.
fn shown(path: &std::path::Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    path.strip_prefix(&here).unwrap_or(path).display().to_string()
}
