//! The way from what is requested to a finished run: which cases and steps there are here, what of them is to be done, doing it, and
//! laying out what came of it. Whoever runs orch composes it here: the command line, a test, a program that uses the library.
//!
//! ```text
//! Session::open(Locations) → session.plan(Request) → Planned → session.run(Settings) → Run → session.keep
//! ```
//!
//! Knows nothing of arguments, terminals and exit codes: what the user should know besides results goes to a [`Tell`].

mod accept;
mod affected;
mod auto;
mod away;
mod bisect;
mod blame;
mod confirm;
mod contributed;
mod daemon;
mod fits;
pub(crate) mod git;
mod half;
mod live;
mod machine;
mod meant;
mod one_case;
mod memo;
mod out_dir;
mod part;
mod own;
mod probed;
mod probes;
mod profile;
mod project;
mod recorded;
mod request;
mod resume;
mod run;
mod run_log;
mod scope;
mod sharing;
mod since;
mod toolchain;
mod watched;
mod without_cuda;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use anyhow::Context as _;

use crate::cases;
use crate::device::{self, Backend, Host};
use crate::event::Listener;
use crate::exec::{self, HostFacts, Options, Preview};
use crate::provision::Provision;
use crate::report::ReportDoc;
use crate::step::{Required, Stage};
use crate::store::DiskStore;
use crate::worker::Cancel;

pub use crate::exec::{OUT_DIR, Settings};
pub use accept::{Accepted, Until, accept_figures, acceptable};
pub use away::{serve_order, worker_properties};
pub use bisect::{Bisected, Range, trial_word};
pub use blame::{
    Blamed, Choice, Finding, Found, Module, Pass, Rounding, Suspects, Verdict, is_search, suspects,
};
pub use confirm::confirm;
pub use contributed::{TakenIn, contribute, contributions, write_contribution};
pub use daemon::{Bounds, serve_steps};
pub use half::{Ask, add_half};
pub use live::{Live, Shown};
pub use machine::{browsers, provision, this_host};
pub use meant::Meant;
pub use memo::{Recalled, recall};
pub use out_dir::{
    Handed, LastReport, Named, Spot, earlier_site, last_report, loaded, newer_than, page_of,
    place_site,
};
pub use own::Own;
pub use probes::Probes;
pub use profile::Profiled;
pub use project::{Project, spec};
pub use recorded::{history_dir, kept_history, runs_dir, trends};
pub use request::{Locations, Request, Sweep, can_be_written};
pub use run::Run;
pub use scope::Planned;
#[cfg(not(feature = "remote"))]
pub use sharing::NOT_BUILT;
#[cfg(feature = "remote")]
pub use sharing::finish;
pub use sharing::{RemoteSummary, configured};
pub use toolchain::{Added, Listed, ListedLock, Wish};
pub use watched::Watched;

/// Hears lines for the user that are no results.
pub type Tell<'a> = &'a dyn Fn(&str);

/// An error of the user's making: arguments or specs.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub String);

/// Returns a [`UsageError`] with a formatted text.
macro_rules! usage {
    ($($text:tt)+) => { anyhow::bail!($crate::session::UsageError(format!($($text)+))) };
}
pub(crate) use usage;

/// The store, the host, and what can be installed.
pub struct Session {
    pub store: Arc<DiskStore>,
    pub provision: Provision,
    pub host: HostFacts,
    pub cancel: Cancel,
    locations: Locations,
    inventory: OnceLock<Vec<Backend>>,
    /// Backends that the environment pretends to have.
    pub mocked: BTreeSet<String>,
}

impl Session {
    /// Opens a session on this machine.
    pub fn open(locations: &Locations) -> anyhow::Result<Self> {
        Self::open_with(locations, Cancel::default())
    }

    /// Opens a session for a command that only looks: where there is no store, none is made.
    pub fn open_to_look(locations: &Locations) -> anyhow::Result<Self> {
        Self::open_on(locations.store_to_look()?, locations, Cancel::default())
    }

    /// Opens a session on this machine, to be ended by `cancel`.
    pub fn open_with(locations: &Locations, cancel: Cancel) -> anyhow::Result<Self> {
        Self::open_on(locations.store()?, locations, cancel)
    }

    fn open_on(store: DiskStore, locations: &Locations, cancel: Cancel) -> anyhow::Result<Self> {
        let store = Arc::new(store);
        let provision = provision(locations, cancel.clone())?;
        let inventory = OnceLock::new();
        let host = machine::host_facts(&Host::real());
        Ok(Self {
            store,
            provision,
            host,
            cancel,
            locations: locations.clone(),
            inventory,
            mocked: machine::mocked()?,
        })
    }

    /// Opens a session on a machine that is described instead of looked at: nothing is probed.
    pub fn described(
        store: DiskStore,
        provision: Provision,
        host: HostFacts,
        inventory: Vec<Backend>,
    ) -> Self {
        let store = Arc::new(store);
        let inventory = OnceLock::from(inventory);
        Self {
            store,
            provision,
            host,
            cancel: Cancel::default(),
            locations: Default::default(),
            inventory,
            mocked: Default::default(),
        }
    }

    /// The probers' answers, taken when they are first needed.
    pub fn inventory(&self) -> &[Backend] {
        self.inventory
            .get_or_init(|| machine::inventory(&self.provision))
    }

    /// A plan without cases is the same on every machine, and nothing is probed for it.
    fn inventory_for(&self, has_cases: bool) -> &[Backend] {
        if has_cases { self.inventory() } else { &[] }
    }

    /// What would happen to each step of a plan, without doing it.
    pub fn preview(
        &self,
        project: &Project,
        options: &Options,
        listener: &dyn Listener,
    ) -> anyhow::Result<Vec<Preview>> {
        Ok(self.context(project, options, listener).previews()?)
    }

    /// The report of what the store already holds.
    pub fn held(
        &self,
        project: &Project,
        options: &Options,
        listener: &dyn Listener,
    ) -> anyhow::Result<ReportDoc> {
        Ok(cases::held(&self.context(project, options, listener))?)
    }

    /// What its steps need to be installed here: of the cases whose hardware is here.
    pub fn requirements(&self, project: &Project) -> BTreeSet<Required> {
        let plan = &project.plan;
        let is_here = |backend: &str| {
            self.inventory()
                .iter()
                .any(|known| known.name == backend && known.available)
        };
        let runs = plan.cases.iter().filter(|planned| {
            let step = plan.step(planned.run);
            step.stage == Stage::Run
                && !step.run().is_elsewhere()
                && is_here(step.run().backend.name)
        });
        let steps = runs
            .flat_map(|planned| &planned.chain)
            .map(|id| plan.step(*id));
        steps.flat_map(|step| step.required()).collect()
    }

    pub fn context<'a>(
        &'a self,
        project: &'a Project,
        options: &'a Options,
        listener: &'a dyn Listener,
    ) -> exec::Context<'a> {
        exec::Context {
            plan: &project.plan,
            store: &self.store,
            provision: &self.provision,
            listener,
            inventory: self.inventory_for(!project.plan.cases.is_empty()),
            probe: self,
            host: &self.host,
            options,
            cancel: &self.cancel,
            remote: None,
            away: None,
        }
    }
}

/// NVIDIA's and others' libraries, queried by a run that must know more than files tell.
impl exec::Probe for Session {
    fn query(&self, backend: &str) -> Backend {
        match Probes::new(&self.store, &self.provision, self.cancel.clone()) {
            Ok(probes) => device::probe_one(backend, &Host::real(), &|name, params| {
                probes.query(name, params)
            }),
            Err(e) => Backend::unavailable(backend, format!("{e:#}")),
        }
    }
}

pub fn absolute(path: &Path) -> anyhow::Result<PathBuf> {
    std::path::absolute(path).with_context(|| {
        let path = path.display();
        match std::env::current_dir() {
            Ok(_) => format!("failed to resolve `{path}`"),
            Err(_) => format!("failed to resolve `{path}`: the working folder was removed"),
        }
    })
}

#[cfg(test)]
mod tests;
