//! What an ONNX file says of itself that a reference is held to: its named axes, and operators that draw random numbers.

use std::path::Path;

use prost::Message;

use crate::runtime::control::declared::{Axes, Declared};
use crate::runtime::onnx_file;
use crate::runtime::onnx_proto::{GraphProto, NodeProto, ValueInfoProto};

/// Operators of ONNX whose outputs are others each time.
const RANDOM: [&str; 6] = [
    "Bernoulli",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
];

pub(super) fn declared(model: &Path) -> anyhow::Result<Declared> {
    let graph = onnx_file::read(model)?.graph.unwrap_or_default();
    let nodes = all_nodes(&graph.node);
    let random = nodes
        .iter()
        .filter(|node| is_random(node))
        .map(|node| node.op_type().to_owned())
        .collect();
    Ok(Declared {
        inputs: axes(&graph.input),
        outputs: axes(&graph.output),
        random,
    })
}

fn axes(values: &[ValueInfoProto]) -> Axes {
    let named = |value: &ValueInfoProto| {
        let shape = value.tensor()?.shape.as_ref()?;
        let names = shape.dim.iter().map(|dim| {
            dim.dim_param
                .clone()
                .filter(|name| !name.is_empty() && name != "?")
        });
        Some((value.name.clone()?, names.collect()))
    };
    values.iter().filter_map(named).collect()
}

/// A dropout is random if it has an input that may say that it is being trained.
fn is_random(node: &NodeProto) -> bool {
    let trains =
        || node.op_type() == "Dropout" && node.input.get(2).is_some_and(|name| !name.is_empty());
    RANDOM.contains(&node.op_type()) || trains()
}

/// The nodes of a graph, and those of the graphs in their attributes: of loops and branches.
pub(super) fn all_nodes(nodes: &[NodeProto]) -> Vec<NodeProto> {
    let inner = |node: &NodeProto| {
        let graphs = node
            .attribute
            .iter()
            .flat_map(|one| one.g.iter().chain(&one.graphs));
        let decoded = graphs.filter_map(|bytes| GraphProto::decode(bytes.as_slice()).ok());
        decoded
            .flat_map(|graph| all_nodes(&graph.node))
            .collect::<Vec<_>>()
    };
    nodes
        .iter()
        .flat_map(|node| std::iter::once(node.clone()).chain(inner(node)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::onnx_proto::{AttributeProto, Dimension, ModelProto, TensorShape};

    fn declared_by(graph: GraphProto) -> Declared {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), ModelProto::of(graph).encode_to_vec()).unwrap();
        declared(file.path()).unwrap()
    }

    #[test]
    fn axes_keep_their_names() {
        let mut value = ValueInfoProto::of("x", 1, None);
        let dims = [
            Dimension {
                dim_param: Some("batch".to_owned()),
                ..Dimension::default()
            },
            Dimension::default(),
        ];
        value
            .r#type
            .as_mut()
            .unwrap()
            .tensor_type
            .as_mut()
            .unwrap()
            .shape = Some(TensorShape { dim: dims.to_vec() });
        let found = declared_by(GraphProto {
            input: vec![value],
            ..GraphProto::default()
        });
        assert_eq!(
            found.inputs,
            Axes::from([("x".to_owned(), vec![Some("batch".to_owned()), None])])
        );
    }

    #[test]
    fn random_operators_are_found_in_branches_too() {
        let inner = GraphProto {
            node: vec![NodeProto::of("RandomNormalLike", "r", &["x"], "y")],
            ..Default::default()
        };
        let branch = AttributeProto {
            g: Some(inner.encode_to_vec()),
            ..AttributeProto::default()
        };
        let graph = GraphProto {
            node: vec![
                NodeProto {
                    attribute: vec![branch],
                    ..NodeProto::of("If", "i", &["c"], "z")
                },
                NodeProto::of("Dropout", "d", &["z"], "w"),
                NodeProto::of("Dropout", "t", &["z", "p", "t"], "v"),
            ],
            ..GraphProto::default()
        };
        assert_eq!(
            declared_by(graph).random,
            ["Dropout", "RandomNormalLike"].map(str::to_owned).into()
        );
    }
}
