//! What is accepted: the spec's expectations, brought up to date with the last results, and intended changes of figures.

mod figures;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;

use crate::base::figures::today;
use crate::base::named;
use crate::base::text::{ending_as, shortened};
use crate::event::Listener;
use crate::exec::Options;
use crate::matrix::{Case, Matrix};
use crate::record::Outcome;
use crate::report::{CaseResult, format};
use crate::session::{self, Project, Request, Session, UsageError, usage};
use crate::spec::edit::{self, Change, Row};
use crate::spec::{Expect, ExpectedStage, ExpectedStatus, Fault, Spec};
use crate::step::blame::step_name;

pub use figures::{Until, accept_figures, acceptable};

/// Longer reasons of failures are cut: the report has them in full.
const REASON: usize = 160;

/// A change of a file that holds what is accepted, worked out and not yet written.
#[derive(Debug)]
pub struct Accepted {
    pub file: PathBuf,
    pub before: String,
    pub after: String,
    /// The changes in words.
    pub changes: Vec<String>,
}

impl Accepted {
    pub fn write(&self) -> anyhow::Result<()> {
        named::edit_named(&self.file, self.after.as_bytes())
            .with_context(|| format!("failed to write {}", self.file.display()))
    }
}

impl Session {
    /// Brings the expectations of a spec up to date with the last results; None where they match already. `reason` stands for
    /// those of the newly expected failures.
    pub fn accept(
        &self,
        request: &Request,
        reason: Option<&str>,
        listener: &dyn Listener,
    ) -> anyhow::Result<Option<Accepted>> {
        let path = &request.spec;
        let spec = session::spec(path)?;
        let project = Project::load_here(request, self)?;
        let options = Options {
            mocked: self.mocked.clone(),
            ..project.idle_options()
        };
        let doc = self.held(&project, &options, listener)?;
        let seen = project
            .plan
            .cases
            .iter()
            .zip(&doc.cases)
            .map(|(planned, case)| (planned.case.id(), End::of(case)));
        let wanted = Wanted::of(&spec, &seen.collect(), reason);
        if wanted.changes.is_empty() {
            return Ok(None);
        }
        let file = file_of(&spec, path)?;
        let before = std::fs::read_to_string(&file)
            .with_context(|| format!("failed to read {}", file.display()))?;
        let by_hand = |why: String| {
            let changes = wanted
                .descriptions
                .iter()
                .map(|change| format!("\n  {change}"));
            UsageError(format!(
                "{} cannot be rewritten: {why}\n  hint: change it by hand:{}",
                file.display(),
                changes.collect::<String>()
            ))
        };
        let after = edit::expectations(&before, &wanted.changes).map_err(by_hand)?;
        let after = ending_as(&before, after);
        wanted
            .is_read_back(path, &file, &before, &after)
            .map_err(by_hand)?;
        Ok(Some(Accepted {
            file,
            before,
            after,
            changes: wanted.descriptions,
        }))
    }
}

/// How a case ended by itself, whatever was expected of it.
#[derive(Debug, Clone, PartialEq)]
enum End {
    /// It was not run, or not to its end, or its device is not here.
    Unknown,
    AsExpected,
    Passed,
    Failed {
        status: ExpectedStatus,
        stage: Option<ExpectedStage>,
        reason: String,
        /// The signature that `orch blame` found.
        signature: Option<String>,
    },
}

impl End {
    fn of(case: &CaseResult) -> Self {
        let own = match (&case.fallback, case.status) {
            (Some(fallback), Outcome::PassFallback) => {
                fallback.tried.first().map(|t| (t.status, t.reason.clone()))
            }
            (_, status) => Some((status, case.reason.clone())),
        };
        let Some((outcome, reason)) = own else {
            return Self::Unknown;
        };
        use Outcome::{Incomplete, Indecisive, Mock, PassFallback, SkipUnavailable};
        match outcome {
            Outcome::Pass | Outcome::Flaky | Outcome::Xpass => return Self::Passed,
            Outcome::Xfail => return Self::AsExpected,
            Indecisive | SkipUnavailable | Incomplete | Mock | PassFallback => {
                return Self::Unknown;
            }
            Outcome::Fail | Outcome::Numerics | Outcome::Oom | Outcome::Timeout => {}
            Outcome::Crash | Outcome::SkipUnsupported => {}
        }
        let status =
            ExpectedStatus::named(outcome.label()).expect("BUG: all others can be expected");
        let stage = case.stage.as_deref().and_then(ExpectedStage::named);
        // What the report adds about the expectation is not the failure's own reason.
        let reason = reason.unwrap_or_else(|| "no reason was recorded".to_owned());
        let reason = format::one_line(
            reason
                .split(" (the spec expects ")
                .next()
                .unwrap_or_default(),
        );
        let reason = shortened(&reason, REASON).into_owned();
        Self::Failed {
            status,
            stage,
            reason,
            signature: signature_of(case),
        }
    }
}

/// A glob over the signature that `orch blame` found, whatever the runtime's version.
fn signature_of(case: &CaseResult) -> Option<String> {
    let finding = case.facts.get(&step_name(&case.case))?;
    let signature = finding.get("signature")?.as_str()?;
    let version = finding.get("version")?.as_str()?;
    Some(signature.replacen(version, "*", 1))
}

/// The changes in words, and what is expected of every case afterwards.
struct Wanted {
    changes: Vec<Change>,
    descriptions: Vec<String>,
    meant: BTreeMap<String, Meant>,
}

/// How a case ends now, and how it was expected to end: by its status, or by its fault if only that differs.
fn changed_words(
    expect: &Expect,
    status: ExpectedStatus,
    signature: Option<&str>,
) -> (String, String) {
    if status != expect.status {
        return (status.word().to_owned(), expect.status.word().to_owned());
    }
    let fault = |signature: Option<&str>| match signature {
        Some(signature) => format!("{} by `{signature}`", status.word()),
        None => status.word().to_owned(),
    };
    (fault(signature), fault(expect.fault.signature.as_deref()))
}

/// What is expected of a case; None: that it passes.
type Meant = Option<(ExpectedStatus, Option<ExpectedStage>)>;

impl Wanted {
    fn of(spec: &Spec, seen: &BTreeMap<String, End>, reason: Option<&str>) -> Self {
        let matrix = Matrix::of(spec);
        let today = today();
        let mut wanted = Self {
            changes: Vec::new(),
            descriptions: Vec::new(),
            meant: BTreeMap::new(),
        };
        let end = |case: &Case| seen.get(&case.id()).cloned().unwrap_or(End::Unknown);
        for expect in &spec.matrix.expect {
            let own = |case: &&Case| {
                case.expect
                    .as_ref()
                    .is_some_and(|known| Arc::ptr_eq(known, expect))
            };
            let cases: Vec<(String, End)> = matrix
                .cases
                .iter()
                .filter(own)
                .map(|case| (case.id(), end(case)))
                .collect();
            wanted.row(expect, &cases, &today);
        }
        for case in matrix.cases.iter().filter(|case| case.expect.is_none()) {
            let id = case.id();
            // A refusal by the vendor's tool fails no run, so nothing need be expected.
            let (status, stage, own, signature) = match end(case) {
                End::Failed {
                    status,
                    stage,
                    reason,
                    signature,
                } if status != ExpectedStatus::Unsupported => (status, stage, reason, signature),
                _ => {
                    wanted.meant.insert(id, None);
                    continue;
                }
            };
            let reason = reason.map_or(own, str::to_owned);
            wanted
                .descriptions
                .push(format!("expects of {id}: {}: {reason}", status.word()));
            wanted.meant.insert(id.clone(), Some((status, stage)));
            let since = Some(today.clone());
            wanted.changes.push(Change::Add(Row {
                case: id,
                status,
                stage,
                reason,
                since,
                fault: Fault {
                    signature,
                    ..Fault::default()
                },
                strict: true,
            }));
        }
        wanted
    }

    /// What becomes of one row, by how the cases ended that it speaks of.
    fn row(&mut self, expect: &Expect, cases: &[(String, End)], today: &str) {
        let loc = &expect.rule.loc;
        let mut rows: Vec<Option<Row>> = Vec::new();
        for (id, end) in cases {
            let kept = |status, stage, since, fault: &Fault| Row {
                case: id.clone(),
                status,
                stage,
                reason: expect.rule.reason.clone(),
                since,
                fault: fault.clone(),
                strict: expect.strict,
            };
            rows.push(match end {
                End::Unknown | End::AsExpected => Some(kept(
                    expect.status,
                    expect.stage,
                    expect.since.clone(),
                    &expect.fault,
                )),
                End::Passed => {
                    self.descriptions
                        .push(format!("expects {id} to pass again ({loc})"));
                    None
                }
                End::Failed {
                    status,
                    stage,
                    signature,
                    ..
                } => {
                    let (is, was) = changed_words(expect, *status, signature.as_deref());
                    self.descriptions
                        .push(format!("expects of {id}: {is}, no longer {was} ({loc})"));
                    // What was known of another fault is not known of this one.
                    let fault = Fault {
                        signature: signature.clone(),
                        ..Fault::default()
                    };
                    Some(kept(
                        *status,
                        expect.stage.and(*stage),
                        Some(today.to_owned()),
                        &fault,
                    ))
                }
            });
        }
        let ends: Vec<Meant> = rows
            .iter()
            .map(|row| row.as_ref().map(|row| (row.status, row.stage)))
            .collect();
        self.meant.extend(
            cases
                .iter()
                .map(|(id, _)| id.clone())
                .zip(ends.iter().copied()),
        );
        let is_same_fault = rows.iter().flatten().all(|row| row.fault == expect.fault);
        if is_same_fault
            && ends
                .iter()
                .all(|end| *end == Some((expect.status, expect.stage)))
        {
            return;
        }
        self.changes.push(match ends[0] {
            // The row stays, with all that stands beside it.
            Some((status, stage)) if is_same_fault && ends.iter().all(|end| *end == ends[0]) => {
                Change::Status(loc.line, loc.column, status, stage)
            }
            _ => Change::Replace(loc.line, loc.column, rows.into_iter().flatten().collect()),
        });
    }

    /// Whether the new text says what is meant, and says nothing else than before.
    fn is_read_back(
        &self,
        path: &Path,
        file: &Path,
        before: &str,
        after: &str,
    ) -> Result<(), String> {
        if edit::others(before) != edit::others(after) {
            return Err("something other than its expectations would change".to_owned());
        }
        let spec = Spec::load_as_if(path, file.to_owned(), after.to_owned())
            .map_err(|e| format!("{e}"))?;
        let matrix = Matrix::of(&spec);
        matrix
            .each_expectation_counts(&spec)
            .map_err(|e| e.to_string())?;
        for case in &matrix.cases {
            let is = case
                .expect
                .as_ref()
                .map(|expect| (expect.status, expect.stage));
            if self.meant.get(&case.id()) != Some(&is) {
                return Err(format!(
                    "it would expect something of {} that was not meant",
                    case.id()
                ));
            }
        }
        Ok(())
    }
}

/// The file that holds the expectations, or is to hold them: one of the project's.
fn file_of(spec: &Spec, root: &Path) -> anyhow::Result<PathBuf> {
    let has_matrix =
        |path: &PathBuf| std::fs::read_to_string(path).is_ok_and(|text| edit::has_matrix(&text));
    let named = spec
        .files
        .iter()
        .map(|file| file.path.clone())
        .find(has_matrix)
        .unwrap_or_else(|| root.to_owned());
    let real = |path: &Path| {
        std::fs::canonicalize(path).with_context(|| format!("failed to find {}", path.display()))
    };
    let file = real(&named)?;
    let folders = [real(Path::new("."))?, real(&spec.root)?];
    if !folders.iter().any(|folder| file.starts_with(folder)) {
        usage!(
            "{} lies outside of this project, so it is not rewritten\n  hint: run `orch accept` in its own project",
            file.display()
        );
    }
    Ok(file)
}
