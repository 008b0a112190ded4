//! Additions whose constant is repeated over the batch, with the constant written out.

use super::graph::{FLOAT, Graph, is};
use crate::runtime::onnx_proto::{NodeProto, TensorProto};

/// `Add(x, c)` where only the batch axis of the constant is repeated (a table of positions).
///
/// The HTP compiler merges such an addition with the normalisation behind it and then normalises every row of the
/// batch but the first to wrong values.
pub(super) fn repeated(graph: &mut Graph, node: &NodeProto) -> Option<()> {
    let ([_, _], [output]) = (node.input.as_slice(), node.output.as_slice()) else {
        return None;
    };
    if !is(node, "Add") {
        return None;
    }
    let shape = graph.shape(output)?;
    let (&batch, rest) = shape.split_first()?;
    let at = node.input.iter().position(|name| {
        let constant = graph
            .constant(name)
            .filter(|constant| constant.data_type == Some(FLOAT));
        constant.is_some_and(|constant| constant.dims.split_first() == Some((&1, rest)))
    })?;
    if batch < 2 || rest.len() < 2 {
        return None;
    }
    let bytes = bytes(graph.constant(&node.input[at])?)?.repeat(usize::try_from(batch).ok()?);
    let mut node = node.clone();
    node.input[at] = graph.constant_of(&node, FLOAT, &shape, bytes);
    graph.add(node);
    Some(())
}

fn bytes(tensor: &TensorProto) -> Option<Vec<u8>> {
    match &tensor.raw_data {
        _ if !tensor.external_data.is_empty() => None,
        Some(raw) if !raw.is_empty() => Some(raw.clone()),
        _ => Some(
            tensor
                .float_data
                .iter()
                .flat_map(|value| value.to_le_bytes())
                .collect(),
        ),
    }
}
