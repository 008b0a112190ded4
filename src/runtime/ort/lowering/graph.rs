//! A graph under change: shapes and constants to look up, nodes and constants to add.
//!
//! Names that it makes are numbered in order, so that equal graphs are changed into equal bytes.

use std::collections::{BTreeMap, BTreeSet};

use super::Shapes;
use crate::runtime::onnx_proto::{AttributeProto, GraphProto, NodeProto, TensorProto};

pub(super) const FLOAT: i32 = 1;
pub(super) const INT32: i32 = 6;
pub(super) const INT64: i32 = 7;
pub(super) const BOOL: i32 = 9;

const ATTRIBUTE_INT: i32 = 2;
const ATTRIBUTE_INTS: i32 = 7;

pub(super) struct Graph {
    shapes: Shapes,
    /// Taken out of the graph for the time being, and where each name stands.
    initializers: Vec<TensorProto>,
    constants: BTreeMap<String, usize>,
    /// The node that makes a value, as it was before any rule.
    producers: BTreeMap<String, NodeProto>,
    /// The nodes that read a value, as they were before any rule.
    readers: BTreeMap<String, Vec<NodeProto>>,
    /// Those that a rule makes in the place of one.
    nodes: Vec<NodeProto>,
    /// So many names.
    made: usize,
}

impl Graph {
    pub(super) fn new(proto: &mut GraphProto, mut shapes: Shapes) -> Self {
        for value in proto
            .value_info
            .iter()
            .chain(&proto.input)
            .chain(&proto.output)
        {
            let (Some(name), Some(tensor)) = (&value.name, value.tensor()) else {
                continue;
            };
            let sizes = tensor
                .shape
                .as_ref()
                .and_then(|shape| shape.dim.iter().map(|dim| dim.dim_value).collect());
            if let Some(sizes) = sizes {
                shapes.insert(name.clone(), (tensor.elem_type.unwrap_or_default(), sizes));
            }
        }
        let mut constants = BTreeMap::new();
        let initializers = std::mem::take(&mut proto.initializer);
        for (at, tensor) in initializers.iter().enumerate() {
            let name = tensor.name().to_owned();
            shapes.insert(
                name.clone(),
                (tensor.data_type.unwrap_or_default(), tensor.dims.clone()),
            );
            constants.insert(name, at);
        }
        let makes = |node: &NodeProto| {
            node.output
                .iter()
                .map(|name| (name.clone(), node.clone()))
                .collect::<Vec<_>>()
        };
        let producers = proto.node.iter().flat_map(makes).collect();
        let mut readers = BTreeMap::<String, Vec<NodeProto>>::new();
        for node in &proto.node {
            for name in &node.input {
                readers.entry(name.clone()).or_default().push(node.clone());
            }
        }
        Self {
            shapes,
            initializers,
            constants,
            producers,
            readers,
            nodes: Vec::new(),
            made: 0,
        }
    }

    /// The shape, if every size is a number.
    pub(super) fn shape(&self, name: &str) -> Option<Vec<i64>> {
        self.shapes.get(name).map(|(_, shape)| shape.clone())
    }

    pub(super) fn element(&self, name: &str) -> Option<i32> {
        self.shapes.get(name).map(|(element, _)| *element)
    }

    pub(super) fn producer(&self, name: &str, operator: &str) -> Option<&NodeProto> {
        self.producers.get(name).filter(|node| is(node, operator))
    }

    pub(super) fn readers(&self, name: &str) -> &[NodeProto] {
        self.readers.get(name).map_or(&[], Vec::as_slice)
    }

    pub(super) fn constant(&self, name: &str) -> Option<&TensorProto> {
        self.constants.get(name).map(|at| &self.initializers[*at])
    }

    /// The values of a constant of whole numbers.
    pub(super) fn ints(&self, name: &str) -> Option<Vec<i64>> {
        let tensor = self
            .constant(name)
            .filter(|tensor| tensor.external_data.is_empty())?;
        let raw = tensor.raw_data.as_deref().unwrap_or_default();
        Some(match (tensor.data_type?, raw.is_empty()) {
            (INT64, true) => tensor.int64_data.clone(),
            (INT64, false) => raw
                .as_chunks::<8>()
                .0
                .iter()
                .map(|bytes| i64::from_le_bytes(*bytes))
                .collect(),
            (INT32, true) => tensor
                .int32_data
                .iter()
                .map(|value| i64::from(*value))
                .collect(),
            (INT32, false) => raw
                .as_chunks::<4>()
                .0
                .iter()
                .map(|bytes| i64::from(i32::from_le_bytes(*bytes)))
                .collect(),
            _ => return None,
        })
    }

    /// The value of a constant of one number.
    pub(super) fn scalar(&self, name: &str) -> Option<f32> {
        let tensor = self
            .constant(name)
            .filter(|tensor| tensor.external_data.is_empty())?;
        let one = tensor.data_type == Some(FLOAT) && tensor.dims.iter().product::<i64>() == 1;
        let raw = tensor.raw_data.as_deref().unwrap_or_default();
        let value = raw.first_chunk().map(|bytes| f32::from_le_bytes(*bytes));
        value
            .or_else(|| tensor.float_data.first().copied())
            .filter(|_| one)
    }

    /// A new name that says where it comes from.
    pub(super) fn fresh(&mut self, node: &NodeProto) -> String {
        self.made += 1;
        format!("{}/lowered_{}", node.name(), self.made)
    }

    /// A new constant of whole numbers; gives its name.
    pub(super) fn whole(
        &mut self,
        node: &NodeProto,
        element: i32,
        dims: &[i64],
        values: &[i64],
    ) -> String {
        let raw = match element {
            INT32 => values
                .iter()
                .flat_map(|value| (*value as i32).to_le_bytes())
                .collect(),
            _ => values
                .iter()
                .flat_map(|value| value.to_le_bytes())
                .collect(),
        };
        self.constant_of(node, element, dims, raw)
    }

    pub(super) fn constant_of(
        &mut self,
        node: &NodeProto,
        element: i32,
        dims: &[i64],
        raw: Vec<u8>,
    ) -> String {
        let name = self.fresh(node);
        self.initializers
            .push(TensorProto::of(&name, element, dims, raw));
        name
    }

    pub(super) fn float(&mut self, node: &NodeProto, value: f32) -> String {
        self.constant_of(node, FLOAT, &[], value.to_le_bytes().to_vec())
    }

    /// `Reshape(value)` to a fixed shape; gives the name of what it makes.
    pub(super) fn reshape(&mut self, node: &NodeProto, value: &str, shape: &[i64]) -> String {
        let shape = self.whole(node, INT64, &[shape.len() as i64], shape);
        self.op(node, "Reshape", &[value, &shape], vec![])
    }

    /// A new node with one new output, whose name it gives.
    pub(super) fn op(
        &mut self,
        near: &NodeProto,
        operator: &str,
        inputs: &[&str],
        attribute: Vec<AttributeProto>,
    ) -> String {
        let name = self.fresh(near);
        self.add(NodeProto {
            attribute,
            ..NodeProto::of(operator, &name, inputs, &name)
        })
    }

    pub(super) fn add(&mut self, node: NodeProto) -> String {
        let name = node.output[0].clone();
        self.nodes.push(node);
        name
    }

    /// The nodes that a rule made in the place of `replaced`: the last of them makes what that one made.
    pub(super) fn take_made(&mut self, replaced: &NodeProto) -> Vec<NodeProto> {
        if let Some(last) = self.nodes.last_mut() {
            last.output = replaced.output.clone();
        }
        std::mem::take(&mut self.nodes)
    }

    /// Puts the constants back, with those that were made.
    pub(super) fn finish(self, proto: &mut GraphProto) {
        proto.initializer = self.initializers;
    }
}

pub(super) fn is(node: &NodeProto, operator: &str) -> bool {
    ["", "ai.onnx"].contains(&node.domain()) && node.op_type() == operator
}

pub(super) fn attribute<'n>(node: &'n NodeProto, name: &str) -> Option<&'n AttributeProto> {
    node.attribute
        .iter()
        .find(|attribute| attribute.name() == name)
}

pub(super) fn int(node: &NodeProto, name: &str, default: i64) -> i64 {
    attribute(node, name)
        .and_then(|attribute| attribute.i)
        .unwrap_or(default)
}

pub(super) fn with_int(name: &str, value: i64) -> AttributeProto {
    AttributeProto {
        name: Some(name.to_owned()),
        i: Some(value),
        r#type: Some(ATTRIBUTE_INT),
        ..Default::default()
    }
}

pub(super) fn with_ints(name: &str, ints: Vec<i64>) -> AttributeProto {
    AttributeProto {
        name: Some(name.to_owned()),
        ints,
        r#type: Some(ATTRIBUTE_INTS),
        ..Default::default()
    }
}

/// An axis that may be counted from the end.
pub(super) fn from_start(axis: i64, rank: usize) -> Option<usize> {
    usize::try_from(if axis < 0 { axis + rank as i64 } else { axis }).ok()
}

/// Drops nodes whose outputs nobody takes any more.
pub(super) fn prune(proto: &mut GraphProto) {
    // A graph within a node may take values by name from out here, unseen by the search below.
    if proto
        .node
        .iter()
        .flat_map(|node| &node.attribute)
        .any(|a| a.g.is_some() || !a.graphs.is_empty())
    {
        return;
    }
    let mut taken: BTreeSet<String> = proto
        .output
        .iter()
        .filter_map(|value| value.name.clone())
        .collect();
    // Nodes stand in the order of their dependencies, so one walk from the end sees every taker before its maker.
    let mut kept: Vec<NodeProto> = Vec::with_capacity(proto.node.len());
    for node in std::mem::take(&mut proto.node).into_iter().rev() {
        if node.output.iter().any(|name| taken.contains(name)) {
            taken.extend(node.input.iter().cloned());
            kept.push(node);
        }
    }
    kept.reverse();
    proto.node = kept;
}
