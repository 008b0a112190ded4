//! What the probers found on this host.

use super::Section;
use crate::device::DeviceKind;
use crate::report::shape::{Align::Left, Cell, Shape, Table};
use crate::report::view::View;

pub(super) const SECTION: Section =
    Section { id: "devices", title: "Devices found", hint: "", is_brief: false, make: devices };

fn devices<'a>(view: &View<'a>) -> Shape<'a> {
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
    Table::alone(&[("backend", Left), ("device", Left), ("id", Left)], rows.collect())
}
