//! One GPU for one process: which of several a run gets, and the variables that show it no other.
//!
//! The vendors' libraries count what they are shown, so a process that is shown one device has number 0 whichever it
//! is; a lease remembers which. Who holds one when is not decided here.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Backend;

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

/// The device that a run on `asked` gets: the first of its backend, or the one with the number behind the colon. None
/// where processes need not be kept apart, or where the inventory lists no such device; the runtime then says so itself.
pub fn shown(inventory: &[Backend], backend: &str, asked: &str) -> Option<Shown> {
    if !["cuda", "rocm"].contains(&backend) {
        return None;
    }
    let found = inventory.iter().find(|known| known.name == backend)?;
    let number: usize = asked.split_once(':').map_or(Ok(0), |(_, number)| number.parse()).ok()?;
    let device = found.devices.get(number)?;
    let uuid = device.facts.get("uuid").and_then(|uuid| uuid.as_str()).map(str::to_owned);
    // A number counts what the driver shows; after a filter of the user's it counts something else, so only a UUID will do.
    let is_filtered = found.facts.contains_key("honoured");
    let entry = uuid.clone().or_else(|| (!is_filtered).then(|| number.to_string()));
    let index = if entry.is_some() { 0 } else { number };
    let env = entry.map(|entry| variables(backend, &entry)).unwrap_or_default();
    Some(Shown { id: device.id.clone(), name: device.name.clone(), uuid, index, env })
}

fn variables(backend: &str, shown: &str) -> BTreeMap<String, String> {
    let pairs: &[(&str, &str)] = match backend {
        // By address, as orch and NVML count, and not the fastest first.
        "cuda" => &[("CUDA_VISIBLE_DEVICES", shown), ("CUDA_DEVICE_ORDER", "PCI_BUS_ID")],
        // ROCr filters first and HIP counts what it left; named, HIP's own variable comes before CUDA's.
        _ => &[("ROCR_VISIBLE_DEVICES", shown), ("HIP_VISIBLE_DEVICES", "0")],
    };
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Host, inventory_cheap};
    use super::*;

    fn of(host: &Host, backend: &str, asked: &str) -> Option<Shown> {
        shown(&inventory_cheap(host), backend, asked)
    }

    #[test]
    fn a_process_is_shown_one_gpu_by_its_uuid() {
        let host = Host::recorded("nvidia");
        let second = of(&host, "cuda", "cuda:1").unwrap();
        assert_eq!((second.id.as_str(), second.index), ("cuda:1", 0));
        assert_eq!(second.env["CUDA_VISIBLE_DEVICES"], second.uuid.clone().unwrap());
        assert_eq!(second.env["CUDA_DEVICE_ORDER"], "PCI_BUS_ID");
        assert_ne!(second.uuid, of(&host, "cuda", "cuda").unwrap().uuid);
        assert_eq!(of(&host, "cuda", "cuda:7"), None);
        assert_eq!(of(&host, "cpu", "cpu"), None);
    }

    #[test]
    fn a_gpu_that_the_user_hides_is_leased_to_nobody() {
        let all = Host::recorded("nvidia");
        let second = of(&all, "cuda", "cuda:1").unwrap();
        let host = Host::recorded("nvidia").with_env("CUDA_VISIBLE_DEVICES", "1");
        let first = of(&host, "cuda", "cuda").unwrap();
        assert_eq!((first.id.as_str(), first.uuid), ("cuda:0", second.uuid), "what is left is counted anew");
        assert_eq!(of(&host, "cuda", "cuda:1"), None);
        assert_eq!(of(&all.with_env("CUDA_VISIBLE_DEVICES", ""), "cuda", "cuda"), None);
    }

    #[test]
    fn amd_and_nvidia_are_shown_by_their_own_variables() {
        let host = Host::recorded("both");
        let (nvidia, amd) = (of(&host, "cuda", "cuda").unwrap(), of(&host, "rocm", "rocm").unwrap());
        assert!(nvidia.env.contains_key("CUDA_VISIBLE_DEVICES") && !nvidia.env.contains_key("ROCR_VISIBLE_DEVICES"));
        assert_eq!(amd.env["HIP_VISIBLE_DEVICES"], "0");
        assert!(!amd.env.contains_key("CUDA_VISIBLE_DEVICES"), "{amd:?}");
        assert_eq!(amd.id, "rocm:0");
        assert_eq!(of(&Host::recorded("amd"), "cuda", "cuda"), None);
    }

    /// A consumer card tells no UUID: its number stands for it, unless a variable of the user's has changed the count.
    #[test]
    fn a_gpu_without_a_uuid_is_shown_by_its_number_or_not_at_all() {
        let mut inventory = inventory_cheap(&Host::recorded("amd"));
        let rocm = inventory.iter_mut().find(|backend| backend.name == "rocm").unwrap();
        rocm.devices.iter_mut().for_each(|device| drop(device.facts.remove("uuid")));
        let second = shown(&inventory, "rocm", "rocm:1").unwrap();
        assert_eq!((second.env["ROCR_VISIBLE_DEVICES"].as_str(), second.index), ("1", 0));
        let rocm = inventory.iter_mut().find(|backend| backend.name == "rocm").unwrap();
        rocm.fact("honoured", vec!["HIP_VISIBLE_DEVICES=1,0"]);
        let second = shown(&inventory, "rocm", "rocm:1").unwrap();
        assert_eq!((second.env.len(), second.index), (0, 1));
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
