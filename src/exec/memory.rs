//! How much memory a step will take: what it took when it was last executed, else what its like took, else a guess from
//! the size of what it reads.
//!
//! Nothing is looked up for this alone: records come by when steps miss. A step of which nothing is known claims nothing,
//! as do all that take little, so a million trivial steps are all alike and cost nothing.

use std::cell::RefCell;
use std::collections::HashMap;

use crate::plan::Plan;
use crate::record::Record;
use crate::step::{Source, Stage, Step, StepId, StepSet};
use crate::store::DiskStore;

/// What takes less is not counted: the kernel's own slack is larger.
const LITTLE: u64 = 64 << 20;

#[derive(Default)]
pub(super) struct Memory {
    /// Peaks of steps, bytes, from their latest records.
    own: RefCell<HashMap<StepId, u64>>,
    /// The largest peak of a model's steps of one stage.
    like: HashMap<(Stage, String), u64>,
    /// The steps of a model at a stage; made when it is first asked for.
    relatives: Option<HashMap<(Stage, String), Vec<StepId>>>,
    /// Steps of which it was said that they take more than there is.
    pub(super) told: StepSet,
}

impl Memory {
    /// Takes in the latest record of a step that will be executed.
    pub(super) fn learn(&self, id: StepId, record: &Record) {
        if let Some(peak) = peak(record).filter(|peak| *peak >= LITTLE) {
            self.own.borrow_mut().insert(id, peak);
        }
    }

    /// Takes in what a step took in this run.
    pub(super) fn executed(&mut self, id: StepId, step: &Step, record: &Record) {
        self.learn(id, record);
        if let (Some(peak), Some(like)) = (peak(record), like(step)) {
            let known = self.like.entry(like).or_default();
            *known = peak.max(*known);
        }
    }

    /// Bytes, rounded up so that steps which take about the same claim the same; 0 where nothing is known.
    ///
    /// `input` gives the bytes of another step's output.
    pub(super) fn claim(&mut self, id: StepId, plan: &Plan, store: &DiskStore, input: impl Fn(StepId) -> u64) -> u64 {
        let step = plan.step(id);
        let own = self.own.get_mut();
        if !own.is_empty()
            && let Some(peak) = own.get(&id)
        {
            return rounded(*peak);
        }
        let Some(guess) = step.kind.memory() else { return 0 };
        if let Some(peak) = self.of_its_like(step, plan, store) {
            return rounded(peak + peak / 4);
        }
        let inputs = step.inputs.iter().filter_map(|(_, source)| match source {
            Source::Step(from) => Some(input(*from)),
            Source::File(_) | Source::Record(_) => None,
        });
        rounded(guess.base + guess.factor * inputs.sum::<u64>())
    }

    /// The largest peak of steps of the same model and stage, in this run or on record.
    fn of_its_like(&mut self, step: &Step, plan: &Plan, store: &DiskStore) -> Option<u64> {
        let like = like(step)?;
        if let Some(peak) = self.like.get(&like) {
            return Some(*peak).filter(|peak| *peak > 0);
        }
        let relatives = self.relatives.get_or_insert_with(|| relatives(plan));
        let others = relatives.get(&like).into_iter().flatten();
        let records = others.filter_map(|id| store.latest(&plan.step(*id).name).ok().flatten());
        let largest = records.filter_map(|record| peak(&record)).max();
        // Also that nothing is known is asked only once.
        self.like.insert(like, largest.unwrap_or(0));
        largest
    }
}

fn relatives(plan: &Plan) -> HashMap<(Stage, String), Vec<StepId>> {
    let mut all: HashMap<_, Vec<_>> = HashMap::new();
    for id in plan.ids() {
        if let Some(like) = like(plan.step(id)) {
            all.entry(like).or_default().push(id);
        }
    }
    all
}

/// Stage and model of a step that works on a model: `convert:bert:onnx`.
fn like(step: &Step) -> Option<(Stage, String)> {
    step.kind.memory()?;
    Some((step.stage, step.name.split(':').nth(1)?.to_owned()))
}

/// The most that an execution held, as its measurement or its worker said. Bytes.
fn peak(record: &Record) -> Option<u64> {
    let measured = record.measure.as_ref().and_then(|measure| measure.peak_rss_bytes);
    measured.or_else(|| record.facts.get("peak_rss_bytes")?.as_u64())
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
mod tests {
    use super::*;

    #[test]
    fn claims_are_few_and_never_less_than_what_was_taken() {
        const MIB: u64 = 1 << 20;
        assert_eq!([0, MIB, LITTLE - 1].map(rounded), [0, 0, 0]);
        let given = [64, 65, 80, 100, 113, 128, 1000, 1024, 1025];
        assert_eq!(given.map(|mib| rounded(mib * MIB) / MIB), [64, 80, 80, 112, 128, 128, 1024, 1024, 1280]);
        let claims: std::collections::BTreeSet<_> = (0..200_000).map(|n| rounded(n * MIB)).collect();
        assert!(claims.len() < 60, "{}", claims.len());
        assert!((0..10_000).all(|n| rounded(n * 7 * MIB) >= n * 7 * MIB || n * 7 < 64));
        assert!(rounded(u64::MAX) >= u64::MAX - 1);
    }
}
