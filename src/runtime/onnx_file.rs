//! ONNX files as far as orch reads them itself: graph names, external data, and the `.pb` tensors of ONNX's own test cases.
//!
//! Field numbers are those of `onnx.proto`; what is not listed is skipped by the decoder. Running a model is `ort.rs`.

use std::path::Path;

use anyhow::{Context, bail};
use prost::Message;

use crate::runtime::tensors::{Element, Tensor};

#[derive(Clone, PartialEq, Message)]
struct ModelProto {
    #[prost(message, optional, tag = "7")]
    graph: Option<GraphProto>,
}

#[derive(Clone, PartialEq, Message)]
struct GraphProto {
    #[prost(message, repeated, tag = "5")]
    initializer: Vec<TensorProto>,
    #[prost(message, repeated, tag = "11")]
    input: Vec<ValueInfoProto>,
    #[prost(message, repeated, tag = "12")]
    output: Vec<ValueInfoProto>,
}

#[derive(Clone, PartialEq, Message)]
struct ValueInfoProto {
    #[prost(string, tag = "1")]
    name: String,
}

#[derive(Clone, PartialEq, Message)]
struct TensorProto {
    #[prost(int64, repeated, tag = "1")]
    dims: Vec<i64>,
    #[prost(int32, tag = "2")]
    data_type: i32,
    #[prost(float, repeated, tag = "4")]
    float_data: Vec<f32>,
    #[prost(int32, repeated, tag = "5")]
    int32_data: Vec<i32>,
    #[prost(int64, repeated, tag = "7")]
    int64_data: Vec<i64>,
    #[prost(string, tag = "8")]
    name: String,
    #[prost(bytes = "vec", tag = "9")]
    raw_data: Vec<u8>,
    #[prost(message, repeated, tag = "13")]
    external_data: Vec<StringStringEntryProto>,
}

#[derive(Clone, PartialEq, Message)]
struct StringStringEntryProto {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    value: String,
}

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
    let initializers: std::collections::BTreeSet<_> = graph.initializer.iter().map(|t| t.name.as_str()).collect();
    let inputs =
        graph.input.iter().map(|v| v.name.clone()).filter(|name| !initializers.contains(name.as_str())).collect();
    let outputs = graph.output.iter().map(|v| v.name.clone()).collect();
    let entries = graph.initializer.iter().flat_map(|tensor| &tensor.external_data);
    let mut external: Vec<_> =
        entries.filter(|entry| entry.key == "location").map(|entry| entry.value.clone()).collect();
    external.sort();
    external.dedup();
    if let Some(outside) = external.iter().find(|name| name.contains("..") || Path::new(name).is_absolute()) {
        bail!("`{}` keeps data outside its own folder: `{outside}`", path.display());
    }
    Ok(OnnxFacts { inputs, outputs, external })
}

/// Reads a serialised `TensorProto`, as in ONNX's `test_data_set_*` folders. Gives its name too.
pub fn read_pb(path: &Path) -> anyhow::Result<(String, Tensor)> {
    let bytes = std::fs::read(path).with_context(|| format!("failed to read `{}`", path.display()))?;
    let proto =
        TensorProto::decode(bytes.as_slice()).with_context(|| format!("`{}` is not an ONNX tensor", path.display()))?;
    let element = match proto.data_type {
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
        _ if !proto.raw_data.is_empty() => proto.raw_data.clone(),
        Element::F32 => proto.float_data.iter().flat_map(|v| v.to_le_bytes()).collect(),
        Element::I64 => proto.int64_data.iter().flat_map(|v| v.to_le_bytes()).collect(),
        other => narrow(other.size()),
    };
    let shape = proto.dims.iter().map(|dim| usize::try_from(*dim)).collect::<Result<_, _>>()?;
    let tensor =
        Tensor::new(element, shape, data).with_context(|| format!("`{}` is not a whole tensor", path.display()))?;
    Ok((proto.name, tensor))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(dir: &Path, name: &str, message: &impl Message) -> std::path::PathBuf {
        let path = dir.join(name);
        std::fs::write(&path, message.encode_to_vec()).unwrap();
        path
    }

    #[test]
    fn names_come_in_graph_order_without_the_weights() {
        let dir = tempfile::tempdir().unwrap();
        let value = |name: &str| ValueInfoProto { name: name.into() };
        let entry = |key: &str, value: &str| StringStringEntryProto { key: key.into(), value: value.into() };
        let weight = TensorProto {
            name: "w".into(),
            external_data: vec![entry("location", "model.onnx.data"), entry("offset", "0")],
            ..Default::default()
        };
        let graph = GraphProto {
            initializer: vec![weight],
            input: vec![value("x"), value("w"), value("a")],
            output: vec![value("y")],
        };
        let path = write(dir.path(), "m.onnx", &ModelProto { graph: Some(graph) });
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
            data_type: 1,
            float_data: vec![1.0, -2.0],
            name: "y".into(),
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
