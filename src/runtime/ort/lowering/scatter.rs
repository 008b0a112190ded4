//! `masked_scatter` as PyTorch's tracing exporter writes it, without the list of places whose length only the data knows.

use super::graph::{BOOL, Graph, INT32, INT64, attribute, is, with_int};
use crate::runtime::onnx_proto::NodeProto;

/// `ScatterND(data, Transpose(NonZero(mask)), source[:count])`: the n-th true place takes the n-th source value.
///
/// Counting the true places up to each one gives the same n without the list: `Where(mask, source[count - 1], data)`.
pub(super) fn masked(graph: &mut Graph, node: &NodeProto) -> Option<()> {
    let [data, places, updates] = node.input.as_slice() else {
        return None;
    };
    if !is(node, "ScatterND")
        || attribute(node, "reduction").is_some_and(|a| a.s.as_deref() != Some(b"none"))
    {
        return None;
    }
    let transpose = graph
        .producer(places, "Transpose")
        .filter(|t| attribute(t, "perm").is_none_or(|a| a.ints == [1, 0]))?;
    let mask = graph
        .producer(transpose.input.first()?, "NonZero")?
        .input
        .first()?
        .clone();
    let shape = graph.shape(data)?;
    if graph.element(&mask)? != BOOL || graph.shape(&mask)? != shape {
        return None;
    }
    let source = whole_source(graph, updates)?;
    let [length] = graph.shape(&source)?[..] else {
        return None;
    };

    // A mask that was expanded over the last axis picks whole rows: counting rows is less work than counting values.
    let (mask, width) = rows(graph, &mask, &shape)
        .filter(|(_, width)| length % width == 0)
        .unwrap_or((mask, 1));
    let count = shape.iter().product::<i64>() / width;
    let held = length / width;
    let bound = |graph: &mut Graph, value| graph.whole(node, INT32, &[], &[value]);

    let number = graph.op(
        node,
        "Cast",
        &[&mask],
        vec![with_int("to", i64::from(INT32))],
    );
    let list = graph.reshape(node, &number, &[count]);
    let axis = graph.whole(node, INT64, &[], &[0]);
    let counted = graph.op(node, "CumSum", &[&list, &axis], vec![]);
    let one = bound(graph, 1);
    let order = graph.op(node, "Sub", &[&counted, &one], vec![]);
    let least = bound(graph, 0);
    let most = bound(graph, held - 1);
    let index = graph.op(node, "Clip", &[&order, &least, &most], vec![]);
    let table_shape: &[i64] = if width == 1 { &[held] } else { &[held, width] };
    let table = graph.reshape(node, &source, table_shape);
    let picked = graph.op(node, "Gather", &[&table, &index], vec![with_int("axis", 0)]);
    let values = graph.reshape(node, &picked, &shape);
    graph.op(node, "Where", &[&mask, &values, data], vec![]);
    Some(())
}

/// The flat source before it was cut to the number of true places.
fn whole_source(graph: &Graph, updates: &str) -> Option<String> {
    let Some(slice) = graph.producer(updates, "Slice") else {
        return Some(updates.to_owned());
    };
    let [source, starts, _, rest @ ..] = slice.input.as_slice() else {
        return None;
    };
    let from_the_front = graph.ints(starts)? == [0];
    let by_one = rest
        .get(1)
        .is_none_or(|steps| graph.ints(steps).is_some_and(|steps| steps == [1]));
    (from_the_front && by_one).then(|| source.clone())
}

/// The mask before it was expanded over the last axis, and that axis' size.
fn rows(graph: &Graph, mask: &str, shape: &[i64]) -> Option<(String, i64)> {
    let narrow = graph.producer(mask, "Expand")?.input.first()?.clone();
    let (&width, lead) = shape.split_last()?;
    (graph.shape(&narrow)? == [lead, &[1]].concat()).then_some((narrow, width))
}
