//! What a verification found, by pipeline: as a document, and as a page.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use indexmap::IndexMap;
use serde::Serialize;

use crate::matrix::Representative;
use crate::record::Outcome;
use crate::report::view::Kinds;
use crate::report::{CaseResult, Host, ReportDoc, Summary, format, text};
use crate::spec::{Priority, Spec};

/// The document of `orch verify --json`.
#[derive(Serialize)]
pub(super) struct Verified<'a> {
    spec: &'a str,
    orch: &'a str,
    host: &'a Host,
    pipelines: Vec<OfPipeline<'a>>,
    /// What could not be verified here.
    unavailable: Vec<Unavailable<'a>>,
    summary: &'a Summary,
}

#[derive(Serialize)]
struct OfPipeline<'a> {
    pipeline: &'a str,
    /// None: no model of the spec has the pipeline, so nothing is known of it.
    model: Option<Model<'a>>,
    cells: Vec<Cell<'a>>,
    /// Where the spec asks nothing of it, and why.
    excluded: Vec<Excluded<'a>>,
}

#[derive(Serialize)]
struct Model<'a> {
    name: &'a str,
    task: &'a str,
    family: &'a str,
    priority: &'static str,
}

#[derive(Serialize)]
struct Cell<'a> {
    /// `cpu-fp32`
    name: &'a str,
    target: &'a str,
    precision: &'a str,
    backend: &'a str,
    status: Outcome,
    stage: Option<&'a str>,
    reason: Option<&'a str>,
    device: Option<&'a str>,
    /// What the device is, where it is no hardware: `emulated`, `software`.
    on: Option<&'static str>,
    /// RFC 3339, UTC.
    executed: Option<&'a str>,
    repro: Option<&'a str>,
}

#[derive(Serialize)]
struct Excluded<'a> {
    target: &'a str,
    precision: &'a str,
    reason: &'a str,
}

/// Targets that lack the same thing.
#[derive(Serialize)]
struct Unavailable<'a> {
    targets: Vec<&'a str>,
    backend: &'a str,
    reason: &'a str,
    remedy: Option<&'a str>,
}

impl<'a> Verified<'a> {
    pub(super) fn of(doc: &'a ReportDoc, spec: &'a Spec, chosen: &[Representative<'a>]) -> Self {
        let kinds = Kinds::of(doc);
        let of_pipeline = |Representative { pipeline, model }: &Representative<'a>| {
            let is_its = |name: &str| *model == Some(name);
            let cells = doc.cases.iter().filter(|case| is_its(&case.model)).map(|case| Cell::of(case, &kinds));
            let excluded = doc.excluded.iter().filter(|excluded| is_its(&excluded.model));
            let excluded = excluded.map(|e| Excluded { target: &e.target, precision: &e.precision, reason: &e.reason });
            let model = model.map(|name| Model::of(name, spec));
            OfPipeline { pipeline, model, cells: cells.collect(), excluded: excluded.collect() }
        };
        Self {
            spec: &doc.spec,
            orch: &doc.orch,
            host: &doc.host,
            pipelines: chosen.iter().map(of_pipeline).collect(),
            unavailable: unavailable(doc),
            summary: &doc.summary,
        }
    }

    /// By pipeline its cells, each state with its reason, then what is not here.
    pub(super) fn page(&self) -> String {
        let mut page = String::new();
        for of_pipeline in &self.pipelines {
            of_pipeline.write(&mut page);
        }
        for Unavailable { targets, backend, reason, remedy } in &self.unavailable {
            let remedy = remedy.map(|remedy| format!("; remedy: {remedy}")).unwrap_or_default();
            let _ = writeln!(page, "unavailable: {} ({backend}): {reason}{remedy}", targets.join(", "));
        }
        page + &text::summary_line(self.summary, &text::Styles::colored())
    }
}

impl OfPipeline<'_> {
    fn write(&self, page: &mut String) {
        let Some(model) = &self.model else {
            let _ = writeln!(page, "{}: not verified: the spec has no model of it\n", self.pipeline);
            return;
        };
        let Model { name, task, priority, .. } = model;
        let _ = writeln!(page, "{}: {name} ({task}, priority {priority})", self.pipeline);
        // What has nothing to add shares a line.
        let mut lines: IndexMap<(&str, String), Vec<String>> = IndexMap::new();
        for cell in self.cells.iter().filter(|cell| cell.status != Outcome::SkipUnavailable) {
            let on = cell.on.map(|on| format!(" ({on})")).unwrap_or_default();
            let names = lines.entry((cell.status.label(), cell.why())).or_default();
            names.push(format!("{}{on}", cell.name));
        }
        for ((label, why), names) in &lines {
            let _ = writeln!(page, "  {label:17}{}{why}", names.join(", "));
        }
        for Excluded { target, precision, reason } in &self.excluded {
            let _ = writeln!(page, "  {:17}{target}-{precision}: {reason}", "excluded");
        }
        if lines.is_empty() {
            page.push_str("  nothing of what it needs is here\n");
        }
        page.push('\n');
    }
}

impl<'a> Model<'a> {
    fn of(name: &'a str, spec: &'a Spec) -> Self {
        let model = &spec.models[name];
        Self { name, task: &model.task, family: &model.family, priority: Priority::word(model.priority) }
    }
}

impl<'a> Cell<'a> {
    fn of(case: &'a CaseResult, kinds: &Kinds<'_>) -> Self {
        Self {
            name: case.case.split_once(':').map_or(&case.case, |(_, name)| name),
            target: &case.target,
            precision: &case.precision,
            backend: &case.backend,
            status: case.status,
            stage: case.stage.as_deref(),
            reason: case.reason.as_deref(),
            device: case.actual_device.as_deref(),
            on: kinds.stand_in(case),
            executed: case.measured.as_deref().or(case.ended.as_deref()),
            repro: case.repro.as_deref(),
        }
    }

    /// What a state other than success says for itself, and how to see it again.
    fn why(&self) -> String {
        if self.status == Outcome::Pass {
            return String::new();
        }
        let stage = self.stage.map(|stage| format!(" at {stage}")).unwrap_or_default();
        let reason = format::one_line(self.reason.unwrap_or("no reason was recorded"));
        let repro = self.repro.filter(|_| self.status.is_failure());
        let repro = repro.map(|repro| format!("\n{:19}repro: {repro}", "")).unwrap_or_default();
        format!("{stage}: {reason}{repro}")
    }
}

/// By backend and reason, the targets of which nothing could run.
fn unavailable(doc: &ReportDoc) -> Vec<Unavailable<'_>> {
    let mut found: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for case in doc.cases.iter().filter(|case| case.status == Outcome::SkipUnavailable) {
        let reason = case.reason.as_deref().unwrap_or("no reason was recorded");
        let targets = found.entry((&case.backend, reason)).or_default();
        if !targets.contains(&case.target.as_str()) {
            targets.push(&case.target);
        }
    }
    let remedy = |name: &str| doc.backends.iter().find(|backend| backend.name == name)?.remedy.as_deref();
    let row = |((backend, reason), targets)| Unavailable { targets, backend, reason, remedy: remedy(backend) };
    found.into_iter().map(row).collect()
}
