//! What a report says, taken into the table.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{Column, Run, Table};
use crate::base::figures::counted;
use crate::record::Outcome;
use crate::report::view::Kinds;
use crate::report::{CaseResult, Host, ReportDoc};
use crate::spec::Spec;

/// The part of a moment that is its day: `2026-01-31`.
const DAY: usize = 10;

/// What an update did.
#[derive(Debug, Default, PartialEq, Serialize)]
pub struct Updated {
    pub taken: usize,
    /// Cases that did not run in the report: what an older run found of them stays.
    pub not_run: usize,
    /// Cases that already have a later result in the table.
    pub older: usize,
    /// Models of the report that the spec does not have, and whose cases therefore were left out.
    pub strangers: BTreeSet<String>,
    /// Models of the table that the spec no longer has; they went.
    pub gone: BTreeSet<String>,
}

/// A machine as the table calls it: `vm (AMD EPYC, 2 cores)`.
pub fn host_name(host: &Host) -> String {
    format!(
        "{} ({}, {})",
        host.name,
        host.cpu,
        counted(host.cores, "core")
    )
}

impl Table {
    /// The table with what the report says of models that the spec has. What is asserted stays; what did not run is not
    /// taken, and a later result is not replaced by an earlier one.
    ///
    /// # Errors
    ///
    /// A report of no results, or without a date.
    pub fn update(
        mut self,
        doc: &ReportDoc,
        spec: &Spec,
        name: &str,
    ) -> Result<(Self, Updated), String> {
        let mut updated = Updated {
            gone: self.forget(name, spec),
            ..Updated::default()
        };
        let host = host_name(&doc.host);
        let kinds = Kinds::of(doc);
        // Older orchs do not say when a case ended that did not come to its run; it was no later than the run itself.
        let latest = doc.cases.iter().filter_map(date).max();
        for case in &doc.cases {
            let Some(model) = spec.models.get(&case.model) else {
                updated.strangers.insert(case.model.clone());
                continue;
            };
            let Some(outcome) = ended(case) else {
                updated.not_run += 1;
                continue;
            };
            let day = date(case).or(latest).and_then(|moment| moment.get(..DAY));
            let day = day.ok_or("the report has no date: nothing in it was executed")?;
            let place = Place {
                host: &host,
                spec: name,
                model: &case.model,
                column: column(case),
            };
            if self.takes_out(&place, day) {
                updated.older += 1;
                continue;
            }
            let run = self.run(&place, day, &doc.orch);
            let on = kinds.stand_in(case).map(str::to_owned);
            let named = run
                .columns
                .entry(place.column.to_owned())
                .or_insert_with(|| Column {
                    target: case.target.clone(),
                    precision: case.precision.clone(),
                    backend: case.backend.clone(),
                    on: None,
                });
            named.on = on.or(named.on.take());
            let row = run.models.entry(case.model.clone()).or_default();
            row.model_type = model.model_type().map(str::to_owned);
            row.family.clone_from(&case.family);
            row.task.clone_from(&case.task);
            row.weights = case.weights;
            row.parameters = case.parameters.or(row.parameters);
            row.exporters.append(&mut exporters(case));
            if case.is_judged_loosely() {
                row.loosely.insert(place.column.to_owned());
            }
            row.ends
                .entry(outcome)
                .or_default()
                .insert(place.column.to_owned());
            updated.taken += 1;
        }
        if updated.taken + updated.older == 0 {
            return Err("nothing in the report ran, of the models that the spec has".to_owned());
        }
        self.swept();
        self.runs.sort_by(|a, b| identity(a).cmp(&identity(b)));
        Ok((self.counted(), updated))
    }

    /// Takes out what the spec's models are no longer there for.
    fn forget(&mut self, name: &str, spec: &Spec) -> BTreeSet<String> {
        let mut gone = BTreeSet::new();
        for run in self.runs.iter_mut().filter(|run| run.spec == name) {
            let left = run
                .models
                .extract_if(.., |model, _| !spec.models.contains_key(model));
            gone.extend(left.map(|(model, _)| model));
        }
        gone
    }

    /// Takes out what runs up to this day found at this place. True if a later one found something there.
    fn takes_out(&mut self, place: &Place<'_>, day: &str) -> bool {
        let same = |run: &&mut Run| run.host == place.host && run.spec == place.spec;
        for run in self.runs.iter_mut().filter(same) {
            let Some(row) = run.models.get_mut(place.model) else {
                continue;
            };
            let mut ends = row.ends.values_mut();
            if run.day.as_str() > day && ends.any(|names| names.contains(place.column)) {
                return true;
            }
            if run.day.as_str() <= day {
                row.ends
                    .values_mut()
                    .chain([&mut row.loosely])
                    .for_each(|names| drop(names.take(place.column)));
            }
        }
        false
    }

    /// The run of that day on that machine.
    fn run(&mut self, place: &Place<'_>, day: &str, orch: &str) -> &mut Run {
        let sought = (day, place.host, place.spec, orch);
        let at = self
            .runs
            .iter()
            .position(|run| identity(run) == sought)
            .unwrap_or_else(|| {
                let [day, host, spec, orch] =
                    [day, place.host, place.spec, orch].map(str::to_owned);
                self.runs.push(Run {
                    day,
                    host,
                    spec,
                    orch,
                    columns: BTreeMap::new(),
                    models: BTreeMap::new(),
                });
                self.runs.len() - 1
            });
        &mut self.runs[at]
    }
}

/// What is found once: a later run of it replaces an earlier one.
struct Place<'a> {
    host: &'a str,
    spec: &'a str,
    model: &'a str,
    column: &'a str,
}

fn identity(run: &Run) -> (&str, &str, &str, &str) {
    (&run.day, &run.host, &run.spec, &run.orch)
}

/// `cpu-fp32`, `cpu-fp32-b4`
fn column(case: &CaseResult) -> &str {
    case.case
        .split_once(':')
        .map_or(case.case.as_str(), |(_, column)| column)
}

/// How it ended on what it requested; None if that did not run.
fn ended(case: &CaseResult) -> Option<Outcome> {
    let own = match (case.status, &case.fallback) {
        // Another device answered: that says nothing of its own, beyond how that one failed.
        (Outcome::PassFallback, fallback) => fallback.as_ref()?.tried.first()?.status,
        (status, _) => status,
    };
    let is_run = !matches!(
        own,
        Outcome::SkipUnavailable | Outcome::Incomplete | Outcome::Mock | Outcome::PassFallback
    );
    is_run.then_some(own)
}

fn date(case: &CaseResult) -> Option<&String> {
    case.measured
        .as_ref()
        .max(case.known_since.as_ref())
        .max(case.ended.as_ref())
}

/// The exporters of the conversions that name the one they took, or that none worked. What a loop calls may take
/// several: `dynamo, legacy`.
fn exporters(case: &CaseResult) -> BTreeMap<String, String> {
    let mut found: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (step, facts) in &case.facts {
        let Some(form) = step
            .strip_prefix("convert:")
            .and_then(|rest| rest.rsplit(':').next())
        else {
            continue;
        };
        let tried = facts["attempts"]
            .as_array()
            .is_some_and(|tried| !tried.is_empty());
        if let Some(route) = facts["route"].as_str().or(tried.then_some("none")) {
            let names: Vec<&str> = facts["stand_ins"]
                .as_object()
                .map(|helped| helped.keys().map(String::as_str).collect())
                .unwrap_or_default();
            let helped = match names.len() {
                0 => String::new(),
                count => format!(" with {}: {}", counted(count, "stand-in"), names.join(", ")),
            };
            found
                .entry(form)
                .or_default()
                .insert(format!("{route}{helped}"));
        }
    }
    let listed = |routes: BTreeSet<String>| {
        let between = match routes.iter().any(|route| route.contains(',')) {
            true => "; ",
            false => ", ",
        };
        Vec::from_iter(routes).join(between)
    };
    found
        .into_iter()
        .map(|(form, routes)| (form.to_owned(), listed(routes)))
        .collect()
}
