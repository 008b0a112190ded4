//! A report and the records of a store to a contribution.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Contributed, ContributedDevice, ContributedMachine, Contribution, Refusal, StepEvidence, TOOL,
    VERSION,
};
use crate::base::text::{is_unseen, shortened};
use crate::key::KeyDoc;
use crate::record::{Outcome, Record};
use crate::report::{CaseResult, ReportDoc};

/// A reason of more bytes is cut.
const LONGEST: usize = 4000;

/// Who contributes, on which machine.
pub struct Maker<'a> {
    pub by: &'a str,
    pub now: &'a str,
    /// The digests of the kind of machine, as they stand in keys of timed and of other runs.
    pub fingerprints: [&'a str; 2],
    /// The records of a step, the newest first.
    pub records: &'a dyn Fn(&str) -> Vec<Record>,
}

/// What came of a report.
pub struct Made {
    pub contribution: Contribution,
    /// Cases that are not contributed, with the reason.
    pub left: Vec<(String, String)>,
}

impl Maker<'_> {
    /// The contribution of a report's cases; `check` refuses those that would be refused elsewhere.
    pub fn make(
        &self,
        doc: &ReportDoc,
        check: impl Fn(&Contribution) -> Result<(), Refusal>,
    ) -> Made {
        let mut left = Vec::new();
        let mut cases = Vec::new();
        for case in &doc.cases {
            let made = self.case(doc, case).and_then(|made| {
                let alone = self.of(doc, vec![made.clone()]);
                check(&alone).map_err(|refusal| refusal.to_string())?;
                Ok(made)
            });
            match made {
                Ok(made) => cases.push(made),
                Err(why) => left.push((case.case.clone(), why)),
            }
        }
        Made {
            contribution: self.of(doc, cases),
            left,
        }
    }

    fn of(&self, doc: &ReportDoc, cases: Vec<Contributed>) -> Contribution {
        let host = &doc.host;
        let used: BTreeSet<&str> = cases.iter().map(|case| case.backend.as_str()).collect();
        let devices = doc.backends.iter().filter(|it| used.contains(&*it.name));
        let devices = devices.map(|backend| {
            let devices = backend.devices.iter().map(|device| ContributedDevice {
                id: device.id.clone(),
                name: device.name.clone(),
                kind: device.kind,
            });
            (backend.name.clone(), devices.collect())
        });
        let devices = devices.collect();
        let [fingerprint, computing] = self.fingerprints.map(str::to_owned);
        Contribution {
            version: VERSION,
            by: self.by.to_owned(),
            made: self.now.to_owned(),
            orch: doc.orch.clone(),
            spec: file_name(&doc.spec).to_owned(),
            machine: ContributedMachine {
                fingerprint,
                computing,
                os: plain(&host.os),
                cpu: plain(&host.cpu),
                cpu_identity: plain(&host.cpu_identity),
                cores: host.cores,
                memory_bytes: host.memory_bytes,
            },
            devices,
            cases,
            digest: String::new(),
        }
        .sealed()
    }

    fn case(&self, doc: &ReportDoc, case: &CaseResult) -> Result<Contributed, String> {
        if doc.hosts().len() > 1 {
            return Err("the report is of several machines".to_owned());
        }
        if !may_be_contributed(case.status) {
            return Err(format!("it is {}", case.status.label()));
        }
        let steps = self.steps(doc, case)?;
        let last = steps.last().ok_or("no step of it is on record")?;
        let status = match case.status {
            Outcome::Xfail | Outcome::Xpass => last.outcome,
            status => status,
        };
        let packages = packages(&steps);
        Ok(Contributed {
            case: case.case.clone(),
            model: case.model.clone(),
            model_type: case.model_type.clone(),
            family: case.family.clone(),
            task: case.task.clone(),
            pipeline: case.pipeline.clone(),
            weights: case.weights,
            parameters: case.parameters,
            dims: case.dims.clone(),
            target: case.target.clone(),
            precision: case.precision.clone(),
            runtime: case.runtime.clone().unwrap_or_default(),
            backend: case.backend.clone(),
            status,
            stage: case.stage.clone().filter(|_| status != Outcome::Pass),
            reason: case
                .reason
                .as_deref()
                .filter(|_| status != Outcome::Pass)
                .map(plain),
            requested_device: case.requested_device.clone(),
            actual_device: case.actual_device.clone(),
            measured: case.measured.clone(),
            untimed: case.untimed,
            metrics: case.metrics.clone(),
            numerics: case.numerics.clone(),
            placement: case.placement.clone(),
            packages,
            steps,
        })
    }

    /// The executions that the case's result rests on: from the last step back, each made what a later one read.
    fn steps(&self, doc: &ReportDoc, case: &CaseResult) -> Result<Vec<StepEvidence>, String> {
        let rounds: BTreeSet<&str> = case
            .metrics
            .iter()
            .flat_map(|metrics| &metrics.rounds)
            .map(|round| round.measured.as_str())
            .collect();
        let mut wanted: BTreeSet<String> = BTreeSet::new();
        let mut steps = Vec::new();
        let mut has_end = false;
        for step in case.steps.iter().rev() {
            let is_round = |record: &&Record| {
                record.key.value("param.round").is_some() && rounds.contains(&*record.started)
            };
            let is_read = |record: &&Record| {
                let output = record.output.map(|output| output.to_string());
                output.is_some_and(|output| wanted.contains(&output))
            };
            let is_this_end = |record: &Record| !has_end && is_end(case, record);
            let fits =
                |record: &&Record| is_this_end(record) || is_read(record) || is_round(record);
            let own = (self.records)(step);
            // A step with the key of another one is not executed: its execution is that of the other.
            let found = own.iter().find(fits).cloned().or_else(|| {
                let others = alike(doc, step);
                let mut records = others.flat_map(self.records);
                records.find(|record| fits(&record))
            });
            let Some(record) = &found else {
                // A case that failed has no steps behind its last one.
                let is_further_round = own
                    .first()
                    .is_some_and(|record| record.key.value("param.round").is_some());
                if has_end && !is_further_round {
                    return Err(format!(
                        "the store no longer holds the execution of `{step}` that it rests on"
                    ));
                }
                continue;
            };
            has_end |= is_end(case, record);
            let evidence = evidence(step, record);
            wanted.extend(
                evidence
                    .lines(super::INPUT)
                    .map(|(_, digest)| digest.to_owned()),
            );
            steps.push(evidence);
        }
        steps.reverse();
        Ok(steps)
    }
}

/// The other steps of a report that are of the same stage and model.
fn alike<'a>(doc: &'a ReportDoc, step: &str) -> impl Iterator<Item = &'a str> {
    let of = |step: &str| {
        let mut parts = step.split(':').map(str::to_owned);
        let stage = parts.next();
        let model = parts
            .next()
            .map(|name| name.split('@').next().map(str::to_owned));
        (stage, model)
    };
    let own = of(step);
    let all: BTreeSet<&str> = doc
        .cases
        .iter()
        .flat_map(|case| case.steps.iter().map(String::as_str))
        .filter(|other| *other != step && of(other) == own)
        .collect();
    all.into_iter()
}

/// Whether a step's execution is the one that the case's result is of.
fn is_end(case: &CaseResult, record: &Record) -> bool {
    let is_of_run = || {
        let moment = case.ended.as_ref().or(case.measured.as_ref());
        moment == Some(&record.started)
    };
    match case.status {
        Outcome::Pass | Outcome::Xpass => {
            case.numerics.is_some() && record.numerics == case.numerics
        }
        Outcome::Xfail => {
            !record.outcome.is_made()
                && match &record.numerics {
                    Some(_) => record.numerics == case.numerics,
                    None => is_of_run(),
                }
        }
        Outcome::Numerics | Outcome::Indecisive => {
            record.outcome == case.status && record.numerics == case.numerics
        }
        status => record.outcome == status && is_of_run(),
    }
}

/// What ran somewhere else, at a later attempt or not at all proves nothing of the case.
fn may_be_contributed(status: Outcome) -> bool {
    !matches!(
        status,
        Outcome::Flaky
            | Outcome::PassFallback
            | Outcome::SkipUnavailable
            | Outcome::Mock
            | Outcome::Incomplete
    )
}

fn evidence(step: &str, record: &Record) -> StepEvidence {
    let document = |key: &KeyDoc| {
        key.lines()
            .map(|(name, value)| (name.into_owned(), value.into_owned()))
            .collect()
    };
    StepEvidence {
        step: step.to_owned(),
        key: record.key.digest().to_string(),
        document: document(&record.key),
        outcome: record.outcome,
        output: record.output.map(|output| output.to_string()),
        started: record.started.clone(),
        seconds: record.seconds,
    }
}

/// All packages that steps were keyed with; those of several environments may be of several versions.
pub(super) fn packages(steps: &[StepEvidence]) -> BTreeMap<String, String> {
    let mut found: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for (name, version) in steps.iter().flat_map(|step| step.lines(TOOL)) {
        found.entry(name.to_owned()).or_default().insert(version);
    }
    let joined = |versions: BTreeSet<&str>| versions.into_iter().collect::<Vec<_>>().join(", ");
    found
        .into_iter()
        .map(|(name, versions)| (name, joined(versions)))
        .collect()
}

/// The last part of a path: where it lies is nobody's business.
fn file_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

/// A text of a machine without its paths, and without what is no text for a page.
pub(super) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let ends = |c: char| c.is_whitespace() || "\"'`()[]{},;=".contains(c);
    for word in text.split_inclusive(ends) {
        let end = word.chars().next_back().filter(|c| ends(*c));
        let bare = &word[..word.len() - end.map_or(0, char::len_utf8)];
        let is_windows = bare.get(1..3) == Some(":\\");
        let is_path = bare.starts_with('/') || bare.starts_with("~/") || is_windows;
        if is_path && bare.len() > 1 {
            out.push('…');
            out.push('/');
            out += file_name(bare.trim_end_matches(['/', '\\']));
        } else {
            out += bare;
        }
        out.extend(end);
    }
    let written = |c: char| match c {
        '<' => '‹',
        '>' => '›',
        '\t' => ' ',
        unseen if is_unseen(unseen) => '\u{fffd}',
        other => other,
    };
    let out: String = out.chars().map(written).collect();
    shortened(&out, LONGEST).into_owned()
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn a_reason_holds_no_path_and_no_markup() {
        assert_eq!(
            plain("failed to read `/home/ann/models/a.onnx`: no\tsuch <file>"),
            "failed to read `…/a.onnx`: no such ‹file›"
        );
        assert_eq!(plain("a C:\\Users\\ann\\x.bin b"), "a …/x.bin b");
        assert_eq!(plain("1/2 of and/or, 3 / 4"), "1/2 of and/or, 3 / 4");
    }
}
