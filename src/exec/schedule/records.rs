//! The records of hits, read when the pages need them.

use rayon::prelude::*;

use crate::exec::perform::error_text;
use crate::exec::schedule::Scheduler;
use crate::exec::schedule::consult::FEW;
use crate::exec::state::{How, StepResult, StepState};
use crate::step::{Stage, StepId};
use crate::store::Hit;

impl Scheduler<'_> {
    /// Reads the records of hits that pages show, which nobody needs before. True if one is damaged: then it is no hit, and
    /// everything that this run has not executed is looked up once more.
    pub(in crate::exec) fn read_records(&mut self) -> bool {
        let shown = |id: &StepId| self.whole_records || self.world.plan.step(*id).stage != Stage::Command;
        let held = |id: StepId| Some((id, self.result(id)?.held.as_ref()?));
        let unread: Vec<_> = self.world.plan.ids().filter(shown).filter_map(held).collect();
        let read = |(id, hit): &(StepId, &Hit)| (*id, self.world.store.record(hit));
        let read: Vec<_> = if unread.len() < 2 * FEW {
            unread.iter().map(read).collect()
        } else {
            unread.par_iter().with_min_len(FEW).map(read).collect()
        };
        let mut is_damaged = false;
        for (id, record) in read {
            match record {
                Ok(record) => self.states[id.0 as usize] = StepState::Done(StepResult::hit(record)),
                Err(e) => {
                    is_damaged = true;
                    self.damaged.insert(id, error_text(&e.into()));
                }
            }
        }
        if is_damaged {
            for id in self.world.plan.ids() {
                if self.result(id).is_some_and(|result| result.how == How::Hit) {
                    self.set(id, StepState::Unknown);
                }
            }
            self.consult_all();
        }
        is_damaged
    }
}
