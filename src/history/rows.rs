//! The file of a run → rows of the tables, as JSON objects by column. Pure: what is known already is for the database to tell.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::file::{About, RunFile};
use crate::base::Digest;
use crate::device::{Backend, Device};
use crate::record::Outcome;
use crate::report::view::case_versions;
use crate::report::{CaseResult, Git, Kinds, Metrics, ReportDoc, Round};

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
            rows.add("steps", row([json!(step), json!({"run": file.about.run})]));
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

    fn add_case(
        &mut self,
        file: &RunFile,
        doc: &ReportDoc,
        case: &CaseResult,
        stand_in: Option<&str>,
    ) {
        let known = file.executions.get(&case.case);
        let host = known
            .map(|known| &known.host)
            .or(case.host.as_ref())
            .unwrap_or(&doc.host.name);
        let name = execution_name(case, host, &file.about.started);
        if let Some(name) = &name {
            let whose = json!({
                "execution": name, "host": host, "spec": doc.spec,
                "run": (!case.cached).then_some(&file.about.run),
                "key": known.map(|known| known.key), "artefact": known.and_then(|known| known.artefact),
            });
            self.add(
                "executions",
                row([
                    execution(case, stand_in, &file.about.started),
                    device_name(doc, case),
                    whose,
                ]),
            );
            self.add_details(case, name);
        }
        let whose =
            json!({"run": file.about.run, "execution": name, "host": host, "kept": case.cached});
        self.add("results", row([result(case), whose]));
    }

    /// A report of before there were rounds has one.
    fn add_rounds(&mut self, metrics: &Metrics, execution: &str) {
        let counts = metrics
            .rounds
            .iter()
            .map(|round| (round.round, round.samples as usize));
        let of_each =
            counts.flat_map(|(round, count)| (1..=count).map(move |place| (round, place)));
        let of_one = (1..)
            .map(|place| (1, place))
            .take_while(|_| metrics.rounds.is_empty());
        for ((round, place), ms) in of_each.chain(of_one).zip(&metrics.samples_ms) {
            self.add(
                "samples",
                json!({"execution": execution, "round": round, "sample": place, "ms": ms}),
            );
        }
        for measured in &metrics.rounds {
            self.add(
                "rounds",
                row([round(measured), json!({"execution": execution})]),
            );
        }
    }

    fn add_details(&mut self, case: &CaseResult, execution: &str) {
        if let Some(metrics) = &case.metrics {
            self.add_rounds(metrics, execution);
        }
        for (place, nodes) in &case.placement {
            self.add(
                "placements",
                json!({"execution": execution, "place": place, "nodes": nodes}),
            );
        }
        for (name, version) in case_versions(case) {
            self.add(
                "versions",
                json!({"execution": execution, "name": name, "version": version}),
            );
        }
    }
}

/// One process that measured.
fn round(round: &Round) -> Value {
    let measured = round.conditions.as_ref().map(|conditions| {
        let [before, after] = conditions.load.map_or([None; 2], |load| load.map(Some));
        let yardstick = conditions.yardstick_ms;
        json!({
            "load_before": before, "load_after": after,
            "yardstick_before_ms": yardstick[0], "yardstick_after_ms": yardstick[1],
        })
    });
    row([
        json!(round),
        json!(round.use_of_cpu),
        json!(round.order),
        json!(round.conditions),
        json!(measured),
    ])
}

/// Every machine that reports this execution gives it the same name. None if nothing was executed or failed.
fn execution_name(case: &CaseResult, host: &str, began: &str) -> Option<String> {
    let moment = moment(case, began)?;
    // Times tell executions of one second apart better than the name of a machine, which a report may not know.
    let figures = case
        .metrics
        .as_ref()
        .map(|m| json!([m.load_ms, m.first_ms, m.median_ms]));
    let identity = json!([case.case, moment, figures.unwrap_or_else(|| json!(host))]);
    Some(Digest::of(identity.to_string().as_bytes()).short())
}

/// The moment when a case was executed. One that failed without leaving a record of it did so in this run.
fn moment<'c>(case: &'c CaseResult, began: &'c str) -> Option<&'c str> {
    let is_executed = !matches!(
        case.status,
        Outcome::SkipUnavailable | Outcome::Mock | Outcome::Incomplete
    );
    let failed = (case.status.is_failure() && !case.cached).then_some(began);
    case.measured
        .as_deref()
        .or(case.ended.as_deref())
        .or(failed)
        .filter(|_| is_executed)
}

fn run(file: &RunFile) -> Value {
    let About {
        run,
        started,
        seconds,
        command,
        fingerprint,
        git,
        interrupted,
        same_as,
        imported,
    } = &file.about;
    let own = json!({
        "run": run, "started": started, "seconds": seconds, "command": command, "host_fingerprint": fingerprint,
        "interrupted": interrupted, "same_as": same_as, "imported_from": imported,
    });
    let git = git.as_ref().map(|Git { revision, committed, branch, dirty }| {
        json!({"git_revision": revision, "git_committed": committed, "git_branch": branch, "git_dirty": dirty})
    });
    let found = file.doc.as_ref().map(|doc| {
        let summary = &doc.summary;
        let well = doc.cases.iter().filter(|case| case.status.is_well()).count();
        json!({
            "spec": doc.spec, "scope": doc.scope, "orch": doc.orch,
            "host": doc.host.name, "os": doc.host.os, "cpu": doc.host.cpu, "cores": doc.host.cores,
            "memory_bytes": doc.host.memory_bytes, "steps_executed": summary.executed,
            "steps_kept": summary.hits + summary.failed_before, "cases": doc.cases.len(), "passed": well,
            "failed": summary.failed, "unavailable": summary.unavailable, "unsupported": summary.unsupported,
        })
    });
    row([own, git.unwrap_or_default(), found.unwrap_or_default()])
}

/// The columns that are called as in the report, and those that are not.
fn execution(case: &CaseResult, stand_in: Option<&str>, began: &str) -> Value {
    let mut named = json!(case.metrics);
    // Rows of their own.
    named
        .as_object_mut()
        .and_then(|columns| columns.remove("samples_ms"));
    let figures = case.metrics.as_ref().map(|metrics| {
        let remarks = (!metrics.remarks.is_empty()).then(|| metrics.remarks.join("; "));
        let statistic = metrics.statistic;
        let rounds = metrics.rounds.len().max(1);
        json!({
            "rounds": rounds, "remarks": remarks, "statistic_ms": statistic.map(|statistic| statistic.ms),
            "statistic_basis": statistic.map(|statistic| statistic.basis),
        })
    });
    let shapes = case.numerics.iter().flat_map(|numerics| &numerics.tensors);
    let shapes: BTreeMap<_, _> = shapes.map(|(name, tensor)| (name, &tensor.shape)).collect();
    let own = json!({
        "case_id": case.case, "executed": moment(case, began),
        "cpu": case.cpu.as_ref().map(|cpu| &cpu.name), "cpu_identity": case.cpu.as_ref().map(|cpu| &cpu.identity),
        "model": case.model, "family": case.family, "task": case.task, "pipeline": case.pipeline, "weights": case.weights,
        "parameters": case.parameters, "dims": case.dims, "target": case.target, "backend": case.backend,
        "runtime": case.runtime, "precision": case.precision, "state": case.status, "stage": case.stage, "reason": case.reason,
        "requested_device": case.requested_device, "actual_device": case.actual_device, "stand_in": stand_in,
        "fallback": case.fallback.as_ref().map(|fallback| &fallback.name), "untimed": case.untimed,
        "output_shape": (!shapes.is_empty()).then(|| json!(shapes).to_string()),
    });
    row([named, figures.unwrap_or_default(), own])
}

/// The device that ran a case, as its vendor calls it; the report's own word where no prober names it. Two backends may use one CPU.
fn device_name(doc: &ReportDoc, case: &CaseResult) -> Value {
    let id = case.actual_device.as_ref();
    let backend = doc
        .backends
        .iter()
        .find(|backend| backend.name == case.backend);
    // A runtime calls `CPU` what its prober calls `openvino:CPU`.
    let is_it = |device: &&Device, id: &str| {
        device.id == id || device.id == format!("{}:{id}", case.backend)
    };
    let devices = backend.into_iter().flat_map(|backend| &backend.devices);
    let named = id
        .and_then(|id| devices.into_iter().find(|device| is_it(device, id)))
        .map(|device| &device.name);
    json!({"device": named.or(id)})
}

fn result(case: &CaseResult) -> Value {
    let own = json!({
        "case_id": case.case, "model": case.model, "family": case.family, "target": case.target, "backend": case.backend,
        "precision": case.precision, "state": case.status, "stage": case.stage, "reason": case.reason,
        "is_failure": case.is_failure(), "expected": case.expected.as_ref().map(|expected| expected.summary()),
        "chosen": case.chosen, "repro": case.repro,
    });
    let numerics = case.numerics.as_ref().map(|numerics| {
        json!({
            "reference": numerics.reference, "max_abs": numerics.max_abs, "mae": numerics.mae, "cosine": numerics.cosine,
            "snr_db": numerics.snr_db, "tokens": numerics.tokens, "worst": numerics.worst,
            "within_tolerance": numerics.passed,
            "control_worst": numerics.control.as_ref().map(|control| control.worst),
        })
    });
    row([own, numerics.unwrap_or_default()])
}

/// A row for each device, and one for each backend that has none.
fn devices(about: &About, doc: &ReportDoc) -> Vec<Value> {
    let of_backend = |backend: &Backend| {
        let shared = json!({
            "run": about.run, "backend": backend.name, "available": backend.available, "reason": backend.reason,
        });
        let each = backend.devices.iter().map(|device| {
            json!({
                "device": device.id, "name": device.name, "kind": device.kind, "memory_bytes": device.memory_bytes,
                "facts": device.facts,
            })
        });
        let none = backend
            .devices
            .is_empty()
            .then(|| json!({"device": "", "facts": backend.facts}));
        each.chain(none)
            .map(|own| row([shared.clone(), own]))
            .collect::<Vec<_>>()
    };
    doc.backends.iter().flat_map(of_backend).collect()
}

/// The columns of all parts, each from the last part that has it. Null has none.
fn row<const N: usize>(parts: [Value; N]) -> Value {
    let mut row = Map::new();
    for part in parts {
        match part {
            Value::Object(columns) => row.extend(columns),
            Value::Null => {}
            _ => unreachable!("BUG: a row is an object"),
        }
    }
    row.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::schema::Table;
    use crate::report::fixture;

    fn rows(doc: ReportDoc) -> Rows {
        let run = "r".to_owned();
        let started = "2026-01-31T08:00:00Z".to_owned();
        Rows::of(&RunFile::new(
            About {
                run,
                started,
                ..About::default()
            },
            Some(doc),
        ))
    }

    #[test]
    fn samples_are_of_their_rounds() {
        let mut doc = fixture();
        doc.cases.retain(|case| case.case == "bert:cpu-fp32");
        let metrics = doc.cases[0].metrics.as_mut().unwrap();
        let round = |round, samples| Round {
            round,
            samples,
            ..Round::default()
        };
        metrics.rounds = vec![round(1, 12), round(2, 8)];
        let rows = rows(doc);
        let of = |table: &str| rows.0[table].clone();
        assert_eq!((of("rounds").len(), of("samples").len()), (2, 20));
        assert_eq!(
            (&of("samples")[12]["round"], &of("samples")[12]["sample"]),
            (&json!(2), &json!(1))
        );
        assert_eq!(
            (
                &of("executions")[0]["rounds"],
                &of("executions")[0]["samples"]
            ),
            (&json!(2), &json!(20))
        );
    }

    #[test]
    fn a_device_has_its_vendor_s_name_whatever_its_runtime_calls_it() {
        let mut doc = fixture();
        doc.cases.retain(|case| case.case == "bert:openvino-fp32");
        for own in ["CPU", "openvino:CPU"] {
            doc.cases[0].actual_device = Some(own.to_owned());
            let rows = rows(doc.clone());
            assert_eq!(
                rows.0["executions"][0]["device"], "AMD EPYC 9454 48-Core Processor",
                "{own}"
            );
        }
    }

    #[test]
    fn a_report_of_before_there_were_rounds_has_one() {
        let rows = rows(fixture());
        assert!(rows.0["samples"].iter().all(|row| row["round"] == 1));
        assert!(!rows.0.contains_key("rounds"));
    }

    #[test]
    fn a_mock_and_what_is_not_there_were_not_executed() {
        let mut doc = fixture();
        let of = |doc: ReportDoc| rows(doc).0.get("executions").map_or(0, Vec::len);
        let before = of(doc.clone());
        assert_eq!(before, 127);
        doc.cases
            .iter_mut()
            .for_each(|case| case.status = Outcome::Mock);
        assert_eq!(of(doc), 0);
    }

    /// So that nothing which a row has is lost for want of a column.
    #[test]
    fn what_is_written_by_name_has_a_column() {
        let rows = rows(fixture());
        let of_metrics = ["statistic", "rounds", "remarks"];
        for (table, rows) in &rows.0 {
            let known: Vec<_> = Table::named(table).names().collect();
            let named = rows.iter().flat_map(|row| row.as_object().unwrap().keys());
            for name in named.filter(|name| !of_metrics.contains(&name.as_str())) {
                assert!(known.contains(&name.as_str()), "{table}.{name}");
            }
        }
    }
}
