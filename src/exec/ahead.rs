//! Steps in advance for each job thread. Between two steps a thread would wait until the scheduler has heard of the one
//! and chosen the other; where steps take a millisecond, that is a tenth of the time.
//!
//! A step is handed out early only if it claims just what each executing one holds, so that whichever ends first leaves
//! exactly its place; and only while steps are short, so that what was decided about it does not age.

use std::collections::VecDeque;
use std::time::Duration;

use crate::event::Span;
use crate::exec::KeepGoing;
use crate::exec::queue::Next;
use crate::exec::resources::{Claim, Held, Host, Lack};
use crate::exec::schedule::Scheduler;
use crate::key::MissReason;
use crate::step::StepId;

/// Longer steps gain nothing.
const SHORT: Duration = Duration::from_millis(20);
/// So many are handed out for each thread of those that take no longer than to wake it for them.
const MANY: usize = 16;
/// So long their ends may gather, while more than half of them are still to begin.
const GATHER: Duration = Duration::from_micros(100);

/// When a step that a job thread is handed holds what it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Begin {
    Now,
    /// As soon as one of those that execute ends: job threads take what they are handed in its order.
    Early,
}

/// What is to be told and held when a step begins.
pub(super) struct Opening {
    pub(super) id: StepId,
    pub(super) held: Held,
    pub(super) reason: MissReason,
    /// The device that it was given.
    pub(super) device: Option<String>,
    pub(super) waited_for: Option<Lack>,
}

/// Steps that were handed out early, in that order.
#[derive(Default)]
pub(super) struct Ahead {
    steps: VecDeque<Opening>,
    /// How long the step took that ended last.
    pace: Option<Duration>,
}

impl Ahead {
    pub(super) fn push(&mut self, opening: Opening) {
        self.steps.push_back(opening);
    }
}

impl Scheduler<'_> {
    /// A step has ended. The job thread that it leaves goes on with the first of those that were handed out early.
    pub(super) fn pass_on(&mut self, ended: StepId, span: Span) {
        self.slots.release(ended);
        self.ahead.pace = Some(span.end.saturating_duration_since(span.begin));
        if let Some(opening) = self.ahead.steps.pop_front() {
            self.begin(opening);
        }
    }

    /// Lets ends of such steps gather, as long as no job thread runs dry meanwhile.
    pub(super) fn gather_ends(&self) {
        if self.ahead.steps.len() > MANY / 2 * self.slots.machine.capacity.cores as usize {
            std::thread::sleep(GATHER);
        }
    }

    /// The next step that is to be handed out early.
    pub(super) fn next_early(&mut self) -> Option<Next> {
        let is_short = self.ahead.pace.is_some_and(|pace| pace < SHORT);
        // After a failure nothing more may begin, and the thread does not ask.
        let may_fail = self.context.options.keep_going != KeepGoing::Never;
        let (ahead, threads) = (self.ahead.steps.len(), self.slots.machine.capacity.cores as usize);
        if !is_short || !may_fail || ahead >= MANY * threads {
            return None;
        }
        let plan = self.context.plan;
        // Of others one is enough: what takes long would be decided long before it begins.
        let may = |id| ahead < threads || plan.step(id).kind.is_instant();
        let place = self.slots.common_place()?;
        let like = Claim { host: Host::Cores(place.cores), memory: place.memory, device: None };
        let setting_up = self.is_setting_up();
        self.slots.machine.give_back(&place);
        let next = self.queue.next_like(&like, &self.slots.machine, setting_up, may);
        self.slots.machine.take(&place);
        next
    }
}
