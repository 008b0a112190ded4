//! The devices of this host as units that steps hold, made of the probers' answers.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::base::variable;
use crate::device::candidates::{candidates, silicon};
use crate::device::lease::lend;
use crate::device::machine_lock::{DeviceUse, MachineLock, Share};
use crate::device::{Backend, Device, Lease};
use crate::exec::schedule::resources::Unit;

pub(super) struct Devices<'a> {
    inventory: &'a [Backend],
    /// Positions by physical device: two backends may know one under two names.
    positions: BTreeMap<&'a str, usize>,
    units: Vec<Unit>,
    /// The units as all processes of this machine name them.
    uses: Vec<DeviceUse>,
}

impl<'a> Devices<'a> {
    pub(super) fn new(inventory: &'a [Backend]) -> Self {
        let mut positions = BTreeMap::new();
        let mut units = Vec::new();
        let mut uses = Vec::new();
        for device in inventory.iter().flat_map(|backend| &backend.devices) {
            positions.entry(silicon(device)).or_insert_with(|| {
                units.push(Unit {
                    token: device.id.clone(),
                    vram: device.memory_bytes,
                });
                uses.push(DeviceUse::leased(&lend(device, |_| None), Share::Alone));
                units.len() - 1
            });
        }
        Self {
            inventory,
            positions,
            units,
            uses,
        }
    }

    /// Whether each unit is in use by an orch process of this machine.
    pub(super) fn in_use(&self) -> impl Iterator<Item = bool> {
        self.uses.iter().map(MachineLock::is_in_use)
    }

    pub(super) fn units(&self) -> Vec<Unit> {
        self.units.clone()
    }

    /// The units that a target may use, all of them equal; none if it computes on the CPU or on an unknown device.
    pub(super) fn any_of(&self, backend: &str, device: &str) -> Arc<[usize]> {
        let found = candidates(self.inventory, backend, device);
        found
            .into_iter()
            .map(|device| self.positions[silicon(device)])
            .collect()
    }

    /// How much memory each unit of a backend has by its driver's `answer`, or why that is not known.
    ///
    /// Devices are matched by UUID; without one by number, if both sides list equally many.
    pub(super) fn sizes(&self, answer: &Backend) -> Vec<(usize, Result<u64, String>)> {
        let Some(known) = self
            .inventory
            .iter()
            .find(|known| known.name == answer.name)
        else {
            return vec![];
        };
        let uuid = |device: &Device| device.facts.get("uuid").cloned();
        let same = |device: &Device| match uuid(device) {
            Some(own) => answer
                .devices
                .iter()
                .find(|answered| uuid(answered).as_ref() == Some(&own)),
            None if answer.devices.len() == known.devices.len() => answer
                .devices
                .iter()
                .find(|answered| answered.id == device.id),
            None => None,
        };
        let size = |device: &Device| match same(device) {
            Some(found) => found
                .memory_bytes
                .ok_or_else(|| "its driver does not tell it".to_owned()),
            None => Err(answer
                .reason
                .clone()
                .unwrap_or_else(|| "its driver does not list it".to_owned())),
        };
        known
            .devices
            .iter()
            .map(|device| (self.positions[silicon(device)], size(device)))
            .collect()
    }

    /// The device of a unit as this backend knows it.
    pub(super) fn lease(&self, unit: usize, backend: &str, device: &str) -> Option<Lease> {
        let found = candidates(self.inventory, backend, device);
        let device = found
            .into_iter()
            .find(|device| self.positions[silicon(device)] == unit)?;
        Some(lend(device, variable::text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::DeviceKind;

    #[test]
    fn two_names_of_one_device_are_one_unit() {
        let device = |id: &str, pci: &str| {
            let mut device = Device::new(id, "GPU", DeviceKind::Hardware);
            device.fact("pci", pci);
            device
        };
        let inventory = [
            Backend::available(
                "cuda",
                vec![device("cuda:0", "01:00.0"), device("cuda:1", "02:00.0")],
            ),
            Backend::available("webgpu", vec![device("webgpu:0", "02:00.0")]),
        ];
        let devices = Devices::new(&inventory);
        assert_eq!(devices.units().len(), 2);
        assert_eq!(*devices.any_of("cuda", "cuda"), [0, 1]);
        assert_eq!(*devices.any_of("webgpu", "webgpu"), [1]);
        assert_eq!(devices.lease(1, "webgpu", "webgpu").unwrap().id, "webgpu:0");
        assert_eq!(
            devices.lease(1, "cuda", "cuda").unwrap().env["CUDA_VISIBLE_DEVICES"],
            "1"
        );
        assert!(devices.any_of("mps", "mps").is_empty());
    }
}
