//! Which hardware and runtimes are really there: one prober a file, asked by name.
//!
//! A prober looks at this host (files, drivers, the version a library reports) and never at the spec. What it cannot
//! find it reports with the reason and the remedy; the environment can hide devices, never invent them.

use serde::{Deserialize, Serialize};

/// What one prober found.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Backend {
    /// cpu, cuda, rocm, mps, openvino, qnn, webnn, webgpu
    pub name: String,
    pub available: bool,
    /// Why it is unavailable: what was looked for and not found. None when available.
    pub reason: Option<String>,
    /// The command or action that mends it. None when available or when nothing can.
    pub remedy: Option<String>,
    pub devices: Vec<Device>,
    /// Versions of drivers and libraries, SoC, environment variables that were honoured, …
    pub facts: serde_json::Map<String, serde_json::Value>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Device {
    /// `cuda:0`, `openvino:CPU`, `cpu`
    pub id: String,
    /// The vendor's name.
    pub name: String,
    /// Real silicon, or a stand-in that must be labelled as such.
    pub kind: DeviceKind,
    pub memory_bytes: Option<u64>,
    pub facts: serde_json::Map<String, serde_json::Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviceKind {
    Hardware,
    /// An instruction-level stand-in for other silicon (QNN's x86 HTP).
    Emulator,
    /// A software rasterizer posing as a GPU.
    Software,
}
