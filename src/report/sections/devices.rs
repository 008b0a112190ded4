//! What the probers found on this host.

use super::{Cell, Make, Section, Table, View};
use crate::device::DeviceKind;

pub(super) const SECTION: Section =
    Section { id: "devices", title: "Devices found", hint: "", make: Make::Tables(devices) };

fn devices(view: &View<'_>) -> Vec<Table> {
    let there = view.doc.backends.iter().filter(|backend| backend.available);
    let devices = there.flat_map(|backend| backend.devices.iter().map(move |device| (backend, device)));
    let rows = devices.map(|(backend, device)| {
        let label = match device.kind {
            DeviceKind::Hardware => None,
            DeviceKind::Emulator => Some("emulated"),
            DeviceKind::Software => Some("software"),
        };
        vec![backend.name.as_str().into(), Cell { label, ..device.name.as_str().into() }, device.id.as_str().into()]
    });
    vec![Table { title: String::new(), columns: &["backend", "device", "id"], rows: rows.collect() }]
}
