//! Known faults: the failures of a report by their causes, each with what is known of it and the cases that have it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::names::pair;
use crate::record::Outcome;
use crate::report::view::View;
use crate::report::{CaseResult, Expected};

/// What cases that fail by the same fault have in common.
#[derive(Default)]
struct Fault<'a> {
    cause: Option<&'a str>,
    url: Option<&'a str>,
    /// The oldest day since when one of the cases is expected to fail.
    since: Option<&'a str>,
    reasons: BTreeSet<&'a str>,
    signatures: BTreeSet<&'a str>,
    /// Places of the cases in the report.
    cases: Vec<usize>,
}

impl<'a> Fault<'a> {
    fn add(&mut self, at: usize, expected: Option<&'a Expected>, signature: Option<&'a str>) {
        self.cases.push(at);
        self.signatures.extend(signature);
        let Some(expected) = expected else { return };
        self.cause = self.cause.or(expected.cause.as_deref());
        self.url = self.url.or(address(expected));
        self.reasons.insert(&expected.reason);
        if let Some(since) = expected.since.as_deref() {
            self.since = Some(self.since.map_or(since, |known| known.min(since)));
        }
    }
}

/// The faults of a report, those of most cases first. A failure of which neither a public report nor a signature is known
/// is no known fault.
pub(super) fn page(view: &View<'_>) -> Value {
    let mut faults: BTreeMap<&str, Fault<'_>> = BTreeMap::new();
    for (at, case) in view.doc.cases.iter().enumerate() {
        if !case.is_failure() && case.status != Outcome::Xfail {
            continue;
        }
        let expected = case
            .expected
            .as_ref()
            .filter(|_| case.status == Outcome::Xfail);
        let signature = signature(case);
        let name = expected
            .and_then(address)
            .or(expected.and_then(|expected| expected.signature.as_deref()))
            .or(signature);
        if let Some(name) = name {
            faults.entry(name).or_default().add(at, expected, signature);
        }
    }
    let mut rows: Vec<(&str, Fault<'_>)> = faults.into_iter().collect();
    rows.sort_by_key(|(_, fault)| std::cmp::Reverse(fault.cases.len()));
    let rows = rows.into_iter().map(|(name, fault)| {
        let cases = fault
            .cases
            .iter()
            .map(|at| json!({"case": view.doc.cases[*at].case, "href": pair(view, *at)}));
        json!({
            "name": name,
            "cause": fault.cause,
            "url": fault.url,
            "since": fault.since,
            "reasons": fault.reasons,
            "signatures": fault.signatures,
            "cases": cases.collect::<Vec<_>>(),
        })
    });
    json!({"spec": view.doc.spec, "faults": rows.collect::<Vec<_>>()})
}

/// The address of the public report. A report that somebody else made may hold anything, so no other scheme is linked.
fn address(expected: &Expected) -> Option<&str> {
    let url = expected.url.as_deref()?;
    (url.starts_with("https://") || url.starts_with("http://")).then_some(url)
}

/// The signature that `orch blame` found.
fn signature(case: &CaseResult) -> Option<&str> {
    case.facts
        .iter()
        .filter(|(step, _)| step.starts_with("blame:"))
        .find_map(|(_, finding)| finding.get("signature")?.as_str())
}
