//! `convert:<model>:<artefact>`: the model in the form that a runtime loads.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::runtime::android::OWN_OPTIONS;
use crate::step::code::{ORT, WORKER};
use crate::step::{
    Access, Code, Library, MemoryGuess, Part, Places, Requirement, Step, StepKind, Work, Worker, WorkerCall,
};
use crate::toolchain::{EnvName, Tool};

/// What a worker is told is decided here.
const HERE: &[Part] = &[Part::Rust("step/convert.rs")];

/// A Python with its packages; the weights as they are read, as the converter holds them, and as they are written.
const GUESS: MemoryGuess = MemoryGuess { base: 768 << 20, factor: 4 };

/// A conversion by one op of the Python package.
pub struct PythonConversion {
    name: &'static str,
    op: &'static str,
    env: fn(&Value) -> EnvName,
    packages: fn(&Value) -> &'static [&'static str],
    code: Code,
}

pub static ONNX: PythonConversion = PythonConversion {
    name: "convert.onnx",
    op: "export_onnx",
    env: |_| EnvName::Torch,
    packages: |_| &["torch", "transformers", "onnx", "onnx-ir", "onnxscript", "onnxruntime", "numpy", "safetensors"],
    code: Code::of(&[HERE, &[Part::Python("export_onnx")]]),
};

/// ONNX at another precision, from the fp32 one.
pub static ONNX_PRECISION: PythonConversion = PythonConversion {
    name: "convert.onnx-precision",
    op: "onnx_convert",
    env: |_| EnvName::Ort,
    packages: |_| &["onnx", "onnxruntime", "numpy", "safetensors"],
    code: Code::of(&[HERE, &[Part::Python("onnx_convert")]]),
};

pub static TORCHSCRIPT: PythonConversion = PythonConversion {
    name: "convert.torchscript",
    op: "export_torchscript",
    env: |_| EnvName::Torch,
    packages: |_| &["torch", "transformers", "numpy", "safetensors"],
    code: Code::of(&[HERE, &[Part::Python("export_torchscript")]]),
};

pub static OPENVINO: PythonConversion = PythonConversion {
    name: "convert.openvino",
    op: "openvino_convert",
    env: |params| if is_int8(params) { EnvName::Nncf } else { EnvName::Openvino },
    packages: |params| if is_int8(params) { &["openvino", "nncf", "numpy"] } else { &["openvino", "numpy"] },
    code: Code::of(&[HERE, &[Part::Python("openvino_convert")]]),
};

pub static TRANSFORMERS_JS: PythonConversion = PythonConversion {
    name: "convert.transformers-js",
    op: "transformers_js",
    env: |_| EnvName::Torch,
    packages: |_| &["torch", "transformers", "tokenizers", "pillow", "onnx", "onnxruntime", "numpy", "safetensors"],
    code: Code::of(&[HERE, &[Part::Python("transformers_js")]]),
};

fn is_int8(params: &Value) -> bool {
    params["precision"] == "int8"
}

impl StepKind for PythonConversion {
    fn name(&self) -> &'static str {
        self.name
    }

    fn code(&self, _: &Step) -> &Code {
        &self.code
    }

    fn tools(&self, step: &Step) -> Vec<Tool> {
        let env = (self.env)(step.params.json());
        (self.packages)(step.params.json()).iter().map(|package| Tool { env, package }).collect()
    }

    fn requires(&self, step: &Step) -> Vec<Requirement> {
        vec![Requirement::Env((self.env)(step.params.json()))]
    }

    fn memory(&self) -> Option<MemoryGuess> {
        Some(GUESS)
    }

    fn server(&self, step: &Step) -> Option<EnvName> {
        Some((self.env)(step.params.json()))
    }

    fn lower(&self, step: &Step, _: &Places) -> anyhow::Result<Work> {
        let worker = Worker::Python((self.env)(step.params.json()));
        Ok(Work::Worker(WorkerCall {
            worker,
            op: self.op,
            params: step.params.json().clone(),
            libraries: vec![],
            access: Access::default(),
        }))
    }
}

/// What the compiler is told of a target's options: which phone a context runs on changes nothing in it.
pub fn qnn_options(options: &BTreeMap<String, Value>) -> Map<String, Value> {
    let told = options.iter().filter(|(name, _)| !OWN_OPTIONS.contains(&name.as_str()));
    told.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// A QNN context binary, compiled by the vendor's library through ONNX Runtime.
pub struct Qnn;
pub static QNN: Qnn = Qnn;

impl StepKind for Qnn {
    fn name(&self) -> &'static str {
        "convert.qnn"
    }

    fn code(&self, _: &Step) -> &Code {
        static CODE: Code = Code::of(&[HERE, WORKER, ORT]);
        &CODE
    }

    fn tools(&self, _: &Step) -> Vec<Tool> {
        ["onnxruntime", "onnxruntime-qnn"].map(|package| Tool { env: EnvName::Qnn, package }).into()
    }

    fn is_native(&self) -> bool {
        true
    }

    fn requires(&self, _: &Step) -> Vec<Requirement> {
        vec![Requirement::Env(EnvName::Qnn)]
    }

    fn memory(&self) -> Option<MemoryGuess> {
        Some(GUESS)
    }

    fn lower(&self, step: &Step, _: &Places) -> anyhow::Result<Work> {
        let libraries = vec![("library", Library::OnnxRuntime(EnvName::Qnn)), ("ep_library", Library::QnnProvider)];
        Ok(Work::Worker(WorkerCall {
            worker: Worker::Orch("ort"),
            op: "compile",
            params: step.params.json().clone(),
            libraries,
            access: Access::default(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn which_phone_runs_a_context_is_no_part_of_its_key() {
        let options: BTreeMap<String, Value> =
            [("serial", json!("R5CT")), ("soc", json!("SM8550")), ("soc_model", json!(43))]
                .map(|(name, value)| (name.to_owned(), value))
                .into();
        assert_eq!(Value::Object(qnn_options(&options)), json!({"soc_model": 43}));
    }
}
