//! Functions of each element that the HTP compiler refuses or computes wrongly.

use super::graph::{FLOAT, Graph, is};
use crate::runtime::onnx_proto::NodeProto;

/// `Reciprocal(x)` as `1 / x`: behind a square root (the normalisation of Llama and T5 as some exporters write it) the HTP
/// compiler fails to finalise the graph and speaks of memory.
pub(super) fn division(graph: &mut Graph, node: &NodeProto) -> Option<()> {
    let [value] = node.input.as_slice() else { return None };
    if !is(node, "Reciprocal") || graph.element(value)? != FLOAT {
        return None;
    }
    let one = graph.float(node, 1.0);
    graph.op(node, "Div", &[&one, value], vec![]);
    Some(())
}

/// `Pow(x, 2)` as `x * x`: to the HTP (QNN SDK 2.51), the square of -0 is -4. Small negative values become -0 in half
/// precision, and one of them takes its whole row of an RMS norm with it.
pub(super) fn square(graph: &mut Graph, node: &NodeProto) -> Option<()> {
    let [value, exponent] = node.input.as_slice() else { return None };
    let narrow = graph.constant(exponent)?.dims.len() <= graph.shape(value)?.len();
    if !is(node, "Pow") || graph.element(value)? != FLOAT || graph.scalar(exponent)? != 2.0 || !narrow {
        return None;
    }
    graph.op(node, "Mul", &[value, value], vec![]);
    Some(())
}

/// The logarithm of 2⁻¹²⁶, rounded up.
const LOWEST: f32 = -87.0;

/// `Exp(x)` of at least -87. To the HTP (QNN SDK 2.51), the exponential of most numbers below -88 is -131008 instead of 0;
/// state-space models mask so. What is given is off by less than 2⁻¹²⁶, the smallest normal number of fp32.
pub(super) fn exponential(graph: &mut Graph, node: &NodeProto) -> Option<()> {
    let [value] = node.input.as_slice() else { return None };
    if !is(node, "Exp") || graph.element(value)? != FLOAT {
        return None;
    }
    let [lowest, highest] = [LOWEST, f32::MAX].map(|bound| graph.float(node, bound));
    let clipped = graph.op(node, "Clip", &[value, &lowest, &highest], vec![]);
    graph.op(node, "Exp", &[&clipped], vec![]);
    Some(())
}
