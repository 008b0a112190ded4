//! The catalogue of backends: one row each, with all that orch must know of one before it looks.
//!
//! Each has a runtime in the catalogue, whose tests see to it: what a prober finds, orch can run.

use super::{Prober, android, cpu, cuda, mps, openvino, qnn, rocm, webgpu, webgpu_browser, webnn};
use crate::base::words::rows;

/// One kind of hardware with its driver.
pub struct BackendRow {
    /// In YAML, in keys, and in what the prober answers.
    pub name: &'static str,
    pub prober: &'static dyn Prober,
    /// Whether it is the machine's own CPU: the fingerprint of the machine tells all of it, and a timed run on it takes
    /// the whole machine.
    pub is_host: bool,
    /// Whether files say how much memory its devices have. If not, its library is asked before a step claims some.
    pub tells_memory: bool,
    /// Whether its devices are known apart from those of other backends. If not, only one whose place on the bus is known
    /// can be held.
    pub tells_place: bool,
    /// What stands in for it where nothing else is said, in the order of trial.
    pub instead: &'static [&'static BackendRow],
}

rows!(BackendRow as "backend" in BACKENDS);

/// All of them, in the order in which people read them.
pub static BACKENDS: &[&BackendRow] =
    &[&CPU, &CUDA, &ROCM, &MPS, &OPENVINO, &QNN, &QNN_ANDROID, &WEBGPU, &WEBGPU_BROWSER, &WEBNN];

pub static CPU: BackendRow =
    BackendRow { name: "cpu", prober: &cpu::Cpu, is_host: true, tells_memory: true, tells_place: true, instead: &[] };

pub static CUDA: BackendRow = BackendRow {
    name: "cuda",
    prober: &cuda::Cuda,
    is_host: false,
    tells_memory: false,
    tells_place: true,
    instead: &[&OPENVINO, &CPU],
};

pub static ROCM: BackendRow = BackendRow {
    name: "rocm",
    prober: &rocm::Rocm,
    is_host: false,
    tells_memory: true,
    tells_place: true,
    instead: &[&OPENVINO, &CPU],
};

pub static MPS: BackendRow = BackendRow {
    name: "mps",
    prober: &mps::Mps,
    is_host: false,
    tells_memory: true,
    tells_place: true,
    instead: &[&OPENVINO, &CPU],
};

pub static OPENVINO: BackendRow = BackendRow {
    name: "openvino",
    prober: &openvino::OpenVino,
    is_host: false,
    tells_memory: true,
    tells_place: true,
    instead: &[&CPU],
};

pub static QNN: BackendRow = BackendRow {
    name: "qnn",
    prober: &qnn::Qnn,
    is_host: false,
    tells_memory: true,
    tells_place: true,
    instead: &[&CPU],
};

pub static QNN_ANDROID: BackendRow = BackendRow {
    name: "qnn-android",
    prober: &android::Android,
    is_host: false,
    tells_memory: true,
    tells_place: true,
    instead: &[&CPU],
};

pub static WEBGPU: BackendRow = BackendRow {
    name: "webgpu",
    prober: &webgpu::WebGpu,
    is_host: false,
    tells_memory: true,
    tells_place: false,
    instead: &[&WEBNN, &CPU],
};

pub static WEBGPU_BROWSER: BackendRow = BackendRow {
    name: "webgpu-browser",
    prober: &webgpu_browser::PROBER,
    is_host: false,
    tells_memory: true,
    tells_place: true,
    instead: &[&WEBNN, &CPU],
};

pub static WEBNN: BackendRow = BackendRow {
    name: "webnn",
    prober: &webnn::PROBER,
    is_host: false,
    tells_memory: true,
    tells_place: false,
    instead: &[&CPU],
};
