//! Gathers that the HTP refuses or computes wrongly, as gathers with a flat list of indices.

use super::graph::{Graph, INT64, from_start, int, is, with_int};
use crate::runtime::onnx_proto::NodeProto;

/// Rank from which on the HTP mistakes the rows of a gathered tensor of whole numbers, and refuses other types.
const RANK: usize = 5;

/// `Gather` whose result has five axes or more: the indices as one list, the shape put back afterwards.
pub(super) fn flat(graph: &mut Graph, node: &NodeProto) -> Option<()> {
    let [data, indices] = node.input.as_slice() else {
        return None;
    };
    let shape = graph.shape(data)?;
    let picked = graph.shape(indices)?;
    if !is(node, "Gather") || picked.len() < 2 || shape.len() + picked.len() - 1 < RANK {
        return None;
    }
    let axis = from_start(int(node, "axis", 0), shape.len())?;
    let list = match graph.ints(indices) {
        Some(values) => graph.whole(node, INT64, &[values.len() as i64], &values),
        None => graph.reshape(node, indices, &[picked.iter().product()]),
    };
    let gathered = graph.op(
        node,
        "Gather",
        &[data, &list],
        vec![with_int("axis", axis as i64)],
    );
    graph.reshape(
        node,
        &gathered,
        &[&shape[..axis], &picked, &shape[axis + 1..]].concat(),
    );
    Some(())
}

/// `GatherND` by one axis, or by constant indices, as `Gather` over the flattened leading axes.
pub(super) fn nd(graph: &mut Graph, node: &NodeProto) -> Option<()> {
    let [data, indices] = node.input.as_slice() else {
        return None;
    };
    if !is(node, "GatherND") || int(node, "batch_dims", 0) != 0 {
        return None;
    }
    let shape = graph.shape(data)?;
    let picked = graph.shape(indices)?;
    let (&depth, lead) = picked.split_last()?;
    let depth = usize::try_from(depth)
        .ok()
        .filter(|depth| (1..=shape.len()).contains(depth))?;
    let count: i64 = lead.iter().product();
    let list = match graph.ints(indices) {
        Some(values) => {
            let places: Vec<_> = values
                .chunks(depth)
                .map(|index| place(index, &shape[..depth]))
                .collect();
            graph.whole(node, INT64, &[count], &places)
        }
        // `Gather` counts negative indices from the end of its axis, as `GatherND` does: one axis needs no arithmetic.
        None if depth == 1 => graph.reshape(node, indices, &[count]),
        None => return None,
    };
    let source = if depth == 1 {
        data.clone()
    } else {
        graph.reshape(
            node,
            data,
            &[&[shape[..depth].iter().product()], &shape[depth..]].concat(),
        )
    };
    let gathered = graph.op(node, "Gather", &[&source, &list], vec![with_int("axis", 0)]);
    graph.reshape(node, &gathered, &[lead, &shape[depth..]].concat());
    Some(())
}

/// The place of an index in the flattened axes of `sizes`.
fn place(index: &[i64], sizes: &[i64]) -> i64 {
    index.iter().zip(sizes).fold(0, |place, (&i, &size)| {
        place * size + if i < 0 { i + size } else { i }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_becomes_its_place_and_counts_from_the_end_when_negative() {
        assert_eq!(place(&[1, 2], &[3, 5]), 7);
        assert_eq!(place(&[-1, -5], &[3, 5]), 10);
    }
}
