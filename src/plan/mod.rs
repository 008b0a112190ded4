//! The graph of steps that a matrix needs: deterministic, acyclic, immutable, and the same on every host.
//!
//! Whether a step must run, and whether its device is there, is `exec`'s concern.

mod build;
mod graph;
mod narrow;
mod part;
mod render;

use std::collections::BTreeMap;
use std::path::Path;

use crate::matrix::{Case, ExcludedCase};
use crate::step::{Source, Step, StepId};

pub use build::build;
pub use graph::CycleError;
pub use render::{Look, around, dot, edges, mermaid};

pub struct Plan {
    /// Indexed by [`StepId`]; every step stands after those it depends on.
    pub steps: Vec<Step>,
    pub cases: Vec<PlannedCase>,
    pub excluded: Vec<ExcludedCase>,
    pub report: StepId,
    /// What the report says of each model.
    pub model_facts: BTreeMap<String, ModelFacts>,
    by_name: BTreeMap<String, StepId>,
    /// Steps that read this one's output or record, by step.
    dependents: Vec<Vec<StepId>>,
}

#[derive(Debug, Clone)]
pub struct ModelFacts {
    pub family: String,
    pub task: String,
}

/// A case and the steps that answer it.
#[derive(Debug, Clone)]
pub struct PlannedCase {
    pub case: Case,
    /// The generated test.
    pub test: StepId,
    pub run: StepId,
    /// Everything that the run depends on, and the run, in order of execution.
    pub chain: Vec<StepId>,
}

impl Plan {
    pub fn step(&self, id: StepId) -> &Step {
        &self.steps[id.0 as usize]
    }

    pub fn ids(&self) -> impl Iterator<Item = StepId> + use<> {
        (0..self.steps.len() as u32).map(StepId)
    }

    pub fn find(&self, name: &str) -> Option<StepId> {
        self.by_name.get(name).copied()
    }

    pub fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.by_name.keys().map(String::as_str)
    }

    pub fn dependents(&self, id: StepId) -> &[StepId] {
        &self.dependents[id.0 as usize]
    }

    /// The user's files and folders that steps read; one that several read comes as often.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let sources = self.steps.iter().flat_map(|step| &step.inputs);
        sources.filter_map(|(_, source)| match source {
            Source::File(path) => Some(path.as_path()),
            Source::Step(_) | Source::Record(_) => None,
        })
    }

    /// The steps whose output or record this one reads.
    pub fn dependencies(&self, id: StepId) -> impl Iterator<Item = StepId> {
        self.step(id).inputs.iter().filter_map(|(_, source)| match source {
            Source::Step(id) | Source::Record(id) => Some(*id),
            Source::File(_) => None,
        })
    }
}
