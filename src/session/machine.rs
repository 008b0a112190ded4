//! What is looked at on this machine before anything is planned: hardware, installations, variables of orch's own.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::base::variable;
use crate::device::{self, BACKENDS, Backend, BackendRow, Host, Libraries};
use crate::exec::HostFacts;
use crate::provision::{FOR_CPUS, Provision};
use crate::session::{Locations, UsageError, absolute, usage};
use crate::step::Requirement;
use crate::toolchain::{EnvName, Locks};
use crate::worker::Cancel;

/// Backends, separated by commas, that runs are to pretend to have: what can be made for them is made, and nothing runs.
pub(super) const MOCKED: &str = "ORCH_MOCK_DEVICES";

pub(super) fn mocked() -> anyhow::Result<BTreeSet<String>> {
    let value = variable::text(MOCKED).unwrap_or_default();
    let names = value
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty());
    names
        .map(|name| match BackendRow::named(name).is_some() {
            true => Ok(name.to_owned()),
            false => {
                let hint = crate::base::suggest::hint(name, BACKENDS.iter().map(|row| row.name));
                usage!("{MOCKED}: no backend is called `{name}`\n  hint: {hint}")
            }
        })
        .collect()
}

/// What a cheap look at this machine finds.
pub(super) fn inventory(provision: &Provision) -> Vec<Backend> {
    device::inventory_cheap(&Host::real().with_libraries(browsers(provision)))
}

/// The browser that is installed, and where browsers' answers are kept.
pub fn browsers(provision: &Provision) -> Libraries {
    let browser = Requirement::Env(EnvName::Browser);
    Libraries {
        browser: provision
            .is_ready(browser)
            .then(|| provision.browser().ok())
            .flatten(),
        answers: Some(provision.dir().join("answers")),
        ..Libraries::default()
    }
}

/// What is, or can be, installed for the steps of any spec.
pub fn provision(locations: &Locations, cancel: Cancel) -> anyhow::Result<Provision> {
    let cache = absolute(&locations.cache_dir)?;
    let env_dir = locations
        .env_dir
        .as_deref()
        .map(absolute)
        .transpose()?
        .unwrap_or_else(|| cache.join("envs"));
    let provision =
        Provision::new(env_dir, locations.python.clone(), cancel)?.opening(own_browser()?);
    Ok(match &locations.locks {
        Some(folder) => provision.locked(Locks::of(folder).map_err(UsageError)?),
        None => provision
            .without_cuda(index_for_cpus())
            .map_err(UsageError)?,
    })
}

/// The index of PyTorch without CUDA, by ORCH_TORCH_INDEX; None for `pypi`, which has none.
fn index_for_cpus() -> Option<String> {
    let named = variable::text("ORCH_TORCH_INDEX").filter(|value| !value.is_empty());
    Some(named.unwrap_or_else(|| FOR_CPUS.to_owned())).filter(|index| index != "pypi")
}

/// The browser that ORCH_BROWSER names.
pub(super) fn own_browser() -> anyhow::Result<Option<PathBuf>> {
    let named = variable::os("ORCH_BROWSER").filter(|value| !value.is_empty());
    named.map(|path| absolute(Path::new(&path))).transpose()
}

/// This machine, as reports name it.
pub fn this_host() -> crate::report::Host {
    host_facts(&Host::real()).report
}

pub(super) fn host_facts(host: &Host) -> HostFacts {
    let fingerprint = device::fingerprint(host);
    let name =
        std::fs::read_to_string("/proc/sys/kernel/hostname").map(|name| name.trim().to_owned());
    let report = crate::report::Host {
        name: name.unwrap_or_else(|_| "unnamed".into()),
        os: fingerprint.os,
        cpu: fingerprint.cpu,
        cpu_identity: fingerprint.cpu_identity,
        cores: fingerprint.cores,
        memory_bytes: fingerprint.memory_bytes,
    };
    HostFacts::new(fingerprint.digest, fingerprint.computing, report, |name| {
        variable::os(name)
    })
}
