//! The dependency graph. The only home of petgraph.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use petgraph::Direction::Incoming;
use petgraph::algo::tarjan_scc;
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

    /// The steps' positions, dependencies first; otherwise in the order in which they were added.
    pub(super) fn order(&self) -> Result<Vec<u32>, CycleError> {
        let mut waits: Vec<usize> =
            self.inner.node_indices().map(|node| self.inner.neighbors_directed(node, Incoming).count()).collect();
        let mut free: BinaryHeap<_> =
            self.inner.node_indices().filter(|node| waits[node.index()] == 0).map(Reverse).collect();
        let mut order = Vec::with_capacity(waits.len());
        while let Some(Reverse(node)) = free.pop() {
            order.push(node.index() as u32);
            for next in self.inner.neighbors(node) {
                waits[next.index()] -= 1;
                if waits[next.index()] == 0 {
                    free.push(Reverse(next));
                }
            }
        }
        if order.len() == waits.len() {
            return Ok(order);
        }
        let circle = tarjan_scc(&self.inner).into_iter().find(|part| self.is_circle(part)).unwrap_or_default();
        Err(CycleError(circle.into_iter().map(|node| self.inner[node].clone()).collect()))
    }

    fn is_circle(&self, part: &[NodeIndex]) -> bool {
        part.len() > 1 || self.inner.contains_edge(part[0], part[0])
    }
}
