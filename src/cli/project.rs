//! What most commands begin with: the spec, its matrix and plan, the store, the host.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use anyhow::Context as _;

use crate::base::glob;
use crate::cli::args::{Args, SelectionArgs};
use crate::cli::auto;
use crate::cli::exit::UsageError;
use crate::device::{self, Backend, Host};
use crate::exec::{self, HostFacts, Options};
use crate::matrix::{AUTO, Matrix, Selection};
use crate::plan::{self, Plan};
use crate::provision::Provision;
use crate::spec::{SourceFile, Spec};
use crate::step::{Stage, StepId};
use crate::store::DiskStore;
use crate::worker::Cancel;

pub(super) struct Project {
    pub(super) plan: Plan,
    pub(super) name: String,
    /// Every YAML file that was read.
    pub(super) files: Vec<SourceFile>,
}

impl Project {
    /// The same on every host.
    pub(super) fn load(path: &Path, selection: &SelectionArgs) -> anyhow::Result<Self> {
        if selection.chooses() {
            let text =
                "this command knows no host to choose a target for\n  hint: name the targets instead of `-t auto`";
            return Err(UsageError(text.to_owned()).into());
        }
        Self::load_with(path, selection, None)
    }

    /// For this host: `-t auto` chooses one target for each case.
    pub(super) fn load_here(workplace: &Workplace, path: &Path, selection: &SelectionArgs) -> anyhow::Result<Self> {
        Self::load_with(path, selection, Some(workplace).filter(|_| selection.chooses()))
    }

    fn load_with(path: &Path, selection: &SelectionArgs, chooser: Option<&Workplace>) -> anyhow::Result<Self> {
        let spec = Spec::load(path).map_err(|e| {
            let count = e.0.len();
            let noun = if count == 1 { "error" } else { "errors" };
            UsageError(format!("{} has {count} {noun}\n\n{e}\n", path.display()))
        })?;
        let matrix = Matrix::of(&spec);
        let selection = Selection {
            models: selection.models.clone(),
            targets: selection.targets.iter().filter(|target| *target != AUTO).cloned().collect(),
            families: selection.families.clone(),
            tasks: selection.tasks.clone(),
            priorities: selection.priorities.clone(),
            tags: selection.tags.clone(),
            cases: selection.cases.clone(),
        };
        let mut matrix = matrix.select(&spec, &selection).map_err(|e| UsageError(e.to_string()))?;
        if let Some(workplace) = chooser {
            auto::choose(&mut matrix, &spec, workplace);
        }
        let plan = plan::build(&spec, &matrix).map_err(|e| UsageError(e.to_string()))?;
        Ok(Self { plan, name: path.display().to_string(), files: spec.files })
    }

    /// Steps by glob; one that names nothing is an error, with the nearest name.
    pub(super) fn steps(&self, globs: &[String]) -> anyhow::Result<BTreeSet<StepId>> {
        let mut found = BTreeSet::new();
        for pattern in globs {
            let chosen = self.matching(pattern);
            if chosen.is_empty() {
                let hint = crate::base::suggest::nearest(pattern, self.plan.names())
                    .map_or("`orch plan --all` lists the steps".to_owned(), |name| format!("did you mean `{name}`?"));
                return Err(UsageError(format!("no step is called `{pattern}`\n  hint: {hint}")).into());
            }
            found.extend(chosen);
        }
        Ok(found)
    }

    fn matching(&self, pattern: &str) -> Vec<StepId> {
        let plan = &self.plan;
        let stages = [Stage::Generate, Stage::Convert, Stage::Run, Stage::Command, Stage::Report];
        if let Some(stage) = stages.into_iter().find(|stage| stage.name() == pattern) {
            return plan.ids().filter(|id| plan.step(*id).stage == stage).collect();
        }
        if let Some(case) = pattern.strip_prefix("case:") {
            return plan
                .cases
                .iter()
                .filter(|planned| glob::matches(case, &planned.case.id()))
                .map(|planned| planned.run)
                .collect();
        }
        plan.ids().filter(|id| glob::matches(pattern, &plan.step(*id).name)).collect()
    }
}

/// The store, the host, and what can be installed.
pub(super) struct Workplace {
    pub(super) store: Arc<DiskStore>,
    pub(super) provision: Provision,
    inventory: OnceLock<Vec<Backend>>,
    pub(super) host: HostFacts,
    pub(super) cancel: Cancel,
}

impl Workplace {
    pub(super) fn open(args: &Args) -> anyhow::Result<Self> {
        Self::open_with(args, Cancel::default())
    }

    pub(super) fn open_with(args: &Args, cancel: Cancel) -> anyhow::Result<Self> {
        let cache = absolute(&args.cache_dir)?;
        let store = Arc::new(DiskStore::open(&cache).context("failed to open the store")?);
        let provision = provision(args, cancel.clone())?;
        let host = host_facts(&Host::real());
        Ok(Self { store, provision, inventory: OnceLock::new(), host, cancel })
    }

    /// What the probers say, asked when it is first needed.
    pub(super) fn inventory(&self) -> &[Backend] {
        self.inventory.get_or_init(|| device::inventory_cheap(&Host::real()))
    }

    /// The same for a plan: one without cases is the same on every machine, and nothing is probed for it.
    pub(super) fn inventory_for(&self, has_cases: bool) -> &[Backend] {
        if has_cases { self.inventory() } else { &[] }
    }

    pub(super) fn context<'a>(
        &'a self,
        project: &'a Project,
        options: &'a Options,
        listener: &'a dyn crate::event::Listener,
    ) -> exec::Context<'a> {
        exec::Context {
            plan: &project.plan,
            store: &self.store,
            provision: &self.provision,
            listener,
            inventory: self.inventory_for(!project.plan.cases.is_empty()),
            host: &self.host,
            options,
            cancel: &self.cancel,
            remote: None,
        }
    }
}

/// What is, or can be, installed for the steps of any spec.
pub(super) fn provision(args: &Args, cancel: Cancel) -> anyhow::Result<Provision> {
    let cache = absolute(&args.cache_dir)?;
    let env_dir = args.env_dir.as_deref().map(absolute).transpose()?.unwrap_or_else(|| cache.join("envs"));
    Provision::new(env_dir, args.python.clone(), cancel)
}

pub(super) fn host_facts(host: &Host) -> HostFacts {
    let fingerprint = device::fingerprint(host);
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").map(|name| name.trim().to_owned());
    let report = crate::report::Host {
        name: name.unwrap_or_else(|_| "unnamed".into()),
        os: fingerprint.os,
        cpu: fingerprint.cpu,
        cores: fingerprint.cores,
        memory_bytes: fingerprint.memory_bytes,
    };
    HostFacts::new(fingerprint.digest, report, |name| std::env::var_os(name))
}

pub(super) fn absolute(path: &Path) -> anyhow::Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("failed to resolve `{}`", path.display()))
}
