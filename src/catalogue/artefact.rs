//! What a target loads, and how it is made of the model.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::onnx::Int8Range;
use super::{ARTEFACTS, Code, Library, Runtime};
use crate::base::Precision;
use crate::base::words::rows;
use crate::toolchain::EnvName;

/// One form of a model.
pub struct Artefact {
    /// The name in YAML and in keys.
    pub name: &'static str,
    /// What a generated test says that it loads.
    pub title: &'static str,
    /// The precisions that it really has when orch makes it, for a target with `half` or without.
    pub precisions: fn(bool) -> &'static [Precision],
    /// Why it is computed in half precision wherever it runs, if it is.
    pub always_half: Option<&'static str>,
    /// The user's own files that it can be made of.
    pub ready: &'static [ReadyFormat],
    /// Whether it is a whole task, and holds itself what its outputs are compared with.
    pub holds_reference: bool,
    /// Whether a test must name the model's class to load it.
    pub needs_class: bool,
    /// The precisions of which a target says how far their int8 weights reach.
    pub ranged: &'static [Precision],
    /// All that may make it.
    pub conversions: &'static [&'static Conversion],
    /// The label that, with the model's instance, names it, in step ids and in the folders that generated tests look
    /// in: no two artefacts of an instance have one label.
    pub label: fn(&Wanted<'_>) -> String,
    /// The step that makes it and its parameters; None where the model is it already.
    pub made_by: fn(&Wanted<'_>) -> Option<(&'static Conversion, Value)>,
}

rows!(Artefact as "artefact" in ARTEFACTS);

/// All that an artefact may depend on besides its model.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    pub target: &'a str,
    pub precision: Precision,
    pub options: &'a BTreeMap<String, Value>,
    pub int8_range: Int8Range,
    /// How ONNX is exported.
    pub export: &'a Value,
    /// Names of the outputs whose whole numbers are tokens.
    pub tokens: &'a [String],
    /// What fills an input that is text.
    pub texts: &'a [String],
    /// The model is a file of the user's.
    pub ready: Option<ReadyFormat>,
}

impl Wanted<'_> {
    /// The usual label: `fp32` is what the exporters make, and the other precisions are made of that.
    pub(super) fn usual_label(&self, artefact: &Artefact) -> String {
        match self.precision {
            Precision::Fp32 => artefact.name.to_owned(),
            precision => format!("{}-{}", artefact.name, precision.word()),
        }
    }

    /// What a label ends with where the weights reach farther than usual.
    pub(super) fn range_in_label(&self, artefact: &Artefact) -> &'static str {
        let is_full =
            self.int8_range == Int8Range::Full && artefact.ranged.contains(&self.precision);
        if is_full { "-full" } else { "" }
    }
}

/// A step that makes an artefact.
pub struct Conversion {
    /// Stable; stands in keys and plans.
    pub name: &'static str,
    /// The inputs by the names under which the conversion knows them.
    pub inputs: &'static [(&'static str, From)],
    pub env: fn(&Value) -> EnvName,
    /// The packages of that environment whose versions can change the output.
    pub packages: fn(&Value) -> &'static [&'static str],
    pub code: Code,
    pub by: Converter,
}

/// What a conversion reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    Model,
    /// The fp32 ONNX model.
    Onnx,
    /// The ONNX model as QNN's compiler reads it at the precision that is requested.
    Qdq,
    /// Further sets of the model's inputs. Absent where no recipe makes any: its own inputs have to do then.
    Calibration,
}

/// Who converts.
pub enum Converter {
    /// An op of the Python package.
    Python(&'static str),
    /// An op of a runtime's own worker. What it makes differs by target triple.
    Worker {
        runtime: &'static Runtime,
        op: &'static str,
        libraries: &'static [(&'static str, Library)],
    },
}

/// A file of the user's that is a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadyFormat {
    Onnx,
    Openvino,
    Torchscript,
}

/// Parameters of a step that compares outputs itself: `tokens` names those whose whole numbers are tokens.
pub fn with_tokens(mut params: Value, tokens: &[String]) -> Value {
    if !tokens.is_empty() {
        params["tokens"] = json!(tokens);
    }
    params
}
