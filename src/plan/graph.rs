//! The dependency graph: who reads whom, as petgraph's compressed rows, and what petgraph's algorithms say of it. The only
//! home of petgraph.

use std::collections::BTreeSet;

use petgraph::algo::{bellman_ford, tarjan_scc};
use petgraph::csr::Csr;
use petgraph::unionfind::UnionFind;
use petgraph::visit::{
    Dfs, DfsPostOrder, EdgeFiltered, EdgeRef, IntoEdgeReferences, IntoNeighbors, Visitable,
};

use crate::plan::Plan;
use crate::step::{Stage, Step, StepId};

/// Steps that wait for each other.
#[derive(Debug, thiserror::Error)]
#[error("steps depend on each other in a circle: {}", .0.join(" → "))]
pub struct CycleError(pub Vec<String>);

/// Both directions of every edge, each once; a step's neighbours stand in ascending order.
#[derive(Debug)]
pub(super) struct Graph {
    /// The edges from a step to those whose output or record it reads.
    reads: Csr,
    /// The edges from a step to those that read its output or record.
    readers: Csr,
}

impl Graph {
    pub(super) fn of(steps: &[Step]) -> Self {
        let edges = |to: u32| {
            steps[to as usize]
                .dependencies()
                .map(move |from| (to, from.0))
        };
        let reads: Vec<_> = (0..steps.len() as u32).flat_map(edges).collect();
        let readers = reads.iter().map(|(to, from)| (*from, *to)).collect();
        Self {
            reads: rows(steps.len(), reads),
            readers: rows(steps.len(), readers),
        }
    }

    /// Gives each step a number that it shares with all that hang together with it. A command hangs together with the
    /// first step that it reads, so that one that reads all models does not join them.
    pub(super) fn families(&self, steps: &[Step]) -> Vec<u32> {
        let mut sets = UnionFind::new(steps.len());
        for (reader, step) in (0..).zip(steps) {
            let read = self.reads.neighbors_slice(reader);
            let joined = match step.stage {
                Stage::Command => &read[..read.len().min(1)],
                _ => read,
            };
            for from in joined {
                sets.union(reader, *from);
            }
        }
        sets.into_labeling()
    }

    /// The steps' positions, dependencies first; otherwise in the order in which they stand. None if they stand so already.
    pub(super) fn order(&self, steps: &[Step]) -> Result<Option<Vec<u32>>, CycleError> {
        if self
            .reads
            .edge_references()
            .all(|edge| edge.target() < edge.source())
        {
            return Ok(None);
        }
        let mut search = DfsPostOrder::empty(&self.reads);
        let mut order = Vec::with_capacity(steps.len());
        for id in 0..steps.len() as u32 {
            search.move_to(id);
            order.extend(std::iter::from_fn(|| search.next(&self.reads)));
        }
        let mut places = vec![0; steps.len()];
        order
            .iter()
            .zip(0..)
            .for_each(|(id, place)| places[*id as usize] = place);
        let place = |id: u32| places[id as usize];
        let is_ordered = self
            .reads
            .edge_references()
            .all(|edge| place(edge.target()) < place(edge.source()));
        if is_ordered {
            Ok(Some(order))
        } else {
            Err(self.circle(steps))
        }
    }

    fn circle(&self, steps: &[Step]) -> CycleError {
        let is_circle =
            |part: &Vec<u32>| part.len() > 1 || self.reads.contains_edge(part[0], part[0]);
        let circle = tarjan_scc(&self.readers)
            .into_iter()
            .find(is_circle)
            .unwrap_or_default();
        CycleError(
            circle
                .into_iter()
                .map(|id| steps[id as usize].name.clone())
                .collect(),
        )
    }
}

impl Plan {
    /// The steps that read this one's output, in ascending order.
    pub fn dependents(&self, id: StepId) -> impl Iterator<Item = StepId> + '_ {
        self.graph
            .readers
            .neighbors_slice(id.0)
            .iter()
            .copied()
            .map(StepId)
    }

    /// Steps and all that they depend on, as far as `follows` goes on from a step to one that it reads.
    pub fn upstream(
        &self,
        from: impl IntoIterator<Item = StepId>,
        follows: impl Fn(StepId, StepId) -> bool,
    ) -> BTreeSet<StepId> {
        type Edge<'a> = <&'a Csr as IntoEdgeReferences>::EdgeRef;
        let follows = |edge: Edge<'_>| follows(StepId(edge.source()), StepId(edge.target()));
        reached(&EdgeFiltered::from_fn(&self.graph.reads, follows), from)
    }

    /// Steps and all that depend on them.
    pub fn downstream(&self, from: impl IntoIterator<Item = StepId>) -> BTreeSet<StepId> {
        reached(&self.graph.readers, from)
    }

    /// The chain of executed steps, each reading what the one before made, that took longest, in order of execution. No
    /// number of slots makes a run shorter than it. `seconds` is None for steps that were not executed: they took no time,
    /// but what they link is linked.
    pub fn critical_path(&self, seconds: impl Fn(StepId) -> Option<f64>) -> Vec<StepId> {
        // The longest path is the shortest of negative lengths, from a node 0 that stands before all; step `id` is node
        // `id + 1`. Steps stand after those that they depend on, so the algorithm is done in one pass.
        let length = |id: u32| -seconds(StepId(id)).unwrap_or(0.0);
        let steps = self.graph.readers.node_count() as u32;
        let begins = (0..steps).map(|id| (0, id + 1, length(id)));
        let edges = self.graph.readers.edge_references();
        let edges = edges.map(|edge| (edge.source() + 1, edge.target() + 1, length(edge.target())));
        let graph: Csr<(), f64> = Csr::from_sorted_edges(&begins.chain(edges).collect::<Vec<_>>())
            .expect("BUG: rows are sorted");
        let paths = bellman_ford(&graph, 0).expect("BUG: a plan has no circle");
        let until = |node: &u32| paths.distances[*node as usize];
        let last = (1..=steps).min_by(|one, other| until(one).total_cmp(&until(other)));
        let nodes = std::iter::successors(last, |node| paths.predecessors[*node as usize])
            .filter(|node| *node > 0);
        let mut path: Vec<_> = nodes
            .map(|node| StepId(node - 1))
            .filter(|id| seconds(*id).is_some())
            .collect();
        path.reverse();
        path
    }
}

fn rows(nodes: usize, mut edges: Vec<(u32, u32)>) -> Csr {
    edges.sort_unstable();
    edges.dedup();
    let mut rows = Csr::from_sorted_edges(&edges).expect("BUG: edges are sorted");
    while rows.node_count() < nodes {
        rows.add_node(());
    }
    rows
}

fn reached<G>(graph: G, from: impl IntoIterator<Item = StepId>) -> BTreeSet<StepId>
where
    G: IntoNeighbors<NodeId = u32> + Visitable,
{
    let open = from.into_iter().map(|id| id.0).collect();
    let mut search = Dfs::from_parts(open, graph.visit_map());
    std::iter::from_fn(|| search.next(graph))
        .map(StepId)
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::step::{RENDER, Source, Stage};

    /// Steps that read those of these positions.
    fn steps(reads: &[&[u32]]) -> Vec<Step> {
        let step = |(name, reads): (usize, &&[u32])| {
            let inputs = reads
                .iter()
                .map(|from| (from.to_string().into(), Source::Step(StepId(*from))))
                .collect();
            Step::new(
                name.to_string(),
                Stage::Command,
                &RENDER,
                json!({}),
                inputs,
                1,
            )
        };
        reads.iter().enumerate().map(step).collect()
    }

    #[test]
    fn each_step_stands_after_what_it_reads_and_otherwise_where_it_stood() {
        let order = |reads: &[&[u32]]| {
            let steps = steps(reads);
            Graph::of(&steps)
                .order(&steps)
                .map_err(|circle| circle.to_string())
        };
        assert_eq!(order(&[&[], &[0], &[], &[1, 2, 2]]), Ok(None));
        assert_eq!(order(&[&[3], &[], &[1], &[1]]), Ok(Some(vec![1, 3, 0, 2])));
        let circle = "steps depend on each other in a circle: ";
        assert!(
            order(&[&[], &[3], &[0], &[1]])
                .is_err_and(|message| message.starts_with(circle) && !message.contains('2'))
        );
        assert_eq!(order(&[&[], &[1]]), Err(format!("{circle}1")));
    }

    #[test]
    fn a_chain_may_be_longer_than_the_stack_is_deep() {
        let next: Vec<[u32; 1]> = (1..200_000).map(|next| [next]).collect();
        let reads: Vec<&[u32]> = next.iter().map(|next| &next[..]).chain([&[][..]]).collect();
        let plan = Plan::new(steps(&reads), vec![], vec![], Default::default());
        assert_eq!(
            plan.graph.order(&plan.steps).unwrap(),
            Some((0..200_000).rev().collect())
        );
        assert_eq!(plan.downstream([StepId(199_999)]).len(), 200_000);
        assert_eq!(
            plan.upstream([StepId(0)], |reader, _| reader.0 < 9).len(),
            10
        );
    }
}
