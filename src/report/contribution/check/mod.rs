//! Whether a contribution's claims follow from its evidence, and fit what the site itself knows.
//!
//! | file | holds against each other |
//! |---|---|
//! | this one | names, moments and the machine |
//! | `steps` | keys and their documents, the chain of outputs and inputs, the run's parameters and the case, packages and runtimes |
//! | `figures` | samples, rounds and the figures made of them; the verdict and its numerics |
//! | `own` | the case and that of the site's report; the parameters of steps and those of the site's spec |

mod figures;
mod own;
mod steps;

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

use super::{Contributed, Contribution, Refusal};
use crate::base::{Digest, Precision};
use crate::device::BackendRow;
use crate::report::ReportDoc;

pub use own::{Planned, PlannedStep};

/// A clock may be wrong by so much.
const SLACK: SignedDuration = SignedDuration::from_mins(10);
/// The longest name of a contributor.
const LONGEST_NAME: usize = 60;
/// The longest name of a model or a target.
const LONGEST_PART: usize = 100;
/// What a machine has at most: cores, and bytes of memory.
const MOST_CORES: u32 = 1 << 14;
const MOST_MEMORY: u64 = 1 << 47;

/// What a contribution is held against besides itself.
#[derive(Clone, Copy)]
pub struct Known<'a> {
    /// This moment, RFC 3339 UTC.
    pub now: &'a str,
    /// The site's own report.
    pub doc: &'a ReportDoc,
    /// The cases of the site's own spec; None where the spec is not at hand.
    pub planned: Option<&'a Planned>,
}

type Checked = Result<(), Refusal>;

/// Holds a contribution against itself and against what is known.
pub fn check(contribution: &Contribution, known: &Known<'_>) -> Checked {
    head(contribution, known)?;
    if contribution.cases.is_empty() {
        return Err(Refusal::new("cases", (), "it contributes nothing"));
    }
    machine(contribution)?;
    let mut ids = BTreeSet::new();
    for (at, case) in contribution.cases.iter().enumerate() {
        let one = Case {
            at: format!("cases[{at}]"),
            contribution,
            case,
        };
        if !ids.insert(&case.case) {
            return Err(one.no("case", &case.case, "a case is contributed once"));
        }
        one.names()?;
        one.moments()?;
        one.steps()?;
        one.figures()?;
        one.own(known)?;
    }
    let used: BTreeSet<&str> = contribution
        .cases
        .iter()
        .map(|case| case.backend.as_str())
        .collect();
    let mut backends = contribution.devices.keys();
    if let Some(name) = backends.find(|name| !used.contains(name.as_str())) {
        let why = "no case ran on this backend";
        return Err(Refusal::new(format!("devices.{name}"), name, why));
    }
    Ok(())
}

/// A case of a contribution, and its place there.
struct Case<'a> {
    at: String,
    contribution: &'a Contribution,
    case: &'a Contributed,
}

impl Case<'_> {
    fn no(&self, field: &str, value: impl std::fmt::Debug, why: impl Into<String>) -> Refusal {
        Refusal::new(format!("{}.{field}", self.at), value, why)
    }

    /// The id, and the names that it is made of.
    fn names(&self) -> Checked {
        let case = self.case;
        for (field, name) in [("model", &case.model), ("target", &case.target)] {
            if !is_name(name) {
                let why = "a name has letters, digits, `.`, `_` and `-`, and begins with a letter or digit";
                return Err(self.no(field, name, why));
            }
        }
        if Precision::named(&case.precision).is_none() {
            return Err(self.no("precision", &case.precision, "no precision is called so"));
        }
        let own = format!("{}:{}-{}", case.model, case.target, case.precision);
        let sizes = case.case.strip_prefix(&own);
        let is_sizes =
            |sizes: &str| sizes.is_empty() || sizes.strip_prefix('-').is_some_and(is_name);
        if !sizes.is_some_and(is_sizes) {
            let why = format!("the id of this model, target and precision begins with `{own}`");
            return Err(self.no("case", &case.case, why));
        }
        if let Some((name, size)) = case.dims.iter().find(|(_, size)| **size == 0) {
            return Err(self.no(&format!("dims.{name}"), size, "a size is at least 1"));
        }
        Ok(())
    }

    /// The model at its sizes as steps have it: `bert@b4`; and its column: `cpu-fp32`.
    fn instance(&self) -> (String, String) {
        let Contributed {
            case,
            model,
            target,
            precision,
            ..
        } = self.case;
        let variant = format!("{target}-{precision}");
        let sizes = case
            .strip_prefix(&format!("{model}:{variant}-"))
            .unwrap_or_default();
        let at = if sizes.is_empty() { "" } else { "@" };
        (format!("{model}{at}{sizes}"), variant)
    }

    fn moments(&self) -> Checked {
        let made = &self.contribution.made;
        let measured = self
            .case
            .measured
            .iter()
            .map(|at| ("measured".to_owned(), at));
        let started = self.case.steps.iter().enumerate();
        let started = started.map(|(at, step)| (format!("steps[{at}].started"), &step.started));
        let rounds = self.case.metrics.iter().flat_map(|metrics| &metrics.rounds);
        let rounds = rounds.enumerate();
        let rounds =
            rounds.map(|(at, round)| (format!("metrics.rounds[{at}].measured"), &round.measured));
        for (field, moment) in measured.chain(started).chain(rounds) {
            let at = parsed(moment)
                .ok_or_else(|| self.no(&field, moment, "it is no moment in UTC by RFC 3339"))?;
            if parsed(made).is_some_and(|made| at > made + SLACK) {
                let why = format!("the contribution was made before, at {made}");
                return Err(self.no(&field, moment, why));
            }
        }
        Ok(())
    }

    /// A digest of 64 hexadecimal digits, in small letters.
    fn digest(&self, field: &str, text: &str) -> Checked {
        if !is_digest(text) {
            return Err(self.no(
                field,
                text,
                "a digest has 64 hexadecimal digits in small letters",
            ));
        }
        Ok(())
    }
}

fn is_digest(text: &str) -> bool {
    text.parse::<Digest>()
        .is_ok_and(|digest| digest.to_string() == text)
}

fn is_name(text: &str) -> bool {
    let good = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    text.len() <= LONGEST_PART
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(good)
}

fn parsed(moment: &str) -> Option<Timestamp> {
    moment.strip_suffix('Z')?;
    moment.parse().ok()
}

fn head(contribution: &Contribution, known: &Known<'_>) -> Checked {
    let Contribution {
        by,
        made,
        orch,
        spec,
        ..
    } = contribution;
    if !may_be_called(by) {
        let why = format!(
            "a contributor's name has letters, digits, blanks, `.`, `_`, `-` and `@`, at most {LONGEST_NAME} of them, and begins with a letter or digit"
        );
        return Err(Refusal::new("by", by, why));
    }
    let moment = parsed(made)
        .ok_or_else(|| Refusal::new("made", made, "it is no moment in UTC by RFC 3339"))?;
    if parsed(known.now).is_some_and(|now| moment > now + SLACK) {
        let why = format!("it lies in the future: it is {}", known.now);
        return Err(Refusal::new("made", made, why));
    }
    if !is_name(orch) || !orch.contains('.') {
        return Err(Refusal::new(
            "orch",
            orch,
            "no version of orch is called so",
        ));
    }
    let own = known
        .doc
        .spec
        .rsplit(['/', '\\'])
        .next()
        .unwrap_or_default();
    if spec != own {
        let why = format!("the site is of the spec {own:?}");
        return Err(Refusal::new("spec", spec, why));
    }
    Ok(())
}

/// Whether a contributor may be called so.
pub fn may_be_called(name: &str) -> bool {
    let good = |c: char| c.is_alphanumeric() || " ._-@".contains(c);
    name.starts_with(char::is_alphanumeric)
        && name.trim() == name
        && name.chars().count() <= LONGEST_NAME
        && name.chars().all(good)
}

fn machine(contribution: &Contribution) -> Checked {
    let machine = &contribution.machine;
    for (field, digest) in [
        ("machine.fingerprint", &machine.fingerprint),
        ("machine.computing", &machine.computing),
    ] {
        if !is_digest(digest) {
            let why = "a digest has 64 hexadecimal digits in small letters";
            return Err(Refusal::new(field, digest, why));
        }
    }
    if !(1..=MOST_CORES).contains(&machine.cores) {
        return Err(Refusal::new(
            "machine.cores",
            machine.cores,
            "no machine has so many",
        ));
    }
    if !(1..=MOST_MEMORY).contains(&machine.memory_bytes) {
        let why = "no machine has so much";
        return Err(Refusal::new(
            "machine.memory_bytes",
            machine.memory_bytes,
            why,
        ));
    }
    for (name, devices) in &contribution.devices {
        let field = format!("devices.{name}");
        if BackendRow::named(name).is_none() {
            return Err(Refusal::new(field, name, "no backend is called so"));
        }
        if devices.is_empty() {
            return Err(Refusal::new(
                field,
                (),
                "a backend that a case ran on has a device",
            ));
        }
    }
    Ok(())
}
