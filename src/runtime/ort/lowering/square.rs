//! Squares as products.

use super::graph::{FLOAT, Graph, is, named_like};
use crate::runtime::onnx_proto::NodeProto;

/// `Pow(x, 2)` as `x * x`: to the HTP (QNN SDK 2.51), the square of -0 is -4. Small negative values become -0 in half
/// precision, and one of them takes its whole row of an RMS norm with it.
pub(super) fn product(graph: &mut Graph, node: &NodeProto) -> Option<Vec<NodeProto>> {
    let [value, exponent] = node.input.as_slice() else { return None };
    let narrow = graph.constant(exponent)?.dims.len() <= graph.shape(value)?.len();
    if !is(node, "Pow") || graph.element(value)? != FLOAT || graph.scalar(exponent)? != 2.0 || !narrow {
        return None;
    }
    let product = graph.op(node, "Mul", &[value, value], vec![]);
    Some(named_like(vec![product], node))
}
