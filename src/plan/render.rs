//! A plan as a picture: Graphviz dot, Mermaid.

use std::fmt::Write;

use crate::plan::Plan;
use crate::plan::graph::Graph;
use crate::step::{Source, StepId};

/// Graphviz. Steps for which `is_fresh` holds are drawn filled.
pub fn dot(plan: &Plan, is_fresh: &dyn Fn(StepId) -> bool) -> String {
    let graph = graph_of(plan);
    graph
        .dot(&|index| if is_fresh(StepId(index)) { "style=filled fillcolor=\"#dfeedd\"".into() } else { String::new() })
}

/// Mermaid, as GitHub renders it.
pub fn mermaid(plan: &Plan, is_fresh: &dyn Fn(StepId) -> bool) -> String {
    let mut text = String::from("flowchart LR\n");
    for id in plan.ids() {
        let class = if is_fresh(id) { ":::fresh" } else { "" };
        let _ = writeln!(text, "  s{}[\"{}\"]{class}", id.0, plan.step(id).name);
    }
    for id in plan.ids() {
        for dependency in plan.dependencies(id) {
            let _ = writeln!(text, "  s{} --> s{}", dependency.0, id.0);
        }
    }
    text.push_str("  classDef fresh fill:#dfeedd,stroke:#486b48\n");
    text
}

pub(super) fn graph_of(plan: &Plan) -> Graph {
    let names = plan.steps.iter().map(|step| step.name.clone());
    let edges = plan.steps.iter().enumerate().flat_map(|(to, step)| {
        step.inputs.iter().filter_map(move |(name, source)| match source {
            Source::Step(from) | Source::Record(from) => Some((from.0, to as u32, name.clone())),
            Source::File(_) => None,
        })
    });
    Graph::new(names, edges)
}
