//! Activations kept apart from the convolutions before them.

use super::graph::{FLOAT, Graph, is};
use crate::runtime::onnx_proto::NodeProto;

/// A convolution whose output an activation reads, negated twice.
///
/// The HTP compiler (QNN SDK 2.51) merges the two, and what it puts in the activation's place is coarse: the outputs of
/// GELU, SiLU, sigmoid and tanh are 43 to 57 dB above their errors there, and 63 to 72 dB by themselves. In a stack of
/// convolutions without norms between them (Wav2Vec2's) that adds up to more than half precision explains. Two negations
/// change no bit, and what stands between a convolution and its activation keeps it from being merged.
pub(super) fn activation(graph: &mut Graph, node: &NodeProto) -> Option<()> {
    let [output] = node.output.as_slice() else {
        return None;
    };
    let merged = graph
        .readers(output)
        .iter()
        .any(|reader| begins_activation(graph, reader));
    if !is(node, "Conv") || graph.element(output)? != FLOAT || !merged {
        return None;
    }
    let output = vec![graph.fresh(node)];
    let convolved = graph.add(NodeProto {
        output,
        ..node.clone()
    });
    let negative = graph.op(node, "Neg", &[&convolved], vec![]);
    graph.op(node, "Neg", &[&negative], vec![]);
    Some(())
}

/// A GELU that was exported as a formula begins with a division or product, and an error function behind it.
fn begins_activation(graph: &Graph, node: &NodeProto) -> bool {
    if ["Gelu", "Sigmoid", "Tanh"]
        .iter()
        .any(|operator| is(node, operator))
    {
        return true;
    }
    let scaled = is(node, "Div") || is(node, "Mul");
    scaled
        && node
            .output
            .iter()
            .any(|name| graph.readers(name).iter().any(|reader| is(reader, "Erf")))
}
