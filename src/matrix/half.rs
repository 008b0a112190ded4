//! `half:` of a target: which of its precisions a case has on this machine.
//!
//! Until then a matrix has a case for each that it may come to, the same on every host. Pure: what the devices compute in
//! is told by the caller.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::{Case, ExcludedCase, Matrix, carried};
use crate::spec::{Half, Precision, Spec, Target};

/// What a target computes in, by a probe on its device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Computes {
    /// In that precision, and how it was seen.
    Yes(String),
    /// Not in that precision, or nobody knows: why.
    No(String),
}

/// What was asked for, what it came to, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HalfChoice {
    /// What the target's row says.
    pub asked: Half,
    pub got: Precision,
    pub why: String,
}

impl HalfChoice {
    /// `asked for half: auto, got fp32: …`
    pub fn told(&self) -> String {
        format!("asked for half: {}, got {}: {}", self.asked.word(), self.got.word(), self.why)
    }
}

impl Target {
    /// Whether its device is asked which precision it computes in.
    pub fn asks_for_half(&self) -> bool {
        matches!(self.half, Some(Half::Auto | Half::Always))
    }
}

/// The same case at each of its precisions.
#[derive(Default)]
struct Alternatives {
    cases: Vec<Case>,
    excluded: Vec<ExcludedCase>,
}

impl Matrix {
    /// Whether a device must be asked before it is known which cases there are.
    pub fn asks_for_half(&self, spec: &Spec) -> bool {
        self.cases.iter().any(|case| spec.targets[&case.target].asks_for_half())
    }

    /// Leaves of the precisions of a target with `half` the one that its device computes in, with the reason for it.
    pub fn settle_half(&mut self, spec: &Spec, computes: impl Fn(&Target, Precision) -> Computes) {
        let is_asked = |case: &Case| spec.targets[&case.target].asks_for_half();
        // Groups keep the place of their first case; a case of another target is a group of its own.
        let mut groups: IndexMap<_, Alternatives> = IndexMap::new();
        let group = |case: &Case| {
            let precision = (!is_asked(case)).then_some(case.precision);
            (case.model.clone(), case.target.clone(), case.dims.clone(), precision)
        };
        for case in std::mem::take(&mut self.cases) {
            groups.entry(group(&case)).or_default().cases.push(case);
        }
        for excluded in std::mem::take(&mut self.excluded) {
            match is_asked(&excluded.case) {
                true => groups.entry(group(&excluded.case)).or_default().excluded.push(excluded),
                false => self.excluded.push(excluded),
            }
        }
        for alternatives in groups.into_values() {
            let asked = alternatives.cases.first().map(|case| &spec.targets[&case.target]);
            match asked {
                // None can be run anywhere: the last says so, which is the plain one.
                None => self.excluded.extend(alternatives.excluded.into_iter().next_back()),
                Some(target) if !target.asks_for_half() => self.cases.extend(alternatives.cases),
                Some(target) => self.cases.extend(settled(target, alternatives, &computes)),
            }
        }
    }
}

fn settled(target: &Target, all: Alternatives, computes: &impl Fn(&Target, Precision) -> Computes) -> Option<Case> {
    let mut against: Vec<String> = Vec::new();
    for precision in target.precisions.iter().copied().filter(|precision| *precision != Precision::Fp32) {
        let Some(case) = all.cases.iter().find(|case| case.precision == precision) else {
            against.extend(why_none(target, precision, &all.excluded));
            continue;
        };
        match computes(target, precision) {
            Computes::Yes(how) => return Some(with(case, target, how)),
            Computes::No(why) => against.push(why),
        }
    }
    against.dedup();
    let why = against.join("; ");
    let plain = all.cases.iter().find(|case| case.precision == Precision::Fp32);
    match (plain, all.cases.first()) {
        (Some(case), _) => Some(with(case, target, why)),
        // It is half precision or nothing: what the device makes of it, the run says.
        (None, first) => first.map(|case| with(case, target, format!("there is no other; {why}"))),
    }
}

fn with(case: &Case, target: &Target, why: String) -> Case {
    let half = target.half.map(|asked| HalfChoice { asked, got: case.precision, why });
    Case { half, ..case.clone() }
}

/// Why there is no case at a precision that the device was not even asked for.
fn why_none(target: &Target, precision: Precision, excluded: &[ExcludedCase]) -> Option<String> {
    let carried = carried(target);
    if !carried.contains(&precision) {
        let carried: Vec<_> = carried.iter().map(|precision| precision.word()).collect();
        return Some(format!("orch makes the `{}` artefact at {} only", target.artefact.word(), carried.join(", ")));
    }
    let excluded = excluded.iter().find(|excluded| excluded.case.precision == precision)?;
    Some(format!("{} is excluded: {}", precision.word(), excluded.reason))
}
