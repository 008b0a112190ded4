//! ONNX files as far as orch reads them itself: graph names, external data, and the `.pb` tensors of ONNX's own test cases.
//!
//! Running a model is the concern of `ort/`.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, bail};
use prost::Message;

use crate::runtime::onnx_proto::{ModelProto, NodeProto, TensorProto};
use crate::runtime::tensors::{Element, Tensor, Tensors};

/// What a graph takes, gives, and keeps beside the file.
#[derive(Debug, PartialEq, Eq)]
pub struct OnnxFacts {
    /// Inputs that are not initializers, in graph order.
    pub inputs: Vec<String>,
    pub outputs: Vec<String>,
    /// Files of external data, relative to the model's folder.
    pub external: Vec<String>,
}

pub fn facts(path: &Path) -> anyhow::Result<OnnxFacts> {
    let bytes = std::fs::read(path).with_context(|| format!("failed to read `{}`", path.display()))?;
    let not_onnx = || format!("`{}` is not an ONNX model", path.display());
    let model = ModelProto::decode(bytes.as_slice()).with_context(not_onnx)?;
    let graph = model.graph.with_context(not_onnx)?;
    let initializers: std::collections::BTreeSet<_> =
        graph.initializer.iter().filter_map(|t| t.name.as_deref()).collect();
    let inputs = graph
        .input
        .iter()
        .filter_map(|v| v.name.clone())
        .filter(|name| !initializers.contains(name.as_str()))
        .collect();
    let outputs = graph.output.iter().filter_map(|v| v.name.clone()).collect();
    let entries = graph.initializer.iter().flat_map(|tensor| &tensor.external_data);
    let mut external: Vec<_> = entries
        .filter(|entry| entry.key.as_deref() == Some("location"))
        .filter_map(|entry| entry.value.clone())
        .collect();
    external.sort();
    external.dedup();
    if let Some(outside) = external.iter().find(|name| name.contains("..") || Path::new(name).is_absolute()) {
        bail!("`{}` keeps data outside its own folder: `{outside}`", path.display());
    }
    Ok(OnnxFacts { inputs, outputs, external })
}

/// The graph's nodes, in its order.
pub(in crate::runtime) fn nodes(path: &Path) -> anyhow::Result<Vec<NodeProto>> {
    let bytes = std::fs::read(path).with_context(|| format!("failed to read `{}`", path.display()))?;
    let not_onnx = || format!("`{}` is not an ONNX model", path.display());
    let graph = ModelProto::decode(bytes.as_slice()).with_context(not_onnx)?.graph.with_context(not_onnx)?;
    Ok(graph.node)
}

/// Each named size of a model's inputs with the number that the tensors give it.
pub fn sizes(path: &Path, inputs: &Tensors) -> anyhow::Result<BTreeMap<String, usize>> {
    let bytes = std::fs::read(path).with_context(|| format!("failed to read `{}`", path.display()))?;
    let not_onnx = || format!("`{}` is not an ONNX model", path.display());
    let graph = ModelProto::decode(bytes.as_slice()).with_context(not_onnx)?.graph.with_context(not_onnx)?;
    let mut sizes = BTreeMap::new();
    for input in &graph.input {
        let name = input.name.as_deref().unwrap_or_default();
        let shape = input.r#type.as_ref().and_then(|t| t.tensor_type.as_ref()?.shape.as_ref());
        let (Some(shape), Some(tensor)) = (shape, inputs.get(name)) else { continue };
        for (dim, size) in shape.dim.iter().zip(tensor.shape()) {
            let Some(symbol) = dim.dim_param.as_deref().filter(|symbol| !symbol.is_empty()) else { continue };
            match sizes.insert(symbol.to_owned(), *size) {
                Some(other) if other != *size => {
                    bail!("the inputs give the size `{symbol}` two values, {other} and {size} (at `{name}`)")
                }
                _ => {}
            }
        }
    }
    Ok(sizes)
}

/// Reads a serialised `TensorProto`, as in ONNX's `test_data_set_*` folders. Gives its name too.
pub fn read_pb(path: &Path) -> anyhow::Result<(String, Tensor)> {
    let bytes = std::fs::read(path).with_context(|| format!("failed to read `{}`", path.display()))?;
    let proto =
        TensorProto::decode(bytes.as_slice()).with_context(|| format!("`{}` is not an ONNX tensor", path.display()))?;
    let element = match proto.data_type.unwrap_or_default() {
        1 => Element::F32,
        2 => Element::U8,
        3 => Element::I8,
        6 => Element::I32,
        7 => Element::I64,
        9 => Element::Bool,
        10 => Element::F16,
        16 => Element::Bf16,
        other => bail!("`{}` has ONNX element type {other}, which orch does not read", path.display()),
    };
    let narrow =
        |size: usize| proto.int32_data.iter().flat_map(move |v| v.to_le_bytes()[..size].to_vec()).collect::<Vec<u8>>();
    let data = match element {
        _ if proto.raw_data.as_ref().is_some_and(|raw| !raw.is_empty()) => proto.raw_data.clone().unwrap_or_default(),
        Element::F32 => proto.float_data.iter().flat_map(|v| v.to_le_bytes()).collect(),
        Element::I64 => proto.int64_data.iter().flat_map(|v| v.to_le_bytes()).collect(),
        other => narrow(other.size()),
    };
    let shape = proto.dims.iter().map(|dim| usize::try_from(*dim)).collect::<Result<_, _>>()?;
    let tensor =
        Tensor::new(element, shape, data).with_context(|| format!("`{}` is not a whole tensor", path.display()))?;
    Ok((proto.name.unwrap_or_default(), tensor))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::onnx_proto::{GraphProto, StringStringEntryProto, ValueInfoProto};

    fn write(dir: &Path, name: &str, message: &impl Message) -> std::path::PathBuf {
        let path = dir.join(name);
        std::fs::write(&path, message.encode_to_vec()).unwrap();
        path
    }

    #[test]
    fn names_come_in_graph_order_without_the_weights() {
        let dir = tempfile::tempdir().unwrap();
        let value = |name: &str| ValueInfoProto { name: Some(name.into()), ..Default::default() };
        let entry =
            |key: &str, value: &str| StringStringEntryProto { key: Some(key.into()), value: Some(value.into()) };
        let weight = TensorProto {
            name: Some("w".into()),
            external_data: vec![entry("location", "model.onnx.data"), entry("offset", "0")],
            ..Default::default()
        };
        let graph = GraphProto {
            initializer: vec![weight],
            input: vec![value("x"), value("w"), value("a")],
            output: vec![value("y")],
            ..Default::default()
        };
        let path = write(dir.path(), "m.onnx", &ModelProto { graph: Some(graph), ..Default::default() });
        let facts = facts(&path).unwrap();
        assert_eq!(facts.inputs, ["x", "a"]);
        assert_eq!(facts.outputs, ["y"]);
        assert_eq!(facts.external, ["model.onnx.data"]);
    }

    #[test]
    fn a_text_file_is_not_a_model() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("m.onnx");
        std::fs::write(&path, "version https://git-lfs.github.com/spec/v1").unwrap();
        assert!(facts(&path).unwrap_err().to_string().ends_with("m.onnx` is not an ONNX model"));
    }

    #[test]
    fn tensors_are_read_from_raw_and_typed_fields() {
        let dir = tempfile::tempdir().unwrap();
        let typed = TensorProto {
            dims: vec![2],
            data_type: Some(1),
            float_data: vec![1.0, -2.0],
            name: Some("y".into()),
            ..Default::default()
        };
        let (name, tensor) = read_pb(&write(dir.path(), "output_0.pb", &typed)).unwrap();
        assert_eq!((name.as_str(), tensor.to_f64()), ("y", vec![1.0, -2.0]));
        let short = TensorProto { dims: vec![3], ..typed };
        assert!(
            read_pb(&write(dir.path(), "short.pb", &short)).unwrap_err().to_string().contains("not a whole tensor")
        );
    }
}
