//! The worker's side: performs an order that lies in a folder, and leaves the answer beside it.

#![expect(
    clippy::disallowed_methods,
    reason = "copies a job's log into its reply"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use crate::base::{Digest, figures, fs as bfs};
use crate::device::lease::lend_first;
use crate::device::{Backend, DeviceKind, Lease};
use crate::event::Event;
use crate::exec::away::order::{Answer, Inputs, Order, VERSION};
use crate::exec::host::HostFacts;
use crate::exec::options::{Options, Settings};
use crate::exec::perform::bug::Bugs;
use crate::exec::perform::ended::{Done, Origin};
use crate::exec::perform::inputs::{Given, LaidTrees};
use crate::exec::perform::outcome::Judged;
use crate::exec::perform::performer::Performer;
use crate::exec::perform::servers::{ServerOf, Servers};
use crate::exec::perform::task::Task;
use crate::exec::perform::workers::Workers;
use crate::key::{KeyDoc, MissReason};
use crate::provision::{Provision, title};
use crate::record::Outcome;
use crate::step::{Needs, Step, StepId, StoredFile};
use crate::store::{DiskStore, Manifest};
use crate::worker::{Cancel, Project, Workplace};

/// Names in the folder of an action.
pub(super) const ORDER: &str = "order.json";
pub(super) const ANSWER: &str = "answer.json";
pub(super) const OUT: &str = "out";
pub(super) const LOG: &str = "log";

/// The machine of a worker.
pub struct Site<'a> {
    /// A store for this order alone.
    pub store: &'a DiskStore,
    pub provision: &'a Provision,
    pub host: &'a HostFacts,
    /// Called where a device is used.
    pub inventory: &'a dyn Fn() -> Vec<Backend>,
    pub cancel: &'a Cancel,
    /// Hears that another orch process of this machine is waited for.
    pub tell: &'a (dyn Fn(&str) + Send + Sync),
}

/// Performs the order in `dir`. True if the result is one that may be kept for the key: what else it was may be otherwise
/// next time.
pub fn serve(dir: &Path, site: &Site<'_>) -> anyhow::Result<bool> {
    let path = dir.join(ORDER);
    let bytes = fs::read(&path).with_context(|| format!("failed to read {}", path.display()))?;
    let order = Order::parse(&bytes)?;
    let key = order.key.digest();
    // Both begin anew when the step does, after whatever it waits for.
    let mut started = figures::now();
    let mut clock = Instant::now();
    let log = site.store.log_path(&order.step);
    let begins = || {
        started = figures::now();
        clock = Instant::now();
    };
    let Done { judged, made, .. } =
        perform(dir, order, site, begins).unwrap_or_else(|error| Done::only(Judged::error(&error)));
    let laid = made
        .as_ref()
        .map(|made| lay_out(site.store, made, &dir.join(OUT)))
        .transpose();
    let (judged, made) = match laid {
        Ok(_) => (judged, made),
        Err(e) => (Judged::error(&e), None),
    };
    let origin = Origin {
        host: site.host.report.name.clone(),
        fingerprint: site.host.fingerprint.clone(),
        cpu: site.host.report.cpu.clone(),
        cpu_identity: site.host.report.cpu_identity.clone(),
        cores: site.host.report.cores,
        started,
        seconds: clock.elapsed().as_secs_f64(),
    };
    let Judged {
        outcome,
        reason,
        facts,
        measure,
        transient,
    } = judged;
    let answer = Answer {
        version: VERSION,
        key,
        outcome,
        reason,
        transient,
        facts,
        measure,
        made,
        origin,
    };
    let _ = fs::copy(log, dir.join(LOG));
    bfs::write_new(dir.join(ANSWER), serde_json::to_vec(&answer)?)
        .context("failed to write the answer")?;
    Ok(answer.outcome.may_be_shared())
}

fn perform(
    dir: &Path,
    order: Order,
    site: &Site<'_>,
    begins: impl FnOnce(),
) -> anyhow::Result<Done> {
    let key = order.key.clone();
    let settings = Settings {
        job_memory: order.job_memory,
        ..Settings::default()
    };
    let options = Options {
        settings,
        ..Options::default()
    };
    let inputs = order.inputs.clone();
    let step = order.into_step()?;
    check(dir, &inputs)?;
    let lease = match lent(&step, site).and_then(|lease| fits(&step, &key, site).map(|()| lease)) {
        Ok(lease) => lease,
        Err(why) => return Ok(Done::only(Judged::failed(Outcome::SkipUnavailable, why))),
    };
    let scratch = site.store.scratch()?;
    let servers = Servers::new(site.provision, site.store.root());
    let workers = Workers::new(&scratch);
    let bugs = Bugs::new(site.store);
    let shown = [site.store.root(), site.provision.dir()];
    let workplace = Workplace {
        sandboxes: scratch.dir("commands")?,
        project: Project::new(dir, &shown),
    };
    if let Some(env) = step.kind.server(&step) {
        servers.start(&ServerOf::step(&step, env))?;
    }
    let performer = Performer {
        store: site.store,
        scratch: &scratch,
        laid: LaidTrees::new(site.store, &scratch),
        workplace: &workplace,
        provision: site.provision,
        servers: &servers,
        workers: &workers,
        // Nobody listens but who reads what the action printed.
        listener: &|event: Event| {
            if let Event::StepWaiting { text, .. } | Event::Warning { text } = event {
                (site.tell)(&text);
            }
        },
        cancel: site.cancel,
        host: site.host,
        options: &options,
        bugs: &bugs,
        remote: None,
        remote_steps: None,
    };
    let given = given(dir, &step, &inputs)?;
    let task = Task {
        id: StepId(0),
        step: &step,
        key,
        inputs: vec![],
        why: MissReason::NeverRan,
        attempts: vec![],
        lease,
        chosen: None,
        is_top: true,
        order: None,
    };
    let Some(_devices) = performer.occupy(&task) else {
        return Ok(Done::interrupted());
    };
    begins();
    let caught = bugs.caught(&step.name, || performer.execute(&task, given));
    workers.close(Duration::ZERO);
    let done = caught.unwrap_or_else(Err)?;
    // What a step read must be what its key names, also when it ends.
    check(dir, &inputs)?;
    Ok(done)
}

/// Why not, if what is installed here is not all that the key names: a result under it would be another one's.
fn fits(step: &Step, key: &KeyDoc, site: &Site<'_>) -> Result<(), String> {
    let host = &site.host.report.name;
    if let Some(missing) = step
        .kind
        .requires(step)
        .into_iter()
        .find(|one| !site.provision.is_ready(*one))
    {
        let what = title(missing);
        let at = site.provision.dir().display();
        let hint = "hint: `orch setup` there, and ORCH_ENV_DIR in `env`";
        return Err(format!(
            "the worker {host} lacks the {what} in {at}; {hint}"
        ));
    }
    let required: BTreeMap<_, _> = key.lines().collect();
    // As in a key, of one name the last one counts.
    let tools: BTreeMap<_, _> = step
        .kind
        .tools(step)
        .into_iter()
        .map(|tool| (tool.package, tool))
        .collect();
    for tool in tools.into_values() {
        let package = tool.package;
        let here = site.provision.identity(tool);
        if let Some(required) = required
            .get(&*format!("tool.{package}"))
            .filter(|required| here != ***required)
        {
            let hint = "hint: the same ORCH_LOCKS, ORCH_PYTHON or ORCH_TORCH_INDEX here and there (`env` in orch.toml)";
            return Err(format!(
                "the worker {host} has {package} {here}, and {required} is asked for; {hint}"
            ));
        }
    }
    Ok(())
}

/// An error if an input is not what was ordered.
fn check(dir: &Path, inputs: &Inputs) -> anyhow::Result<()> {
    for (name, (at, manifest)) in inputs {
        let Some(manifest) = manifest else { continue };
        for file in &manifest.files {
            let path = dir.join(at).join(&file.path);
            let digest = Digest::of_file(&path)
                .with_context(|| format!("failed to read its input {}", path.display()))?;
            anyhow::ensure!(
                digest == file.digest,
                "`{}` of its input `{name}` is not what was ordered",
                file.path
            );
        }
    }
    Ok(())
}

fn given(dir: &Path, step: &Step, inputs: &Inputs) -> anyhow::Result<Given> {
    let mut given = Given::default();
    for (name, (at, manifest)) in inputs {
        let folder = dir.join(at);
        if let Some(manifest) = manifest {
            // A tree may be empty, and an empty folder is not sent.
            fs::create_dir_all(&folder)?;
            if step.kind.lays_in() {
                let paths = manifest.files.iter().map(|file| file.path.clone());
                let is_lent = step.is_lent(name);
                let stored = paths.map(|path| StoredFile {
                    at: folder.join(&path),
                    path,
                    is_lent,
                });
                given.trees.insert(name.clone(), stored.collect());
                continue;
            }
        }
        given.paths.insert(name.clone(), folder);
    }
    Ok(given)
}

/// The device that the step asks for, or why there is none: a server may have sent it here whatever it asks for.
fn lent(step: &Step, site: &Site<'_>) -> Result<Option<Lease>, String> {
    if !step.kind.runs_on_device() {
        return Ok(None);
    }
    let run = step.run();
    let inventory = (site.inventory)();
    let found = inventory
        .iter()
        .find(|known| known.name == run.backend.name);
    if !found.is_some_and(|found| found.available) {
        let why = found
            .and_then(|found| found.reason.clone())
            .unwrap_or_else(|| "nothing is known of it".into());
        let text = |(name, is_real): (String, bool)| {
            if is_real {
                name
            } else {
                format!("{name} (emulated)")
            }
        };
        let offers: Vec<_> = offered(&inventory).into_iter().map(text).collect();
        let host = &site.host.report.name;
        let name = run.backend.name;
        let offers = offers.join(", ");
        return Err(format!(
            "the worker {host} does not offer {name}: {why}; it offers {offers}"
        ));
    }
    let Needs::Device {
        backend, device, ..
    } = step.kind.needs(step)
    else {
        return Ok(None);
    };
    Ok(lend_first(&inventory, &backend, &device))
}

/// The backends that are here, each with whether it has hardware and not only what stands for it.
pub fn offered(inventory: &[Backend]) -> Vec<(String, bool)> {
    let available = inventory.iter().filter(|backend| backend.available);
    let is_real = |backend: &Backend| {
        backend
            .devices
            .iter()
            .any(|device| device.kind == DeviceKind::Hardware)
    };
    available
        .map(|backend| (backend.name.clone(), is_real(backend)))
        .collect()
}

fn lay_out(store: &DiskStore, made: &Manifest, out: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(out)?;
    for file in &made.files {
        let to = out.join(&file.path);
        if let Some(folder) = to.parent() {
            fs::create_dir_all(folder)?;
        }
        bfs::link_or_copy(&store.blob(file), &to)
            .with_context(|| format!("failed to lay out {}", to.display()))?;
    }
    Ok(())
}
