//! What a run leaves for the history: one file, written when all else is done. Nothing is decided by it. And what pages show of
//! the history.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Instant;

use crate::base::figures;
use crate::base::fs::parent;
use crate::cases::Finished;
use crate::catalogue::Requirement;
use crate::exec::{How, StepResult};
use crate::history::{self, About, Executed, Execution, Reader, RunFile};
use crate::memo::{Memo, MemoPath, Recorded};
use crate::plan::{Plan, PlannedCase};
use crate::report::{CaseResult, Git, ReportDoc, RunOrigin, Since, Trends};
use crate::session::since::since;
use crate::session::{
    Locations, Planned, Request, Session, Settings, Tell, absolute, git, provision,
};
use crate::step::{Stage, StepId};
use crate::toolchain::EnvName;
use crate::worker::Cancel;

/// What is known when a run begins. Git is queried meanwhile.
pub(super) struct Recording {
    run: String,
    started: String,
    clock: Instant,
    querying: Option<JoinHandle<Option<Git>>>,
    git: Option<Git>,
}

/// The folder of the history. It lies beside the store's layouts, so that it outlives them.
pub fn history_dir(locations: &Locations) -> anyhow::Result<PathBuf> {
    Ok(absolute(&locations.cache_dir)?.join("history"))
}

/// The folder of the files of runs: the journal of each, and what it left when it ended.
pub fn runs_dir(locations: &Locations) -> anyhow::Result<PathBuf> {
    Ok(history::runs_dir(&history_dir(locations)?))
}

impl Recording {
    /// None of a plan without cases: nothing is measured by it.
    pub(super) fn begin(planned: &Planned, spec: &str, run: &str, started: &str) -> Option<Self> {
        if planned.project.plan.cases.is_empty() {
            return None;
        }
        // The repository that holds the spec is the one that is meant.
        let folder = parent(Path::new(spec)).to_owned();
        let querying = Some(std::thread::spawn(move || git::head(&folder)));
        Some(Self {
            run: run.to_owned(),
            started: started.to_owned(),
            clock: Instant::now(),
            querying,
            git: None,
        })
    }

    /// What changed in a report of this run since earlier ones.
    pub(super) fn since(&self, locations: &Locations, doc: &ReportDoc) -> Vec<Since> {
        since(locations, &self.run, &self.started, doc)
    }

    /// What pages say of the run.
    pub(super) fn ran(&mut self) -> RunOrigin {
        if let Some(querying) = self.querying.take() {
            self.git = querying.join().ok().flatten();
        }
        RunOrigin {
            started: self.started.clone(),
            git: self.git.clone(),
        }
    }

    /// Writes the file. A run that cannot is no worse for it, and says so.
    pub(super) fn end(
        mut self,
        session: &Session,
        planned: &Planned,
        finished: &Finished,
        settings: &Settings,
        tell: Tell<'_>,
    ) -> Option<Recorded> {
        if session.store.is_read_only() {
            return None;
        }
        let RunOrigin { started, git } = self.ran();
        let revision = git.as_ref().map(|git| git.revision.clone());
        let about = About {
            run: self.run,
            started,
            seconds: Some(self.clock.elapsed().as_secs_f64()),
            command: Some(settings.command.clone()),
            fingerprint: Some(session.host.fingerprint.clone()),
            git,
            interrupted: finished.interrupted,
            ..About::default()
        };
        let mut doc = finished.doc.clone();
        if !planned.has_pages {
            doc.scope = Some("chosen steps".to_owned());
        }
        let plan = &planned.project.plan;
        let mut file = RunFile::new(about, Some(doc));
        file.executions = executions(plan, finished);
        file.steps = plan
            .ids()
            .filter_map(|id| executed(&plan.step(id).name, &finished.results[id.0 as usize]))
            .collect();
        let written = runs_dir(&session.locations).and_then(|dir| file.write(&dir));
        match written {
            Ok(_) => Some(Recorded {
                run: file.about.run,
                revision,
            }),
            Err(e) => {
                tell(&format!("this run was not kept for `orch history`: {e:#}"));
                None
            }
        }
    }
}

/// The git revision that is checked out now, if the history may lack it.
pub(super) fn new_revision(recorded: Option<&Recorded>, spec: &Path) -> Option<String> {
    let known = recorded?.revision.as_ref()?;
    git::revision(parent(spec)).filter(|revision| revision != known)
}

/// Leaves a few words where an earlier run's results hold at a git revision that they were not known to hold at. If they cannot be
/// written, the next run of the same writes them.
pub(super) fn repeat(
    memo: &mut Memo,
    path: &MemoPath,
    revision: String,
    locations: &Locations,
    request: &Request,
    settings: &Settings,
) {
    let Some(same) = memo.recorded().map(|recorded| recorded.run.clone()) else {
        return;
    };
    let started = figures::exactly_now();
    let about = About {
        run: history::name(&started),
        started,
        command: Some(settings.command.clone()),
        git: git::head(parent(&request.spec)).filter(|git| git.revision == revision),
        same_as: Some(same),
        ..About::default()
    };
    let written = about.git.is_some()
        && runs_dir(locations).is_ok_and(|dir| RunFile::new(about, None).write(&dir).is_ok());
    if written {
        // Otherwise the next run only leaves these words once more.
        let _ = memo.stands_for(path, revision);
    }
}

fn executions(plan: &Plan, finished: &Finished) -> BTreeMap<String, Execution> {
    let by_id = plan
        .cases
        .iter()
        .map(|planned| (planned.case.id(), planned));
    let by_id: BTreeMap<String, &PlannedCase> = by_id.collect();
    let execution = |case: &CaseResult| {
        Some((
            case.case.clone(),
            execution(plan, finished, by_id.get(&case.case)?, case)?,
        ))
    };
    finished.doc.cases.iter().filter_map(execution).collect()
}

/// The execution of the run whose figures the case shows: its own, or the one in its place.
fn execution(
    plan: &Plan,
    finished: &Finished,
    planned: &PlannedCase,
    case: &CaseResult,
) -> Option<Execution> {
    let result = |id: StepId| &finished.results[id.0 as usize];
    let instead = case
        .fallback
        .as_ref()
        .and_then(|fallback| plan.find(&fallback.step));
    let record = result(instead.unwrap_or(planned.run)).record.as_ref()?;
    // What was converted last is what was loaded.
    let loaded = planned
        .chain
        .iter()
        .rev()
        .find(|id| matches!(plan.step(**id).stage, Stage::Convert | Stage::Generate));
    let artefact = loaded
        .filter(|_| instead.is_none())
        .and_then(|id| result(*id).output());
    Some(Execution {
        key: record.key.digest(),
        host: record.host.clone(),
        artefact,
    })
}

fn executed(name: &str, result: &StepResult) -> Option<Executed> {
    let record = result
        .record
        .as_ref()
        .filter(|_| result.how == How::Executed)?;
    Some(Executed {
        step: name.to_owned(),
        key: record.key.digest(),
        state: record.outcome.label().to_owned(),
        output: record.output,
        started: record.started.clone(),
        seconds: record.seconds,
    })
}

/// What pages show of the history. One that cannot be read is reported, and pages are made without it.
pub fn trends(locations: &Locations, tell: Tell<'_>) -> Trends {
    let known =
        |reader: Option<Reader>| reader.map_or_else(|| Ok(Trends::new()), |reader| reader.trends());
    kept_history(locations, tell)
        .and_then(known)
        .unwrap_or_else(|error| {
            tell(&format!("the pages show no history: {error:#}"));
            Trends::new()
        })
}

/// The history, where there is one. What reads it must be installed: no page waits for an installation.
pub fn kept_history(locations: &Locations, tell: Tell<'_>) -> anyhow::Result<Option<Reader>> {
    let dir = history_dir(locations)?;
    if !history::has_runs(&dir) {
        return Ok(None);
    }
    let provision = provision(locations, Cancel::default())?;
    if !provision.is_ready(Requirement::Env(EnvName::Duckdb)) {
        anyhow::bail!(
            "DuckDB, which reads it, is not installed\n  hint: `orch history` installs it"
        );
    }
    let library = provision.duckdb(&|_| {})?;
    history::History::new(dir, &library)?.read(tell).map(Some)
}
