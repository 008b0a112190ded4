//! What the probers found on this host.

use super::{Cell, Table, View};
use crate::device::Device;
use crate::report::view::stand_in;

pub(super) fn devices(view: &View<'_>) -> Vec<Table> {
    let there = view.doc.backends.iter().filter(|backend| backend.available);
    let rows = there.flat_map(|backend| match &backend.devices[..] {
        [] => vec![vec![backend.name.as_str().into(), "none".into(), "".into()]],
        devices => devices
            .iter()
            .map(|device| row(&backend.name, device))
            .collect(),
    });
    vec![Table {
        title: String::new(),
        columns: &["backend", "device", "id"],
        rows: rows.collect(),
    }]
}

fn row(backend: &str, device: &Device) -> Vec<Cell> {
    let label = stand_in(device.kind);
    vec![
        backend.into(),
        Cell {
            label,
            ..device.name.as_str().into()
        },
        device.id.as_str().into(),
    ]
}
