//! tract: ONNX files on the CPU by a crate that is part of orch, where it was built with it.

use super::{
    Code, Half, Pair, Part, RunParams, RunRequest, Runtime, WORKER, Worker, WorkerCall,
    by_precision, code, onnx, parts,
};
use crate::device::backends;
use crate::runtime::tract::{ABSENT, Params, execute};
use crate::toolchain::EnvName;

const NAME: &str = "tract";

pub static RUNTIME: Runtime = Runtime {
    name: NAME,
    pairs: &[Pair {
        backend: &backends::CPU,
        loads: &[&onnx::ARTEFACT],
        template: "tract",
        test_env: EnvName::Tract,
        half: Half::Unprobed,
    }],
    absent: ABSENT,
    execute: Some(execute),
    code: Code::of(&[code::RUN, HERE, WORKER, CODE]),
    // Its crate's version stands in the digest of its code.
    tools: |_| vec![],
    requires: |_| vec![],
    server: None,
    runs_the_test: false,
    profiles: false,
    windows: None,
    composes: true,
    needs: RunParams::device_needs,
    computes: by_precision,
    failures_stand: true,
    versions: &["tract"],
    lower: |request: &RunRequest<'_>| {
        let run = request.run;
        run.no_options(&run.options, "it computes on one thread")?;
        let params = Params {
            device: run.device.clone(),
            measure: run.measure.params(),
        };
        Ok(WorkerCall::of(Worker::Orch(NAME), "run", &params))
    },
};

const HERE: &[Part] = &[Part::Rust("catalogue/tract.rs")];

/// `orch worker tract`
const CODE: &[Part] = parts!(
    Rust "runtime/tract", "runtime/onnx_external.rs", "runtime/onnx_file.rs", "runtime/onnx_proto.rs";
    Crate "prost", "tract-core", "tract-data", "tract-hir", "tract-linalg", "tract-onnx", "tract-onnx-opl", "tract-transformers"
);
