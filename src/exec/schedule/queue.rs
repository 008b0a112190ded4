//! Ready steps, and which of them is next.
//!
//! Steps with equal claims stand in one line, so choosing looks at the heads of a few lines and not at the steps: its
//! cost does not grow with how many wait. Of the heads that can start, the one that waits longest does. Those that take
//! milliseconds and that somebody waits for come before it; those that need the machine to themselves come last, because
//! emptying the machine for them leaves cores idle. Whoever was overtaken [`PATIENCE`] times starts before all others.

use std::collections::VecDeque;

use crate::exec::schedule::resources::{Claim, Held, Host, Lack, Machine};
use crate::step::StepId;

/// How often others may start before an older step that does not fit. If steps take seconds, that is minutes.
pub(super) const PATIENCE: u32 = 256;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Urgency {
    /// Takes milliseconds and is what a user waits for. Whom it overtakes waits no longer for it, so that is not counted.
    Brief,
    Usual,
}

#[derive(Default)]
pub(super) struct Queue {
    lines: Vec<Line>,
    /// Steps that were ever queued.
    number: u64,
    /// How often it was chosen from.
    round: u64,
    waiting: usize,
}

struct Line {
    claim: Claim,
    urgency: Urgency,
    steps: VecDeque<Waiting>,
    /// How many steps that are younger than its head have started since the last of this line did.
    overtaken: u32,
    /// Why its head did not start, and when that was last so.
    refused: Option<(u64, Lack)>,
}

struct Waiting {
    id: StepId,
    number: u64,
    /// The last round before it came.
    since: u64,
    /// What it waited for before it came.
    before: Option<Lack>,
}

/// A step that may start.
pub(super) struct Next {
    pub(super) id: StepId,
    pub(super) held: Held,
    /// What it waited for last; None if it did not have to wait.
    pub(super) waited_for: Option<Lack>,
}

impl Queue {
    pub(super) fn len(&self) -> usize {
        self.waiting
    }

    /// Whether a step waits that may have any of several devices.
    pub(super) fn has_choice(&self) -> bool {
        let mut waiting = self.lines.iter().filter(|line| !line.steps.is_empty());
        waiting.any(|line| {
            let device = line.claim.device.as_ref();
            device.is_some_and(|device| device.any_of.len() > 1)
        })
    }

    /// `claim` must be fitted to the machine; `before` is what the step has waited for until now.
    pub(super) fn push(
        &mut self,
        id: StepId,
        claim: Claim,
        urgency: Urgency,
        before: Option<Lack>,
    ) {
        let is_its_own = |line: &Line| line.urgency == urgency && line.claim == claim;
        let at = self.lines.iter().position(is_its_own).unwrap_or_else(|| {
            self.lines.push(Line {
                claim,
                urgency,
                steps: VecDeque::new(),
                overtaken: 0,
                refused: None,
            });
            self.lines.len() - 1
        });
        self.number += 1;
        self.waiting += 1;
        self.lines[at].steps.push_back(Waiting {
            id,
            number: self.number,
            since: self.round,
            before,
        });
    }

    /// Takes out the next step that may start. `installing` keeps those back that need the machine to themselves.
    pub(super) fn next(&mut self, machine: &Machine, installing: bool) -> Option<Next> {
        let (at, held) = self.best(machine, installing)?;
        Some(self.take(at, held))
    }

    /// The line whose head is next, and what that one would hold.
    fn best(&mut self, machine: &Machine, installing: bool) -> Option<(usize, Held)> {
        self.round += 1;
        let owed = self.owed(machine, installing);
        let mut best: Option<((bool, Urgency, u64), usize, Held)> = None;
        for at in 0..self.lines.len() {
            let line = &self.lines[at];
            let Some(head) = line.steps.front() else {
                continue;
            };
            let is_whole = line.claim.host == Host::Whole;
            let offer = match owed {
                Some(owed) if owed != at => Err(Lack::Turn),
                _ if is_whole && installing => Err(Lack::Setup),
                _ => machine.offer(&line.claim),
            };
            match offer {
                Ok(held) => {
                    let order = (is_whole, line.urgency, head.number);
                    // Whoever fits and is not the next lacks nothing.
                    if best.as_ref().is_none_or(|(first, ..)| order < *first) {
                        best = Some((order, at, held));
                    }
                }
                Err(lack) => self.lines[at].refused = Some((self.round, lack)),
            }
        }
        best.map(|(_, at, held)| (at, held))
    }

    fn take(&mut self, at: usize, held: Held) -> Next {
        let number = self.lines[at].head();
        let urgency = self.lines[at].urgency;
        if urgency == Urgency::Usual {
            self.lines
                .iter_mut()
                .filter(|line| line.head() < number)
                .for_each(|line| line.overtaken += 1);
        }
        let line = &mut self.lines[at];
        line.overtaken = 0;
        let next = line.steps.pop_front().expect("BUG: its head was looked at");
        self.waiting -= 1;
        let refused = line
            .refused
            .as_ref()
            .filter(|(round, _)| *round > next.since);
        Next {
            id: next.id,
            held,
            waited_for: refused.map(|(_, lack)| lack.clone()).or(next.before),
        }
    }

    /// The line that starts before all others, if one was overtaken too often and waits for what others could leave it.
    fn owed(&self, machine: &Machine, installing: bool) -> Option<usize> {
        let overtaken = self
            .lines
            .iter()
            .enumerate()
            .filter(|(_, line)| line.overtaken >= PATIENCE);
        let helped = overtaken.filter(|(_, line)| match machine.offer(&line.claim) {
            _ if line.claim.host == Host::Whole && installing => false,
            Ok(_) | Err(Lack::Cores | Lack::Away | Lack::Memory | Lack::Idle) => true,
            // Others may go on: they cannot help this one, which waits for a certain run to end.
            Err(
                Lack::Host
                | Lack::Device(_)
                | Lack::Vram(_)
                | Lack::Turn
                | Lack::Size
                | Lack::Setup
                | Lack::Round,
            ) => false,
        });
        helped.min_by_key(|(_, line)| line.head()).map(|(at, _)| at)
    }
}

impl Line {
    /// The age of its oldest step; empty lines are younger than all.
    fn head(&self) -> u64 {
        self.steps.front().map_or(u64::MAX, |head| head.number)
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
