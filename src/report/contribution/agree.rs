//! What several contributions come to: who says the same of the same, independently of each other.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{Contributed, Contribution, DEVICE, INPUT, PARAM, StepEvidence};
use crate::base::Digest;
use crate::base::words::words;
use crate::record::Outcome;

words! {
    /// How far a claim is supported.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Standing {
        /// One contributor or one machine found it.
        "theirs" => Theirs,
        /// Two and more contributors, each on a machine of their own, found it, and nobody found otherwise.
        "confirmed" => Confirmed,
        /// Contributors found different results of the same.
        "disputed" => Disputed,
    }
}

/// What one contribution says of a case.
#[derive(Debug, Clone, Copy)]
pub struct Claim<'a> {
    pub contribution: &'a Contribution,
    pub case: &'a Contributed,
}

/// All claims on one case at one version.
#[derive(Debug, Clone)]
pub struct Agreement<'a> {
    pub standing: Standing,
    /// How many independent contributors found the result that most of them found.
    pub independent: usize,
    /// The newest first.
    pub claims: Vec<Claim<'a>>,
}

impl Claim<'_> {
    /// All that was requested of each step, with the code and the packages that did it. The machine is left out, and so are
    /// the last bits of what was made there.
    fn requested(&self) -> BTreeMap<&str, Digest> {
        let steps = self.case.steps.iter().filter(|step| !is_of_times(step));
        let requested = |step: &StepEvidence| {
            let lines = step.document.iter().filter(|(name, _)| is_of_subject(name));
            let text: String = lines
                .map(|(name, value)| format!("{name:?}: {value:?}\n"))
                .collect();
            Digest::of(text.as_bytes())
        };
        steps
            .map(|step| (step.step.as_str(), requested(step)))
            .collect()
    }

    /// Whether both are on the same: on the same kind of device, each step that both executed was requested alike. Where one of
    /// them failed, only the other one has the steps that follow.
    fn is_on_same(&self, other: &Self) -> bool {
        let others = other.requested();
        self.device_class() == other.device_class()
            && self
                .requested()
                .iter()
                .all(|(step, own)| others.get(step).is_none_or(|other| other == own))
    }

    /// The backend, and the names and kinds of the devices that it may have run on; of the machine's own CPU nothing more.
    pub fn device_class(&self) -> (&str, BTreeSet<&str>) {
        let devices = self.contribution.devices.get(&self.case.backend);
        let devices = devices.into_iter().flatten();
        let names = devices.map(|device| device.name.as_str());
        let is_host = crate::device::BackendRow::named(&self.case.backend)
            .is_some_and(|backend| backend.is_host);
        let names = if is_host {
            BTreeSet::new()
        } else {
            names.collect()
        };
        (&self.case.backend, names)
    }

    /// Greater of what is newer.
    fn age(&self) -> (&str, &str) {
        let Contribution { made, digest, .. } = self.contribution;
        (made, digest)
    }

    fn machine(&self) -> &str {
        &self.contribution.machine.fingerprint
    }
}

/// Whether a step only measures again what another one computes.
fn is_of_times(step: &StepEvidence) -> bool {
    step.line("param.round").is_some()
}

fn is_of_subject(name: &str) -> bool {
    let is_of_machine = name == "host" || name.starts_with(DEVICE) || name.starts_with(INPUT);
    // How long it was measured changes no result.
    let is_of_times = name
        .strip_prefix(PARAM)
        .is_some_and(|name| name.starts_with(".measure"));
    !is_of_machine && !is_of_times
}

/// The claims of all contributions, by case; the versions of each in the order of their newest claim.
pub fn claims<'a>(
    contributions: impl IntoIterator<Item = &'a Contribution>,
) -> BTreeMap<&'a str, Vec<Agreement<'a>>> {
    let mut grouped: BTreeMap<&str, Vec<Claim<'a>>> = BTreeMap::new();
    for contribution in contributions {
        for case in &contribution.cases {
            let of_case = grouped.entry(&case.case).or_default();
            of_case.push(Claim { contribution, case });
        }
    }
    let agreements = |mut claims: Vec<Claim<'a>>| {
        claims.sort_by(|one, other| other.age().cmp(&one.age()));
        let mut subjects: Vec<Vec<Claim<'a>>> = Vec::new();
        for claim in claims {
            let is_its = |subject: &&mut Vec<Claim<'a>>| {
                subject.iter().all(|known| known.is_on_same(&claim))
            };
            match subjects.iter_mut().find(is_its) {
                Some(subject) => subject.push(claim),
                None => subjects.push(vec![claim]),
            }
        }
        subjects.into_iter().map(agreement).collect()
    };
    grouped
        .into_iter()
        .map(|(case, claims)| (case, agreements(claims)))
        .collect()
}

impl Agreement<'_> {
    /// `theirs`, `confirmed by 2`, `disputed`
    pub fn word(&self) -> String {
        match self.standing {
            Standing::Confirmed => format!("confirmed by {}", self.independent),
            standing => standing.word().to_owned(),
        }
    }
}

/// `claims`: the newest first.
fn agreement(mut claims: Vec<Claim<'_>>) -> Agreement<'_> {
    // Whoever measured again on the same machine replaces what he found before.
    let mut known = BTreeSet::new();
    claims
        .retain(|claim| known.insert((claim.contribution.by.clone(), claim.machine().to_owned())));
    let outcomes: BTreeSet<Outcome> = claims.iter().map(|claim| claim.case.status).collect();
    let independent = outcomes
        .iter()
        .map(|outcome| independent(claims.iter().filter(|claim| claim.case.status == *outcome)))
        .max()
        .unwrap_or_default();
    let standing = match (outcomes.len(), independent) {
        (2.., _) => Standing::Disputed,
        (_, 2..) => Standing::Confirmed,
        _ => Standing::Theirs,
    };
    Agreement {
        standing,
        independent,
        claims,
    }
}

/// How many contributors there are such that each has a machine that no other one of them has.
fn independent<'a>(claims: impl Iterator<Item = &'a Claim<'a>>) -> usize {
    let mut machines: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for claim in claims {
        let own = machines.entry(&claim.contribution.by).or_default();
        own.insert(claim.machine());
    }
    let mut owner: BTreeMap<&str, &str> = BTreeMap::new();
    let names: Vec<&str> = machines.keys().copied().collect();
    names
        .into_iter()
        .filter(|name| takes(name, &machines, &mut owner, &mut BTreeSet::new()))
        .count()
}

/// Whether a contributor gets a machine, for which others may have to take another one of theirs.
fn takes<'a>(
    name: &'a str,
    machines: &BTreeMap<&'a str, BTreeSet<&'a str>>,
    owner: &mut BTreeMap<&'a str, &'a str>,
    tried: &mut BTreeSet<&'a str>,
) -> bool {
    for machine in &machines[name] {
        if !tried.insert(machine) {
            continue;
        }
        let is_free = match owner.get(machine).copied() {
            None => true,
            Some(other) => takes(other, machines, owner, tried),
        };
        if is_free {
            owner.insert(machine, name);
            return true;
        }
    }
    false
}
