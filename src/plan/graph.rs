//! The dependency graph. The only home of petgraph.

use petgraph::algo::{tarjan_scc, toposort};
use petgraph::dot::{Config, Dot};
use petgraph::graph::{DiGraph, NodeIndex};

/// Steps that wait for each other.
#[derive(Debug, thiserror::Error)]
#[error("steps depend on each other in a circle: {}", .0.join(" → "))]
pub struct CycleError(pub Vec<String>);

/// Edges point from a step to the steps that read it.
pub(super) struct Graph {
    inner: DiGraph<String, String>,
}

impl Graph {
    pub(super) fn new(names: impl Iterator<Item = String>, edges: impl Iterator<Item = (u32, u32, String)>) -> Self {
        let mut inner = DiGraph::new();
        for name in names {
            inner.add_node(name);
        }
        for (from, to, label) in edges {
            inner.add_edge(NodeIndex::new(from as usize), NodeIndex::new(to as usize), label);
        }
        Self { inner }
    }

    /// The steps' positions, dependencies first; equal positions keep their order.
    pub(super) fn order(&self) -> Result<Vec<u32>, CycleError> {
        match toposort(&self.inner, None) {
            Ok(order) => Ok(order.into_iter().map(|node| node.index() as u32).collect()),
            Err(_) => {
                let circle = tarjan_scc(&self.inner).into_iter().find(|part| self.is_circle(part));
                let names = circle.unwrap_or_default().into_iter().map(|node| self.inner[node].clone());
                Err(CycleError(names.collect()))
            }
        }
    }

    fn is_circle(&self, part: &[NodeIndex]) -> bool {
        part.len() > 1 || self.inner.contains_edge(part[0], part[0])
    }

    pub(super) fn dot(&self, node_style: &dyn Fn(u32) -> String) -> String {
        let edge = |_: &DiGraph<String, String>, _| String::new();
        let node = |_: &DiGraph<String, String>, (index, _): (NodeIndex, &String)| node_style(index.index() as u32);
        format!("{:?}", Dot::with_attr_getters(&self.inner, &[Config::EdgeNoLabel], &edge, &node))
    }
}
