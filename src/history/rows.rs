//! The file of a run → rows of the tables, as JSON objects by column. Pure: what is known already is for the database to tell.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::file::{About, RunFile};
use crate::base::Digest;
use crate::record::Outcome;
use crate::report::{CaseResult, Kinds, Metrics, ReportDoc, Round};

/// Rows by table.
#[derive(Debug, Default)]
pub(super) struct Rows(BTreeMap<&'static str, Vec<Value>>);

impl Rows {
    pub(super) fn of(file: &RunFile) -> Self {
        let mut rows = Self::default();
        rows.add("runs", run(file));
        let Some(doc) = &file.doc else { return rows };
        let kinds = Kinds::of(doc);
        for case in &doc.cases {
            rows.add_case(file, doc, case, kinds.stand_in(case));
        }
        for step in &file.steps {
            let mut row = object(step);
            row.insert("run".to_owned(), json!(file.about.run));
            rows.add("steps", row.into());
        }
        for row in devices(&file.about, doc) {
            rows.add("devices", row);
        }
        rows
    }

    /// The rows of a table as one JSON list.
    pub(super) fn json(&self, table: &str) -> String {
        json!(self.0.get(table).map_or(&[][..], Vec::as_slice)).to_string()
    }

    fn add(&mut self, table: &'static str, row: Value) {
        self.0.entry(table).or_default().push(row);
    }

    fn add_case(&mut self, file: &RunFile, doc: &ReportDoc, case: &CaseResult, stand_in: Option<&str>) {
        let told = file.executions.get(&case.case);
        let host = told.map(|told| &told.host).or(case.host.as_ref()).unwrap_or(&doc.host.name);
        let name = execution_name(case, host, &file.about.started);
        if let Some(name) = &name {
            let mut row = execution(case, stand_in, &file.about.started);
            let whose = json!({
                "execution": name, "host": host, "spec": doc.spec,
                "run": (!case.cached).then_some(&file.about.run),
                "key": told.map(|told| told.key), "artefact": told.and_then(|told| told.artefact),
            });
            row.extend(object(&whose));
            self.add("executions", row.into());
            self.add_details(case, name);
        }
        let mut row = result(case);
        let whose = json!({"run": file.about.run, "execution": name, "host": host, "kept": case.cached});
        row.extend(object(&whose));
        self.add("results", row.into());
    }

    /// A report of before there were rounds has one.
    fn add_rounds(&mut self, metrics: &Metrics, execution: &str) {
        let counts = metrics.rounds.iter().map(|round| (round.round, round.samples as usize));
        let of_each = counts.flat_map(|(round, count)| (1..=count).map(move |place| (round, place)));
        let of_one = (1..).map(|place| (1, place)).take_while(|_| metrics.rounds.is_empty());
        for ((round, place), ms) in of_each.chain(of_one).zip(&metrics.samples_ms) {
            self.add("samples", json!({"execution": execution, "round": round, "sample": place, "ms": ms}));
        }
        for measured in &metrics.rounds {
            let mut row = round(measured);
            row.insert("execution".to_owned(), json!(execution));
            self.add("rounds", row.into());
        }
    }

    fn add_details(&mut self, case: &CaseResult, execution: &str) {
        if let Some(metrics) = &case.metrics {
            self.add_rounds(metrics, execution);
        }
        for (place, nodes) in &case.placement {
            self.add("placements", json!({"execution": execution, "place": place, "nodes": nodes}));
        }
        let versions = case.facts.get("versions").and_then(|versions| versions.as_object());
        for (name, version) in versions.into_iter().flatten().filter_map(|(name, value)| Some((name, value.as_str()?)))
        {
            self.add("versions", json!({"execution": execution, "name": name, "version": version}));
        }
    }
}

/// One process that measured.
fn round(round: &Round) -> Map<String, Value> {
    let mut row = object(round);
    row.extend(round.use_of_cpu.as_ref().map(object).unwrap_or_default());
    row.extend(round.order.as_ref().map(object).unwrap_or_default());
    if let Some(conditions) = &round.conditions {
        row.extend(object(conditions));
        let [before, after] = conditions.load.map_or([None; 2], |load| load.map(Some));
        let yardstick = conditions.yardstick_ms;
        row.extend(object(&json!({
            "load_before": before, "load_after": after,
            "yardstick_before_ms": yardstick[0], "yardstick_after_ms": yardstick[1],
        })));
    }
    row
}

/// Every machine that reports this execution gives it the same name. None if nothing was executed or failed.
fn execution_name(case: &CaseResult, host: &str, began: &str) -> Option<String> {
    let moment = moment(case, began)?;
    // Times tell executions of one second apart better than the name of a machine, which a report may not know.
    let figures = case.metrics.as_ref().map(|m| json!([m.load_ms, m.first_ms, m.median_ms]));
    let identity = json!([case.case, moment, figures.unwrap_or_else(|| json!(host))]);
    Some(Digest::of(identity.to_string().as_bytes()).short())
}

/// When a case was executed. One that failed without leaving a record of it did so in this run.
fn moment<'c>(case: &'c CaseResult, began: &'c str) -> Option<&'c str> {
    let (skipped, failed) = match case.status {
        Outcome::SkipUnavailable | Outcome::Mock | Outcome::Incomplete => (true, false),
        status => (false, status.is_failure() && !case.cached),
    };
    let known = case.measured.as_deref().or(case.ended.as_deref());
    known.or(failed.then_some(began)).filter(|_| !skipped)
}

fn run(file: &RunFile) -> Value {
    let About { run, started, seconds, command, fingerprint, git, interrupted, same_as, imported } = &file.about;
    let mut row = object(&json!({
        "run": run, "started": started, "seconds": seconds, "command": command, "host_fingerprint": fingerprint,
        "interrupted": interrupted, "same_as": same_as, "imported_from": imported,
    }));
    if let Some(git) = git {
        row.extend(object(&json!({
            "git_revision": git.revision, "git_committed": git.committed, "git_branch": git.branch, "git_dirty": git.dirty,
        })));
    }
    if let Some(doc) = &file.doc {
        let summary = &doc.summary;
        let well = doc.cases.iter().filter(|case| case.status.is_well()).count();
        row.extend(object(&json!({
            "spec": doc.spec, "scope": doc.scope, "orch": doc.orch,
            "host": doc.host.name, "os": doc.host.os, "cpu": doc.host.cpu, "cores": doc.host.cores,
            "memory_bytes": doc.host.memory_bytes, "steps_executed": summary.executed,
            "steps_kept": summary.hits + summary.failed_before, "cases": doc.cases.len(), "passed": well,
            "failed": summary.failed, "unavailable": summary.unavailable, "unsupported": summary.unsupported,
        })));
    }
    row.into()
}

/// The columns that are called as in the report, and those that are not.
fn execution(case: &CaseResult, stand_in: Option<&str>, began: &str) -> Map<String, Value> {
    let mut row = case.metrics.as_ref().map(object).unwrap_or_default();
    row.remove("samples_ms");
    if let Some(metrics) = &case.metrics {
        let remarks = (!metrics.remarks.is_empty()).then(|| metrics.remarks.join("; "));
        let (statistic, rounds) = (metrics.statistic, metrics.rounds.len().max(1));
        row.extend(object(&json!({
            "rounds": rounds, "remarks": remarks, "statistic_ms": statistic.map(|statistic| statistic.ms),
            "statistic_basis": statistic.map(|statistic| statistic.basis),
        })));
    }
    let shapes = case.numerics.iter().flat_map(|numerics| &numerics.tensors);
    let shapes: BTreeMap<_, _> = shapes.map(|(name, tensor)| (name, &tensor.shape)).collect();
    row.extend(object(&json!({
        "case_id": case.case, "executed": moment(case, began),
        "model": case.model, "family": case.family, "task": case.task, "pipeline": case.pipeline, "weights": case.weights,
        "parameters": case.parameters, "dims": case.dims, "target": case.target, "backend": case.backend,
        "precision": case.precision, "state": case.status, "stage": case.stage, "reason": case.reason,
        "requested_device": case.requested_device, "actual_device": case.actual_device, "stand_in": stand_in,
        "fallback": case.fallback.as_ref().map(|fallback| &fallback.name), "untimed": case.untimed,
        "output_shape": (!shapes.is_empty()).then(|| json!(shapes).to_string()),
    })));
    row
}

fn result(case: &CaseResult) -> Map<String, Value> {
    let mut row = object(&json!({
        "case_id": case.case, "model": case.model, "family": case.family, "target": case.target, "backend": case.backend,
        "precision": case.precision, "state": case.status, "stage": case.stage, "reason": case.reason,
        "is_failure": case.is_failure(), "expected": case.expected.as_ref().map(|expected| expected.summary()),
        "chosen": case.chosen, "repro": case.repro,
    }));
    if let Some(numerics) = &case.numerics {
        row.extend(object(&json!({
            "reference": numerics.reference, "max_abs": numerics.max_abs, "mae": numerics.mae, "cosine": numerics.cosine,
            "snr_db": numerics.snr_db, "tokens": numerics.tokens, "worst": numerics.worst,
            "within_tolerance": numerics.passed,
            "control_worst": numerics.control.as_ref().map(|control| control.worst),
        })));
    }
    row
}

/// A row for each device, and one for each backend that has none.
fn devices(about: &About, doc: &ReportDoc) -> Vec<Value> {
    let mut rows = Vec::new();
    for backend in &doc.backends {
        let shared = json!({
            "run": about.run, "backend": backend.name, "available": backend.available, "reason": backend.reason,
        });
        let mut add = |own: Value| {
            let mut row = object(&shared);
            row.extend(object(&own));
            rows.push(row.into());
        };
        for device in &backend.devices {
            add(json!({
                "device": device.id, "name": device.name, "kind": device.kind, "memory_bytes": device.memory_bytes,
                "facts": device.facts,
            }));
        }
        if backend.devices.is_empty() {
            add(json!({"device": "", "facts": backend.facts}));
        }
    }
    rows
}

fn object(value: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(value) {
        Ok(Value::Object(fields)) => fields,
        _ => unreachable!("BUG: a row is an object"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::RunFile;

    fn report() -> ReportDoc {
        serde_json::from_str(include_str!("../../tests/fixtures/report/doc.json")).unwrap()
    }

    fn rows(doc: ReportDoc) -> Rows {
        let (run, started) = ("r".to_owned(), "2026-01-31T08:00:00Z".to_owned());
        Rows::of(&RunFile::new(About { run, started, ..About::default() }, Some(doc)))
    }

    #[test]
    fn samples_are_of_their_rounds() {
        let mut doc = report();
        doc.cases.retain(|case| case.case == "bert:cpu-fp32");
        let metrics = doc.cases[0].metrics.as_mut().unwrap();
        let round = |round, samples| Round { round, samples, ..Round::default() };
        metrics.rounds = vec![round(1, 12), round(2, 8)];
        let rows = rows(doc);
        let of = |table: &str| rows.0[table].clone();
        assert_eq!((of("rounds").len(), of("samples").len()), (2, 20));
        assert_eq!((&of("samples")[12]["round"], &of("samples")[12]["sample"]), (&json!(2), &json!(1)));
        assert_eq!((&of("executions")[0]["rounds"], &of("executions")[0]["samples"]), (&json!(2), &json!(20)));
    }

    #[test]
    fn a_report_of_before_there_were_rounds_has_one() {
        let rows = rows(report());
        assert!(rows.0["samples"].iter().all(|row| row["round"] == 1));
        assert!(!rows.0.contains_key("rounds"));
    }

    #[test]
    fn a_mock_and_what_is_not_there_were_not_executed() {
        let mut doc = report();
        let of = |doc: ReportDoc| rows(doc).0.get("executions").map_or(0, Vec::len);
        let before = of(doc.clone());
        assert_eq!(before, 127);
        doc.cases.iter_mut().for_each(|case| case.status = Outcome::Mock);
        assert_eq!(of(doc), 0);
    }

    /// So that nothing which a row has is lost for want of a column.
    #[test]
    fn what_is_written_by_name_has_a_column() {
        let rows = rows(report());
        let of_metrics = ["statistic", "rounds", "remarks"];
        for (table, rows) in &rows.0 {
            let known: Vec<_> = super::super::schema::columns(table);
            let named = rows.iter().flat_map(|row| row.as_object().unwrap().keys());
            for name in named.filter(|name| !of_metrics.contains(&name.as_str())) {
                assert!(known.contains(&name.as_str()), "{table}.{name}");
            }
        }
    }
}
