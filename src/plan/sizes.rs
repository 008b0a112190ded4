//! How large the inputs of a case are, what texts are among them, and what is named after it.

use indexmap::IndexMap;

use crate::matrix::Case;
use crate::spec::{Artefact, Dim, Fill, Input, Int8Range, Model, Precision, Target};

/// A model's inputs with every named size replaced by the case's.
pub(super) fn resolved_inputs(model: &Model, case: &Case) -> IndexMap<String, Input> {
    let size = |dim: &Dim| match dim {
        Dim::Fixed(n) => *n,
        Dim::Named(name) => case.dims[name],
    };
    let resolve =
        |input: &Input| Input { shape: input.shape.iter().map(|dim| Dim::Fixed(size(dim))).collect(), ..input.clone() };
    model.inputs.iter().map(|(name, input)| (name.clone(), resolve(input))).collect()
}

pub(super) fn sizes(input: &Input) -> Vec<u64> {
    input.shape.iter().filter_map(|dim| if let Dim::Fixed(n) = dim { Some(*n) } else { None }).collect()
}

/// What the weights of an OpenVINO IR are stored as. Of bf16 it knows none: they are rounded when they are loaded.
pub(super) fn weights(precision: Precision) -> Precision {
    if precision == Precision::Bf16 { Precision::Fp32 } else { precision }
}

/// The texts that fill an input of the model, if any do.
pub(super) fn texts(model: &Model) -> &[String] {
    let is_text = |input: &&Input| matches!(input.fill, Fill::Text(_));
    match model.inputs.values().find(is_text) {
        Some(Input { fill: Fill::Text(texts), .. }) => texts,
        _ => &[],
    }
}

/// With the model's instance this names an artefact, in step ids and in the folders that generated tests look in: no two
/// artefacts of an instance have one label.
pub(super) fn artefact_label(target: &Target, case: &Case) -> String {
    match target.artefact {
        Artefact::Model => "model".into(),
        // At fp32 they are what the exporters make, and the others are made of them.
        Artefact::Onnx | Artefact::Torchscript if case.precision == Precision::Fp32 => target.artefact.word().into(),
        Artefact::Onnx if case.precision == Precision::Int8 && target.int8_range == Int8Range::Full => {
            "onnx-int8-full".into()
        }
        Artefact::Onnx | Artefact::Torchscript => format!("{}-{}", target.artefact.word(), case.precision.word()),
        Artefact::TransformersJs => "transformers-js".into(),
        Artefact::Openvino => format!("openvino-{}", weights(case.precision).word()),
        // Another SoC makes another binary, so two targets that differ in options have artefacts of their own. A target
        // may be called as another artefact is.
        Artefact::Qnn if matches!(target.name.as_str(), "onnx" | "openvino" | "torchscript") => {
            format!("qnn@{}-{}", target.name, case.precision.word())
        }
        Artefact::Qnn => format!("{}-{}", target.name, case.precision.word()),
    }
}
