//! Running sums that the HTP refuses, as running sums over fewer axes.

use super::graph::{Graph, INT64, from_start, is};
use crate::runtime::onnx_proto::NodeProto;

/// Rank from which on the HTP sums nothing.
const RANK: usize = 5;

/// `CumSum` of five axes or more: those before and behind the summed one as one each, the shape put back afterwards.
pub(super) fn flat(graph: &mut Graph, node: &NodeProto) -> Option<()> {
    let [value, axis] = node.input.as_slice() else {
        return None;
    };
    let shape = graph.shape(value)?;
    if !is(node, "CumSum") || shape.len() < RANK {
        return None;
    }
    let axis = from_start(*graph.ints(axis)?.first()?, shape.len())?;
    let before = shape.get(..axis)?;
    let rest = shape.get(axis..)?;
    let (summed, behind) = rest.split_first()?;
    let merged = graph.reshape(
        node,
        value,
        &[before.iter().product(), *summed, behind.iter().product()],
    );
    let middle = graph.whole(node, INT64, &[], &[1]);
    let sums = graph.op(node, "CumSum", &[&merged, &middle], node.attribute.clone());
    graph.reshape(node, &sums, &shape);
    Some(())
}
