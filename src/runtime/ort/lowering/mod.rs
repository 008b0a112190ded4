//! Graphs made fit for the HTP: operators that its compiler refuses, or computes wrongly or coarsely, in terms of others.
//!
//! Every rule is exact (one to 2⁻¹²⁶ and one to 2⁻²² of its result, as they say): the lowered graph computes the same
//! function on any runtime, and whoever lowers a graph checks that on the CPU (`source.rs`). Nothing here loads a model or
//! knows a device.

mod apart;
mod broadcast;
mod cumsum;
mod einsum;
mod external;
mod gather;
mod graph;
mod pointwise;
mod scatter;
mod transpose;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Context;
use prost::Message;

use crate::base::Bug;
use crate::runtime::onnx_proto::{ModelProto, NodeProto, ValueInfoProto};
use graph::{Graph, prune};

/// Element type (ONNX's number) and sizes of values by name; only those whose every size is known.
pub(super) type Shapes = BTreeMap<String, (i32, Vec<i64>)>;

/// Makes nodes in the place of one that it applies to.
type Rule = fn(&mut Graph, &NodeProto) -> Option<()>;

/// One row a rule: its name in facts and manifests, and what it does.
const RULES: &[(&str, Rule)] = &[
    ("gather-flat", gather::flat),
    ("gather-nd", gather::nd),
    ("cumsum-flat", cumsum::flat),
    ("einsum-matmul", einsum::product),
    ("masked-scatter", scatter::masked),
    ("still-transpose", transpose::still),
    ("constant-batch", broadcast::repeated),
    ("reciprocal-div", pointwise::division),
    ("square-mul", pointwise::square),
    ("exp-floor", pointwise::exponential),
    ("softplus-series", pointwise::softplus),
    ("activation-apart", apart::activation),
];

/// A changed model with how often each rule changed it; none changed it when the map is empty.
pub(super) struct Lowered {
    pub(super) bytes: Vec<u8>,
    pub(super) rules: BTreeMap<&'static str, u32>,
}

/// Applies every rule to a serialised ONNX model whose constants are folded, if it `is_rewritten`; weights that it keeps
/// in `folder` are taken into it. `infer` gives the shapes of a model's outputs.
pub(super) fn lower(
    bytes: &[u8],
    folder: &Path,
    is_rewritten: bool,
    infer: impl FnOnce(&[u8]) -> anyhow::Result<Shapes>,
) -> anyhow::Result<Lowered> {
    let mut model = ModelProto::decode(bytes).context("failed to parse the ONNX model")?;
    let embedded = external::embed(
        model
            .graph
            .as_mut()
            .context("the ONNX model has no graph")?,
        folder,
    )?;
    let shapes = infer(&exposed(&model))?;
    let proto = model
        .graph
        .as_mut()
        .context(Bug::new("the graph was there"))?;
    let mut graph = Graph::new(proto, shapes);
    let mut rules = BTreeMap::new();
    let mut nodes = Vec::with_capacity(proto.node.len());
    for node in std::mem::take(&mut proto.node) {
        match RULES
            .iter()
            .filter(|_| is_rewritten)
            .find(|(_, rule)| rule(&mut graph, &node).is_some())
        {
            Some((name, _)) => {
                *rules.entry(*name).or_insert(0) += 1;
                nodes.append(&mut graph.take_made(&node));
            }
            None => nodes.push(node),
        }
    }
    proto.node = nodes;
    graph.finish(proto);
    prune(proto);
    let bytes = if rules.is_empty() && !embedded {
        bytes.to_vec()
    } else {
        model.encode_to_vec()
    };
    Ok(Lowered { bytes, rules })
}

/// The model with every value an output, without a type: so that whoever loads it has to infer them all.
fn exposed(model: &ModelProto) -> Vec<u8> {
    let mut model = model.clone();
    if let Some(graph) = &mut model.graph {
        let known: BTreeSet<_> = graph
            .output
            .iter()
            .filter_map(|value| value.name.clone())
            .collect();
        let made = graph
            .node
            .iter()
            .flat_map(|node| &node.output)
            .filter(|name| !name.is_empty());
        let hidden = made.filter(|name| !known.contains(*name));
        graph.output.extend(
            hidden
                .map(|name| ValueInfoProto::named(name))
                .collect::<Vec<_>>(),
        );
    }
    model.encode_to_vec()
}

#[cfg(test)]
mod tests;
