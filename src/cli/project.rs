//! What most commands begin with: the spec, its matrix and plan, the store, the host.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use anyhow::Context as _;

use crate::base::figures::counted;
use crate::base::glob;
use crate::cli::args::{Args, SelectionArgs, SpecArgs};
use crate::cli::auto;
use crate::cli::exit::UsageError;
use crate::cli::half::{self, Ask};
use crate::cli::probes::Probes;
use crate::device::{self, BACKENDS, Backend, BackendRow, Host, Libraries};
use crate::exec::{self, HostFacts, Options};
use crate::matrix::{AUTO, Fallback, Matrix, Selection};
use crate::plan::{self, Plan};
use crate::provision::Provision;
use crate::spec::{SourceFile, Spec, SpecErrors};
use crate::step::{Requirement, Stage, StepId};
use crate::store::DiskStore;
use crate::toolchain::EnvName;
use crate::worker::Cancel;

pub(super) struct Project {
    pub(super) plan: Plan,
    pub(super) name: String,
    /// Every YAML file that was read.
    pub(super) files: Vec<SourceFile>,
    /// What its cases are depends on what devices answered.
    pub(super) probes: bool,
}

impl Project {
    /// The same on every host: cases of targets with `half` at each precision that it may come to.
    pub(super) fn load(path: &Path, selection: &SelectionArgs) -> anyhow::Result<Self> {
        Self::of(&spec(path)?, path, selection, Fallback::AsDeclared, None)
    }

    /// The same on every host, with the fallbacks that are asked for.
    pub(super) fn load_as(args: &SpecArgs) -> anyhow::Result<Self> {
        Self::of(&spec(&args.spec)?, &args.spec, &args.selection, args.fallback(), None)
    }

    /// For this host: `half` of targets is settled, and `-t auto` chooses one target for each case.
    pub(super) fn load_here(workplace: &Workplace, args: &SpecArgs, ask: Ask<'_>) -> anyhow::Result<Self> {
        Self::of(&spec(&args.spec)?, &args.spec, &args.selection, args.fallback(), Some((workplace, ask)))
    }

    /// All of a spec, for this host.
    pub(super) fn load_all_here(workplace: &Workplace, path: &Path) -> anyhow::Result<Self> {
        let here = Some((workplace, Ask::Installed));
        Self::of(&spec(path)?, path, &SelectionArgs::none(), Fallback::AsDeclared, here)
    }

    /// The plan of a spec that was read from `path`.
    pub(super) fn of(
        spec: &Spec,
        path: &Path,
        selection: &SelectionArgs,
        fallback: Fallback,
        here: Option<(&Workplace, Ask<'_>)>,
    ) -> anyhow::Result<Self> {
        if selection.chooses() && here.is_none() {
            let hint = "hint: name the targets instead of `-t auto`";
            return Err(UsageError(format!("this command knows no host to choose a target for\n  {hint}")).into());
        }
        let chooses = selection.chooses();
        let matrix = Matrix::with(spec, &selection.targets);
        matrix.each_expectation_counts(spec).map_err(|e| UsageError(e.to_string()))?;
        let selection = Selection {
            models: selection.models.clone(),
            targets: selection.targets.iter().filter(|target| *target != AUTO).cloned().collect(),
            families: selection.families.clone(),
            tasks: selection.tasks.clone(),
            priorities: selection.priorities.clone(),
            tags: selection.tags.clone(),
            cases: selection.cases.clone(),
        };
        let mut matrix = matrix.select(spec, &selection).map_err(|e| UsageError(e.to_string()))?;
        let probes = matrix.asks_for_half(spec);
        if let Some((workplace, ask)) = here {
            half::settle(&mut matrix, spec, workplace, ask);
            if chooses {
                auto::choose(&mut matrix, spec, workplace);
            }
        }
        let plan = plan::build_with(spec, &matrix, fallback).map_err(|e| UsageError(e.to_string()))?;
        Ok(Self { plan, name: path.display().to_string(), files: spec.files.clone(), probes })
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
        let stages = [Stage::Generate, Stage::Convert, Stage::Run, Stage::Judge, Stage::Command, Stage::Report];
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

pub(super) fn spec(path: &Path) -> anyhow::Result<Spec> {
    let told = |e: SpecErrors| UsageError(format!("{} has {}\n\n{e}\n", path.display(), counted(e.0.len(), "error")));
    Ok(Spec::load(path).map_err(told)?)
}

/// Backends, separated by commas, that runs are to pretend to have: what can be made for them is made, and nothing runs.
pub(super) const MOCKED: &str = "ORCH_MOCK_DEVICES";

fn mocked() -> anyhow::Result<BTreeSet<String>> {
    let value = std::env::var(MOCKED).unwrap_or_default();
    let names = value.split(',').map(str::trim).filter(|name| !name.is_empty());
    names
        .map(|name| match BackendRow::named(name).is_some() {
            true => Ok(name.to_owned()),
            false => {
                let hint = crate::base::suggest::hint(name, BACKENDS.iter().map(|row| row.name));
                Err(UsageError(format!("{MOCKED}: no backend is called `{name}`\n  hint: {hint}")).into())
            }
        })
        .collect()
}

/// The store, the host, and what can be installed.
pub(super) struct Workplace {
    pub(super) store: Arc<DiskStore>,
    pub(super) provision: Provision,
    inventory: OnceLock<Vec<Backend>>,
    pub(super) host: HostFacts,
    pub(super) cancel: Cancel,
    /// Backends that the environment pretends to have.
    pub(super) mocked: BTreeSet<String>,
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
        Ok(Self { store, provision, inventory: OnceLock::new(), host, cancel, mocked: mocked()? })
    }

    /// What the probers say, asked when it is first needed.
    pub(super) fn inventory(&self) -> &[Backend] {
        self.inventory.get_or_init(|| inventory_cheap(&self.provision))
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
            probe: self,
            host: &self.host,
            options,
            cancel: &self.cancel,
            remote: None,
        }
    }
}

/// NVIDIA's and others' libraries, asked by a run that must know more than files tell.
impl exec::Probe for Workplace {
    fn ask(&self, backend: &str) -> Backend {
        match Probes::new(&self.store, &self.provision, self.cancel.clone()) {
            Ok(probes) => device::probe_one(backend, &Host::real(), &|name, params| probes.ask(name, params)),
            Err(e) => Backend::unavailable(backend, format!("{e:#}")),
        }
    }
}

/// What a cheap look at this machine finds.
pub(super) fn inventory_cheap(provision: &Provision) -> Vec<Backend> {
    device::inventory_cheap(&Host::real().with_libraries(browsers(provision)))
}

/// The browser that is installed, and where browsers' answers are kept.
pub(super) fn browsers(provision: &Provision) -> Libraries {
    let browser = Requirement::Env(EnvName::Browser);
    Libraries {
        browser: provision.is_ready(browser).then(|| provision.browser().ok()).flatten(),
        answers: Some(provision.dir().join("answers")),
        ..Libraries::default()
    }
}

/// What is, or can be, installed for the steps of any spec.
pub(super) fn provision(args: &Args, cancel: Cancel) -> anyhow::Result<Provision> {
    let cache = absolute(&args.cache_dir)?;
    let env_dir = args.env_dir.as_deref().map(absolute).transpose()?.unwrap_or_else(|| cache.join("envs"));
    Ok(Provision::new(env_dir, args.python.clone(), cancel)?.opening(own_browser()?))
}

/// The browser that ORCH_BROWSER names.
pub(super) fn own_browser() -> anyhow::Result<Option<PathBuf>> {
    let named = std::env::var_os("ORCH_BROWSER").filter(|value| !value.is_empty());
    named.map(|path| absolute(Path::new(&path))).transpose()
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
