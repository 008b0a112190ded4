//! QNN context binaries, compiled by the vendor's library through ONNX Runtime.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{
    ARTEFACTS, Artefact, Code, Conversion, Converter, From, Library, Part, ReadyFormat, WORKER, Wheel, code,
    onnxruntime,
};
use crate::base::Precision::Fp16;
use crate::runtime::android::OWN_OPTIONS;
use crate::toolchain::EnvName;

pub static ARTEFACT: Artefact = Artefact {
    name: "qnn",
    title: "the QNN context binary",
    precisions: |_| &[Fp16],
    always_half: Some("the HTP computes floating point in fp16, whatever the model says"),
    ready: &[ReadyFormat::Onnx],
    holds_reference: false,
    needs_class: false,
    ranged: &[],
    conversions: &[&COMPILE],
    // Another SoC makes another binary, so two targets that differ in options have artefacts of their own. A target
    // may be called as another artefact is.
    label: |wanted| {
        let (target, precision) = (wanted.target, wanted.precision.word());
        let is_taken = ARTEFACTS.iter().any(|artefact| artefact.name != ARTEFACT.name && artefact.name == target);
        if is_taken { format!("qnn@{target}-{precision}") } else { format!("{target}-{precision}") }
    },
    made_by: |wanted| {
        Some((&COMPILE, json!({"precision": wanted.precision, "options": compiler_options(wanted.options)})))
    },
};

static COMPILE: Conversion = Conversion {
    name: "convert.qnn",
    inputs: &[("artefact", From::Onnx)],
    env: |_| EnvName::Qnn,
    packages: |_| &["onnxruntime", "onnxruntime-qnn"],
    code: Code::of(&[
        code::CONVERT,
        &[Part::Rust("catalogue/qnn.rs"), Part::Rust("catalogue/onnxruntime.rs")],
        WORKER,
        onnxruntime::CODE,
    ]),
    by: Converter::Worker {
        runtime: &onnxruntime::RUNTIME,
        op: "compile",
        libraries: &[
            ("library", Library::Wheel(&onnxruntime::LIBRARY_FOR_QNN)),
            ("ep_library", Library::Wheel(&PROVIDER)),
        ],
    },
};

pub static PROVIDER: Wheel = Wheel {
    env: EnvName::Qnn,
    package: "onnxruntime-qnn",
    folder: "onnxruntime_qnn",
    prefix: "libonnxruntime_providers_qnn.",
};

/// What the compiler is told of a target's options: which phone a context runs on changes nothing in it.
fn compiler_options(options: &BTreeMap<String, Value>) -> Map<String, Value> {
    let told = options.iter().filter(|(name, _)| !OWN_OPTIONS.contains(&name.as_str()));
    told.map(|(name, value)| (name.clone(), value.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_phone_runs_a_context_is_no_part_of_its_key() {
        let options: BTreeMap<String, Value> =
            [("serial", json!("R5CT")), ("soc", json!("SM8550")), ("soc_model", json!(43))]
                .map(|(name, value)| (name.to_owned(), value))
                .into();
        assert_eq!(Value::Object(compiler_options(&options)), json!({"soc_model": 43}));
    }
}
