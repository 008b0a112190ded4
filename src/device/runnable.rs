//! What becomes of hardware that is there and that orch cannot run: it is told as found, and is unavailable.

use super::{Backend, BackendRow};

/// Turns "the hardware is there" into "orch can use it".
///
/// Whatever was found keeps its devices and facts. A backend that is unavailable for a reason of its own, such as a
/// broken driver, keeps that reason: it is what must be mended first.
pub fn settle(mut backend: Backend, row: &BackendRow) -> Backend {
    let Some(missing) = row.missing else { return backend };
    let found = match backend.facts.get("found").and_then(|f| f.as_str()) {
        Some(found) => found.to_owned(),
        None if backend.available => summary(&backend),
        None => return backend,
    };
    backend.fact("found", found.clone());
    backend.available = false;
    backend.reason = Some(format!("found {found}, but {missing}"));
    backend.remedy = None;
    backend
}

/// `2 × NVIDIA H200`, `AMD Instinct MI300X`
fn summary(backend: &Backend) -> String {
    let mut counts: Vec<(&str, usize)> = vec![];
    for device in &backend.devices {
        match counts.iter_mut().find(|(name, _)| *name == device.name) {
            Some((_, n)) => *n += 1,
            None => counts.push((&device.name, 1)),
        }
    }
    let parts: Vec<_> =
        counts.into_iter().map(|(name, n)| if n == 1 { name.to_owned() } else { format!("{n} × {name}") }).collect();
    if parts.is_empty() { "its hardware".to_owned() } else { parts.join(", ") }
}
