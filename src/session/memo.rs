//! What the last run found, where nothing changed since. And its other end: keeping what a run found for the next one.

use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::base::{figures, variable};
use crate::device::{Backend, Host};
use crate::event::Event;
use crate::exec::HostFacts;
use crate::memo::{Ended, Here, Memo, MemoPath};
use crate::provision::Provision;
use crate::report::{ReportDoc, Summary};
use crate::session::machine::{self, MOCKED};
use crate::session::out_dir::LastRun;
use crate::session::{
    Locations, Request, Run, Session, Settings, Tell, absolute, away, provision, recorded, sharing,
};
use crate::store::DiskStore;
use crate::toolchain::EnvName;
use crate::worker::Cancel;

/// The path of the memo of this run; None where there can be none.
fn path(locations: &Locations, request: &Request, settings: &Settings) -> Option<MemoPath> {
    // What runs anew finds what any run would.
    let request = Request {
        rerun: Vec::new(),
        anew: false,
        ..request.clone()
    };
    let browser = machine::own_browser().ok()?;
    let mocked = variable::os(MOCKED);
    let root = DiskStore::root_below(&absolute(&locations.cache_dir).ok()?);
    MemoPath::new(
        root,
        &(locations, request, shows(settings), browser, mocked),
    )
    .ok()
}

/// The settings that change what a run without work shows. A new setting does not compile before it is listed here: an
/// option that a memo ignored would work once and never again.
fn shows(settings: &Settings) -> &Path {
    let Settings {
        out_dir,
        // A run with a trace, or one that searches for causes, is never recalled.
        trace: _,
        blame: _,
        // A run that executes elsewhere has no memo.
        executor: _,
        // Only the journal of a run that executes something has it.
        command: _,
        // These change how steps execute, and none does.
        jobs: _,
        memory: _,
        job_memory: _,
        keep_going: _,
        retries: _,
        backoff: _,
        remeasure_seconds: _,
        seed: _,
        oversized: _,
        no_remote: _,
    } = settings;
    out_dir
}

/// What the last run found, and that it is there still.
pub struct Recalled {
    memo: Memo,
    host: HostFacts,
    inventory: Vec<Backend>,
    pythons: Vec<Option<PathBuf>>,
    clock: Instant,
}

/// What the last run of the same found, if nothing of it changed. None means that the run is to be done.
pub fn recall(
    locations: &Locations,
    request: &Request,
    settings: &Settings,
) -> anyhow::Result<Option<Recalled>> {
    let shows_more = settings.trace.is_some() || settings.blame;
    let is_usual = request.is_whole() && request.rerun.is_empty() && !request.anew && !shows_more;
    if !is_usual || sharing::owes(locations, settings.no_remote) || !is_here(settings) {
        return Ok(None);
    }
    let clock = Instant::now();
    let Some(path) = path(locations, request, settings) else {
        return Ok(None);
    };
    let Some(memo) = path.open() else {
        return Ok(None);
    };
    let host = machine::host_facts(&Host::real());
    let mut inventory = Vec::new();
    let mut pythons = Vec::new();
    if memo.has_cases() {
        let provision = provision(locations, Cancel::default())?;
        inventory = machine::inventory(&provision);
        pythons = interpreters(&provision);
    }
    let mut recalled = Recalled {
        memo,
        host,
        inventory,
        pythons,
        clock,
    };
    if !recalled.memo.holds(&path, recalled.here()) {
        return Ok(None);
    }
    // Where the folder cannot be written, the run is to say so.
    if LastRun::begin(&settings.out_dir, &figures::exactly_now())
        .and_then(|last| last.ended(request.part().is_some()))
        .is_err()
    {
        return Ok(None);
    }
    if let Some(revision) = recorded::new_revision(recalled.memo.recorded(), &request.spec) {
        recorded::repeat(
            &mut recalled.memo,
            &path,
            revision,
            locations,
            request,
            settings,
        );
    }
    Ok(Some(recalled))
}

impl Recalled {
    fn here(&self) -> Here<'_> {
        Here {
            host: &self.host,
            inventory: &self.inventory,
            pythons: &self.pythons,
        }
    }

    pub fn summary(&self) -> Summary {
        Summary {
            seconds: self.clock.elapsed().as_secs_f64(),
            ..self.memo.summary().clone()
        }
    }

    /// What an ordinary run would print before its last line. None if it is damaged.
    pub fn text(&self) -> Option<String> {
        self.memo.text()
    }

    /// The document of an ordinary run. None if it is damaged.
    pub fn doc(&self) -> Option<ReportDoc> {
        Some(ReportDoc {
            summary: self.summary(),
            ..self.memo.doc(self.here())?
        })
    }
}

/// Whether all steps execute here: what is elsewhere no memo can look at.
fn is_here(settings: &Settings) -> bool {
    matches!(away::configured(settings), Ok(None))
}

fn interpreters(provision: &Provision) -> Vec<Option<PathBuf>> {
    EnvName::ALL
        .iter()
        .map(|name| provision.interpreter(*name))
        .collect()
}

impl Session {
    /// Keeps what the run found, if the same run would find nothing to do.
    pub fn keep(&self, run: Run, request: &Request, settings: &Settings, tell: Tell<'_>) {
        let Run {
            planned,
            finished,
            handed,
            options,
            before,
            recorded,
            ..
        } = run;
        let project = &planned.project;
        let has_cases = !project.plan.cases.is_empty();
        // What a device computes in is probed each time: a driver may change it, which no memo looks at.
        let may_keep = request.is_whole()
            && !project.probes
            && !handed.in_the_way
            && !self.store.is_read_only();
        // The packages of a Python of the user's, or a browser, may be exchanged at any time, and nothing that is looked at would show it.
        let is_foreign =
            self.locations.python.is_some() || !matches!(machine::own_browser(), Ok(None));
        if !may_keep || (has_cases && is_foreign) || !is_here(settings) {
            return;
        }
        let Some(path) = path(&self.locations, request, settings) else {
            return;
        };
        let pythons = if has_cases {
            interpreters(&self.provision)
        } else {
            Vec::new()
        };
        let kept = path.keep(Ended {
            // The run is over: no listener gets further messages.
            context: &self.context(project, &options, &|_: Event| {}),
            finished,
            specs: &project.files,
            here: Here {
                host: &self.host,
                inventory: self.inventory_for(has_cases),
                pythons: &pythons,
            },
            out: &handed.placed,
            before,
            recorded,
        });
        if let Err(e) = kept {
            tell(&format!(
                "warning: the memo of this run was not written, so the next run checks everything: {e}"
            ));
        }
    }
}
