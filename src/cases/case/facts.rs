//! The facts of a case: those that its steps recorded, and what `orch blame` found out.

use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::Value;

use super::Ended;
use crate::catalogue::RUNTIMES;
use crate::record::{Outcome, Record};
use crate::step::StepId;
use crate::step::blame::step_name;

/// The part of a run's or search's key that names what it read.
const ARTEFACT: &str = "input.artefact";

impl Ended<'_> {
    /// Facts of the run, of the steps above it and of the run in its place, by step; and the versions that they name,
    /// together.
    pub(super) fn facts(
        &self,
        instead: Option<StepId>,
        status: Outcome,
    ) -> IndexMap<String, Arc<Value>> {
        let mut by_step = IndexMap::new();
        let mut versions = serde_json::Map::new();
        let judged = self
            .planned
            .chain
            .iter()
            .filter(|id| !self.planned.rounds.contains(id));
        for id in judged.chain(&instead) {
            let Some(record) = self.record(*id).filter(|record| !record.facts.is_null()) else {
                continue;
            };
            versions.extend(
                record.facts["versions"]
                    .as_object()
                    .cloned()
                    .unwrap_or_default(),
            );
            // Native runtimes name their library's version beside what else they say.
            for name in RUNTIMES.iter().flat_map(|runtime| runtime.versions) {
                let version = record.facts.get(*name).filter(|value| value.is_string());
                versions.extend(version.map(|version| ((*name).to_owned(), version.clone())));
            }
            by_step.insert(self.name(*id), record.facts.clone());
        }
        by_step.insert("versions".into(), Value::Object(versions).into());
        let may_be_blamed = matches!(
            status,
            Outcome::Numerics
                | Outcome::Xfail
                | Outcome::Fail
                | Outcome::Crash
                | Outcome::SkipUnsupported
        );
        if may_be_blamed {
            by_step.extend(self.blamed());
        }
        by_step
    }

    /// What `orch blame` found out about the artefact that the case loaded last, or about the file that its conversion
    /// failed to read, on the runtime's version of that time.
    ///
    /// Searches for the causes of one failed conversion may be equal. One of them is executed then, and its finding is that
    /// of every case that the conversion failed.
    pub(super) fn blamed(&self) -> Option<(String, Arc<Value>)> {
        let name = step_name(&self.planned.case.id());
        if let Some(run) = self.record(self.planned.run) {
            let graph = run.key.value(ARTEFACT)?;
            return Some((name.clone(), self.finding(&name, run, &graph)?));
        }
        let plan = self.context.plan;
        let conversion = self.of(self.planned.judge).blamed?;
        let read = plan.dependencies(conversion).next()?;
        let graph = self.of(read).output()?.to_string();
        let ended = self.record(conversion)?;
        let equal = plan
            .cases
            .iter()
            .filter(|case| self.of(case.judge).blamed == Some(conversion))
            .map(|case| step_name(&case.case.id()));
        let finding = std::iter::once(name.clone())
            .chain(equal)
            .find_map(|name| self.finding(&name, ended, &graph))?;
        Some((name, finding))
    }

    /// What the search of that name found out about a graph, on the version by which the case ended.
    fn finding(&self, name: &str, ended: &Record, graph: &str) -> Option<Arc<Value>> {
        let found = self.context.store.latest(name).ok()??;
        let is_of_it = found
            .key
            .value(ARTEFACT)
            .is_some_and(|looked_into| looked_into == graph);
        let text = |facts: &Value, name: &str| facts.get(name)?.as_str().map(str::to_owned);
        let ran_on = text(&found.facts, "runtime").and_then(|runtime| text(&ended.facts, &runtime));
        let is_of_version = ran_on.is_none_or(|ran_on| {
            let looked_into = text(&found.facts, "version").unwrap_or_default();
            ran_on.starts_with(&looked_into) || looked_into.starts_with(&ran_on)
        });
        (found.outcome.is_made() && is_of_it && is_of_version).then(|| found.facts.clone())
    }
}
