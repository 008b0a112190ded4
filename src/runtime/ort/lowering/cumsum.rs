//! Running sums that the HTP refuses, as running sums over fewer axes.

use super::graph::{Graph, INT64, is, named_like};
use crate::runtime::onnx_proto::NodeProto;

/// Rank from which on the HTP sums nothing.
const RANK: usize = 5;

/// `CumSum` of five axes or more: those before and behind the summed one as one each, the shape put back afterwards.
pub(super) fn flat(graph: &mut Graph, node: &NodeProto) -> Option<Vec<NodeProto>> {
    let [value, axis] = node.input.as_slice() else { return None };
    let shape = graph.shape(value)?;
    if !is(node, "CumSum") || shape.len() < RANK {
        return None;
    }
    let axis = *graph.ints(axis)?.first()?;
    let axis = usize::try_from(if axis < 0 { axis + shape.len() as i64 } else { axis }).ok()?;
    let (before, rest) = (shape.get(..axis)?, shape.get(axis..)?);
    let (summed, behind) = rest.split_first()?;
    let merged = graph.reshape(node, value, &[before.iter().product(), *summed, behind.iter().product()]);
    let middle = graph.whole(node, INT64, &[], &[1]);
    let sums = graph.op(node, "CumSum", &[&merged.output[0], &middle], node.attribute.clone());
    let back = graph.reshape(node, &sums.output[0], &shape);
    Some(named_like(vec![merged, sums, back], node))
}
