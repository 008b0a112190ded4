//! What a worker is told of the GPU that it has for itself.
//!
//! The vendors' libraries count what they are shown, so a process that is shown one device has number 0 whichever it
//! is; a lease remembers which. Who holds one when is not decided here.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Backend, Lease};

/// A device that one process has for itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    /// As the inventory calls it: `cuda:1`
    pub id: String,
    /// The vendor's name.
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// Its number within the process that holds it.
    pub index: usize,
    /// What that process is started with.
    pub env: BTreeMap<String, String>,
}

impl Shown {
    /// Whether this process was started with what the lease says. Asked by the worker: with another environment it would
    /// run on another device under this one's name.
    pub fn check(&self) -> Result<(), String> {
        match self.env.iter().find(|(name, value)| std::env::var(name).as_ref() != Ok(value)) {
            None => Ok(()),
            Some((name, value)) => Err(format!("BUG: {} is leased, and {name} is not {value}", self.id)),
        }
    }
}

/// What a worker is told of its lease. None where processes need not be kept apart.
pub fn shown(inventory: &[Backend], lease: &Lease) -> Option<Shown> {
    let (backend, _) = lease.token.split_once(':').filter(|(backend, _)| ["cuda", "rocm"].contains(backend))?;
    let found = inventory.iter().find(|known| known.name == backend)?;
    let device = found.devices.iter().find(|device| device.id == lease.token)?;
    let uuid = device.facts.get("uuid").and_then(|uuid| uuid.as_str()).map(str::to_owned);
    let env = lease.env.iter().cloned().collect();
    Some(Shown { id: device.id.clone(), name: device.name.clone(), uuid, index: 0, env })
}

#[cfg(test)]
mod tests {
    use super::super::lease::{candidates, lend};
    use super::super::{Host, inventory_cheap};
    use super::*;

    fn of(host: &Host, backend: &str, asked: &str) -> Option<Shown> {
        let inventory = inventory_cheap(host);
        let device = *candidates(&inventory, backend, asked).first()?;
        shown(&inventory, &lend(device, |name| host.env(name).map(str::to_owned)))
    }

    #[test]
    fn a_worker_is_told_which_device_its_only_one_is() {
        let host = Host::recorded("nvidia");
        let second = of(&host, "cuda", "cuda:1").unwrap();
        assert_eq!((second.id.as_str(), second.index), ("cuda:1", 0));
        assert_eq!(second.env["CUDA_VISIBLE_DEVICES"], second.uuid.clone().unwrap());
        assert_eq!(of(&host, "cuda", "tensorrt:1").unwrap(), second);
        assert_eq!(of(&host, "cuda", "cuda:7"), None);
        assert_eq!(of(&host, "cpu", "cpu"), None);
        assert_eq!(of(&Host::recorded("both"), "rocm", "rocm").unwrap().id, "rocm:0");
    }

    /// Which backends a plan would run on each kind of host: a GPU of one vendor is never the other's.
    #[test]
    fn each_host_offers_its_own_gpus_and_no_other() {
        let expected = [
            ("neither", "webgpu-software"),
            ("nvidia", "cuda:0 cuda:1 webgpu-software"),
            ("amd", "rocm:0 rocm:1 webgpu-software"),
            ("both", "cuda:0 rocm:0 webgpu-software"),
            ("mac", "mps:0 webgpu"),
            ("snapdragon", ""),
        ];
        for (name, gpus) in expected {
            let backends = inventory_cheap(&Host::recorded(name));
            let offered: Vec<_> = backends
                .iter()
                .filter(|backend| {
                    backend.available && ["cuda", "rocm", "mps", "webgpu"].contains(&backend.name.as_str())
                })
                .flat_map(|backend| backend.devices.iter().map(|device| device.id.as_str()))
                .collect();
            assert_eq!(offered.join(" "), gpus, "{name}");
        }
    }
}
