//! Exponentials of numbers far below zero.

use super::graph::{FLOAT, Graph, is, named_like};
use crate::runtime::onnx_proto::NodeProto;

/// The logarithm of 2⁻¹²⁶, rounded up.
const LOWEST: f32 = -87.0;

/// `Exp(x)` of at least -87. To the HTP (QNN SDK 2.51), the exponential of most numbers below -88 is -131008 instead of 0;
/// state-space models mask so. What is given is off by less than 2⁻¹²⁶, the smallest normal number of fp32.
pub(super) fn bounded(graph: &mut Graph, node: &NodeProto) -> Option<Vec<NodeProto>> {
    let [value] = node.input.as_slice() else { return None };
    if !is(node, "Exp") || graph.element(value)? != FLOAT {
        return None;
    }
    let [lowest, highest] =
        [LOWEST, f32::MAX].map(|bound| graph.constant_of(node, FLOAT, &[], bound.to_le_bytes().to_vec()));
    let clipped = graph.op(node, "Clip", &[value, &lowest, &highest], vec![]);
    let power = graph.op(node, "Exp", &[&clipped.output[0]], vec![]);
    Some(named_like(vec![clipped, power], node))
}
