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

/// An accelerator: files say how much memory its devices have, and its devices are known apart.
const fn accelerator(
    name: &'static str,
    prober: &'static dyn Prober,
    instead: &'static [&'static BackendRow],
) -> BackendRow {
    BackendRow { name, prober, is_host: false, tells_memory: true, tells_place: true, instead }
}

pub static CPU: BackendRow = BackendRow { is_host: true, ..accelerator("cpu", &cpu::Cpu, &[]) };
pub static CUDA: BackendRow =
    BackendRow { tells_memory: false, ..accelerator("cuda", &cuda::Cuda, &[&OPENVINO, &CPU]) };
pub static ROCM: BackendRow = accelerator("rocm", &rocm::Rocm, &[&OPENVINO, &CPU]);
pub static MPS: BackendRow = accelerator("mps", &mps::Mps, &[&OPENVINO, &CPU]);
pub static OPENVINO: BackendRow = accelerator("openvino", &openvino::OpenVino, &[&CPU]);
pub static QNN: BackendRow = accelerator("qnn", &qnn::Qnn, &[&CPU]);
pub static QNN_ANDROID: BackendRow = accelerator("qnn-android", &android::Android, &[&CPU]);
pub static WEBGPU: BackendRow =
    BackendRow { tells_place: false, ..accelerator("webgpu", &webgpu::WebGpu, &[&WEBNN, &CPU]) };
pub static WEBGPU_BROWSER: BackendRow = accelerator("webgpu-browser", &webgpu_browser::PROBER, &[&WEBNN, &CPU]);
pub static WEBNN: BackendRow = BackendRow { tells_place: false, ..accelerator("webnn", &webnn::PROBER, &[&CPU]) };
