//! ONNX Runtime Web: a graph, in a real browser.

use super::{
    Access, Artefact, Code, Half, HalfProbe, Library, Pair, Part, Requirement, RunParams,
    RunRequest, Runtime, WORKER, Worker, WorkerCall, by_precision, code, onnx, parts, serialised,
};
use crate::base::Precision;
use crate::device::{BackendRow, backends};
use crate::runtime::InstalledPath;
use crate::runtime::browser::{Params, execute};
use crate::runtime::tensors::Element;
use crate::toolchain::{EnvName, Tool};

const NAME: &str = "browser";
const LOADS: &[&Artefact] = &[&onnx::ARTEFACT];

const fn pair(backend: &'static BackendRow, half: Half) -> Pair {
    // The page needs no Python, and the test only what has made its model.
    Pair {
        backend,
        loads: LOADS,
        template: "browser",
        test_env: EnvName::Torch,
        half,
    }
}

pub static RUNTIME: Runtime = Runtime {
    name: NAME,
    pairs: &[
        pair(&backends::WEBGPU_BROWSER, Half::Shown(&HALF)),
        pair(
            &backends::WEBNN,
            Half::Unknown("a browser does not tell what webnn computes in"),
        ),
    ],
    absent: None,
    execute: Some(execute),
    code: Code::of(&[code::RUN, parts!(Rust "catalogue/browser.rs"), WORKER, CODE]),
    tools: |_| {
        vec![
            CHROMIUM,
            Tool {
                env: EnvName::Browser,
                package: "onnxruntime-web",
            },
        ]
    },
    requires: |_| vec![Requirement::Env(EnvName::Browser)],
    server: None,
    runs_the_test: false,
    profiles: false,
    windows: None,
    composes: false,
    needs: RunParams::device_needs,
    computes: by_precision,
    failures_stand: true,
    versions: &[],
    lower,
};

/// `orch worker browser`, with its page.
pub const CODE: &[Part] = parts!(
    // It is `device/web.rs` that chooses the adapter.
    Rust "base/loopback.rs", "browser", "device/web.rs", "runtime/browser", "runtime/onnx_change.rs", "runtime/onnx_external.rs", "runtime/onnx_file.rs",
        "runtime/onnx_proto.rs";
    Crate "httparse", "prost"
);

/// The browser: a lock's, or by its content that of the user.
pub const CHROMIUM: Tool = Tool {
    env: EnvName::Browser,
    package: "@sparticuz/chromium",
};

static HALF: HalfProbe = HalfProbe {
    precisions: &[Precision::Fp16],
    devices: |_| vec!["webgpu".to_owned()],
    tensors: Element::Float16,
    lower,
};

fn lower(request: &RunRequest<'_>) -> anyhow::Result<WorkerCall> {
    in_page(NAME, request, ("ort_web", Library::OrtWeb))
}

/// The question put to a page. It is served on loopback.
pub(super) fn in_page(
    worker: &'static str,
    request: &RunRequest<'_>,
    brings: (&'static str, Library),
) -> anyhow::Result<WorkerCall> {
    let RunParams {
        backend,
        device,
        options,
        measure,
        ..
    } = request.run;
    let params = Params {
        browser: InstalledPath::LATER,
        scripts: InstalledPath::LATER,
        backend: backend.name.to_owned(),
        device: device.clone(),
        options: options.clone(),
        measure: measure.params(),
        kept: false,
    };
    Ok(WorkerCall {
        // A browser that has shown other pages times nothing.
        worker: if measure.is_timed() {
            Worker::Orch(worker)
        } else {
            Worker::Kept(worker)
        },
        op: "run",
        params: serialised(&params),
        libraries: vec![("browser", Library::Browser), brings],
        access: Access {
            network: true,
            ..Access::default()
        },
    })
}
