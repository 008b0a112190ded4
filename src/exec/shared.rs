//! Results that other machines have: asked for when a step becomes ready, before anything is installed or occupied for it.

use std::collections::BTreeSet;
use std::sync::mpsc::Sender;

use crate::event::Event;
use crate::exec::reproducer;
use crate::exec::schedule::{Message, Scheduler};
use crate::exec::state::{StepResult, StepState};
use crate::key::MissReason;
use crate::record::Record;
use crate::step::StepId;
use crate::store::remote::{Ask, Remote};

/// The questions of one run that are on their way.
pub(super) struct Questions<'a> {
    remote: &'a dyn Remote,
    sender: Sender<Message>,
    open: BTreeSet<StepId>,
}

/// Told when it goes: a thread of the remote's that panics answers too.
struct Answer {
    id: StepId,
    sender: Sender<Message>,
    record: Option<Box<Record>>,
}

impl Drop for Answer {
    fn drop(&mut self) {
        let _ = self.sender.send(Message::Answered(self.id, self.record.take()));
    }
}

impl<'a> Questions<'a> {
    pub(super) fn new(remote: Option<&'a dyn Remote>, sender: &Sender<Message>) -> Option<Self> {
        remote.map(|remote| Self { remote, sender: sender.clone(), open: BTreeSet::new() })
    }
}

impl Scheduler<'_> {
    /// Whether a ready step waits for an answer instead of its turn.
    pub(super) fn asks(&mut self, id: StepId) -> bool {
        let StepState::Ready { key, reason } = &self.states[id.0 as usize] else { return false };
        let is_asked = match reason {
            // What was asked for is done here. What failed here is not explained away by a success elsewhere.
            MissReason::Asked | MissReason::TooOld { .. } | MissReason::DidNotPass { .. } => false,
            MissReason::NeverRan | MissReason::Changed { .. } | MissReason::OutputLost { .. } => true,
            MissReason::After { .. } => true,
        };
        let Some(questions) = self.questions.as_mut().filter(|_| is_asked) else { return false };
        let step = self.context.plan.step(id);
        let limit = self.context.options.max_age.clone().filter(|_| step.kind.is_measured());
        let ask = Ask {
            key: key.digest(),
            step: step.name.clone(),
            repro: reproducer(&self.context.options.again(), &step.name),
            takes: Box::new(move |record| limit.as_ref().is_none_or(|limit| !limit.is_exceeded(&record.started))),
        };
        // Made ready again while the answer is on its way: that is waited for.
        if !questions.open.insert(id) {
            return true;
        }
        let answer = Answer { id, sender: questions.sender.clone(), record: None };
        questions.remote.fetch(
            ask,
            Box::new(move |record| {
                let mut answer = answer;
                answer.record = record;
            }),
        );
        true
    }

    /// Takes in an answer; the step, if it is done by that.
    pub(super) fn answered(&mut self, id: StepId, record: Option<Box<Record>>) -> Option<StepId> {
        if let Some(questions) = &mut self.questions {
            questions.open.remove(&id);
            if let Some(text) = questions.remote.news() {
                self.context.listener.tell(Event::Warning { text });
            }
        }
        let StepState::Ready { key, .. } = &self.states[id.0 as usize] else {
            return None; // something that it reads is made again; it asks anew when it is ready again
        };
        let Some(record) = record.filter(|record| record.key == *key) else {
            self.wait_for_turn(id);
            return None;
        };
        let (made, host) = (record.started.clone(), record.host.clone());
        self.context.listener.tell(Event::Fetched { step: record.step.clone(), made, host });
        self.set(id, StepState::Done(StepResult { fetched: true, ..StepResult::hit(*record) }));
        Some(id)
    }

    /// While answers are missing, what they may bring is not installed for.
    pub(super) fn has_questions(&self) -> bool {
        self.questions.as_ref().is_some_and(|questions| !questions.open.is_empty())
    }
}
