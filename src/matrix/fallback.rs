//! The target on which a case is run instead, when its own does not do it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Case, candidates, carried, excluded, uses};
use crate::device::BackendRow;
use crate::spec::{Precision, Spec, Target};

/// Targets that have others in their place.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Fallback {
    /// Those whose rows say so.
    #[default]
    AsDeclared,
    /// The others too, each as is usual for its backend.
    Usual,
}

/// A case that is run in another's place.
#[derive(Debug, Clone)]
pub struct Instead {
    pub case: Case,
    /// It is smaller, and on the same target: for when memory did not suffice.
    pub batch: Option<Batch>,
}

/// Batch sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Batch {
    pub asked: u64,
    pub ran: u64,
}

impl Case {
    /// What is tried in its place, in this order: itself at half the batch size, and half of that, and so on; then the same
    /// model at the same sizes and the same precision on other targets; in place of a context binary, which is never fp32,
    /// at fp32 too. A target that does not have this case has no part in it.
    pub fn fallbacks(&self, spec: &Spec, fallback: Fallback) -> Vec<Instead> {
        let own = &spec.targets[&self.target];
        let halves = own.halve_batch.unwrap_or(fallback == Fallback::Usual);
        let smaller = halves.then(|| self.smaller(spec)).into_iter().flatten();
        smaller
            .chain(
                self.elsewhere(spec, fallback)
                    .into_iter()
                    .map(|case| Instead { case, batch: None }),
            )
            .collect()
    }

    fn on(&self, spec: &Spec, target: &Target, dims: BTreeMap<String, u64>) -> Option<Case> {
        // What is at half precision always was made of what is not, so that may stand in for it.
        let or_full = (!carried(&spec.targets[&self.target]).contains(&Precision::Fp32))
            .then_some(Precision::Fp32);
        let at = |precision| self.at(spec, target, precision, dims.clone());
        at(self.precision).or_else(|| at(or_full?))
    }

    fn at(
        &self,
        spec: &Spec,
        target: &Target,
        precision: Precision,
        dims: BTreeMap<String, u64>,
    ) -> Option<Case> {
        let model = &spec.models[&self.model];
        // Its own target may be there only because it was named.
        let own = std::slice::from_ref(&self.target);
        let (_, in_product) = candidates(spec, model, target, own)
            .into_iter()
            .find(|(known, _)| *known == precision)?;
        let case = Case::new(spec, model, target, precision, dims);
        excluded(spec, model, target, &case, in_product)
            .is_none()
            .then_some(case)
    }

    fn smaller(&self, spec: &Spec) -> Vec<Instead> {
        let requested = self
            .dims
            .get("batch")
            .copied()
            .filter(|_| uses(&spec.models[&self.model], "batch"))
            .unwrap_or(1);
        let sizes = std::iter::successors(Some(requested / 2), |size| Some(size / 2))
            .take_while(|size| *size > 0);
        let at = |ran: u64| {
            let dims = self
                .dims
                .clone()
                .into_iter()
                .chain([("batch".to_owned(), ran)])
                .collect();
            let case = self.on(spec, &spec.targets[&self.target], dims)?;
            Some(Instead {
                case,
                batch: Some(Batch {
                    asked: requested,
                    ran,
                }),
            })
        };
        sizes.filter_map(at).collect()
    }

    fn elsewhere(&self, spec: &Spec, fallback: Fallback) -> Vec<Case> {
        let own = &spec.targets[&self.target];
        let on = |target: &Target| self.on(spec, target, self.dims.clone());
        match (&own.fallback, fallback) {
            (Some(names), _) => names
                .iter()
                .filter_map(|name| on(spec.targets.get(name)?))
                .collect(),
            (None, Fallback::AsDeclared) => Vec::new(),
            (None, Fallback::Usual) => {
                let on_backend = |backend: &&'static BackendRow| {
                    // A whole task is more than its model, which stands in for none.
                    let is_task = |target: &Target| target.artefact.holds_reference;
                    let is_like = |target: &&Target| {
                        target.backend == *backend && is_task(target) == is_task(own)
                    };
                    let mut there = spec.targets.values().filter(is_like);
                    there.find_map(|target| {
                        if target.name == own.name {
                            None
                        } else {
                            on(target)
                        }
                    })
                };
                own.backend.instead.iter().filter_map(on_backend).collect()
            }
        }
    }
}
