//! `Reciprocal` as a division.

use super::graph::{FLOAT, Graph, is, named_like};
use crate::runtime::onnx_proto::NodeProto;

/// `Reciprocal(x)` as `1 / x`: behind a square root (the normalisation of Llama and T5 as some exporters write it) the HTP
/// compiler fails to finalise the graph and speaks of memory.
pub(super) fn division(graph: &mut Graph, node: &NodeProto) -> Option<Vec<NodeProto>> {
    let [value] = node.input.as_slice() else { return None };
    if !is(node, "Reciprocal") || graph.element(value)? != FLOAT {
        return None;
    }
    let one = graph.constant_of(node, FLOAT, &[], 1.0f32.to_le_bytes().to_vec());
    let division = graph.op(node, "Div", &[&one, value], vec![]);
    Some(named_like(vec![division], node))
}
