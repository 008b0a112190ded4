//! A contributed case and the site's own: of the same model, held to the same bounds, by the same parameters.

use std::collections::BTreeMap;

use super::{Case, Checked, Known};
use crate::report::CaseResult;
use crate::report::contribution::{PARAM, StepEvidence};

/// The steps of each case of a spec, by the case's id.
pub type Planned = BTreeMap<String, Vec<PlannedStep>>;

/// What a spec requests of a step, whatever the machine is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedStep {
    pub step: String,
    /// The lines of its key's document that are of the spec.
    pub document: BTreeMap<String, String>,
}

impl Case<'_> {
    pub(super) fn own(&self, known: &Known<'_>) -> Checked {
        let case = self.case;
        let own = known.doc.cases.iter().find(|own| own.case == case.case);
        if let Some(own) = own {
            self.of_report(own)?;
        }
        if let Some(excluded) = known.doc.excluded.iter().find(|it| it.case == case.case) {
            let why = format!("the site's spec excludes it: {}", excluded.reason);
            return Err(self.no("case", &case.case, why));
        }
        let Some(planned) = known.planned else {
            return Ok(());
        };
        let Some(steps) = planned.get(&case.case) else {
            return Err(self.no("case", &case.case, "the site's spec has no such case"));
        };
        self.of_spec(steps)
    }

    fn of_report(&self, own: &CaseResult) -> Checked {
        let case = self.case;
        let pairs = [
            (
                "type",
                format!("{:?}", case.model_type),
                format!("{:?}", own.model_type),
            ),
            ("family", case.family.clone(), own.family.clone()),
            ("task", case.task.clone(), own.task.clone()),
            ("pipeline", case.pipeline.clone(), own.pipeline.clone()),
            (
                "weights",
                format!("{:?}", case.weights),
                format!("{:?}", own.weights),
            ),
            (
                "dims",
                format!("{:?}", case.dims),
                format!("{:?}", own.dims),
            ),
            ("backend", case.backend.clone(), own.backend.clone()),
        ];
        for (field, theirs, ours) in pairs {
            if theirs != ours {
                return Err(self.no(field, theirs, format!("the site's own case has {ours}")));
            }
        }
        if let (Some(theirs), Some(ours)) = (case.parameters, own.parameters)
            && theirs != ours
        {
            let why = format!("the site's own case has {ours}");
            return Err(self.no("parameters", theirs, why));
        }
        if let Some(ours) = own.runtime.as_ref().filter(|ours| **ours != case.runtime) {
            let why = format!("the site's own case has {ours}");
            return Err(self.no("runtime", &case.runtime, why));
        }
        let tolerance = |numerics: &Option<crate::record::Numerics>| {
            numerics.as_ref().and_then(|numerics| numerics.tolerance)
        };
        if let (Some(theirs), Some(ours)) = (tolerance(&case.numerics), tolerance(&own.numerics))
            && theirs != ours
        {
            let why = format!("the site's own case is held to {ours:?}");
            return Err(self.no("numerics.tolerance", theirs, why));
        }
        Ok(())
    }

    /// Each step has the parameters that the spec gives it. How long is measured is for the contributor to choose.
    fn of_spec(&self, planned: &[PlannedStep]) -> Checked {
        for (at, step) in self.case.steps.iter().enumerate() {
            if step.line("param.round").is_some() {
                continue;
            }
            let Some(own) = planned.iter().find(|own| own.step == step.step) else {
                let why = "the site's spec has no such step for this case";
                return Err(self.no(&format!("steps[{at}].step"), &step.step, why));
            };
            let theirs = requested(step);
            let ours: BTreeMap<&str, &str> = own
                .document
                .iter()
                .filter(|(name, _)| is_requested(name))
                .map(|(name, value)| (name.as_str(), value.as_str()))
                .collect();
            let mut names = theirs.keys().chain(ours.keys());
            if let Some(name) = names.find(|name| theirs.get(*name) != ours.get(*name)) {
                let why = format!("the site's spec has {:?}", ours.get(name));
                let field = format!("steps[{at}].document.{name}");
                return Err(self.no(&field, theirs.get(name), why));
            }
        }
        let last = self.case.steps.last().map(|step| step.step.as_str());
        let is_judged = self.case.numerics.is_some();
        let missing = planned
            .iter()
            .filter(|_| is_judged)
            .find(|own| !self.case.steps.iter().any(|step| step.step == own.step));
        if let Some(missing) = missing {
            let why = format!("the step `{}` of the site's spec is missing", missing.step);
            return Err(self.no("steps", last, why));
        }
        Ok(())
    }
}

fn requested(step: &StepEvidence) -> BTreeMap<&str, &str> {
    step.document
        .iter()
        .filter(|(name, _)| is_requested(name))
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect()
}

fn is_requested(name: &str) -> bool {
    let param = name.strip_prefix(PARAM);
    name == "kind" || param.is_some_and(|name| !name.starts_with(".measure"))
}
