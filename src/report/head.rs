//! What stands at the head of every page: how many cases ended how, what the run did, on which machine.

use std::collections::BTreeMap;

use anstyle::Style;
use serde::Serialize;

use super::format::{glyph, kind};
use super::{ReportDoc, Summary};
use crate::base::figures::{amount, bytes, counted};
use crate::record::{Outcome, Weights};

#[derive(Serialize)]
pub(super) struct Count {
    /// As [`kind`] has it; `xpass` of unexpected successes, some of which are failures.
    pub(super) kind: &'static str,
    pub(super) glyph: &'static str,
    pub(super) count: u32,
    pub(super) word: &'static str,
}

/// How many cases ended how; of what there is none, only what passed and what failed is named.
pub(super) fn counts(s: &Summary) -> Vec<Count> {
    let of = |status, count, word| Count { kind: kind(status), glyph: glyph(status), count, word };
    let all = vec![
        of(Outcome::Pass, s.passed, "passed"),
        of(Outcome::PassFallback, s.fallbacks, "on a fallback"),
        of(Outcome::Flaky, s.flaky, "flaky"),
        of(Outcome::Indecisive, s.indecisive, "indecisive"),
        of(Outcome::Xfail, s.xfailed, "failed as expected"),
        Count { kind: "xpass", ..of(Outcome::Xpass, s.xpassed, "passed unexpectedly") },
        of(Outcome::Fail, s.failed, "failed"),
        of(Outcome::Incomplete, s.incomplete, "incomplete"),
        of(Outcome::Mock, s.mocked, "mocked"),
        of(Outcome::SkipUnavailable, s.unavailable, "unavailable"),
        of(Outcome::SkipUnsupported, s.unsupported, "unsupported"),
        Count { kind: "excluded", glyph: "·", count: s.excluded, word: "excluded" },
    ];
    all.into_iter().filter(|count| count.count > 0 || matches!(count.kind, "pass" | "fail")).collect()
}

/// `112 steps: 0 executed, 112 up to date`
pub(super) fn steps(s: &Summary, fail: Style) -> String {
    let mut parts = format!("{}: {} executed, {} up to date", counted(s.steps, "step"), s.executed, s.hits);
    if s.fetched > 0 {
        parts += &format!(" ({} from the remote)", s.fetched);
    }
    if s.failed_before > 0 {
        parts += &format!(", {} failed before (`--rerun failed` executes them)", s.failed_before);
    }
    if s.failed_steps > 0 {
        parts += &format!(", {fail}{} failed{fail:#}", s.failed_steps);
    }
    parts
}

/// `random weights: 15 models of 8.1 k to 1.2 M parameters; …`; None where no model has such weights.
pub(super) fn random(doc: &ReportDoc) -> Option<String> {
    let mut models: BTreeMap<&str, Option<u64>> = BTreeMap::new();
    for case in doc.cases.iter().filter(|case| case.weights == Some(Weights::Random)) {
        let known = models.entry(&case.model).or_default();
        *known = case.parameters.max(*known);
    }
    let sizes = models.values().flatten();
    let of = match (sizes.clone().min(), sizes.max()) {
        (Some(least), Some(most)) if least == most => format!(" of {} parameters", amount(*least)),
        (Some(least), Some(most)) => format!(" of {} to {} parameters", amount(*least), amount(*most)),
        _ => String::new(),
    };
    (!models.is_empty()).then(|| {
        let models = counted(models.len(), "model");
        format!("random weights: {models}{of}; the figures are theirs, not those of trained models")
    })
}

/// `build-07: linux 6.8 x86_64, AMD EPYC 9454, 16 cores, 62 GiB; orch 0.1.0`
pub(super) fn machine(doc: &ReportDoc) -> String {
    let host = &doc.host;
    let (cores, memory) = (counted(host.cores, "core"), bytes(host.memory_bytes));
    format!("{}: {}, {}, {cores}, {memory}; orch {}", host.name, host.os, host.cpu, doc.orch)
}
