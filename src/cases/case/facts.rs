//! The facts of a case: those that its steps recorded, and what `orch blame` found out.

use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::Value;

use super::Ended;
use crate::catalogue::RUNTIMES;
use crate::record::Outcome;
use crate::step::StepId;
use crate::step::blame::step_name;

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
    pub(super) fn blamed(&self) -> Option<(String, Arc<Value>)> {
        const ARTEFACT: &str = "input.artefact";
        let name = step_name(&self.planned.case.id());
        let found = self.context.store.latest(&name).ok()??;
        let run = self.record(self.planned.run);
        let (ended, graph) = match run {
            Some(run) => (run, run.key.value(ARTEFACT)?.into_owned()),
            None => {
                let conversion = self.of(self.planned.judge).blamed?;
                let read = self.context.plan.dependencies(conversion).next()?;
                let graph = self.of(read).output()?;
                (self.record(conversion)?, graph.to_string())
            }
        };
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
        (found.outcome.is_made() && is_of_it && is_of_version).then(|| (name, found.facts.clone()))
    }
}
