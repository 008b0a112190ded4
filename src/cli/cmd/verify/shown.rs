//! What a verification found, by pipeline: as a document, and as a page.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use indexmap::IndexMap;
use serde::Serialize;
use serde_json::{Value, json};

use crate::matrix::Representative;
use crate::record::Outcome;
use crate::report::view::Kinds;
use crate::report::{CaseResult, Excluded, ReportDoc, format, text};
use crate::spec::{Model, Spec};

pub(super) struct Verified<'a> {
    pub(super) doc: &'a ReportDoc,
    pub(super) spec: &'a Spec,
    /// The model of each pipeline; None where no model of the spec has it, so that nothing is known of it.
    pub(super) chosen: &'a [Representative<'a>],
    /// Targets outside the matrix, which nobody named.
    pub(super) not_selected: &'a [&'a str],
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
    /// The document of `orch verify --json`.
    pub(super) fn document(&self) -> Value {
        let ReportDoc {
            spec,
            orch,
            host,
            summary,
            ..
        } = self.doc;
        let kinds = Kinds::of(self.doc);
        let pipelines: Vec<_> = self
            .chosen
            .iter()
            .map(|chosen| self.of_pipeline(chosen, &kinds))
            .collect();
        json!({"spec": spec, "orch": orch, "host": host, "pipelines": pipelines, "unavailable": self.unavailable(),
            "not_asked": self.not_selected, "summary": summary})
    }

    fn of_pipeline(
        &self,
        Representative { pipeline, model }: &Representative<'_>,
        kinds: &Kinds<'_>,
    ) -> Value {
        let about = model.map(|name| {
            let Model {
                task,
                family,
                priority,
                ..
            } = &self.spec.models[name];
            json!({"name": name, "task": task, "family": family, "priority": priority})
        });
        let cell = |case: &CaseResult| {
            json!({"name": name_of(case), "target": case.target, "precision": case.precision, "backend": case.backend,
                "status": case.status, "stage": case.stage, "reason": case.reason, "device": case.actual_device,
                "on": kinds.stand_in(case), "executed": case.measured.as_ref().or(case.ended.as_ref()),
                "repro": case.repro})
        };
        let excluded = |e: &Excluded| json!({"target": e.target, "precision": e.precision, "reason": e.reason});
        let cells: Vec<_> = self.cases(*model).map(cell).collect();
        let excluded: Vec<_> = self.excluded(*model).map(excluded).collect();
        json!({"pipeline": pipeline, "model": about, "cells": cells, "excluded": excluded})
    }

    fn cases(&self, model: Option<&str>) -> impl Iterator<Item = &'a CaseResult> {
        self.doc
            .cases
            .iter()
            .filter(move |case| model == Some(&case.model))
    }

    /// What the spec excludes for a model, with the reasons.
    fn excluded(&self, model: Option<&str>) -> impl Iterator<Item = &'a Excluded> {
        self.doc
            .excluded
            .iter()
            .filter(move |excluded| model == Some(&excluded.model))
    }

    /// The targets of which nothing could run, by backend and reason.
    fn unavailable(&self) -> Vec<Unavailable<'a>> {
        let mut found: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
        for case in self
            .doc
            .cases
            .iter()
            .filter(|case| case.status == Outcome::SkipUnavailable)
        {
            let reason = case.reason.as_deref().unwrap_or("no reason was recorded");
            let targets = found.entry((&case.backend, reason)).or_default();
            if !targets.contains(&case.target.as_str()) {
                targets.push(&case.target);
            }
        }
        let remedy = |name: &str| {
            self.doc
                .backends
                .iter()
                .find(|backend| backend.name == name)?
                .remedy
                .as_deref()
        };
        let row = |((backend, reason), targets)| Unavailable {
            targets,
            backend,
            reason,
            remedy: remedy(backend),
        };
        found.into_iter().map(row).collect()
    }

    /// The page: by pipeline its cells, each state with its reason, then what is not here.
    pub(super) fn page(&self) -> String {
        let mut page = String::new();
        for Representative { pipeline, model } in self.chosen {
            match model {
                Some(name) => self.write(&mut page, pipeline, name),
                None => {
                    let _ = writeln!(
                        page,
                        "{pipeline}: not verified: the spec has no model of it\n"
                    );
                }
            }
        }
        for Unavailable {
            targets,
            backend,
            reason,
            remedy,
        } in self.unavailable()
        {
            let remedy = remedy
                .map(|remedy| format!("; remedy: {remedy}"))
                .unwrap_or_default();
            let _ = writeln!(
                page,
                "unavailable: {} ({backend}): {reason}{remedy}",
                targets.join(", ")
            );
        }
        if !self.not_selected.is_empty() {
            let names = self.not_selected.join(", ");
            let _ = writeln!(
                page,
                "not asked: {names}: not in the matrix; `-t NAME` adds one"
            );
        }
        page + &text::summary_line(&self.doc.summary, &text::Styles::colored())
    }

    fn write(&self, page: &mut String, pipeline: &str, name: &str) {
        let Model { task, priority, .. } = &self.spec.models[name];
        let _ = writeln!(
            page,
            "{pipeline}: {name} ({task}, priority {})",
            priority.word()
        );
        let kinds = Kinds::of(self.doc);
        // What has nothing to add shares a line.
        let mut lines: IndexMap<(&str, String), Vec<String>> = IndexMap::new();
        for case in self
            .cases(Some(name))
            .filter(|case| case.status != Outcome::SkipUnavailable)
        {
            let on = kinds
                .stand_in(case)
                .map(|on| format!(" ({on})"))
                .unwrap_or_default();
            let names = lines.entry((case.status.label(), why(case))).or_default();
            names.push(format!("{}{on}", name_of(case)));
        }
        for ((label, why), names) in &lines {
            let _ = writeln!(page, "  {label:17}{}{why}", names.join(", "));
        }
        for Excluded {
            target,
            precision,
            reason,
            ..
        } in self.excluded(Some(name))
        {
            let _ = writeln!(page, "  {:17}{target}-{precision}: {reason}", "excluded");
        }
        if lines.is_empty() {
            page.push_str("  nothing of what it needs is here\n");
        }
        page.push('\n');
    }
}

/// `cpu-fp32`
fn name_of(case: &CaseResult) -> &str {
    case.case
        .split_once(':')
        .map_or(&case.case, |(_, name)| name)
}

/// What a state other than success says for itself, and how to see it again.
fn why(case: &CaseResult) -> String {
    if case.status == Outcome::Pass {
        return String::new();
    }
    let stage = case
        .stage
        .as_ref()
        .map(|stage| format!(" at {stage}"))
        .unwrap_or_default();
    let reason = format::one_line(case.reason.as_deref().unwrap_or("no reason was recorded"));
    let repro = case.repro.as_ref().filter(|_| case.status.is_failure());
    let repro = repro
        .map(|repro| format!("\n{:19}repro: {repro}", ""))
        .unwrap_or_default();
    format!("{stage}: {reason}{repro}")
}
