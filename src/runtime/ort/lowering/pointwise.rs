//! Functions of each element that the HTP compiler refuses or computes wrongly.

use super::graph::{FLOAT, Graph, is};
use crate::runtime::onnx_proto::NodeProto;

/// `Reciprocal(x)` as `1 / x`: behind a square root (the normalisation of Llama and T5 as some exporters write it) the HTP
/// compiler fails to finalise the graph and speaks of memory.
pub(super) fn division(graph: &mut Graph, node: &NodeProto) -> Option<()> {
    let [value] = node.input.as_slice() else {
        return None;
    };
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
    let [value, exponent] = node.input.as_slice() else {
        return None;
    };
    let narrow = graph.constant(exponent)?.dims.len() <= graph.shape(value)?.len();
    if !is(node, "Pow")
        || graph.element(value)? != FLOAT
        || graph.scalar(exponent)? != 2.0
        || !narrow
    {
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
    let [value] = node.input.as_slice() else {
        return None;
    };
    if !is(node, "Exp") || graph.element(value)? != FLOAT {
        return None;
    }
    let [lowest, highest] = [LOWEST, f32::MAX].map(|bound| graph.float(node, bound));
    let clipped = graph.op(node, "Clip", &[value, &lowest, &highest], vec![]);
    graph.op(node, "Exp", &[&clipped], vec![]);
    Some(())
}

/// Terms of the series of the inverse hyperbolic tangent, of a third at most: what is left out is less than 2⁻²² of it.
const TERMS: u32 = 6;

/// `Softplus(x)` as `max(x, 0) + log(1 + e)` with `e = exp(-|x|)`, and that as `2 artanh(e / (2 + e))`, by its series. The HTP
/// (QNN SDK 2.51) adds `e` to 1 in half precision, so a small one loses its digits: the steps of a state-space model are such.
pub(super) fn softplus(graph: &mut Graph, node: &NodeProto) -> Option<()> {
    let [value] = node.input.as_slice() else {
        return None;
    };
    if !is(node, "Softplus") || graph.element(value)? != FLOAT {
        return None;
    }
    let [lowest, zero, two] = [LOWEST, 0.0, 2.0].map(|number| graph.float(node, number));
    let size = graph.op(node, "Abs", &[value], vec![]);
    let negative = graph.op(node, "Neg", &[&size], vec![]);
    let clipped = graph.op(node, "Max", &[&negative, &lowest], vec![]);
    let small = graph.op(node, "Exp", &[&clipped], vec![]);
    let sum = graph.op(node, "Add", &[&small, &two], vec![]);
    let part = graph.op(node, "Div", &[&small, &sum], vec![]);
    let square = graph.op(node, "Mul", &[&part, &part], vec![]);
    let factors = (0..TERMS).map(|term| 2.0 / (2 * term + 1) as f32).rev();
    let mut factors = factors
        .map(|factor| graph.float(node, factor))
        .collect::<Vec<_>>()
        .into_iter();
    let mut series = factors.next()?;
    for factor in factors {
        let product = graph.op(node, "Mul", &[&square, &series], vec![]);
        series = graph.op(node, "Add", &[&product, &factor], vec![]);
    }
    let logarithm = graph.op(node, "Mul", &[&part, &series], vec![]);
    let positive = graph.op(node, "Max", &[value, &zero], vec![]);
    graph.op(node, "Add", &[&positive, &logarithm], vec![]);
    Some(())
}
