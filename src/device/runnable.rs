//! Which backends this version of orch can execute on: the one place to flip when a runtime is written.
//!
//! Detection and execution are different questions. A prober says what the host has; this table says what orch can do
//! with it. A device that is there but has no runtime is reported as found and unavailable, never as available.

use super::Backend;

/// What this version does with one backend.
pub struct Runnable {
    pub backend: &'static str,
    /// None: orch runs it. Some: why not, a fragment that follows "found …, but ".
    pub missing: Option<&'static str>,
}

pub const RUNNABLE: &[Runnable] = &[
    Runnable { backend: "cpu", missing: None },
    Runnable { backend: "openvino", missing: None },
    Runnable { backend: "qnn", missing: None },
    Runnable { backend: "qnn-android", missing: None },
    Runnable { backend: "cuda", missing: None },
    Runnable { backend: "rocm", missing: None },
    Runnable { backend: "mps", missing: None },
    Runnable { backend: "webgpu", missing: None },
    Runnable { backend: "webgpu-browser", missing: None },
    Runnable { backend: "webnn", missing: None },
];

/// Why orch cannot run this backend even where its hardware is; None when it can.
pub fn missing(backend: &str) -> Option<&'static str> {
    match RUNNABLE.iter().find(|row| row.backend == backend) {
        Some(row) => row.missing,
        None => Some("this version of orch does not know it"),
    }
}

/// Turns "the hardware is there" into "orch can use it".
///
/// Whatever was found keeps its devices and facts. A backend that is unavailable for a reason of its own, such as a
/// broken driver, keeps that reason: it is what must be mended first.
pub fn settle(mut backend: Backend) -> Backend {
    let Some(missing) = missing(&backend.name) else { return backend };
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
