//! libtorch through tch: a traced module, in an executable of its own.

use serde_json::json;

use super::{
    Artefact, Code, Conversion, Converter, From, Half, Pair, Part, ReadyFormat, Requirement,
    RunParams, RunRequest, Runtime, WORKER, Worker, WorkerCall, by_precision, code, parts, python,
    with_tokens,
};
use crate::base::Precision::{Bf16, Fp16, Fp32};
use crate::device::{BackendRow, backends};
use crate::runtime::torch::Params;
use crate::toolchain::{EnvName, Tool};

const LOADS: &[&Artefact] = &[&ARTEFACT];

const fn pair(backend: &'static BackendRow, template: &'static str) -> Pair {
    // One library is under both, and Python probes it without a build.
    let half = Half::ProbedBy(&python::RUNTIME);
    Pair {
        backend,
        loads: LOADS,
        template,
        test_env: EnvName::Torch,
        half,
    }
}

pub static RUNTIME: Runtime = Runtime {
    name: "torch",
    pairs: &[
        pair(&backends::CPU, "torch"),
        pair(&backends::CUDA, "torch"),
        pair(&backends::ROCM, "torch"),
        pair(&backends::MPS, "mps"),
    ],
    absent: None,
    execute: None,
    code: Code::of(&[code::RUN, HERE, WORKER, CODE]),
    tools: |_| {
        vec![Tool {
            env: EnvName::Torch,
            package: "torch",
        }]
    },
    requires: |_| vec![Requirement::Env(EnvName::Torch), Requirement::TorchWorker],
    server: None,
    runs_the_test: false,
    profiles: false,
    windows: None,
    composes: true,
    needs: RunParams::device_needs,
    computes: by_precision,
    failures_stand: true,
    versions: &["torch"],
    lower: |request: &RunRequest<'_>| {
        let params = Params {
            device: request.run.device.clone(),
            lease: None,
            threads: request.run.threads_alone()?,
            measure: request.run.measure.params(),
        };
        Ok(WorkerCall::of(Worker::Torch, "run", &params))
    },
};

const HERE: &[Part] = &[Part::Rust("catalogue/torch.rs")];

/// `orch-torch`
pub const CODE: &[Part] = parts!(
    Rust "bin/orch-torch", "device/lease.rs", "device/native/cuda.rs", "device/native/nvml.rs", "device/shown.rs",
        "device/vram.rs", "runtime/control", "runtime/torch.rs";
    Crate "nvml-wrapper", "tch", "torch-sys"
);

/// All that `orch-torch` is built from: another build of it is needed when this changes.
pub static BUILD: Code = Code::of(&[WORKER, CODE]);

pub static ARTEFACT: Artefact = Artefact {
    name: "torchscript",
    title: "the traced TorchScript model",
    precisions: |_| &[Fp32, Fp16, Bf16],
    always_half: None,
    ready: &[ReadyFormat::Torchscript],
    holds_reference: false,
    needs_class: false,
    ranged: &[],
    conversions: &[&EXPORT],
    label: |wanted| wanted.usual_label(&ARTEFACT),
    made_by: |wanted| match wanted.ready {
        Some(ReadyFormat::Torchscript) => None,
        _ => Some((
            &EXPORT,
            with_tokens(json!({"precision": wanted.precision}), wanted.tokens),
        )),
    },
};

static EXPORT: Conversion = Conversion {
    name: "convert.torchscript",
    inputs: &[("model", From::Model)],
    env: |_| EnvName::Torch,
    packages: |_| &["torch", "transformers", "numpy", "safetensors"],
    code: Code::of(&[code::CONVERT, HERE, &[Part::Python("export_torchscript")]]),
    by: Converter::Python("export_torchscript"),
};
