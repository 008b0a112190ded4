//! LiteRT, formerly TensorFlow Lite: a .tflite file on the CPU, by its C library.

use serde_json::json;

use super::{
    Artefact, Code, Conversion, Converter, From, Half, Library, Pair, Part, Requirement, RunParams,
    RunRequest, Runtime, WORKER, Wheel, Worker, WorkerCall, code, parts, with_tokens,
};
use crate::base::Precision::{Fp16, Fp32};
use crate::device::backends;
use crate::runtime::InstalledPath;
use crate::runtime::litert::{Options, Params, execute};
use crate::toolchain::{EnvName, Tool};

const NAME: &str = "litert";

pub static RUNTIME: Runtime = Runtime {
    name: NAME,
    pairs: &[Pair {
        backend: &backends::CPU,
        loads: &[&ARTEFACT],
        template: "litert",
        test_env: EnvName::Litert,
        half: Half::Unknown(
            "LiteRT is told no precision for a CPU, and computes fp16 weights in fp32",
        ),
    }],
    absent: None,
    execute: Some(execute),
    code: Code::of(&[code::RUN, HERE, WORKER, CODE]),
    tools: |_| {
        vec![Tool {
            env: EnvName::Litert,
            package: "ai-edge-litert",
        }]
    },
    requires: |_| vec![Requirement::Env(EnvName::Litert)],
    server: None,
    runs_the_test: false,
    profiles: false,
    windows: None,
    composes: false,
    needs: RunParams::device_needs,
    // Of its fp16 files only the weights are in half precision: XNNPACK widens them.
    computes: |precision, _| (precision == Fp16).then_some("f32"),
    failures_stand: true,
    versions: &["litert"],
    lower: |request: &RunRequest<'_>| {
        let params = Params {
            library: InstalledPath::LATER,
            device: request.run.device.clone(),
            measure: request.run.measure.params(),
            options: Options::of(&request.run.options)?,
        };
        let libraries = vec![("library", Library::Wheel(&LIBRARY))];
        Ok(WorkerCall {
            libraries,
            ..WorkerCall::of(Worker::Orch(NAME), "run", &params)
        })
    },
};

const HERE: &[Part] = &[Part::Rust("catalogue/litert.rs")];

/// `orch worker litert`
const CODE: &[Part] = parts!(Rust "runtime/litert"; Crate "libloading");

static LIBRARY: Wheel = Wheel {
    env: EnvName::Litert,
    package: "ai-edge-litert",
    folder: "ai_edge_litert",
    prefix: "libLiteRt.",
};

pub static ARTEFACT: Artefact = Artefact {
    name: "tflite",
    title: "the LiteRT model",
    precisions: |half| if half { &[Fp32] } else { &[Fp32, Fp16] },
    always_half: None,
    ready: &[],
    holds_reference: false,
    needs_class: false,
    ranged: &[],
    conversions: &[&CONVERT],
    label: |wanted| wanted.usual_label(&ARTEFACT),
    made_by: |wanted| {
        Some((
            &CONVERT,
            with_tokens(json!({"precision": wanted.precision}), wanted.tokens),
        ))
    },
};

static CONVERT: Conversion = Conversion {
    name: "convert.tflite",
    inputs: &[("model", From::Model)],
    env: |_| EnvName::Litert,
    packages: |_| {
        &[
            "torch",
            "transformers",
            "litert-torch",
            "litert-converter",
            "ai-edge-quantizer",
            "ai-edge-litert",
            "numpy",
            "safetensors",
        ]
    },
    code: Code::of(&[code::CONVERT, HERE, &[Part::Python("litert_convert")]]),
    by: Converter::Python("litert_convert"),
};
