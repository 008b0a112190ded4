//! What stands at the head of every page: how many cases ended how, what the run did, on which machine.

use std::collections::{BTreeMap, BTreeSet};

use anstyle::Style;
use serde::Serialize;

use super::format::{glyph, kind};
use super::{Host, ReportDoc, RunOrigin, Summary};
use crate::base::figures::{amount, bytes, counted};
use crate::record::{Outcome, Weights};

#[derive(Serialize)]
pub(super) struct Count {
    /// The kind as [`kind`] has it; `xpass` of unexpected successes, some of which are failures.
    pub(super) kind: &'static str,
    pub(super) glyph: &'static str,
    pub(super) count: u32,
    pub(super) word: &'static str,
}

/// How many cases ended how; of what there is none, only what passed and what failed is named.
pub(super) fn counts(s: &Summary) -> Vec<Count> {
    let of = |status, count, word| Count {
        kind: kind(status),
        glyph: glyph(status),
        count,
        word,
    };
    let all = vec![
        of(Outcome::Pass, s.passed, "passed"),
        of(Outcome::PassFallback, s.fallbacks, "on a fallback"),
        of(Outcome::Flaky, s.flaky, "flaky"),
        of(Outcome::Indecisive, s.indecisive, "indecisive"),
        of(Outcome::Xfail, s.xfailed, "failed as expected"),
        Count {
            kind: "xpass",
            ..of(Outcome::Xpass, s.xpassed, "passed unexpectedly")
        },
        of(Outcome::Fail, s.failed, "failed"),
        of(Outcome::Incomplete, s.incomplete, "incomplete"),
        of(Outcome::Mock, s.mocked, "mocked"),
        of(Outcome::SkipUnavailable, s.unavailable, "unavailable"),
        of(Outcome::SkipUnsupported, s.unsupported, "unsupported"),
        Count {
            kind: "excluded",
            glyph: "·",
            count: s.excluded,
            word: "excluded",
        },
    ];
    all.into_iter()
        .filter(|count| count.count > 0 || matches!(count.kind, "pass" | "fail"))
        .collect()
}

/// `112 steps: 0 executed, 112 up to date`
pub(super) fn steps(s: &Summary, fail: Style) -> String {
    let Summary {
        executed,
        hits,
        fetched,
        failed_before,
        failed_steps,
        ..
    } = s;
    let parts = [
        (
            s.steps,
            format!(
                "{}: {executed} executed, {hits} up to date",
                counted(s.steps, "step")
            ),
        ),
        (*fetched, format!(" ({fetched} from the remote)")),
        (
            *failed_before,
            format!(", {failed_before} failed before (`--rerun failed` executes them)"),
        ),
        (
            *failed_steps,
            format!(", {fail}{failed_steps} failed{fail:#}"),
        ),
    ];
    parts
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(_, part)| part)
        .collect()
}

/// `Run of 2026-01-31 08:00 UTC at git 1a2b3c4d5 (main), with uncommitted changes`; None where the report is of no run.
pub(super) fn run(doc: &ReportDoc) -> Option<String> {
    let RunOrigin { started, git } = doc.run.as_ref()?;
    let git = git.as_ref().map(|git| {
        let branch = git
            .branch
            .as_ref()
            .map(|branch| format!(" ({branch})"))
            .unwrap_or_default();
        let dirty = if git.dirty {
            ", with uncommitted changes"
        } else {
            ""
        };
        format!(
            " at git {}{branch}{dirty}",
            git.revision.get(..9).unwrap_or(&git.revision)
        )
    });
    let minute = started.get(..16).unwrap_or(started).replace('T', " ");
    Some(format!("Run of {minute} UTC{}", git.unwrap_or_default()))
}

/// A model's name, how many parameters it has, and what it computes with; as far as that is known.
pub type Model<'m> = (&'m str, Option<u64>, Option<Weights>);

fn models(doc: &ReportDoc) -> impl Iterator<Item = Model<'_>> + Clone {
    doc.cases
        .iter()
        .map(|case| (&*case.model, case.parameters, case.weights))
}

/// The remarks on the weights of these models, a line each: of random ones, of others.
pub fn weights_remarks<'m>(models: impl Iterator<Item = Model<'m>> + Clone) -> Vec<String> {
    [random_of(models.clone()), others_of(models)]
        .into_iter()
        .flatten()
        .collect()
}

pub(super) fn all_weights(doc: &ReportDoc) -> Vec<String> {
    weights_remarks(models(doc))
}

/// `83.9 k parameters, random weights`; None where nothing is known.
pub fn model(parameters: Option<u64>, weights: Option<Weights>) -> Option<String> {
    let weights = weights.map(|weights| match weights {
        Weights::Random => "random weights".to_owned(),
        other => format!("weights {}", other.word()),
    });
    let parameters = parameters.map(|count| format!("{} parameters", amount(count)));
    let parts: Vec<String> = parameters.into_iter().chain(weights).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// `weights from the Hub: 3 models; in the file: 1 model`; None where all are random, or nobody knows.
pub(super) fn weights(doc: &ReportDoc) -> Option<String> {
    others_of(models(doc))
}

fn others_of<'m>(models: impl Iterator<Item = Model<'m>>) -> Option<String> {
    let mut kinds: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let known = models.filter_map(|(model, _, weights)| Some((weights?, model)));
    for (weights, model) in known.filter(|(weights, _)| *weights != Weights::Random) {
        kinds.entry(weights.word()).or_default().insert(model);
    }
    let counts = kinds
        .iter()
        .map(|(word, models)| format!("{word}: {}", counted(models.len(), "model")));
    (!kinds.is_empty()).then(|| format!("weights {}", counts.collect::<Vec<_>>().join("; ")))
}

/// `random weights: 15 models of 8.1 k to 1.2 M parameters; …`; None where no model has such weights.
pub(super) fn random(doc: &ReportDoc) -> Option<String> {
    random_of(models(doc))
}

fn random_of<'m>(all: impl Iterator<Item = Model<'m>>) -> Option<String> {
    let mut models: BTreeMap<&str, Option<u64>> = BTreeMap::new();
    for (model, parameters, _) in all.filter(|(.., weights)| *weights == Some(Weights::Random)) {
        let known = models.entry(model).or_default();
        *known = parameters.max(*known);
    }
    let sizes = models.values().flatten();
    let of = match (sizes.clone().min(), sizes.max()) {
        (Some(least), Some(most)) if least == most => format!(" of {} parameters", amount(*least)),
        (Some(least), Some(most)) => {
            format!(" of {} to {} parameters", amount(*least), amount(*most))
        }
        _ => String::new(),
    };
    (!models.is_empty()).then(|| {
        let models = counted(models.len(), "model");
        format!("random weights: {models}{of}; the figures are theirs, not those of trained models")
    })
}

/// `build-07: linux 6.8 x86_64, AMD EPYC 9454, 16 cores, 62 GiB; orch 0.1.0`
pub(super) fn machine(doc: &ReportDoc) -> String {
    let line = |host: &Host| {
        let cores = counted(host.cores, "core");
        let memory = bytes(host.memory_bytes);
        format!(
            "{}: {}, {}, {cores}, {memory}; ",
            host.name, host.os, host.cpu
        )
    };
    format!(
        "{}orch {}",
        doc.hosts().iter().map(line).collect::<String>(),
        doc.orch
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Git, fixture, html, markdown, shown};

    #[test]
    fn a_page_says_of_which_run_it_is_and_another_run_of_the_same_does_not_change_that() {
        let mut doc = fixture();
        assert_eq!((run(&doc), weights(&doc)), (None, None));
        let before = shown(&doc);
        let git = Git {
            revision: "1a2b3c4d5e6f".to_owned(),
            committed: "2026-01-30T08:00:00Z".to_owned(),
            branch: Some("main".to_owned()),
            dirty: true,
        };
        doc.run = Some(RunOrigin {
            started: "2026-01-31T08:00:00.123Z".to_owned(),
            git: Some(git),
        });
        let expected =
            "Run of 2026-01-31 08:00 UTC at git 1a2b3c4d5 (main), with uncommitted changes";
        assert_eq!(run(&doc).as_deref(), Some(expected));
        assert_eq!(shown(&doc), before);
        for page in [markdown::render(&doc), html::render(&doc).unwrap()] {
            assert!(page.contains("Run of 2026-01-31 08:00 UTC at git 1a2b3c4d5"));
        }
        doc.cases[0].weights = Some(Weights::Hub);
        assert_eq!(
            weights(&doc).as_deref(),
            Some("weights from the Hub: 1 model")
        );
    }
}
