//! ONNX files as far as orch reads them itself: graph names, external data, and the `.pb` tensors of ONNX's own test cases.
//!
//! Running a model is the concern of `ort/`.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, bail};
use prost::Message;

use crate::runtime::onnx_external;
use crate::runtime::onnx_proto::{
    Dimension, GraphProto, ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto,
};
use crate::runtime::tensors::{Element, Tensor};

/// What a graph takes, gives, and keeps beside the file.
#[derive(Debug, PartialEq, Eq)]
pub struct OnnxFacts {
    /// Inputs that are not initializers, in graph order.
    pub inputs: Vec<String>,
    /// Inputs that have a value of their own, and take another one where it is given.
    pub optional: Vec<String>,
    pub outputs: Vec<String>,
    /// Files of external data, relative to the model's folder.
    pub external: Vec<String>,
    /// Each input and output that no tensor here can hold, as a sentence.
    pub inexpressible: Vec<String>,
}

/// What those are called that tensors here do not have.
const FOREIGN: &[(i32, &str)] = &[
    (8, "strings"),
    (14, "complex64"),
    (15, "complex128"),
    (17, "float8e4m3fn"),
    (18, "float8e4m3fnuz"),
    (19, "float8e5m2"),
    (20, "float8e5m2fnuz"),
    (21, "uint4"),
    (22, "int4"),
    (23, "float4e2m1"),
    (24, "float8e8m0"),
    (25, "uint2"),
    (26, "int2"),
];

/// The element type of that number, or what it is called instead.
fn element(number: i32) -> Result<Element, String> {
    Element::of_onnx(number).ok_or_else(|| {
        let name = FOREIGN.iter().find(|(foreign, _)| *foreign == number);
        name.map_or_else(
            || format!("ONNX's element type {number}"),
            |(_, name)| (*name).to_owned(),
        )
    })
}

/// What a value is, where it is none of the tensors that can be given and compared here.
fn inexpressible(kind: Option<&TypeProto>) -> Option<String> {
    let kind = kind?;
    let others = [
        (&kind.sequence_type, "a sequence"),
        (&kind.map_type, "a map"),
        (&kind.optional_type, "an optional"),
        (&kind.sparse_tensor_type, "a sparse tensor"),
        (&kind.opaque_type, "an opaque value"),
    ];
    if let Some((_, name)) = others.into_iter().find(|(given, _)| given.is_some()) {
        return Some(name.to_owned());
    }
    let number = kind
        .tensor_type
        .as_ref()?
        .elem_type
        .filter(|number| *number != 0)?;
    element(number)
        .err()
        .map(|name| format!("a tensor of {name}"))
}

/// Whether the name of external data is of a file in the model's own folder or below.
pub fn is_inside(name: &str) -> bool {
    !name.is_empty() && !name.contains("..") && !Path::new(name).is_absolute()
}

pub fn facts(path: &Path) -> anyhow::Result<OnnxFacts> {
    let graph = read(path)?.graph.unwrap_or_default();
    let initializers: BTreeSet<_> = graph
        .initializer
        .iter()
        .filter_map(|t| t.name.as_deref())
        .collect();
    let taken = graph.input.iter().filter_map(|v| v.name.clone());
    let (optional, inputs) = taken.partition(|name| initializers.contains(name.as_str()));
    let outputs = graph.output.iter().filter_map(|v| v.name.clone()).collect();
    let values = graph
        .input
        .iter()
        .map(|v| ("input", v))
        .chain(graph.output.iter().map(|v| ("output", v)));
    let inexpressible = values.filter_map(|(side, value)| {
        let what = inexpressible(value.r#type.as_ref())?;
        Some(format!("its {side} `{}` is {what}", value.name()))
    });
    let inexpressible = inexpressible.collect();
    let external = onnx_external::names(path)
        .with_context(|| format!("`{}` is not an ONNX model", path.display()))?;
    if let Some(outside) = external.iter().find(|name| !is_inside(name)) {
        bail!(
            "`{}` keeps data outside its own folder: `{outside}`",
            path.display()
        );
    }
    Ok(OnnxFacts {
        inputs,
        optional,
        outputs,
        external: external.into_iter().collect(),
        inexpressible,
    })
}

/// The types of all operators, those of inner graphs too.
pub fn operators(path: &Path) -> anyhow::Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    let mut open = Vec::from_iter(read(path)?.graph);
    while let Some(graph) = open.pop() {
        for node in graph.node {
            found.extend(node.op_type);
            for attribute in node.attribute {
                for inner in attribute.g.iter().chain(&attribute.graphs) {
                    let inner = GraphProto::decode(inner.as_slice());
                    open.push(inner.with_context(|| {
                        format!("`{}` has an inner graph that is none", path.display())
                    })?);
                }
            }
        }
    }
    Ok(found)
}

/// An input as the graph declares it.
#[derive(Debug, PartialEq)]
pub struct Port {
    pub name: String,
    pub element: Element,
    pub sizes: Vec<Size>,
    /// How many rows the table has in which the model looks it up, if it does.
    pub vocabulary: Option<u64>,
}

/// An axis of an input.
#[derive(Debug, PartialEq)]
pub enum Size {
    Fixed(u64),
    Named(String),
    Open,
}

/// The inputs that must be given, in graph order; without those that no tensor here can hold.
pub fn ports(path: &Path) -> anyhow::Result<Vec<Port>> {
    let graph = read(path)?.graph.unwrap_or_default();
    let has_value = |name: &str| {
        graph
            .initializer
            .iter()
            .any(|tensor| tensor.name.as_deref() == Some(name))
    };
    let port = |value: &ValueInfoProto| {
        let name = value.name.clone().filter(|name| !has_value(name))?;
        let kind = value.tensor()?;
        let sizes = kind
            .shape
            .iter()
            .flat_map(|shape| &shape.dim)
            .map(size)
            .collect();
        let vocabulary = vocabulary(&graph, &name);
        Some(Port {
            name,
            element: element(kind.elem_type?).ok()?,
            sizes,
            vocabulary,
        })
    };
    Ok(graph.input.iter().filter_map(port).collect())
}

fn size(dim: &Dimension) -> Size {
    match (dim.dim_value, dim.dim_param.as_deref()) {
        (Some(size), _) if size > 0 => Size::Fixed(size as u64),
        (_, Some(name)) if !name.is_empty() && name != "?" => Size::Named(name.to_owned()),
        _ => Size::Open,
    }
}

/// The rows of the table that this input, or what it was cast to, gathers from.
fn vocabulary(graph: &GraphProto, input: &str) -> Option<u64> {
    let reads = |node: &NodeProto, at: usize, name: &str| {
        node.input.get(at).is_some_and(|input| input == name)
    };
    let mut names = vec![input];
    let casts = graph
        .node
        .iter()
        .filter(|node| node.op_type() == "Cast" && reads(node, 0, input));
    names.extend(
        casts
            .filter_map(|node| node.output.first())
            .map(String::as_str),
    );
    let gathers = graph.node.iter().filter(|node| node.op_type() == "Gather");
    let mut tables = gathers.filter(|node| names.iter().any(|name| reads(node, 1, name)));
    let table = tables.find_map(|node| {
        graph
            .initializer
            .iter()
            .find(|tensor| tensor.name.as_ref() == node.input.first())
    })?;
    table.dims.first().map(|rows| *rows as u64)
}

/// Reads a model, which has a graph.
pub(in crate::runtime) fn read(path: &Path) -> anyhow::Result<ModelProto> {
    let bytes =
        std::fs::read(path).with_context(|| format!("failed to read `{}`", path.display()))?;
    let not_onnx = || format!("`{}` is not an ONNX model", path.display());
    if let Some(kind) = other_kind(&bytes) {
        bail!("{}: it is {kind}", not_onnx());
    }
    let model = ModelProto::decode(bytes.as_slice()).with_context(not_onnx)?;
    if model.graph.is_some() {
        Ok(model)
    } else {
        bail!(not_onnx())
    }
}

/// Reads a serialised `TensorProto`, as in ONNX's `test_data_set_*` folders. Gives its name too.
pub fn read_pb(path: &Path) -> anyhow::Result<(String, Tensor)> {
    let bytes =
        std::fs::read(path).with_context(|| format!("failed to read `{}`", path.display()))?;
    let proto = TensorProto::decode(bytes.as_slice())
        .with_context(|| format!("`{}` is not an ONNX tensor", path.display()))?;
    let unknown = |name| {
        anyhow::anyhow!(
            "`{}` holds {name}, and tensors here are of {}",
            path.display(),
            Element::known()
        )
    };
    let element = element(proto.data_type.unwrap_or_default()).map_err(unknown)?;
    let narrow = |size: usize| {
        proto
            .int32_data
            .iter()
            .flat_map(move |v| v.to_le_bytes()[..size].to_vec())
            .collect::<Vec<u8>>()
    };
    let data = match element {
        _ if proto.raw_data.as_ref().is_some_and(|raw| !raw.is_empty()) => {
            proto.raw_data.clone().unwrap_or_default()
        }
        Element::Float32 => proto
            .float_data
            .iter()
            .flat_map(|v| v.to_le_bytes())
            .collect(),
        Element::Float64 => proto
            .double_data
            .iter()
            .flat_map(|v| v.to_le_bytes())
            .collect(),
        Element::Int64 => proto
            .int64_data
            .iter()
            .flat_map(|v| v.to_le_bytes())
            .collect(),
        Element::Uint64 => proto
            .uint64_data
            .iter()
            .flat_map(|v| v.to_le_bytes())
            .collect(),
        Element::Uint32 => proto
            .uint64_data
            .iter()
            .flat_map(|v| (*v as u32).to_le_bytes())
            .collect(),
        other => narrow(other.size()),
    };
    let shape = proto
        .dims
        .iter()
        .map(|dim| usize::try_from(*dim))
        .collect::<Result<_, _>>()?;
    let tensor = Tensor::new(element, shape, data)
        .with_context(|| format!("`{}` is not a whole tensor", path.display()))?;
    Ok((proto.name.unwrap_or_default(), tensor))
}

/// What a file is that goes by a model's name and is none, with what to do about it.
fn other_kind(bytes: &[u8]) -> Option<&'static str> {
    let begins = |with: &[u8]| bytes.starts_with(with);
    if begins(b"version https://git-lfs") {
        Some("a Git LFS pointer, not the file itself; `git lfs pull` fetches it")
    } else if begins(b"PK\x03\x04") {
        Some("a zip archive; unpack it and name the file in it")
    } else if bytes.get(4..8) == Some(b"ORTM") {
        Some(
            "in ONNX Runtime's own format (.ort), which no other runtime reads; name the .onnx file it was made of",
        )
    } else if begins(b"GGUF") {
        Some("a GGUF file, which orch does not read")
    } else if begins(b"\x1f\x8b") {
        Some("compressed by gzip; unpack it first")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::onnx_proto::StringStringEntryProto;

    /// A file that holds this, for as long as it is kept.
    fn file(bytes: &[u8]) -> tempfile::TempPath {
        let file = tempfile::Builder::new()
            .suffix("m.onnx")
            .tempfile()
            .unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        file.into_temp_path()
    }

    fn facts_of(graph: GraphProto) -> OnnxFacts {
        facts(&file(&ModelProto::of(graph).encode_to_vec())).unwrap()
    }

    fn tensor_of(proto: &TensorProto) -> anyhow::Result<(String, Tensor)> {
        read_pb(&file(&proto.encode_to_vec()))
    }

    #[test]
    fn names_come_in_graph_order_without_the_weights() {
        let value = ValueInfoProto::named;
        let entry = |key: &str, value: &str| StringStringEntryProto {
            key: Some(key.into()),
            value: Some(value.into()),
        };
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
        let facts = facts_of(graph);
        assert_eq!(facts.inputs, ["x", "a"]);
        assert_eq!(facts.optional, ["w"]);
        assert_eq!(facts.outputs, ["y"]);
        assert_eq!(facts.external, ["model.onnx.data"]);
    }

    #[test]
    fn what_is_not_a_model_is_named() {
        let cases: [(&[u8], &str); 4] = [
            (
                b"version https://git-lfs.github.com/spec/v1",
                "m.onnx` is not an ONNX model: it is a Git LFS pointer",
            ),
            (b"PK\x03\x04\x14\x00", "it is a zip archive"),
            (b"\x18\x00\x00\x00ORTM", "in ONNX Runtime's own format"),
            (b"some other text", "m.onnx` is not an ONNX model"),
        ];
        for (bytes, expected) in cases {
            let error = facts(&file(bytes)).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn what_no_tensor_holds_is_listed_by_its_name() {
        let value = |name, number| ValueInfoProto::of(name, number, None);
        let sequence = TypeProto {
            sequence_type: Some(vec![]),
            ..Default::default()
        };
        let list = ValueInfoProto {
            r#type: Some(sequence),
            ..ValueInfoProto::named("list")
        };
        let graph = GraphProto {
            input: vec![value("words", 8), value("x", 1), list],
            output: vec![value("z", 14)],
            ..Default::default()
        };
        assert_eq!(
            facts_of(graph).inexpressible,
            [
                "its input `words` is a tensor of strings",
                "its input `list` is a sequence",
                "its output `z` is a tensor of complex64"
            ]
        );
    }

    #[test]
    fn every_element_type_is_read_from_its_own_field() {
        let one = |number: i32| TensorProto {
            dims: vec![1],
            data_type: Some(number),
            ..Default::default()
        };
        let cases = [
            TensorProto {
                double_data: vec![2.0],
                ..one(11)
            },
            TensorProto {
                int32_data: vec![2],
                ..one(5)
            },
            TensorProto {
                int32_data: vec![2],
                ..one(4)
            },
            TensorProto {
                uint64_data: vec![2],
                ..one(12)
            },
            TensorProto {
                uint64_data: vec![2],
                ..one(13)
            },
            TensorProto {
                int32_data: vec![0x4000],
                ..one(10)
            },
            TensorProto {
                int32_data: vec![0x4000],
                ..one(16)
            },
        ];
        for case in cases {
            let (_, tensor) = tensor_of(&case).unwrap();
            assert_eq!(tensor.to_f64(), [2.0], "{:?}", case.data_type);
        }
        let error = tensor_of(&one(8)).unwrap_err().to_string();
        assert!(
            error.contains("holds strings, and tensors here are of float64, float32"),
            "{error}"
        );
    }

    #[test]
    fn tensors_are_read_from_raw_and_typed_fields() {
        let typed = TensorProto {
            dims: vec![2],
            data_type: Some(1),
            float_data: vec![1.0, -2.0],
            name: Some("y".into()),
            ..Default::default()
        };
        let (name, tensor) = tensor_of(&typed).unwrap();
        assert_eq!((name.as_str(), tensor.to_f64()), ("y", vec![1.0, -2.0]));
        let short = TensorProto {
            dims: vec![3],
            ..typed
        };
        assert!(
            tensor_of(&short)
                .unwrap_err()
                .to_string()
                .contains("not a whole tensor")
        );
    }
}
