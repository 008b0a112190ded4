//! A device that one step holds: what its process knows of it, and what it is shown.
//!
//! The vendors' libraries count what they are shown, so a process that is shown one device has number 0 whichever it is;
//! the lease says which. Who holds one when is not decided here.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::candidates::candidates;
use super::{Backend, Device};

use crate::base::variable;

/// One device, lent to one step for the length of its execution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The name of the inventory: `cuda:1`.
    pub id: String,
    /// The vendor's name.
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// Its place on the bus: `0000:65:00.0`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pci: Option<String>,
    /// Bytes of its own memory, where they are known without asking its driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// What shows the process this device and no other of its kind. In the process it then is the first one (`cuda:0`).
    /// Empty where runtimes get their device by name.
    pub env: BTreeMap<String, String>,
}

impl Lease {
    /// Whether this process was started with what the lease says. Checked by the worker: with another environment it would
    /// run on another device under this one's name.
    pub fn check(&self) -> Result<(), String> {
        match self
            .env
            .iter()
            .find(|(name, value)| variable::text(name).as_ref() != Some(value))
        {
            None => Ok(()),
            Some((name, value)) => Err(format!(
                "BUG: {} is leased, and {name} is not {value}",
                self.id
            )),
        }
    }

    /// What a record keeps of it.
    pub fn facts(&self) -> Value {
        let mut facts = json!(self);
        facts.as_object_mut().map(|facts| facts.remove("env"));
        facts
    }
}

/// The variables by which the runtimes of this vendor are shown one device. `variable` reads orch's own environment, which
/// may hide some already: the prober's numbers are of those that are left.
pub fn lend(device: &Device, variable: impl Fn(&str) -> Option<String>) -> Lease {
    let (backend, ordinal) = device.id.split_once(':').unwrap_or((&device.id, ""));
    let fact = |name: &str| {
        device
            .facts
            .get(name)
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    let uuid = fact("uuid");
    // The n-th that is visible is the n-th entry of the user's own list.
    let visible = |name: &str| match variable(name).filter(|list| !list.trim().is_empty()) {
        Some(list) => ordinal
            .parse()
            .ok()
            .and_then(|n| list.split(',').nth(n).map(|entry| entry.trim().to_owned())),
        None => None,
    };
    let entry = |name: &str| visible(name).unwrap_or_else(|| ordinal.to_owned());
    let env = match backend {
        "cuda" => {
            let order = ("CUDA_DEVICE_ORDER".to_owned(), "PCI_BUS_ID".to_owned());
            let shown = uuid
                .clone()
                .unwrap_or_else(|| entry("CUDA_VISIBLE_DEVICES"));
            BTreeMap::from([order, ("CUDA_VISIBLE_DEVICES".to_owned(), shown)])
        }
        // By number: HIP counts what ROCR_VISIBLE_DEVICES, which stays as it is, has left, and not all its versions know UUIDs.
        "rocm" => BTreeMap::from([(
            "HIP_VISIBLE_DEVICES".to_owned(),
            entry("HIP_VISIBLE_DEVICES"),
        )]),
        // The others get the name of the device to use.
        _ => BTreeMap::new(),
    };
    let Device {
        id,
        name,
        memory_bytes,
        ..
    } = device.clone();
    Lease {
        id,
        name,
        uuid,
        pci: fact("pci"),
        memory_bytes,
        env,
    }
}

/// The first device that may be meant, for a process that holds it alone.
pub fn lend_first(inventory: &[Backend], backend: &str, device: &str) -> Option<Lease> {
    let device = candidates(inventory, backend, device).into_iter().next()?;
    Some(lend(device, variable::text))
}

#[cfg(test)]
mod tests {
    use super::super::candidates::candidates;
    use super::super::{Backend, DeviceKind, Host, inventory_cheap};
    use super::*;

    fn gpu(id: &str, name: &str) -> Device {
        Device::new(id, name, DeviceKind::Hardware)
    }

    fn of(host: &Host, backend: &str, wanted: &str) -> Option<Lease> {
        let inventory = inventory_cheap(host);
        let device = *candidates(&inventory, backend, wanted).first()?;
        Some(lend(device, |name| host.env(name).map(str::to_owned)))
    }

    #[test]
    fn a_worker_knows_which_device_its_only_one_is() {
        let host = Host::recorded("nvidia");
        let second = of(&host, "cuda", "cuda:1").unwrap();
        assert_eq!(
            (second.id.as_str(), second.name.as_str()),
            ("cuda:1", "NVIDIA H200")
        );
        assert_eq!(second.pci.as_deref(), Some("0000:65:00.0"));
        assert_eq!(
            second.env["CUDA_VISIBLE_DEVICES"],
            second.uuid.clone().unwrap()
        );
        assert_eq!(second.env["CUDA_DEVICE_ORDER"], "PCI_BUS_ID");
        assert_eq!(of(&host, "cuda", "tensorrt:1").unwrap(), second);
        assert_eq!(of(&host, "cuda", "cuda:7"), None);
        // Nobody has to be kept from seeing it.
        assert!(of(&host, "cpu", "cpu").unwrap().env.is_empty());
        let json = serde_json::to_string(&second).unwrap();
        assert_eq!(serde_json::from_str::<Lease>(&json).unwrap(), second);
        let words = second.check().unwrap_err();
        assert!(
            words.starts_with("BUG: cuda:1 is leased, and CUDA_"),
            "{words}"
        );
    }

    #[test]
    fn the_record_of_a_lease_distinguishes_the_card_from_its_like() {
        let amd = of(&Host::recorded("amd"), "rocm", "rocm:1").unwrap();
        let facts = amd.facts();
        assert_eq!(
            (&facts["id"], &facts["pci"]),
            (&"rocm:1".into(), &"0000:26:00.0".into())
        );
        assert_eq!(facts["memory_bytes"], 206_141_652_992_u64);
        assert!(
            facts["uuid"].as_str().unwrap().starts_with("GPU-"),
            "{facts}"
        );
        assert!(!facts.as_object().unwrap().contains_key("env"));
        assert_eq!(
            of(&Host::recorded("both"), "rocm", "rocm").unwrap().id,
            "rocm:0"
        );
        let plain = lend(&gpu("openvino:GPU.0", "Arc"), |_| None);
        assert_eq!(
            plain.facts(),
            json!({"id": "openvino:GPU.0", "name": "Arc"})
        );
    }

    #[test]
    fn a_process_is_shown_one_device_by_uuid_or_by_the_number_that_the_user_sees() {
        let env = |device: &Device, set: &[(&str, &str)]| {
            let own = |name: &str| {
                set.iter()
                    .find(|(known, _)| *known == name)
                    .map(|(_, value)| (*value).to_owned())
            };
            lend(device, own)
                .env
                .into_iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect::<Vec<_>>()
        };
        let mut cuda = gpu("cuda:1", "H100");
        let order = "CUDA_DEVICE_ORDER=PCI_BUS_ID";
        assert_eq!(env(&cuda, &[]), [order, "CUDA_VISIBLE_DEVICES=1"]);
        assert_eq!(
            env(&cuda, &[("CUDA_VISIBLE_DEVICES", "3, 2")]),
            [order, "CUDA_VISIBLE_DEVICES=2"]
        );
        cuda.fact("uuid", "GPU-a1");
        assert_eq!(
            env(&cuda, &[("CUDA_VISIBLE_DEVICES", "3,2")]),
            [order, "CUDA_VISIBLE_DEVICES=GPU-a1"]
        );
        assert_eq!(
            env(&gpu("rocm:0", "MI"), &[("HIP_VISIBLE_DEVICES", "5")]),
            ["HIP_VISIBLE_DEVICES=5"]
        );
        assert_eq!(env(&gpu("rocm:2", "MI"), &[]), ["HIP_VISIBLE_DEVICES=2"]);
        assert!(env(&gpu("openvino:GPU.0", "Arc"), &[]).is_empty());
    }

    /// The backends that a plan would run on each kind of host: a GPU of one vendor is never the other's.
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
            let is_gpu = |backend: &&Backend| {
                ["cuda", "rocm", "mps", "webgpu"].contains(&backend.name.as_str())
            };
            let offered = backends
                .iter()
                .filter(|backend| backend.available)
                .filter(is_gpu);
            let offered: Vec<_> = offered
                .flat_map(|backend| &backend.devices)
                .map(|device| &*device.id)
                .collect();
            assert_eq!(offered.join(" "), gpus, "{name}");
        }
    }
}
