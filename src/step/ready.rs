//! `generate:<model>` of a ready file: the file as it is, its inputs, and, where the user has them, its expected outputs.
//!
//! No torch, no Python. Without expected outputs the reference is ONNX Runtime's CPU provider, and is called that.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use serde_json::{Map, json};

use crate::base::fs as bfs;
use crate::runtime::manifest::Manifest;
use crate::runtime::tensors::{self, Tensors};
use crate::runtime::{foreign, onnx_file};
use crate::spec::ReadyFormat;
use crate::step::code::{ORT, WORKER};
use crate::step::{Code, Library, Part, Places, Requirement, Step, StepKind, Work, Worker, WorkerCall};
use crate::toolchain::{EnvName, Tool};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ReadyParams {
    pub format: ReadyFormat,
    /// Input names in the order of the recipe: a TorchScript module takes its inputs by position.
    pub inputs: Vec<String>,
    /// Names of the outputs, for formats that do not tell them.
    pub outputs: Vec<String>,
}

pub struct Ready;
pub static READY: Ready = Ready;

impl StepKind for Ready {
    fn name(&self) -> &'static str {
        "ready"
    }

    fn code(&self, _: &Step) -> &Code {
        static CODE: Code = Code::of(&[&[
            Part::Rust("step/ready.rs"),
            Part::Rust("runtime/foreign.rs"),
            Part::Rust("runtime/manifest.rs"),
            Part::Rust("runtime/onnx_file.rs"),
            Part::Rust("runtime/onnx_proto.rs"),
            Part::Rust("runtime/tensors.rs"),
            Part::Crate("npyz"),
            Part::Crate("prost"),
            Part::Crate("safetensors"),
            Part::Crate("zip"),
        ]]);
        &CODE
    }

    fn lower(&self, step: &Step, places: &Places) -> anyhow::Result<Work> {
        let params: ReadyParams = step.params.parse()?;
        let inputs = places.inputs.clone();
        let out = places.out.clone();
        Ok(Work::Pure(Box::new(move || {
            let file = inputs.get("file").context("BUG: a ready model has a file")?;
            let manifest = match params.format {
                ReadyFormat::Onnx => bring_onnx(file, &inputs, &out)?,
                ReadyFormat::Openvino => bring_openvino(file, &out, &params)?,
                ReadyFormat::Torchscript => {
                    bfs::copy_file(file, &out.join("model.pt"))?;
                    Names { inputs: params.inputs.clone(), outputs: params.outputs.clone() }
                }
            };
            bring_tensors(&inputs, &out, params.format, manifest)
        })))
    }
}

struct Names {
    inputs: Vec<String>,
    outputs: Vec<String>,
}

/// The name of the input that is a file of external data.
pub fn external(name: &str) -> String {
    format!("external/{name}")
}

fn bring_onnx(file: &Path, inputs: &BTreeMap<String, PathBuf>, out: &Path) -> anyhow::Result<Names> {
    let facts = onnx_file::facts(file)?;
    bfs::copy_file(file, &out.join("model.onnx"))?;
    for name in &facts.external {
        // Taken unasked, its content would be in no key.
        let from = inputs.get(&external(name)).with_context(|| {
            format!("`{}` keeps weights in `{name}`; write `external: [{name}]` in its row of the spec", file.display())
        })?;
        bfs::copy_file(from, &out.join(name))
            .with_context(|| format!("failed to copy `{}`, external data of `{}`", from.display(), file.display()))?;
    }
    Ok(Names { inputs: facts.inputs, outputs: facts.outputs })
}

fn bring_openvino(file: &Path, out: &Path, params: &ReadyParams) -> anyhow::Result<Names> {
    let weights = file.with_extension("bin");
    bfs::copy_file(file, &out.join("model.xml"))?;
    bfs::copy_file(&weights, &out.join("model.bin"))
        .with_context(|| format!("failed to copy `{}`, the weights of `{}`", weights.display(), file.display()))?;
    Ok(Names { inputs: params.inputs.clone(), outputs: params.outputs.clone() })
}

fn bring_tensors(
    inputs: &BTreeMap<String, PathBuf>,
    out: &Path,
    format: ReadyFormat,
    names: Names,
) -> anyhow::Result<()> {
    let given: Tensors = match (inputs.get("inputs_from"), inputs.get("inputs")) {
        (Some(path), _) => foreign::read(path, "input", &names.inputs)?,
        (None, Some(tree)) => tensors::read(&tree.join("inputs.safetensors"))?,
        (None, None) => bail!("BUG: a ready model has inputs"),
    };
    let mut names = names;
    if names.inputs.is_empty() {
        if format == ReadyFormat::Torchscript {
            bail!(
                "a TorchScript module takes its inputs by position, and a file of named tensors has no order; \
                 declare them under `inputs` instead of `inputs_from` (`data: […]` gives exact values)"
            );
        }
        names.inputs = given.keys().cloned().collect();
    }
    if let Some(missing) = names.inputs.iter().find(|name| !given.contains_key(*name)) {
        let known: Vec<_> = given.keys().map(String::as_str).collect();
        bail!("the model takes an input `{missing}` that nothing gives; given: {}", known.join(", "));
    }
    tensors::write(&out.join("inputs.safetensors"), &given)?;
    let mut outputs = names.outputs;
    let reference = if let Some(path) = inputs.get("expected") {
        let expected = foreign::read(path, "output", &outputs)?;
        if outputs.is_empty() {
            outputs = expected.keys().cloned().collect();
        }
        tensors::write(&out.join("reference.safetensors"), &expected)?;
        "expected outputs given by the user"
    } else {
        "onnxruntime cpu fp32"
    };
    let mut rest = Map::new();
    rest.insert("format".into(), json!(format));
    rest.insert("reference".into(), json!(reference));
    rest.insert("precision".into(), json!("fp32"));
    Manifest { inputs: names.inputs, outputs, rest }.write(out)
}

/// `generate:<model>:reference`: outputs of a ready ONNX model that came without expected ones.
pub struct Reference;
pub static REFERENCE: Reference = Reference;

impl StepKind for Reference {
    fn name(&self) -> &'static str {
        "reference"
    }

    fn code(&self, _: &Step) -> &Code {
        static CODE: Code = Code::of(&[&[Part::Rust("step/ready.rs")], WORKER, ORT]);
        &CODE
    }

    fn tools(&self, _: &Step) -> Vec<Tool> {
        vec![Tool { env: EnvName::Ort, package: "onnxruntime" }]
    }

    fn is_native(&self) -> bool {
        true
    }

    fn requires(&self, _: &Step) -> Vec<Requirement> {
        vec![Requirement::Env(EnvName::Ort)]
    }

    fn lower(&self, step: &Step, _: &Places) -> anyhow::Result<Work> {
        let libraries = vec![("library", Library::OnnxRuntime(EnvName::Ort))];
        Ok(Work::Worker(WorkerCall {
            worker: Worker::Orch("ort"),
            op: "reference",
            params: step.params.json().clone(),
            libraries,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field of a protobuf message that has a length.
    fn field(tag: u8, content: &[u8]) -> Vec<u8> {
        [&[tag << 3 | 2, content.len() as u8], content].concat()
    }

    #[test]
    fn external_data_is_taken_only_where_it_is_declared() {
        let dir = tempfile::tempdir().unwrap();
        // ModelProto { graph: { initializer: { external_data: { key: "location", value: "w.data" } } } }
        let entry = [field(1, b"location"), field(2, b"w.data")].concat();
        let file = dir.path().join("m.onnx");
        std::fs::write(&file, field(7, &field(5, &field(13, &entry)))).unwrap();
        let data = dir.path().join("w.data");
        std::fs::write(&data, "weights").unwrap();
        let out = dir.path().join("out");
        std::fs::create_dir(&out).unwrap();

        let error = bring_onnx(&file, &BTreeMap::new(), &out).err().expect("its content would be in no key");
        assert!(error.to_string().ends_with("write `external: [w.data]` in its row of the spec"), "{error}");
        bring_onnx(&file, &BTreeMap::from([(external("w.data"), data)]), &out).unwrap();
        assert_eq!(std::fs::read(out.join("w.data")).unwrap(), b"weights");
    }
}
