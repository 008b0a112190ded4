//! A plan as a picture: Graphviz dot, Mermaid.

use std::fmt::Write;

use crate::plan::{Plan, graph};
use crate::step::StepId;

/// Graphviz. Steps for which `is_fresh` holds are drawn filled.
pub fn dot(plan: &Plan, is_fresh: &dyn Fn(StepId) -> bool) -> String {
    let style =
        |index| if is_fresh(StepId(index)) { "style=filled fillcolor=\"#dfeedd\"".into() } else { String::new() };
    graph::dot(&plan.steps, &style)
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
