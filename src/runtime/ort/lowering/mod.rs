//! Graphs made fit for the HTP: operators that its compiler refuses, or computes wrongly, in terms of others.
//!
//! Every rule is exact: the lowered graph computes the same function on any runtime, and whoever lowers a graph checks
//! that on the CPU (`compile.rs`). Nothing here loads a model or knows a device.

mod broadcast;
mod einsum;
mod external;
mod gather;
mod graph;
mod proto;
mod scatter;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use prost::Message;

use graph::{Graph, prune};
use proto::{ModelProto, NodeProto};

type Rule = fn(&mut Graph, &NodeProto) -> Option<Vec<NodeProto>>;

/// One row a rule: its name in facts and manifests, and what it does.
const RULES: &[(&str, Rule)] = &[
    ("gather-flat", gather::flat),
    ("gather-nd", gather::nd),
    ("einsum-matmul", einsum::product),
    ("masked-scatter", scatter::masked),
    ("constant-batch", broadcast::repeated),
];

/// A changed model with how often each rule changed it; none changed it when the map is empty.
pub(super) struct Lowered {
    pub(super) bytes: Vec<u8>,
    pub(super) rules: BTreeMap<&'static str, u32>,
}

/// Applies every rule to a serialised ONNX model whose constants are folded and whose shapes are written out; weights that
/// it keeps in `folder` are taken into it.
pub(super) fn lower(bytes: &[u8], folder: &Path) -> anyhow::Result<Lowered> {
    let mut model = ModelProto::decode(bytes).context("failed to parse the ONNX model")?;
    let proto = model.graph.as_mut().context("the ONNX model has no graph")?;
    let embedded = external::embed(proto, folder)?;
    let mut graph = Graph::new(proto);
    let mut rules = BTreeMap::new();
    let mut nodes = Vec::with_capacity(proto.node.len());
    for node in std::mem::take(&mut proto.node) {
        match RULES.iter().find_map(|(name, rule)| rule(&mut graph, &node).map(|made| (*name, made))) {
            Some((name, made)) => {
                *rules.entry(name).or_insert(0) += 1;
                nodes.extend(made);
            }
            None => nodes.push(node),
        }
    }
    proto.node = nodes;
    graph.finish(proto);
    prune(proto);
    let bytes = if rules.is_empty() && !embedded { bytes.to_vec() } else { model.encode_to_vec() };
    Ok(Lowered { bytes, rules })
}

#[cfg(test)]
mod tests;
