//! What the probers found on this host.

use super::{Cell, Table, View};
use crate::device::{Device, DeviceKind};

pub(super) fn devices(view: &View<'_>) -> Vec<Table> {
    let there = view.doc.backends.iter().filter(|backend| backend.available);
    let rows = there.flat_map(|backend| match &backend.devices[..] {
        [] => vec![vec![backend.name.as_str().into(), "none".into(), "".into()]],
        devices => devices.iter().map(|device| row(&backend.name, device)).collect(),
    });
    vec![Table { title: String::new(), columns: &["backend", "device", "id"], rows: rows.collect() }]
}

fn row(backend: &str, device: &Device) -> Vec<Cell> {
    let label = match device.kind {
        DeviceKind::Hardware => None,
        DeviceKind::Emulator => Some("emulated"),
        DeviceKind::Software => Some("software"),
    };
    vec![backend.into(), Cell { label, ..device.name.as_str().into() }, device.id.as_str().into()]
}
