//! The expectation that a case has, and expectations that no case has.

use std::sync::Arc;

use super::{Case, Matrix, meets};
use crate::base::{Loc, glob};
use crate::spec::{Expect, Model, Spec, Target};

/// An expectation that says something of no case: it would be believed and never looked at.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{loc}: this `expect` rule matches no case\n  hint: {hint}")]
pub struct IdleExpectation {
    pub loc: Loc,
    pub hint: String,
}

/// The first that matches.
pub(super) fn of(spec: &Spec, model: &Model, target: &Target, case: &Case) -> Option<Arc<Expect>> {
    spec.matrix
        .expect
        .iter()
        .find(|expect| matches(expect, model, target, case))
        .cloned()
}

fn matches(expect: &Expect, model: &Model, target: &Target, case: &Case) -> bool {
    let is_named = expect
        .case
        .as_ref()
        .is_none_or(|pattern| glob::matches(pattern, &case.id()));
    // Another version is known by what is said of it alone, and not by what is said of the target's row.
    let is_target = target.toolchain.is_none()
        || expect
            .rule
            .target
            .as_ref()
            .is_none_or(|pattern| glob::matches(pattern, &target.name));
    is_named && is_target && meets(&expect.rule, model, target, case.precision)
}

/// Whether it is that of a case which there is once its target is named besides those of the matrix.
fn is_of_a_named_target(spec: &Spec, expect: &Arc<Expect>) -> bool {
    let Some(target) = expect
        .rule
        .target
        .as_ref()
        .and_then(|name| spec.targets.get(name))
    else {
        return false;
    };
    let is_meant = |model: &&Model| {
        expect
            .rule
            .model
            .as_ref()
            .is_none_or(|name| glob::matches(name, &model.name))
    };
    let mut cases = Matrix::default();
    for model in spec.models.values().filter(is_meant) {
        cases.add(spec, model, target, std::slice::from_ref(&target.name));
    }
    cases.has_expected(expect)
}

impl Matrix {
    /// Checks a whole matrix: each expectation is that of a case, or the first that is not is given. One that names a
    /// target outside the matrix may speak of a case that there is once a run names that target too.
    pub fn each_expectation_counts(&self, spec: &Spec) -> Result<(), IdleExpectation> {
        let is_idle = |expect: &&Arc<Expect>| {
            !self.has_expected(expect) && !is_of_a_named_target(spec, expect)
        };
        let Some(expect) = spec.matrix.expect.iter().find(is_idle) else {
            return Ok(());
        };
        let matched = |case: &&Case| {
            matches(
                expect,
                &spec.models[&case.model],
                &spec.targets[&case.target],
                case,
            )
        };
        let hint = if let Some(case) = self.cases.iter().find(matched) {
            let first = case
                .expect
                .as_ref()
                .map(|first| first.rule.loc.to_string())
                .unwrap_or_default();
            format!(
                "the rule at {first} comes first for `{}`, and the first one counts",
                case.id()
            )
        } else if let Some(excluded) = self
            .excluded
            .iter()
            .find(|excluded| matched(&&excluded.case))
        {
            format!("`{}` is excluded: {}", excluded.case.id(), excluded.reason)
        } else {
            "`orch plan --all` lists the cases; take the rule out if what it names is gone"
                .to_owned()
        };
        Err(IdleExpectation {
            loc: expect.rule.loc.clone(),
            hint,
        })
    }

    fn has_expected(&self, expect: &Arc<Expect>) -> bool {
        self.cases.iter().any(|case| {
            case.expect
                .as_ref()
                .is_some_and(|own| Arc::ptr_eq(own, expect))
        })
    }
}
