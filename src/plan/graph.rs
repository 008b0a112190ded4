//! The dependency graph. The only home of petgraph, which finds circles; a plan of millions of steps needs no
//! more than lists of numbers.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use petgraph::algo::tarjan_scc;
use petgraph::graph::{DiGraph, NodeIndex};

use crate::step::{Step, StepId};

/// Steps that wait for each other.
#[derive(Debug, thiserror::Error)]
#[error("steps depend on each other in a circle: {}", .0.join(" → "))]
pub struct CycleError(pub Vec<String>);

/// For every step, the steps that read its output or record, each once and in ascending order.
#[derive(Debug)]
pub(super) struct Dependents {
    /// Where the readers of each step begin in `readers`, and at last where they end.
    starts: Vec<u32>,
    readers: Vec<StepId>,
}

impl Dependents {
    pub(super) fn of(steps: &[Step]) -> Self {
        let mut starts = vec![0; steps.len() + 1];
        each_edge(steps, |from, _| starts[from as usize + 1] += 1);
        for index in 0..steps.len() {
            starts[index + 1] += starts[index];
        }
        let mut next = starts.clone();
        let mut readers = vec![StepId(0); starts[steps.len()] as usize];
        each_edge(steps, |from, to| {
            readers[next[from as usize] as usize] = StepId(to);
            next[from as usize] += 1;
        });
        Self { starts, readers }
    }

    pub(super) fn of_step(&self, id: StepId) -> &[StepId] {
        let at = id.0 as usize;
        &self.readers[self.starts[at] as usize..self.starts[at + 1] as usize]
    }
}

/// Tells every pair of a step and one that reads it, once, by the readers in ascending order.
fn each_edge(steps: &[Step], mut tell: impl FnMut(u32, u32)) {
    let mut last = vec![u32::MAX; steps.len()];
    for (to, step) in steps.iter().enumerate() {
        for from in step.dependencies() {
            if std::mem::replace(&mut last[from.0 as usize], to as u32) != to as u32 {
                tell(from.0, to as u32);
            }
        }
    }
}

/// The steps' positions, dependencies first; otherwise in the order in which they stand. None if they stand so already.
pub(super) fn order(steps: &[Step], dependents: &Dependents) -> Result<Option<Vec<u32>>, CycleError> {
    let mut waits = vec![0u32; steps.len()];
    let mut in_order = true;
    each_edge(steps, |from, to| {
        in_order &= from < to;
        waits[to as usize] += 1;
    });
    if in_order {
        return Ok(None);
    }
    let mut free: BinaryHeap<_> = (0..steps.len() as u32).filter(|id| waits[*id as usize] == 0).map(Reverse).collect();
    let mut order = Vec::with_capacity(steps.len());
    while let Some(Reverse(id)) = free.pop() {
        order.push(id);
        for next in dependents.of_step(StepId(id)) {
            let waits = &mut waits[next.0 as usize];
            *waits -= 1;
            if *waits == 0 {
                free.push(Reverse(next.0));
            }
        }
    }
    if order.len() == steps.len() { Ok(Some(order)) } else { Err(circle(steps)) }
}

fn circle(steps: &[Step]) -> CycleError {
    let graph = graph_of(steps);
    let is_circle = |part: &Vec<NodeIndex>| part.len() > 1 || graph.contains_edge(part[0], part[0]);
    let circle = tarjan_scc(&graph).into_iter().find(is_circle).unwrap_or_default();
    CycleError(circle.into_iter().map(|node| steps[node.index()].name.clone()).collect())
}

/// Edges point from a step to the steps that read it.
fn graph_of(steps: &[Step]) -> DiGraph<&str, ()> {
    let mut graph = DiGraph::with_capacity(steps.len(), steps.len());
    for step in steps {
        graph.add_node(step.name.as_str());
    }
    for (to, step) in steps.iter().enumerate() {
        for from in step.dependencies() {
            graph.add_edge(NodeIndex::new(from.0 as usize), NodeIndex::new(to), ());
        }
    }
    graph
}
