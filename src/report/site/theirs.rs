//! What others contributed, beside what the site's owner measured: marked as theirs, and never in the place of a cell of
//! the site's own.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::names::{file, pair};
use crate::record::Outcome;
use crate::report::contribution::{Agreement, Claim, Contribution, Standing, claims};
use crate::report::format::{day, glyph, kind, word};
use crate::report::view::{View, stand_in};
use crate::report::{CaseResult, Metrics};

/// The claims of all contributions, by case.
pub(super) struct Theirs<'a> {
    contributions: &'a [Contribution],
    by_case: BTreeMap<&'a str, Vec<Agreement<'a>>>,
    own: BTreeMap<&'a str, (usize, &'a CaseResult)>,
    view: &'a View<'a>,
}

impl<'a> Theirs<'a> {
    pub(super) fn of(view: &'a View<'a>, contributions: &'a [Contribution]) -> Self {
        let own = view.doc.cases.iter().enumerate();
        Self {
            contributions,
            by_case: claims(contributions),
            own: own.map(|(at, case)| (&*case.case, (at, case))).collect(),
            view,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.contributions.is_empty()
    }

    /// What is claimed of a case: one entry for each version.
    pub(super) fn of_case(&self, case: &str) -> Vec<Value> {
        let agreements = self.by_case.get(case).into_iter().flatten();
        agreements.map(|it| self.agreement(case, it)).collect()
    }

    /// What stands beside the case's own result in a table; None where nobody contributed.
    pub(super) fn summary(&self, case: &str) -> Option<Value> {
        let newest = self.by_case.get(case)?.first()?;
        let outcome = newest.claims.first()?.case.status;
        let against = self.against_own(case, newest);
        let result = match newest.standing {
            Standing::Disputed => String::new(),
            Standing::Theirs | Standing::Confirmed => format!(": {}", word(outcome)),
        };
        let kind = match (newest.standing, against) {
            (Standing::Disputed, _) | (_, Some("differs from ours")) => "indecisive",
            _ => kind(outcome),
        };
        Some(
            json!({"word": format!("{}{result}", newest.word()), "kind": kind, "against": against}),
        )
    }

    /// How claims stand to a result of the site's own, where there is one.
    fn against_own(&self, case: &str, agreement: &Agreement<'_>) -> Option<&'static str> {
        let (_, own) = self.own.get(case)?;
        let own = match own.status {
            Outcome::Xpass | Outcome::Flaky => Outcome::Pass,
            Outcome::Xfail => own.expected.as_ref()?.status,
            Outcome::SkipUnavailable
            | Outcome::Incomplete
            | Outcome::Mock
            | Outcome::PassFallback => return None,
            status => status,
        };
        let is_as_ours = |claim: &Claim<'_>| claim.case.status == own;
        Some(match agreement.claims.iter().all(is_as_ours) {
            true => "as ours",
            false => "differs from ours",
        })
    }

    fn agreement(&self, case: &str, agreement: &Agreement<'_>) -> Value {
        let claims: Vec<Value> = agreement.claims.iter().map(claim).collect();
        json!({
            "standing": agreement.standing,
            "word": agreement.word(),
            "against": self.against_own(case, agreement),
            "claims": claims,
        })
    }

    /// The page of all contributions, and their list for programs.
    pub(super) fn page(&self) -> Value {
        let contributions = self.contributions.iter().map(|it| {
            json!({
                "by": it.by, "day": day(&it.made), "made": it.made, "orch": it.orch, "digest": it.digest, "cases": it.cases.len(),
                "machine": machine(it),
            })
        });
        let cases = self.by_case.iter().map(|(case, agreements)| {
            let own = self.own.get(case);
            json!({
                "case": case,
                "id": file(case),
                "href": own.map(|(at, _)| pair(self.view, *at)),
                "own": own.map(|(_, own)| json!({"kind": kind(own.status), "glyph": glyph(own.status), "word": word(own.status)})),
                "agreements": agreements.iter().map(|it| self.agreement(case, it)).collect::<Vec<_>>(),
            })
        });
        json!({
            "spec": self.view.doc.spec,
            "contributions": contributions.collect::<Vec<_>>(),
            "cases": cases.collect::<Vec<_>>(),
        })
    }
}

fn claim(claim: &Claim<'_>) -> Value {
    let Claim { contribution, case } = claim;
    let devices = contribution.devices.get(&case.backend);
    let devices = || devices.into_iter().flatten();
    let names: Vec<&str> = devices().map(|device| device.name.as_str()).collect();
    let stand_in = devices().next().and_then(|device| stand_in(device.kind));
    let packages: Vec<String> = case
        .packages
        .iter()
        .map(|(name, version)| format!("{name} {}", version_alone(version)))
        .collect();
    json!({
        "by": contribution.by,
        "made": contribution.made,
        "digest": contribution.digest,
        "orch": contribution.orch,
        "machine": machine(contribution),
        "device": names.join(", "),
        "stand_in": stand_in,
        "status": case.status,
        "kind": kind(case.status),
        "glyph": glyph(case.status),
        "word": word(case.status),
        "stage": case.stage,
        "reason": case.reason,
        "latency": case.metrics.as_ref().filter(|_| case.status == Outcome::Pass).map(Metrics::latency),
        "max_abs": case.numerics.as_ref().map(|numerics| numerics.max_abs),
        "day": case.measured.as_deref().map(day),
        "measured": case.measured,
        "packages": packages.join(", "),
    })
}

/// The version without the digest of wheels behind it.
fn version_alone(version: &str) -> &str {
    version.split('+').next().unwrap_or(version)
}

/// `AMD EPYC 9454, 16 cores, Debian GNU/Linux 12`
fn machine(contribution: &Contribution) -> String {
    let machine = &contribution.machine;
    let cores = crate::base::figures::counted(machine.cores, "core");
    format!("{}, {cores}, {}", machine.cpu, machine.os)
}
