//! ONNX files: what the exporters make, and what ONNX Runtime's own tools make of that.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Artefact, Code, Conversion, Converter, From, Part, ReadyFormat, code, with_tokens};
use crate::base::Precision::{A16w8, Fp16, Fp32, Int4, Int8, Int8Static};
use crate::base::words::words;
use crate::toolchain::EnvName;

/// Packages that cut a graph into windows, and so can change what `orch blame` finds.
pub const CUTS: [&str; 2] = ["onnx", "numpy"];

pub static ARTEFACT: Artefact = Artefact {
    name: "onnx",
    title: "the ONNX model",
    precisions: |_| &[Fp32, Fp16, Int8, Int8Static, A16w8, Int4],
    always_half: None,
    ready: &[ReadyFormat::Onnx],
    holds_reference: false,
    needs_class: false,
    ranged: &[Int8, Int8Static],
    conversions: &[&EXPORT, &PRECISION, &CALIBRATED, &IN_GROUPS],
    label: |wanted| wanted.usual_label(&ARTEFACT) + wanted.range_in_label(&ARTEFACT),
    made_by: |wanted| match (wanted.precision, wanted.ready) {
        (Fp32, Some(ReadyFormat::Onnx)) => None,
        (Fp32, _) => Some((&EXPORT, with_tokens(wanted.export.clone(), wanted.tokens))),
        (Int8, _) => Some((
            &PRECISION,
            json!({"precision": Int8, "range": wanted.int8_range}),
        )),
        (Int8Static, _) => Some((
            &CALIBRATED,
            json!({"precision": Int8Static, "range": wanted.int8_range}),
        )),
        (A16w8, _) => Some((&CALIBRATED, json!({"precision": A16w8}))),
        (Int4, _) => Some((&IN_GROUPS, json!({"precision": Int4}))),
        (precision, _) => Some((&PRECISION, json!({"precision": precision}))),
    },
};

const HERE: &[Part] = &[Part::Rust("catalogue/onnx.rs")];

/// The export of a PyTorch model.
pub static EXPORT: Conversion = Conversion {
    name: "convert.onnx",
    inputs: &[("model", From::Model)],
    env: |_| EnvName::Torch,
    packages: |_| {
        &[
            "torch",
            "transformers",
            "onnx",
            "onnx-ir",
            "onnxscript",
            "onnxruntime",
            "numpy",
            "safetensors",
        ]
    },
    code: Code::of(&[code::CONVERT, HERE, &[Part::Python("export_onnx")]]),
    by: Converter::Python("export_onnx"),
};

/// The conversion of the fp32 file to another precision.
static PRECISION: Conversion =
    from_fp32("convert.onnx-precision", &[("onnx", From::Onnx)], |_| TOOLS);
/// Weights and activations int8, by ranges that further inputs showed.
static CALIBRATED: Conversion = from_fp32(
    "convert.onnx-static",
    &[("onnx", From::Onnx), ("calibration", From::Calibration)],
    |_| TOOLS,
);
/// Weights int4, in groups.
static IN_GROUPS: Conversion = from_fp32("convert.onnx-int4", &[("onnx", From::Onnx)], |_| {
    TOOLS_IN_GROUPS
});

const TOOLS: &[&str] = &["onnx", "onnxruntime", "numpy", "safetensors"];
const TOOLS_IN_GROUPS: &[&str] = &["onnx", "onnx-ir", "onnxruntime", "numpy", "safetensors"];

const fn from_fp32(
    name: &'static str,
    inputs: &'static [(&'static str, From)],
    packages: fn(&Value) -> &'static [&'static str],
) -> Conversion {
    let code = Code::of(&[code::CONVERT, HERE, &[Part::Python("onnx_convert")]]);
    Conversion {
        name,
        inputs,
        env: |_| EnvName::Ort,
        packages,
        code,
        by: Converter::Python("onnx_convert"),
    }
}

/// How far the int8 weights of an artefact reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Int8Range {
    /// Weights within ±64: the sum of two products with uint8 fits 16 bits, in which x86 CPUs without VNNI add them.
    #[default]
    Reduced,
    /// All of the eight bits.
    Full,
}

words!(pub Int8Range { "reduced" => Reduced, "full" => Full });
