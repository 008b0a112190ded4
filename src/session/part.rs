//! One part of a plan, for one of several machines.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::base::Digest;
use crate::matrix::{Partition, Unit, assign};
use crate::plan::Plan;
use crate::report::ReportDoc;
use crate::session::usage;
use crate::step::{Stage, StepId};

/// Digits of the digest by which parts of one division know each other.
const DIGITS: usize = 8;

/// What a part is made of.
pub(super) enum Part {
    /// A division by the id of each case or command.
    OfIds(Partition),
    /// A division by what hangs together.
    OfModels {
        partition: Partition,
        division: Division,
    },
}

impl Part {
    /// `durations`: the report of an earlier run.
    pub(super) fn of(
        partition: &Partition,
        plan: &Plan,
        durations: Option<&Path>,
    ) -> anyhow::Result<Self> {
        let partition = *partition;
        if !partition.is_by_model() {
            if durations.is_some() {
                usage!(
                    "`--durations` is of a partition by model, and `{partition}` is none\n  hint: --partition model:{}/{}",
                    partition.part() + 1,
                    partition.parts()
                );
            }
            return Ok(Self::OfIds(partition));
        }
        let known = durations.map(Known::read).transpose()?;
        let division = Division::of(plan, partition.parts(), &known.unwrap_or_default());
        Ok(Self::OfModels {
            partition,
            division,
        })
    }

    /// How a report names it. Parts that do not belong together differ in what stands before the colon.
    pub(super) fn label(&self) -> String {
        match self {
            Self::OfIds(partition) => format!("partition {partition}"),
            Self::OfModels {
                partition,
                division,
            } => format!(
                "partition model-{}:{}/{}",
                division.digest(),
                partition.part() + 1,
                partition.parts()
            ),
        }
    }

    /// Leaves the part of what is wanted. A case goes as a whole, its run and its test.
    pub(super) fn take<T>(
        &self,
        plan: &Plan,
        wanted: &mut BTreeSet<StepId>,
        excluded: &mut BTreeMap<String, T>,
    ) {
        match self {
            Self::OfIds(partition) => take_ids(partition, plan, wanted, excluded),
            Self::OfModels {
                partition,
                division,
            } => {
                let mine = |unit: &str| division.parts.get(unit) == Some(&partition.part());
                wanted.retain(|id| mine(&division.units[id.0 as usize]));
                let models = models_of_excluded(plan);
                excluded.retain(|case, _| mine(&division.unit_of_model(&models[case])));
            }
        }
    }
}

fn take_ids<T>(
    partition: &Partition,
    plan: &Plan,
    wanted: &mut BTreeSet<StepId>,
    excluded: &mut BTreeMap<String, T>,
) {
    let of_cases: BTreeMap<StepId, String> = plan
        .cases
        .iter()
        .flat_map(|planned| {
            let own = [planned.test, planned.run, planned.judge]
                .into_iter()
                .chain(planned.rounds.iter().copied());
            own.map(|step| (step, planned.case.id()))
        })
        .collect();
    let unit = |id: &StepId| {
        of_cases
            .get(id)
            .map_or(plan.step(*id).name.as_str(), String::as_str)
    };
    let excluded_ids: Vec<String> = excluded.keys().cloned().collect();
    let all = wanted
        .iter()
        .map(unit)
        .chain(excluded_ids.iter().map(String::as_str))
        .collect();
    let mine = partition.pick(&all);
    wanted.retain(|id| mine.contains(unit(id)));
    excluded.retain(|case, _| mine.contains(case.as_str()));
}

/// What an earlier run left.
#[derive(Default)]
struct Known {
    /// The seconds of steps, by their names.
    seconds: BTreeMap<String, f64>,
    /// The part in which a model was, from 0, and the number of parts.
    parts: BTreeMap<String, (u64, u64)>,
}

impl Known {
    fn read(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        let text = match std::fs::read(path) {
            Ok(text) => text,
            Err(error) => usage!(
                "failed to read `{shown}`: {error}\n  hint: `--durations` takes the matrix.json of an earlier run"
            ),
        };
        let doc: ReportDoc = match serde_json::from_slice(&text) {
            Ok(doc) => doc,
            Err(error) => usage!("`{shown}` is no report of this orch: {error}"),
        };
        let mut known = Self::default();
        for case in &doc.cases {
            let took = case.took.iter();
            known
                .seconds
                .extend(took.map(|(step, seconds)| (step.clone(), *seconds)));
            let part = case.part.as_deref().or(doc.scope.as_deref());
            if let Some(part) = part.and_then(part_in) {
                known.parts.insert(case.model.clone(), part);
            }
        }
        Ok(known)
    }

    /// How long a step takes, seconds: what it took, or else what others of its stage took.
    fn seconds(&self, plan: &Plan) -> Vec<f64> {
        let mut of_stage: BTreeMap<Stage, (f64, f64)> = BTreeMap::new();
        for id in plan.ids() {
            let step = plan.step(id);
            if let Some(seconds) = self.seconds.get(&step.name) {
                let (sum, count) = of_stage.entry(step.stage).or_default();
                *sum += seconds;
                *count += 1.0;
            }
        }
        let usual = |stage: Stage| {
            let seen = of_stage.get(&stage).map(|(sum, count)| sum / count);
            // About what a small model takes.
            seen.unwrap_or(match stage {
                Stage::Generate => 6.0,
                Stage::Convert => 4.0,
                Stage::Run => 2.0,
                Stage::Judge => 0.05,
                Stage::Command => 1.0,
            })
        };
        plan.ids()
            .map(|id| {
                let step = plan.step(id);
                let known = self.seconds.get(&step.name).copied();
                known.unwrap_or_else(|| usual(step.stage))
            })
            .collect()
    }
}

/// The part, from 0, and the number of parts that a report's scope names, of a partition by model.
fn part_in(scope: &str) -> Option<(u64, u64)> {
    let (_, division) = scope.rsplit_once("partition model-")?;
    let (_, numbers) = division.split_once(':')?;
    let (part, parts) = numbers.split_once('/')?;
    let part: u64 = part.parse().ok()?;
    Some((part.checked_sub(1)?, parts.parse().ok()?))
}

/// The work of each part of a whole plan: what is requested of it changes nothing.
pub(super) struct Division {
    /// The unit of each step, by the name of its first model or step.
    units: Vec<String>,
    /// The unit of each model.
    models: BTreeMap<String, String>,
    /// The part of each unit, from 0.
    parts: BTreeMap<String, u64>,
}

impl Division {
    fn of(plan: &Plan, parts: u64, known: &Known) -> Self {
        let families = plan.families();
        let family = |id: StepId| families[id.0 as usize];
        // A family is called by its first model, or by its first step where it has none.
        let mut names: BTreeMap<u32, String> = BTreeMap::new();
        for planned in &plan.cases {
            let model = &planned.case.model;
            let name = names
                .entry(family(planned.run))
                .or_insert_with(|| model.clone());
            if model < name {
                name.clone_from(model);
            }
        }
        for id in plan.ids() {
            names
                .entry(family(id))
                .or_insert_with(|| plan.step(id).name.clone());
        }
        let mut units: Vec<String> = plan.ids().map(|id| names[&family(id)].clone()).collect();
        // A generated test reads nothing, and belongs to its case.
        let mut tests = BTreeSet::new();
        for planned in &plan.cases {
            let unit = names[&family(planned.run)].clone();
            let own = planned.fallbacks.iter().map(|fallback| fallback.test);
            for test in own.chain([planned.test]) {
                units[test.0 as usize].clone_from(&unit);
                tests.insert(test);
            }
        }
        let models: BTreeMap<String, String> = plan
            .cases
            .iter()
            .map(|planned| {
                let unit = names[&family(planned.run)].clone();
                (planned.case.model.clone(), unit)
            })
            .collect();
        let mut work: BTreeMap<&str, Unit> = BTreeMap::new();
        let nothing = Unit {
            seconds: 0.0,
            before: None,
        };
        let seconds = known.seconds(plan);
        for id in plan.ids().filter(|id| !tests.contains(id)) {
            let at = id.0 as usize;
            work.entry(&units[at]).or_insert(nothing).seconds += seconds[at];
        }
        // A model of which all cases are excluded is a unit without work.
        let excluded: Vec<String> = models_of_excluded(plan).into_values().collect();
        for model in &excluded {
            if !models.contains_key(model) {
                work.entry(model).or_insert(nothing);
            }
        }
        for (model, unit) in &models {
            let before = known.parts.get(model).filter(|(_, all)| *all == parts);
            if let Some((part, _)) = before {
                let unit = work.get_mut(unit.as_str());
                unit.expect("BUG: each unit has work").before = Some(*part);
            }
        }
        let parts = assign(&work, parts)
            .into_iter()
            .map(|(unit, part)| (unit.to_owned(), part))
            .collect();
        Self {
            units,
            models,
            parts,
        }
    }

    fn unit_of_model(&self, model: &str) -> String {
        self.models
            .get(model)
            .map_or_else(|| model.to_owned(), String::clone)
    }

    /// The digest of the assignment of units to parts.
    fn digest(&self) -> String {
        let text: String = self
            .parts
            .iter()
            .map(|(unit, part)| format!("{unit}\t{part}\n"))
            .collect();
        Digest::of(text.as_bytes()).to_string()[..DIGITS].to_owned()
    }
}

fn models_of_excluded(plan: &Plan) -> BTreeMap<String, String> {
    plan.excluded
        .iter()
        .map(|excluded| (excluded.case.id(), excluded.case.model.clone()))
        .collect()
}
