//! Transpositions that move no value, which the HTP mistakes between two reshapes.

use super::graph::{Graph, attribute, is};
use crate::runtime::onnx_proto::NodeProto;

/// The rank of what was seen to be mistaken: windows of a picture, put together again.
const RANK: usize = 6;

/// `Transpose` that moves only axes of size 1: the shape changes, and nothing else.
pub(super) fn still(graph: &mut Graph, node: &NodeProto) -> Option<()> {
    let [value] = node.input.as_slice() else {
        return None;
    };
    if !is(node, "Transpose") {
        return None;
    }
    let shape = graph.shape(value)?;
    let order = &attribute(node, "perm")?.ints;
    let sizes: Vec<i64> = order
        .iter()
        .map(|axis| shape.get(usize::try_from(*axis).ok()?).copied())
        .collect::<Option<_>>()?;
    let moved = order
        .iter()
        .zip(&sizes)
        .filter(|(_, size)| **size != 1)
        .map(|(axis, _)| axis);
    if shape.len() < RANK || !moved.is_sorted() {
        return None;
    }
    graph.reshape(node, value, &sizes);
    Some(())
}
