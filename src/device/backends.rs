//! The catalogue of backends: one row each, with all that orch must know of one before it looks.
//!
//! Each has a runtime in the catalogue, whose tests see to it: what a prober finds, orch can run.

use serde_json::Value;

use super::{
    Absent, Backend, Host, Look, android, cpu, cuda, mps, openvino, qnn, rocm, webgpu,
    webgpu_browser, webnn,
};
use crate::base::words::rows;

/// One kind of hardware with its driver, and how it is found.
pub struct BackendRow {
    /// The name in YAML, in keys, and in what is found.
    pub name: &'static str,
    /// Reads files only; if thorough, also runs short tools such as `rocminfo`.
    pub(super) look: fn(&Host, bool) -> Result<Look, Absent>,
    /// Asks a native library. Runs in a child process, because that library may crash.
    pub(super) query: fn(&Value) -> Result<Backend, Absent>,
    /// Takes away the devices that the environment hides. Only removes.
    pub(super) hide: fn(&Host, Backend) -> Backend,
    /// Whether it is the machine's own CPU: the fingerprint of the machine holds all of it, and a timed run on it takes
    /// the whole machine.
    pub is_host: bool,
    /// Whether files say how much memory its devices have. If not, its library is queried before a step claims some.
    pub tells_memory: bool,
    /// Whether its devices are known apart from those of other backends. If not, only one whose place on the bus is known
    /// can be held.
    pub tells_place: bool,
    /// What stands in for it where nothing else is given, in the order of trial.
    pub instead: &'static [&'static BackendRow],
}

rows!(BackendRow as "backend" in BACKENDS);

/// All of them, in the order in which people read them.
pub static BACKENDS: &[&BackendRow] = &[
    &CPU,
    &CUDA,
    &ROCM,
    &MPS,
    &OPENVINO,
    &QNN,
    &QNN_ANDROID,
    &WEBGPU,
    &WEBGPU_BROWSER,
    &WEBNN,
];

/// An accelerator: files say how much memory its devices have, and its devices are known apart.
const fn accelerator(
    name: &'static str,
    look: fn(&Host, bool) -> Result<Look, Absent>,
    instead: &'static [&'static BackendRow],
) -> BackendRow {
    let query = |_: &Value| panic!("BUG: this prober asks no native library");
    BackendRow {
        name,
        look,
        query,
        hide: |_, all| all,
        is_host: false,
        tells_memory: true,
        tells_place: true,
        instead,
    }
}

pub static CPU: BackendRow = BackendRow {
    is_host: true,
    ..accelerator("cpu", cpu::look, &[])
};
pub static CUDA: BackendRow = BackendRow {
    query: cuda::query,
    hide: cuda::hide,
    tells_memory: false,
    ..accelerator("cuda", cuda::look, &[&OPENVINO, &CPU])
};
pub static ROCM: BackendRow = BackendRow {
    hide: rocm::hide,
    ..accelerator("rocm", rocm::look, &[&OPENVINO, &CPU])
};
pub static MPS: BackendRow = accelerator("mps", mps::look, &[&OPENVINO, &CPU]);
pub static OPENVINO: BackendRow = BackendRow {
    query: openvino::query,
    ..accelerator("openvino", openvino::look, &[&CPU])
};
pub static QNN: BackendRow = BackendRow {
    query: qnn::query,
    ..accelerator("qnn", qnn::look, &[&CPU])
};
pub static QNN_ANDROID: BackendRow = BackendRow {
    query: android::query,
    ..accelerator("qnn-android", android::look, &[&CPU])
};
pub static WEBGPU: BackendRow = BackendRow {
    query: webgpu::query,
    tells_place: false,
    ..accelerator("webgpu", webgpu::look, &[&WEBNN, &CPU])
};
pub static WEBGPU_BROWSER: BackendRow = BackendRow {
    query: |params| webgpu_browser::PROBER.query(params),
    ..accelerator(
        "webgpu-browser",
        |host, _| webgpu_browser::PROBER.look(host),
        &[&WEBNN, &CPU],
    )
};
pub static WEBNN: BackendRow = BackendRow {
    query: |params| webnn::PROBER.query(params),
    tells_place: false,
    ..accelerator("webnn", |host, _| webnn::PROBER.look(host), &[&CPU])
};
