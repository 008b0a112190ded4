//! OpenVINO: an IR on a device and in a precision that it gets by name.

use serde_json::{Value, json};

use super::{
    Artefact, Code, Conversion, Converter, From, Half, HalfProbe, Library, Pair, Part, ReadyFormat,
    Requirement, RunParams, RunRequest, Runtime, WORKER, Wheel, Windows, Worker, WorkerCall, code,
    onnx, parts,
};
use crate::base::Precision::{self, Bf16, Fp16, Fp32, Int4, Int8, Int8Static};
use crate::device::{Backend, backends};
use crate::runtime::InstalledPath;
use crate::runtime::openvino::{InferencePrecision, Params, execute};
use crate::runtime::tensors::Element;
use crate::toolchain::{EnvName, Tool};

const NAME: &str = "openvino";

pub static RUNTIME: Runtime = Runtime {
    name: NAME,
    pairs: &[Pair {
        backend: &backends::OPENVINO,
        loads: &[&ARTEFACT, &onnx::ARTEFACT],
        template: "openvino",
        test_env: EnvName::Openvino,
        half: Half::Shown(&HALF),
    }],
    absent: None,
    execute: Some(execute),
    code: Code::of(&[code::RUN, HERE, WORKER, CODE]),
    tools: |_| {
        vec![Tool {
            env: EnvName::Openvino,
            package: "openvino",
        }]
    },
    requires: |_| vec![Requirement::Env(EnvName::Openvino)],
    server: None,
    runs_the_test: false,
    profiles: true,
    windows: Some(Windows {
        env: EnvName::Openvino,
        package: "openvino",
    }),
    composes: true,
    needs: |run| {
        // AUTO, HETERO and MULTI put parts on the CPU as they see fit.
        let is_device = ["GPU", "NPU"]
            .iter()
            .any(|kind| run.device.starts_with(kind));
        if is_device {
            run.device_needs()
        } else {
            run.host_needs()
        }
    },
    // Its fp16 files are half precision only in their weights, and a target with `half` is to compute in it.
    computes: |precision, half| match precision {
        Fp16 if half => Some("f16"),
        Bf16 => Some("bf16"),
        _ => None,
    },
    failures_stand: true,
    versions: &["openvino"],
    lower,
};

const HERE: &[Part] = &[Part::Rust("catalogue/openvino.rs")];

/// `orch worker openvino`
pub const CODE: &[Part] =
    parts!(Rust "openvino", "runtime/control", "runtime/openvino"; Crate "openvino-sys");

pub static LIBRARY: Wheel = Wheel {
    env: EnvName::Openvino,
    package: "openvino",
    folder: "openvino/libs",
    prefix: "libopenvino_c.",
};

/// It gets the type to compute an fp32 model in; the others compute in the model's own types.
static HALF: HalfProbe = HalfProbe {
    precisions: &[Fp16, Bf16],
    devices: |found: &Backend| {
        let ids = found
            .devices
            .iter()
            .filter_map(|device| device.id.strip_prefix("openvino:"));
        ids.map(str::to_owned).collect()
    },
    tensors: Element::Float32,
    lower,
};

fn lower(request: &RunRequest<'_>) -> anyhow::Result<WorkerCall> {
    let (options, threads) = request.run.options_and_threads()?;
    let params = Params {
        library: InstalledPath::LATER,
        device: request.run.device.clone(),
        inference_precision: inference_precision(request.run)?,
        measure: request.run.measure.params(),
        options,
        threads,
    };
    let libraries = vec![("library", Library::Wheel(&LIBRARY))];
    Ok(WorkerCall {
        libraries,
        ..WorkerCall::of(Worker::Orch(NAME), "run", &params)
    })
}

/// Left to itself a CPU with bf16 units computes fp32 models in bf16. An NPU has no fp32; where one is requested all the same,
/// the runtime says so.
fn inference_precision(run: &RunParams) -> anyhow::Result<InferencePrecision> {
    if let Some(computes) = &run.computes {
        return InferencePrecision::named(computes);
    }
    if run.device.starts_with("NPU") && run.precision != Fp32 {
        Ok(InferencePrecision::F16)
    } else {
        Ok(InferencePrecision::F32)
    }
}

pub static ARTEFACT: Artefact = Artefact {
    name: NAME,
    title: "the OpenVINO IR",
    // Where bf16 is set for inference, OpenVINO rounds fp32 weights itself.
    precisions: |half| {
        if half {
            &[Fp32, Fp16, Bf16]
        } else {
            &[Fp32, Fp16, Int8, Int8Static, Int4]
        }
    },
    always_half: None,
    ready: &[ReadyFormat::Onnx, ReadyFormat::Openvino],
    holds_reference: false,
    needs_class: false,
    ranged: &[Int8Static],
    conversions: &[&CONVERT, &CALIBRATED],
    label: |wanted| {
        format!(
            "openvino-{}{}",
            weights(wanted.precision).word(),
            wanted.range_in_label(&ARTEFACT)
        )
    },
    made_by: |wanted| match (wanted.ready, wanted.precision) {
        (Some(ReadyFormat::Openvino), _) => None,
        (_, Int8Static) => Some((
            &CALIBRATED,
            json!({"precision": Int8Static, "range": wanted.int8_range}),
        )),
        (_, precision) => Some((&CONVERT, json!({"precision": weights(precision)}))),
    },
};

static CONVERT: Conversion = Conversion {
    name: "convert.openvino",
    inputs: &[("onnx", From::Onnx)],
    env: |params| {
        if is_compressed(params) {
            EnvName::Nncf
        } else {
            EnvName::Openvino
        }
    },
    packages: |params| {
        if is_compressed(params) {
            &["openvino", "nncf", "numpy"]
        } else {
            &["openvino", "numpy"]
        }
    },
    code: Code::of(&[code::CONVERT, HERE, &[Part::Python("openvino_convert")]]),
    by: Converter::Python("openvino_convert"),
};

/// Weights and activations int8, by ranges that further inputs showed.
static CALIBRATED: Conversion = Conversion {
    name: "convert.openvino-static",
    inputs: &[("onnx", From::Onnx), ("calibration", From::Calibration)],
    env: |_| EnvName::Nncf,
    packages: |_| &["openvino", "nncf", "numpy", "safetensors"],
    code: Code::of(&[code::CONVERT, HERE, &[Part::Python("openvino_convert")]]),
    by: Converter::Python("openvino_convert"),
};

/// Whether nncf makes its weights smaller.
fn is_compressed(params: &Value) -> bool {
    params["precision"] == Int8.word() || params["precision"] == Int4.word()
}

/// What the weights of an IR are stored as. Of bf16 it knows none: they are rounded when they are loaded.
fn weights(precision: Precision) -> Precision {
    if precision == Bf16 { Fp32 } else { precision }
}
