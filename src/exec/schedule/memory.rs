//! Estimates how much memory a step will take, of the machine and of its device. It is what the user says, else what
//! the step took the last time, else what similar steps took, else a guess from the size of its inputs.
//!
//! Records are not read for this alone: peaks come with look-ups that miss. Small and unknown steps claim nothing, so
//! trivial steps all have the same claim.

use std::collections::{BTreeSet, HashMap};
use std::num::NonZeroU64;

use crate::base::figures::bytes;
use crate::exec::schedule::resources::{Capacity, Claim, Host};
use crate::plan::Plan;
use crate::record::Record;
use crate::step::{MemoryGuess, Stage, Step, StepId};
use crate::store::DiskStore;

/// What takes less is not counted: the kernel's own slack is larger.
const LITTLE: u64 = 64 << 20;

/// The most memory that an execution held, bytes, as far as that is known.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Peaks {
    host: Option<u64>,
    /// The peak by the device's driver; a run on the CPU has none.
    device: Option<u64>,
}

impl Peaks {
    pub(super) fn of(record: Option<&Record>) -> Self {
        let Some(record) = record else {
            return Self::default();
        };
        let measure = record.measure.as_ref();
        Self {
            host: record.peak_rss_bytes(),
            device: measure.and_then(|measure| measure.peak_device_bytes),
        }
    }
}

pub(super) struct Memory {
    host: Book,
    device: Book,
    /// The steps of a model at a stage; made when it is first needed.
    relatives: Option<Relatives>,
}

/// Stage and model of a step that works on a model: `convert:bert:onnx`.
type Like = (Stage, String);
type Relatives = HashMap<Like, Vec<StepId>>;

/// What is known of the steps of a run.
pub(super) struct Known<'a> {
    pub(super) plan: &'a Plan,
    pub(super) store: &'a DiskStore,
    /// Bytes of a step's output; 0 where there is none.
    pub(super) size: &'a dyn Fn(StepId) -> u64,
}

/// What is known of one memory.
struct Book {
    /// The one of an execution's peaks that is this one's, bytes.
    peak: fn(&Peaks) -> Option<u64>,
    /// Peaks of steps, from their latest records.
    own: HashMap<StepId, u64>,
    /// The largest peak of a model's steps of one stage.
    like: HashMap<Like, u64>,
    /// Steps with a warning that they need more than there is.
    warned: BTreeSet<StepId>,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            host: Book::new(|peaks| peaks.host),
            device: Book::new(|peaks| peaks.device),
            relatives: None,
        }
    }
}

impl Memory {
    /// Takes in what a step took the last time that it was executed.
    pub(super) fn learn(&mut self, id: StepId, peaks: Peaks) {
        self.host.learn(id, &peaks);
        self.device.learn(id, &peaks);
    }

    /// Takes in what a step took in this run. Gives a warning if that is more than the user's `memory`.
    pub(super) fn executed(&mut self, id: StepId, step: &Step, record: &Record) -> Option<String> {
        let peaks = Peaks::of(Some(record));
        self.host.executed(id, step, &peaks);
        self.device.executed(id, step, &peaks);
        let stated = step.memory?.get();
        let took = peaks.host?;
        let [stated, took] = (took > stated).then(|| [stated, took].map(bytes))?;
        Some(format!(
            "{} took {took} of memory, and its `memory` says {stated}",
            step.name
        ))
    }

    /// Bytes, rounded up so that steps which take about the same claim the same; 0 where nothing is known. What the user
    /// says counts as it is.
    pub(super) fn claim(&mut self, id: StepId, known: &Known<'_>) -> u64 {
        let step = known.plan.step(id);
        let learnt = || {
            self.host
                .claim(id, step.kind.memory(), &mut self.relatives, known, |_| true)
        };
        step.memory.map_or_else(learnt, NonZeroU64::get)
    }

    /// What a step claims of a device's own memory. Of its inputs, only the artefact is loaded there.
    pub(super) fn device_claim(&mut self, id: StepId, known: &Known<'_>) -> u64 {
        let guess = known.plan.step(id).kind.device_memory();
        self.device
            .claim(id, guess, &mut self.relatives, known, |input| {
                input == "artefact"
            })
    }

    /// Warnings for a claim that is more than there is; each step gets them once.
    pub(super) fn warn_too_large(
        &mut self,
        id: StepId,
        step: &str,
        claim: &Claim,
        capacity: &Capacity,
    ) -> impl Iterator<Item = String> {
        let takes = claim.memory;
        let free = capacity.memory;
        let is_too_large = takes > free && claim.host != Host::Whole;
        let of_host = (is_too_large && self.host.warned.insert(id)).then(|| {
            let takes = bytes(takes);
            let free = bytes(free);
            format!("{step} may take {takes} of memory, and {free} are free: it runs alone")
        });
        let of_device = claim.device.as_ref().and_then(|device| {
            let units = device.any_of.iter().map(|at| &capacity.units[*at]);
            let unit = units.filter(|unit| unit.vram.is_some()).min_by_key(|unit| unit.vram)?;
            let has = unit.vram.filter(|has| device.vram > *has)?;
            let [takes, has] = [device.vram, has].map(bytes);
            self.device.warned.insert(id).then(|| {
                let token = &unit.token;
                format!("{step} may take {takes} of the memory of {token}, which has {has}: it runs there alone")
            })
        });
        of_host.into_iter().chain(of_device)
    }
}

impl Book {
    fn new(peak: fn(&Peaks) -> Option<u64>) -> Self {
        Self {
            peak,
            own: HashMap::new(),
            like: HashMap::new(),
            warned: BTreeSet::new(),
        }
    }

    fn learn(&mut self, id: StepId, peaks: &Peaks) {
        if let Some(peak) = (self.peak)(peaks).filter(|peak| *peak >= LITTLE) {
            self.own.insert(id, peak);
        }
    }

    fn executed(&mut self, id: StepId, step: &Step, peaks: &Peaks) {
        self.learn(id, peaks);
        if let (Some(peak), Some(like)) = ((self.peak)(peaks), like(step)) {
            let known = self.like.entry(like).or_default();
            *known = peak.max(*known);
        }
    }

    /// `loads`: which of its inputs it holds there.
    fn claim(
        &mut self,
        id: StepId,
        guess: Option<MemoryGuess>,
        relatives: &mut Option<Relatives>,
        known: &Known<'_>,
        loads: fn(&str) -> bool,
    ) -> u64 {
        if let Some(peak) = self.own.get(&id) {
            return rounded(*peak);
        }
        let Some(guess) = guess else { return 0 };
        let step = known.plan.step(id);
        if let Some(peak) = self.of_its_like(step, relatives, known) {
            return rounded(peak + peak / 4);
        }
        let reads: u64 = step
            .trees()
            .filter(|(name, _)| loads(name))
            .map(|(_, from)| (known.size)(from))
            .sum();
        rounded(guess.base + guess.factor * reads)
    }

    /// The largest peak of steps of the same model and stage, in this run or on record.
    fn of_its_like(
        &mut self,
        step: &Step,
        relatives: &mut Option<Relatives>,
        known: &Known<'_>,
    ) -> Option<u64> {
        let Known { plan, store, .. } = known;
        let like = like(step)?;
        if let Some(peak) = self.like.get(&like) {
            return Some(*peak).filter(|peak| *peak > 0);
        }
        let others = relatives
            .get_or_insert_with(|| all_relatives(plan))
            .get(&like)
            .into_iter()
            .flatten();
        let records = others.filter_map(|id| store.latest(&plan.step(*id).name).ok().flatten());
        let largest = records
            .filter_map(|record| (self.peak)(&Peaks::of(Some(&record))))
            .max();
        // That nothing is known is remembered too.
        self.like.insert(like, largest.unwrap_or(0));
        largest
    }
}

fn all_relatives(plan: &Plan) -> Relatives {
    let mut all = Relatives::new();
    for id in plan.ids() {
        if let Some(like) = like(plan.step(id)) {
            all.entry(like).or_default().push(id);
        }
    }
    all
}

fn like(step: &Step) -> Option<Like> {
    step.kind.memory()?;
    Some((step.stage, step.name.split(':').nth(1)?.to_owned()))
}

/// Up to the next of 4, 5, 6, 7 times a power of two. Nothing, below [`LITTLE`].
fn rounded(bytes: u64) -> u64 {
    if bytes < LITTLE {
        return 0;
    }
    let quarter = 1 << (bytes.ilog2() - 2);
    bytes.div_ceil(quarter).saturating_mul(quarter)
}

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;
