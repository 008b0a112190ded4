//! The steps below changed sources, as a plan of their own.
//!
//! What they read of other steps is known from the settlement; everything else is the scheduler's usual work, so keys,
//! records, messages and the early stop are those of an ordinary run.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use crate::exec::{self, Context, How, Part};
use crate::plan::Plan;
use crate::record::Outcome;
use crate::report::{ReportDoc, RunPath};
use crate::settled::look::{Changes, Settled};
use crate::settled::state_file::{is_unchanged, stamp};
use crate::settled::{Place, leaves_nothing, plan_file, step_form};
use crate::step::{self, Source, Stage, Step, StepId};
use crate::store::sealed::damaged;
use crate::store::table::TableBuilder;
use crate::store::{FileDigests, Hashed, StoreError};

pub struct Cone {
    settled: Settled,
    changes: Changes,
    /// By step of the part: its number in the whole plan.
    numbers: Vec<u32>,
    /// The steps of the part that are only read.
    known: BTreeSet<StepId>,
}

pub struct ConeEnded {
    /// Of the whole plan.
    pub doc: ReportDoc,
    pub has_report: bool,
    pub interrupted: bool,
    pub failed: bool,
    /// By a bug of orch's own.
    pub met_bug: bool,
    /// Something that it reads is not as it was published: only the ordinary path can make it again.
    pub lost: bool,
    /// The names of the steps that were executed.
    pub executed: Vec<String>,
}

impl Cone {
    /// None if something other than commands lies in it.
    pub(super) fn new(settled: Settled, changes: Changes) -> io::Result<Option<(Self, Plan)>> {
        let Some(cone) = affected(&settled, &changes.inputs)? else { return Ok(None) };
        let mut steps = BTreeMap::new();
        for number in &cone {
            let step = plan_file::text(&settled.plan, plan_file::STEPS, *number)?;
            let step = step_form::decode(&step).ok_or_else(|| damaged("a step cannot be read"))?;
            steps.insert(*number, step);
        }
        let read: BTreeSet<u32> = steps.values().flat_map(reads).filter(|n| !cone.contains(n)).collect();
        for number in &read {
            let name = plan_file::text(&settled.plan, plan_file::NAMES, *number)?;
            let name = String::from_utf8(name).map_err(|_| damaged("a name is not UTF-8"))?;
            if settled.output(*number)?.is_none() {
                return Ok(None);
            }
            // Only its name and its output are looked at: it is known to be done.
            steps.insert(*number, stand_in(name, Stage::Command, &step::COMMAND));
        }
        let numbers: Vec<u32> = steps.keys().copied().collect();
        let id = |number: u32| numbers.binary_search(&number).map(|at| StepId(at as u32));
        let known = read.iter().map(|number| id(*number).expect("BUG: just inserted")).collect();
        let mut part: Vec<Step> = steps.into_values().collect();
        for (_, source) in part.iter_mut().flat_map(|step| &mut step.inputs) {
            if let Source::Step(from) = source {
                *from = id(from.0).map_err(|_| damaged("a step reads one that is not there"))?;
            }
        }
        part.push(stand_in("report".into(), Stage::Report, &step::REPORT));
        Ok(Some((Self { settled, changes, numbers, known }, Plan::part(part))))
    }

    /// Performs it, with the plan that came with it, and brings the settlement up to date if nothing is left to do.
    pub fn run(mut self, place: &Place, context: &Context<'_>) -> Result<ConeEnded, StoreError> {
        let plan = context.plan;
        let broken = |e: io::Error| StoreError::Io { action: "read", path: place.plan.clone(), source: e };
        let outputs = self.known.iter().map(|id| Ok((*id, self.settled.output(self.numbers[id.0 as usize])?)));
        let part = Part {
            known: outputs.collect::<io::Result<_>>().map_err(broken)?,
            files: FileDigests::of(Default::default(), self.files(plan).map_err(broken)?),
            steps: self.settled.doc.summary.steps,
        };
        let ended = exec::run_part(context, part)?;
        let own = || plan.ids().filter(|id| !self.known.contains(id) && *id != plan.report);
        let result = |id: StepId| &ended.results[id.0 as usize];
        let executed: Vec<_> = own().filter(|id| result(*id).how == How::Executed).collect();
        let hits = own().filter(|id| result(*id).how == How::Hit).count() as u32;
        let mut doc = self.settled.doc.clone();
        doc.summary.path = RunPath::Cone;
        doc.summary.executed = executed.len() as u32;
        doc.summary.fetched = own().filter(|id| result(*id).fetched).count() as u32;
        // What is said of the others holds on.
        doc.flaky_steps.retain(|flaky| !own().any(|id| plan.step(id).name == flaky.step));
        doc.flaky_steps.extend(exec::flaky_steps(context, &ended.results));
        doc.summary.hits = doc.summary.hits - own().count() as u32 + hits;
        let failed = own().any(|id| result(id).how != How::NotNeeded && result(id).outcome.is_failure());
        let is_settled = !ended.lost
            && !ended.interrupted
            && ended.files.found().is_some()
            && own().all(|id| leaves_nothing(result(id)) && result(id).outcome == Outcome::Pass);
        let end = ConeEnded {
            doc,
            has_report: self.settled.head.has_report,
            interrupted: ended.interrupted,
            failed,
            met_bug: ended.met_bug,
            lost: ended.lost,
            executed: executed.iter().map(|id| plan.step(*id).name.clone()).collect(),
        };
        if is_settled {
            let outputs = own().filter_map(|id| Some((self.numbers[id.0 as usize], result(id).output()?)));
            let outputs: Vec<_> = outputs.collect();
            self.settled.state.outputs.extend(outputs);
            self.keep(place);
        }
        context.store.keep_index();
        Ok(end)
    }

    /// Writes what is right from now on. A state that is not written makes the next run an ordinary one.
    fn keep(mut self, place: &Place) {
        let state = &mut self.settled.state;
        state.inputs.extend(&self.changes.input_patches);
        state.inside.extend(&self.changes.inside_patches);
        // Only folders of the store may have changed, by what these steps made.
        if is_unchanged(&state.guards.kept) && stamp(&mut state.guards.fans) {
            let _ = state.write(&place.state);
        }
    }

    /// The files that steps of the cone read.
    fn files(&self, plan: &Plan) -> io::Result<Hashed> {
        let settled = &self.settled;
        let mut rows: Vec<u32> = Vec::new();
        for path in plan.files() {
            rows.push(settled.inputs.find(path).ok_or_else(|| damaged("a step reads a file that is not there"))?);
        }
        rows.sort_unstable();
        rows.dedup();
        let (mut builder, mut stamps, mut digests) = (TableBuilder::default(), Vec::new(), Vec::new());
        for row in rows {
            let (folder, name) = settled.inputs.row(row);
            builder.push(folder, name);
            let (stamp, digest) = match self.changes.input_patches.get(&row) {
                Some(patch) => (patch.stamp, patch.digest),
                None => (settled.stamp(row), settled.digest(row)?),
            };
            stamps.extend_from_slice(&stamp.bytes());
            digests.push(digest);
        }
        Ok(Hashed { table: builder.finish(stamps), digests, at: settled.head.at, inside: BTreeMap::new() })
    }
}

/// The steps that read one of these inputs, and all that depend on them. None if one is not a command that passed.
fn affected(settled: &Settled, inputs: &[u32]) -> io::Result<Option<BTreeSet<u32>>> {
    let plan = &settled.plan;
    let mut open = Vec::new();
    for input in inputs {
        let ends = plan.numbers_at(plan_file::READERS_AT, *input..*input + 2)?;
        open.extend(plan.numbers_at(plan_file::READERS, ends[0]..ends[1])?);
    }
    let classes = plan.section(plan_file::CLASSES)?;
    let (begins, dependents) = (plan.numbers(plan_file::DEPENDENTS_AT)?, plan.numbers(plan_file::DEPENDENTS)?);
    let mut found = BTreeSet::new();
    while let Some(step) = open.pop() {
        if !found.insert(step) {
            continue;
        }
        if classes.get(step as usize) != Some(&plan_file::COMMAND) {
            return Ok(None);
        }
        let (begin, end) = (begins[step as usize] as usize, begins[step as usize + 1] as usize);
        open.extend(&dependents[begin..end]);
    }
    Ok(Some(found))
}

/// The steps that a step reads.
fn reads(step: &Step) -> impl Iterator<Item = u32> {
    step.inputs.iter().filter_map(|(_, source)| match source {
        Source::Step(from) => Some(from.0),
        Source::File(_) | Source::Record(_) => None,
    })
}

fn stand_in(name: String, stage: Stage, kind: &'static dyn step::StepKind) -> Step {
    Step {
        name,
        stage,
        kind,
        params: serde_json::json!({}).into(),
        inputs: vec![],
        timeout_seconds: 60,
        memory: None,
        retries: None,
    }
}
