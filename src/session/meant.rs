//! Steps by the name that a user gives: a step's own, a glob of them, or a case as pages and logs write it.

use std::collections::BTreeSet;

use crate::base::{glob, suggest};
use crate::matrix::Case;
use crate::plan::PlannedCase;
use crate::session::{Project, UsageError};
use crate::step::StepId;

/// What a name stands for.
pub enum Meant<'a> {
    Steps(BTreeSet<StepId>),
    Case(&'a PlannedCase),
}

impl Meant<'_> {
    /// The steps themselves; of a case, its run.
    pub fn steps(self) -> BTreeSet<StepId> {
        match self {
            Self::Steps(steps) => steps,
            Self::Case(planned) => [planned.run].into(),
        }
    }
}

impl Project {
    /// A step or a glob of steps; else one case, by words of which it has every one: `bert:cpu-fp32`, `bert on cpu-fp32`,
    /// `bert @ cpu fp32`, `bert cpu`. Words that several cases have are an error, which lists these; a glob takes all.
    pub fn meant(&self, given: &str) -> anyhow::Result<Meant<'_>> {
        let steps = self.matching(given);
        if !steps.is_empty() {
            return Ok(Meant::Steps(steps.into_iter().collect()));
        }
        let has_all = |case: &Case| words(given).all(|word| has(case, word));
        let cases: Vec<_> = self
            .plan
            .cases
            .iter()
            .filter(|planned| has_all(&planned.case))
            .collect();
        match cases.as_slice() {
            [] => Err(self.unknown(given, has_all)),
            [one] => Ok(Meant::Case(one)),
            all if given.contains(['*', '?']) => Ok(Meant::Steps(
                all.iter().map(|planned| planned.run).collect(),
            )),
            several => Err(ambiguous(given, several)),
        }
    }

    fn unknown(&self, given: &str, has_all: impl Fn(&Case) -> bool) -> anyhow::Error {
        if let Some(excluded) = self
            .plan
            .excluded
            .iter()
            .find(|excluded| has_all(&excluded.case))
        {
            let case = excluded.case.id();
            let reason = &excluded.reason;
            return UsageError(format!(
                "`{case}` is excluded, so it has no steps: {reason}"
            ))
            .into();
        }
        let cases: Vec<_> = self
            .plan
            .cases
            .iter()
            .map(|planned| planned.case.id())
            .collect();
        let known = || self.plan.names().chain(cases.iter().map(String::as_str));
        let (model, rest) = given.split_once(char::is_whitespace).unwrap_or((given, ""));
        let as_case = format!("{model}:{}", words(rest).collect::<Vec<_>>().join("-"));
        let meant = if suggest::nearest(given, known()).is_some() {
            given
        } else {
            &as_case
        };
        let hint = suggest::hint_or(meant, known(), "`orch plan --all` lists the steps");
        UsageError(format!(
            "no step or case is called `{given}`\n  hint: {hint}"
        ))
        .into()
    }
}

/// How many of the cases that may be meant are listed.
const LISTED: usize = 12;

fn ambiguous(given: &str, cases: &[&PlannedCase]) -> anyhow::Error {
    let mut names: Vec<_> = cases
        .iter()
        .take(LISTED)
        .map(|planned| format!("`{}`", planned.case.id()))
        .collect();
    names.extend((cases.len() > LISTED).then(|| format!("{} more", cases.len() - LISTED)));
    let names = names.join(", ");
    UsageError(format!(
        "`{given}` may be any of {} cases\n  hint: name one: {names}",
        cases.len()
    ))
    .into()
}

/// The words without what only joins them.
fn words(given: &str) -> impl Iterator<Item = &str> {
    given
        .split_whitespace()
        .filter(|word| !["@", "on"].contains(word))
}

fn has(case: &Case, word: &str) -> bool {
    let plain = [
        case.model.as_str(),
        &case.target,
        case.precision.word(),
        &case.name,
    ];
    plain.contains(&word) || case.instance() == word || glob::matches(word, &case.id())
}
