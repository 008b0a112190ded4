//! QNN context binaries, compiled by the vendor's library through ONNX Runtime.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{
    ARTEFACTS, Artefact, Code, Conversion, Converter, From, Library, Part, ReadyFormat, WORKER,
    Wheel, code, onnxruntime, parts,
};
use crate::base::Precision::{A16w8, Fp16, Int8Static};
use crate::runtime::android::OWN_OPTIONS;
use crate::toolchain::EnvName;

pub static ARTEFACT: Artefact = Artefact {
    name: "qnn",
    title: "the QNN context binary",
    precisions: |_| &[Fp16, Int8Static, A16w8],
    always_half: Some("the HTP computes floating point in fp16, whatever the model says"),
    ready: &[ReadyFormat::Onnx],
    holds_reference: false,
    needs_class: false,
    ranged: &[],
    conversions: &[&COMPILE, &COMPILE_QUANTISED, &QUANTISE],
    // Another SoC makes another binary, so two targets that differ in options have artefacts of their own. A target
    // may be called as another artefact is.
    label: |wanted| {
        let target = wanted.target;
        let precision = wanted.precision.word();
        let is_taken = ARTEFACTS
            .iter()
            .any(|artefact| artefact.name != ARTEFACT.name && artefact.name == target);
        let is_taken = is_taken || target == QDQ.name;
        if is_taken {
            format!("qnn@{target}-{precision}")
        } else {
            format!("{target}-{precision}")
        }
    },
    made_by: |wanted| {
        let compile = if wanted.precision == Fp16 {
            &COMPILE
        } else {
            &COMPILE_QUANTISED
        };
        let options = compiler_options(wanted.options);
        let mut params = json!({"precision": wanted.precision, "options": options});
        if wanted.export["rewrites"] == false {
            params["rewrites"] = json!(false);
        }
        Some((compile, params))
    },
};

/// What the compiler reads at the precisions whose products are of whole numbers. No target loads it, so it is not in
/// `ARTEFACTS`; a target may say `artefact: onnx`, whose int8 is for CPUs.
pub static QDQ: Artefact = Artefact {
    name: "qdq",
    title: "the quantised ONNX model",
    precisions: |_| &[Int8Static, A16w8],
    always_half: None,
    ready: &[ReadyFormat::Onnx],
    holds_reference: false,
    needs_class: false,
    ranged: &[],
    conversions: &[&QUANTISE],
    label: |wanted| wanted.usual_label(&QDQ),
    made_by: |wanted| {
        Some((
            &QUANTISE,
            json!({"precision": wanted.precision, "for": ARTEFACT.name}),
        ))
    },
};

static QUANTISE: Conversion = Conversion {
    name: "convert.qnn-qdq",
    inputs: &[("onnx", From::Onnx), ("calibration", From::Calibration)],
    env: |_| EnvName::Ort,
    packages: |_| &["onnx", "onnxruntime", "numpy", "safetensors"],
    code: Code::of(&[
        code::CONVERT,
        parts!(Rust "catalogue/qnn.rs"; Python "onnx_convert"),
    ]),
    by: Converter::Python("onnx_convert"),
};

const HERE: &[Part] = parts!(Rust "catalogue/qnn.rs", "catalogue/onnxruntime.rs");

static COMPILE: Conversion = compile("convert.qnn", &[("artefact", From::Onnx)]);
static COMPILE_QUANTISED: Conversion = compile("convert.qnn-quantised", &[("artefact", From::Qdq)]);

const fn compile(name: &'static str, inputs: &'static [(&'static str, From)]) -> Conversion {
    Conversion {
        name,
        inputs,
        env: |_| EnvName::Qnn,
        packages: |_| &["onnxruntime", "onnxruntime-qnn"],
        code: Code::of(&[code::CONVERT, HERE, WORKER, onnxruntime::CODE]),
        by: Converter::Worker {
            runtime: &onnxruntime::RUNTIME,
            op: "compile",
            libraries: LIBRARIES,
        },
    }
}

const LIBRARIES: &[(&str, Library)] = &[
    ("library", Library::Wheel(&onnxruntime::LIBRARY_FOR_QNN)),
    ("ep_library", Library::Wheel(&PROVIDER)),
];

pub static PROVIDER: Wheel = Wheel {
    env: EnvName::Qnn,
    package: "onnxruntime-qnn",
    folder: "onnxruntime_qnn",
    prefix: "libonnxruntime_providers_qnn.",
};

/// What the compiler gets of a target's options: which phone a context runs on changes nothing in it.
fn compiler_options(options: &BTreeMap<String, Value>) -> Map<String, Value> {
    let passed = options
        .iter()
        .filter(|(name, _)| !OWN_OPTIONS.contains(&name.as_str()));
    passed
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_phone_runs_a_context_is_no_part_of_its_key() {
        let options: BTreeMap<String, Value> = [
            ("serial", json!("R5CT")),
            ("soc", json!("SM8550")),
            ("soc_model", json!(43)),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        assert_eq!(
            Value::Object(compiler_options(&options)),
            json!({"soc_model": 43})
        );
    }
}
