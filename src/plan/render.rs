//! A plan as a picture: Graphviz dot, Mermaid. What state a step is in is given by the caller; shape and line say it as
//! well as colour does, and a legend says what they mean.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use serde::Serialize;

use crate::base::words::words;
use crate::plan::Plan;
use crate::step::{Stage, StepId};

/// What a picture shows of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Look {
    /// Up to date.
    Fresh,
    /// It would run.
    Run,
    /// It would run, and failed last time.
    Failed,
    /// It would not be executed: its device is not there, or something above it cannot be done.
    Unavailable,
    /// Nothing that can run here needs it.
    NotNeeded,
}

words!(pub Look {
    "up to date" => Fresh, "would run" => Run, "failed last time" => Failed, "unavailable" => Unavailable,
    "not needed" => NotNeeded,
});

impl Look {
    fn class(self) -> &'static str {
        match self {
            Self::Fresh => "fresh",
            Self::Run => "run",
            Self::Failed => "failed",
            Self::Unavailable => "unavailable",
            Self::NotNeeded => "unneeded",
        }
    }

    fn dot(self) -> &'static str {
        match self {
            Self::Fresh => "shape=box style=filled fillcolor=\"#dfeedd\"",
            Self::Run => "shape=box style=\"rounded,bold\" color=\"#1f4e8c\"",
            Self::Failed => {
                "shape=octagon style=\"filled,bold\" fillcolor=\"#f6d5d5\" color=\"#a02020\" peripheries=2"
            }
            Self::Unavailable => "shape=box style=dashed color=\"#777777\" fontcolor=\"#555555\"",
            Self::NotNeeded => "shape=plaintext fontcolor=\"#777777\"",
        }
    }

    fn mermaid(self, name: &str) -> String {
        match self {
            Self::Fresh => format!("[\"{name}\"]"),
            Self::Run => format!("([\"{name}\"])"),
            Self::Failed => format!("{{{{\"{name}\"}}}}"),
            Self::Unavailable => format!("[/\"{name}\"/]"),
            Self::NotNeeded => format!(">\"{name}\"]"),
        }
    }

    fn mermaid_style(self) -> &'static str {
        match self {
            Self::Fresh => "fill:#dfeedd,stroke:#486b48",
            Self::Run => "fill:#ffffff,stroke:#1f4e8c,stroke-width:2px",
            Self::Failed => "fill:#f6d5d5,stroke:#a02020,stroke-width:3px",
            Self::Unavailable => "fill:#ffffff,stroke:#777777,stroke-dasharray:5 3,color:#555555",
            Self::NotNeeded => "fill:#ffffff,stroke:#bbbbbb,color:#777777",
        }
    }
}

/// The chosen steps, what they need, and what needs them.
pub fn around(plan: &Plan, chosen: &BTreeSet<StepId>) -> BTreeSet<StepId> {
    let mut all = plan.upstream(chosen.iter().copied(), |_, _| true);
    all.extend(plan.downstream(chosen.iter().copied()));
    all
}

/// The edges among the shown steps, each once, in the order of the plan.
pub fn edges(plan: &Plan, shown: &BTreeSet<StepId>) -> Vec<(StepId, StepId)> {
    let into = |to: StepId| {
        let from: BTreeSet<_> = plan
            .dependencies(to)
            .filter(|from| shown.contains(from))
            .collect();
        from.into_iter().map(move |from| (from, to))
    };
    shown.iter().flat_map(|to| into(*to)).collect()
}

fn by_stage(plan: &Plan, shown: &BTreeSet<StepId>) -> BTreeMap<Stage, Vec<StepId>> {
    let mut stages: BTreeMap<_, Vec<_>> = BTreeMap::new();
    shown
        .iter()
        .for_each(|id| stages.entry(plan.step(*id).stage).or_default().push(*id));
    stages
}

/// Graphviz.
pub fn dot(plan: &Plan, shown: &BTreeSet<StepId>, look: &dyn Fn(StepId) -> Look) -> String {
    let mut text = String::from(
        "digraph orch {\n  rankdir=LR\n  node [fontname=\"sans-serif\" fontsize=11]\n",
    );
    for (stage, steps) in by_stage(plan, shown) {
        let _ = writeln!(
            text,
            "  subgraph cluster_{0} {{\n    label=\"{0}\"\n    color=\"#cccccc\"",
            stage.word()
        );
        for id in steps {
            let name = escaped(&plan.step(id).name);
            let look = look(id);
            let _ = writeln!(
                text,
                "    s{} [label=\"{name}\" tooltip=\"{name}: {}\" {}]",
                id.0,
                look.word(),
                look.dot()
            );
        }
        text.push_str("  }\n");
    }
    for (from, to) in edges(plan, shown) {
        let _ = writeln!(text, "  s{} -> s{}", from.0, to.0);
    }
    text.push_str("  subgraph cluster_legend {\n    label=\"legend\"\n    style=dotted\n");
    for look in Look::ALL {
        let _ = writeln!(
            text,
            "    legend_{} [label=\"{}\" {}]",
            look.class(),
            look.word(),
            look.dot()
        );
    }
    text.push_str("  }\n}\n");
    text
}

/// What renderers of Mermaid refuse to draw more of: its defaults of `maxEdges` and `maxTextSize`.
const MERMAID_EDGES: usize = 500;
const MERMAID_TEXT: usize = 50_000;

/// Mermaid, as GitHub renders it; and how many steps were left out because renderers would refuse more.
pub fn mermaid(
    plan: &Plan,
    shown: &BTreeSet<StepId>,
    look: &dyn Fn(StepId) -> Look,
) -> (String, usize) {
    let drawn = drawable(plan, shown);
    let left_out = shown.len() - drawn.len();
    let mut text = String::from("flowchart LR\n");
    for (stage, steps) in by_stage(plan, &drawn) {
        let _ = writeln!(text, "  subgraph stage_{0}[\"{0}\"]", stage.word());
        for id in steps {
            let look = look(id);
            let _ = writeln!(
                text,
                "    s{}{}:::{}",
                id.0,
                look.mermaid(&plan.step(id).name),
                look.class()
            );
        }
        text.push_str("  end\n");
    }
    for (from, to) in edges(plan, &drawn) {
        let _ = writeln!(text, "  s{} --> s{}", from.0, to.0);
    }
    if left_out > 0 {
        let _ = writeln!(text, "  left_out[\"not drawn: {left_out} more\"]");
    }
    text.push_str("  subgraph legend[\"legend\"]\n");
    for look in Look::ALL {
        let _ = writeln!(
            text,
            "    legend_{0}{1}:::{0}",
            look.class(),
            look.mermaid(look.word())
        );
    }
    text.push_str("  end\n");
    for look in Look::ALL {
        let _ = writeln!(text, "  classDef {} {}", look.class(), look.mermaid_style());
    }
    (text, left_out)
}

/// The first steps, as many as a renderer takes with the edges among them.
fn drawable(plan: &Plan, shown: &BTreeSet<StepId>) -> BTreeSet<StepId> {
    // The legend, the classes and the frames of the stages.
    let mut bytes = 2_000;
    let mut edges = 0;
    let mut drawn = BTreeSet::new();
    for id in shown {
        let into = plan
            .dependencies(*id)
            .filter(|from| drawn.contains(from))
            .collect::<BTreeSet<_>>()
            .len();
        bytes += plan.step(*id).name.len() + 40 + into * 24;
        edges += into;
        if bytes > MERMAID_TEXT || edges > MERMAID_EDGES {
            break;
        }
        drawn.insert(*id);
    }
    drawn
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}
