//! Steps that execute elsewhere: the executor of a run, if one is named, and this machine as a worker.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;

use crate::config::{self, ExecutorConfig};
use crate::device::{self, Backend, Host};
use crate::exec::away::{RemoteExecutor, Site, offered, serve};
use crate::exec::{DEVICE, Routing};
use crate::session::{Locations, Settings, UsageError, machine, usage};
use crate::store::DiskStore;
use crate::worker::Cancel;

/// What the command line, the variables or the file of the current folder name.
pub(super) fn configured(settings: &Settings) -> anyhow::Result<Option<ExecutorConfig>> {
    let here = std::env::current_dir()?;
    Ok(
        config::executor(&here, super::sharing::variables(), &settings.executor)
            .map_err(UsageError)?,
    )
}

/// What of a run would go away by what is configured, for who looks and runs nothing. What cannot be read is reported by a run.
pub(super) fn usual_routing() -> Option<Routing> {
    configured(&Settings::default())
        .ok()
        .flatten()
        .as_ref()
        .map(Routing::of)
}

type There = Box<dyn RemoteExecutor>;

/// The executor of a run, and what goes there.
pub(super) fn depart(settings: &Settings) -> anyhow::Result<(Option<Routing>, Option<There>)> {
    let config = configured(settings)?;
    let sends = settings
        .executor
        .whereabouts
        .is_some_and(|place| place != config::Where::Local);
    let downloads = settings.executor.download.is_some();
    let fetches = downloads && (settings.no_remote || super::sharing::configured()?.is_none());
    if config.is_none() && (sends || fetches) {
        let hint =
            "--executor grpc://host:8980, or [executor] in orch.toml: docs/remote-execution.md";
        usage!("no executor is named, and steps are to go there\n  hint: {hint}");
    }
    Ok((
        config.as_ref().map(Routing::of),
        config.map(reached).transpose().map_err(UsageError)?,
    ))
}

#[cfg(feature = "remote")]
fn reached(config: ExecutorConfig) -> Result<There, String> {
    Ok(Box::new(crate::exec::away::Away::open(config)?))
}

#[cfg(not(feature = "remote"))]
fn reached(_: ExecutorConfig) -> Result<There, String> {
    Err(format!("an executor is named: {}", super::NOT_BUILT))
}

/// Performs the order that lies in the folder `dir`, as a worker. True if its result may be kept.
pub fn serve_order(
    dir: &Path,
    locations: &Locations,
    tell: &(dyn Fn(&str) + Send + Sync),
) -> anyhow::Result<bool> {
    // What an order needs besides its inputs is its own, and goes with it.
    let room = tempfile::Builder::new()
        .prefix("orch-order-")
        .tempdir_in(dir)
        .context("failed to make a folder")?;
    let cancel = Cancel::default();
    let store = DiskStore::open(room.path())?;
    let provision = machine::provision(locations, cancel.clone())?;
    let inventory = || machine::inventory(&provision);
    let host = machine::host_facts(&Host::real());
    let site = Site {
        store: &store,
        provision: &provision,
        host: &host,
        inventory: &inventory,
        cancel: &cancel,
        tell,
    };
    serve(dir, &site)
}

/// What a worker on this machine should advertise, each property with its values.
pub fn worker_properties(locations: &Locations) -> anyhow::Result<BTreeMap<String, Vec<String>>> {
    let provision = machine::provision(locations, Cancel::default())?;
    Ok(advertised(&Host::real(), &machine::inventory(&provision)))
}

/// The same of any host, with what was found there.
fn advertised(host: &Host, inventory: &[Backend]) -> BTreeMap<String, Vec<String>> {
    let (real, emulated): (Vec<_>, Vec<_>) = offered(inventory)
        .into_iter()
        .partition(|(_, is_real)| *is_real);
    let names =
        |list: Vec<(String, bool)>| list.into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    let machine = device::fingerprint(host);
    let mut properties = BTreeMap::from([
        (DEVICE.to_owned(), names(real)),
        (format!("{DEVICE}-emulated"), names(emulated)),
        ("cpu".to_owned(), vec![host.arch.clone()]),
        ("os".to_owned(), vec![host.os.clone()]),
        ("cores".to_owned(), vec![machine.cores.to_string()]),
        (
            "orch-host".to_owned(),
            vec![machine.digest.chars().take(12).collect()],
        ),
    ]);
    if let Some(bytes) = machine
        .memory_bytes
        .checked_div(1 << 20)
        .filter(|mb| *mb > 0)
    {
        properties.insert("mem_mb".into(), vec![bytes.to_string()]);
    }
    properties.retain(|_, values| !values.is_empty());
    properties
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_for_a_device_is_never_advertised_as_one() {
        // Each host with what it has that is not hardware: the others are there too, and the emulator of a phone's processor
        // needs x86_64.
        let of = |name: &str, property: &str| {
            let host = Host::recorded(name);
            let properties = advertised(&host, &device::inventory_cheap(&host));
            properties.get(property).cloned().unwrap_or_default()
        };
        let emulated = format!("{DEVICE}-emulated");
        for (name, device) in [
            ("nvidia", "cuda"),
            ("amd", "rocm"),
            ("snapdragon", "qnn"),
            ("mac", "mps"),
            ("neither", "cpu"),
        ] {
            assert!(
                of(name, DEVICE).iter().any(|real| real == device),
                "{name}: {:?}",
                of(name, DEVICE)
            );
            assert!(
                !of(name, &emulated).iter().any(|stands| stands == device),
                "{name}"
            );
        }
        assert_eq!(of("neither", DEVICE), ["cpu", "openvino", "webnn"]);
        assert_eq!(
            of("neither", &emulated),
            ["qnn", "webgpu", "webgpu-browser"]
        );
        let chip = of("snapdragon", &emulated);
        assert!(!chip.contains(&"qnn".to_owned()), "{chip:?}");
        assert_eq!(
            [of("snapdragon", "cpu"), of("mac", "cpu")],
            [["aarch64"], ["aarch64"]]
        );
        assert_eq!(of("mac", "os"), ["macos"]);
        assert_ne!(
            of("nvidia", "orch-host"),
            of("neither", "orch-host"),
            "kinds of machines are distinguished"
        );
    }
}
