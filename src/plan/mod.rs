//! The graph of steps that a matrix needs: deterministic, acyclic, immutable, and the same on every host.
//!
//! Whether a step must run, and whether its device is there, is `exec`'s concern.

mod build;
mod clock;
mod graph;
mod narrow;
mod render;
mod sizes;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use crate::base::Loc;
use crate::matrix::{Batch, Case, ExcludedCase};
use crate::record::Weights;
use crate::step::{Step, StepId};

use graph::Graph;

pub use build::{build, build_with};
pub use clock::{Clock, asks_for_software};
pub use graph::CycleError;
pub use render::{Look, around, dot, edges, mermaid};

pub struct Plan {
    /// Indexed by [`StepId`]; every step stands after those it depends on.
    pub steps: Vec<Step>,
    pub cases: Vec<PlannedCase>,
    pub excluded: Vec<ExcludedCase>,
    /// What the report says of each model.
    pub model_facts: BTreeMap<String, ModelFacts>,
    /// Runs, and their tests, that stand by: they are of no case, and wanted only when the run of one did not pass.
    pub standby: BTreeSet<StepId>,
    index: HashMap<String, StepId>,
    graph: Graph,
    /// The cases that rest on a step, by their places in `cases`.
    resting: HashMap<StepId, Vec<u32>>,
}

#[derive(Debug, Clone)]
pub struct ModelFacts {
    /// The model type of the class in the locked transformers.
    pub model_type: Option<&'static str>,
    pub family: String,
    pub task: String,
    pub weights: Weights,
    /// Its row in a spec.
    pub row: Loc,
}

/// A case and the steps that answer it.
#[derive(Debug, Clone)]
pub struct PlannedCase {
    pub case: Case,
    /// The generated test.
    pub test: StepId,
    pub run: StepId,
    /// The verdict on what it gave: how the case ends.
    pub judge: StepId,
    /// Further rounds of its run, from the second on: they are timed, and not judged.
    pub rounds: Vec<StepId>,
    /// Everything that the verdict depends on, the verdict, and the further rounds, in order of execution.
    pub chain: Vec<StepId>,
    /// What is tried in its place, in this order.
    pub fallbacks: Vec<PlannedFallback>,
}

/// A planned case on another target, or at a smaller size on its own target.
#[derive(Debug, Clone)]
pub struct PlannedFallback {
    pub case: Case,
    /// It is smaller.
    pub batch: Option<Batch>,
    pub test: StepId,
    pub run: StepId,
    pub judge: StepId,
}

impl PlannedCase {
    /// The case in a plan where each step has another number; further rounds may be left out there, and parts of its chain.
    fn renumbered(self, new: &impl Fn(StepId) -> Option<StepId>) -> Self {
        let [test, run, judge] = own([self.test, self.run, self.judge], new);
        let fallbacks = self.fallbacks.into_iter().map(|fallback| {
            let [test, run, judge] = own([fallback.test, fallback.run, fallback.judge], new);
            PlannedFallback {
                test,
                run,
                judge,
                ..fallback
            }
        });
        let rounds = self.rounds.into_iter().filter_map(new).collect();
        let chain = self.chain.into_iter().filter_map(new).collect();
        Self {
            case: self.case,
            test,
            run,
            judge,
            rounds,
            chain,
            fallbacks: fallbacks.collect(),
        }
    }
}

fn own(steps: [StepId; 3], new: &impl Fn(StepId) -> Option<StepId>) -> [StepId; 3] {
    steps.map(|id| new(id).expect("BUG: a case is planned without a step of its own"))
}

impl Plan {
    /// A plan of steps that stand after those they depend on.
    pub fn new(
        steps: Vec<Step>,
        cases: Vec<PlannedCase>,
        excluded: Vec<ExcludedCase>,
        model_facts: BTreeMap<String, ModelFacts>,
    ) -> Self {
        let index = steps
            .iter()
            .zip(0..)
            .map(|(step, id)| (step.name.clone(), StepId(id)))
            .collect();
        let graph = Graph::of(&steps);
        let mut plan = Self {
            steps,
            cases,
            excluded,
            model_facts,
            standby: BTreeSet::new(),
            index,
            graph,
            resting: HashMap::new(),
        };
        plan.note_cases();
        plan
    }

    /// Fills in what follows from the cases.
    fn note_cases(&mut self) {
        for (planned, at) in self.cases.iter().zip(0..) {
            planned
                .chain
                .iter()
                .for_each(|id| self.resting.entry(*id).or_default().push(at));
        }
        let spare = self.cases.iter().flat_map(|planned| &planned.fallbacks);
        let spare: BTreeSet<_> = spare
            .flat_map(|fallback| [fallback.judge, fallback.run, fallback.test])
            .collect();
        if !spare.is_empty() {
            let own = self
                .cases
                .iter()
                .flat_map(|planned| [planned.judge, planned.run, planned.test])
                .collect();
            self.standby = &spare - &own;
        }
    }

    pub fn step(&self, id: StepId) -> &Step {
        &self.steps[id.0 as usize]
    }

    pub fn ids(&self) -> impl Iterator<Item = StepId> + use<> {
        (0..self.steps.len() as u32).map(StepId)
    }

    pub fn find(&self, name: &str) -> Option<StepId> {
        self.index.get(name).copied()
    }

    /// The steps' names in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &str> + Clone {
        let mut names: Vec<&str> = self.steps.iter().map(|step| step.name.as_str()).collect();
        names.sort_unstable();
        names.into_iter()
    }

    /// Gives each step a number that it shares with all steps that hang together with it: those of a model, of whatever
    /// is made of it, and of the targets it runs on.
    pub fn families(&self) -> Vec<u32> {
        self.graph.families(&self.steps)
    }

    /// The cases that end with this step if it fails.
    pub fn resting_on(&self, id: StepId) -> impl Iterator<Item = &PlannedCase> {
        self.resting
            .get(&id)
            .into_iter()
            .flatten()
            .map(|at| &self.cases[*at as usize])
    }

    /// The user's files and folders that steps read; one that several read comes as often.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.steps.iter().flat_map(Step::files)
    }

    /// The user's folders of which steps read files that were found by listing them.
    pub fn listed_folders(&self) -> BTreeSet<PathBuf> {
        self.steps.iter().flat_map(Step::listed_folders).collect()
    }

    /// The steps whose output this one reads.
    pub fn dependencies(&self, id: StepId) -> impl Iterator<Item = StepId> + '_ {
        self.step(id).dependencies()
    }
}
