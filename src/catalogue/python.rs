//! PyTorch's eager mode: the generated test itself, run on the transformers model.

use serde_json::json;

use super::{
    Artefact, Code, Half, HalfProbe, Pair, Requirement, RunParams, RunRequest, Runtime, Worker,
    WorkerCall, by_precision, code, one_device, parts,
};
use crate::base::Precision::{Bf16, Fp16, Fp32};
use crate::device::{BackendRow, backends};
use crate::runtime::tensors::Element;
use crate::toolchain::{EnvName, Tool};

const LOADS: &[&Artefact] = &[&ARTEFACT];

const fn pair(backend: &'static BackendRow) -> Pair {
    Pair {
        backend,
        loads: LOADS,
        template: "eager",
        test_env: EnvName::Torch,
        half: Half::Shown(&HALF),
    }
}

pub static RUNTIME: Runtime = Runtime {
    name: "python",
    pairs: &[
        pair(&backends::CPU),
        pair(&backends::CUDA),
        pair(&backends::ROCM),
        pair(&backends::MPS),
    ],
    absent: None,
    execute: None,
    code: Code::of(&[
        code::RUN,
        parts!(Rust "catalogue/python.rs"; Python "script"),
    ]),
    tools: |_| {
        ["torch", "transformers", "numpy", "safetensors"]
            .map(|package| Tool {
                env: EnvName::Torch,
                package,
            })
            .into()
    },
    requires: |_| vec![Requirement::Env(EnvName::Torch)],
    server: Some(EnvName::Torch),
    runs_the_test: true,
    profiles: false,
    windows: None,
    composes: true,
    needs: RunParams::device_needs,
    computes: by_precision,
    failures_stand: true,
    versions: &["torch"],
    lower: |request| {
        request
            .run
            .no_options(&request.run.options, "PyTorch's eager mode has none")?;
        let name = request
            .run
            .test
            .as_deref()
            .expect("BUG: what runs is a test, and none is named");
        // What the outputs are worth, `judge` says.
        let argv = json!([
            "--no-judge",
            "--model",
            request.places.input("model"),
            "--device",
            request.run.device,
            "--save",
            request.places.out,
            "--json",
            request.places.scratch.join("result.json"),
        ]);
        Ok(call(
            "script",
            json!({"script": request.places.input("test").join(name), "argv": argv}),
        ))
    },
};

static HALF: HalfProbe = HalfProbe {
    precisions: &[Fp16, Bf16],
    devices: one_device,
    tensors: Element::Float16,
    lower: |request: &RunRequest<'_>| {
        Ok(call(
            "half",
            json!({"device": request.run.device, "precision": request.run.precision}),
        ))
    },
};

fn call(op: &'static str, params: serde_json::Value) -> WorkerCall {
    WorkerCall::of(Worker::Python(EnvName::Torch), op, &params)
}

/// The materialised model itself.
pub static ARTEFACT: Artefact = Artefact {
    name: "model",
    title: "the transformers model",
    precisions: |_| &[Fp32, Fp16, Bf16],
    always_half: None,
    ready: &[],
    holds_reference: false,
    needs_class: true,
    ranged: &[],
    conversions: &[],
    label: |_| "model".into(),
    made_by: |_| None,
};
