//! Keeps what an execution ended with: its record, and the tree that it made.

use std::time::Instant;

use crate::base::figures;
use crate::base::fs as bfs;
use crate::base::text::error_text;
use crate::base::{Bug, Digest};
use crate::event::{Event, Span};
use crate::exec::options::reproducer;
use crate::exec::perform::attempts;
use crate::exec::perform::ended::{Done, InputLost, Origin, Performed, ServerFile};
use crate::exec::perform::outcome::Judged;
use crate::exec::perform::performer::Performer;
use crate::exec::perform::standing::standing;
use crate::exec::perform::task::Task;
use crate::provision::titled;
use crate::record::{Cpu, Outcome, Record};
use crate::store::{Manifest, StoreError};

/// What a step made, and its files' names on the server if it stayed there.
type Made = (Option<Manifest>, Option<Vec<ServerFile>>);

/// The moment when an execution began.
#[derive(Clone, Copy)]
pub(in crate::exec) struct Begun {
    at: jiff::Timestamp,
    clock: Instant,
}

impl Begun {
    pub(in crate::exec) fn now() -> Self {
        Self {
            at: jiff::Timestamp::now(),
            clock: Instant::now(),
        }
    }

    /// How something ended that ends now, with the time that it took.
    pub(in crate::exec) fn to_now(self, performed: Performed) -> (Performed, Span) {
        let span = Span {
            begin: self.clock,
            end: Instant::now(),
        };
        (performed, span)
    }
}

impl Performer<'_> {
    /// Writes the record, unless an input was lost. An error of orch's own is an outcome too: it must not end the other
    /// steps.
    pub(in crate::exec) fn keep(
        &self,
        task: &Task<'_>,
        begun: Begun,
        result: anyhow::Result<Done>,
    ) -> Performed {
        let result = match result.map_err(|e| e.downcast::<InputLost>()) {
            Err(Ok(lost)) => return Performed::InputLost(lost),
            Err(Err(e)) => Err(e),
            Ok(done) => Ok(done),
        };
        // An error of orch's own is transient.
        let is_own = result.is_err();
        let (mut record, (made, left), transient) = self.record(task, begun, result);
        let damaged = self.damaged(task, &record);
        record.stands = match damaged {
            None => self.stands(task, &record, is_own || transient),
            Some(_) => None,
        };
        if let Some(what) = damaged {
            let reason = record.reason.unwrap_or_default();
            record.reason = Some(format!("{reason}; hint: {what}: `orch setup` repairs it"));
        }
        let before = self.store.latest_output(&record.step).ok().flatten();
        let unchanged = record.output.is_some() && record.output == before;
        // An interrupted step leaves no record: the next run starts it anew.
        match (made, left, self.remote_steps) {
            (Some(made), Some(left), Some(remote_steps)) => {
                remote_steps.note_absent(&record, made, left);
            }
            _ if record.outcome == Outcome::Incomplete => {}
            (made, ..) => {
                if let Err(e) = self.publish(&record, made.as_ref()) {
                    return self.not_kept(record, e);
                }
            }
        }
        Performed::Executed {
            record: Box::new(record),
            unchanged,
            transient,
        }
    }

    /// Keeps a record and the tree of its step, here and where results are shared.
    pub(in crate::exec) fn publish(
        &self,
        record: &Record,
        made: Option<&Manifest>,
    ) -> Result<(), StoreError> {
        // It was executed although the store held an answer: what earlier runs found is no longer what happened last.
        if self.store.has_answer(&record.key.digest())? {
            self.store.forget_memos()?;
        }
        self.store.keep(record, made)?;
        if let Some(remote) = self.remote
            && record.outcome.may_be_shared()
        {
            remote.offer(&record.key.digest());
        }
        Ok(())
    }

    /// A panic ended it. The store may be what panicked, and is then left alone.
    pub(in crate::exec) fn broken_off(
        &self,
        task: &Task<'_>,
        begun: Begun,
        bug: anyhow::Error,
    ) -> Performed {
        let message = bug.to_string();
        let message = message.trim_start_matches("BUG:").trim_start().to_owned();
        let kept = self
            .bugs
            .caught(&task.step.name, || self.keep(task, begun, Err(bug)));
        kept.unwrap_or_else(|_| {
            let (record, ..) = self.record(task, begun, Err(anyhow::Error::new(Bug::new(message))));
            Performed::Executed {
                record: Box::new(record),
                unchanged: false,
                transient: false,
            }
        })
    }

    fn record(
        &self,
        task: &Task<'_>,
        begun: Begun,
        result: anyhow::Result<Done>,
    ) -> (Record, Made, bool) {
        let done = result.inspect_err(|e| self.bugs.look_at(e));
        let Done {
            judged,
            numerics,
            made,
            left,
            origin,
        } = done.unwrap_or_else(|e| Done::only(Judged::error(&e)));
        let transient = judged.transient;
        let (outcome, reason) =
            attempts::with_attempts(judged.outcome, judged.reason, &task.attempts);
        let (host, cpu, started, seconds) = match origin {
            Some(Origin {
                host,
                cpu,
                cpu_identity,
                cores,
                started,
                seconds,
                ..
            }) => {
                let cpu = Cpu {
                    name: cpu,
                    identity: cpu_identity,
                    cores,
                };
                (host, cpu, started, seconds)
            }
            None => (
                self.host.report.name.clone(),
                self.host.report.own_cpu(),
                figures::moment(begun.at),
                begun.clock.elapsed().as_secs_f64(),
            ),
        };
        let record = Record {
            step: task.step.name.clone(),
            key: task.key.clone(),
            outcome,
            reason: reason.map(|reason| self.with_remedy(crate::base::text::shown(&reason))),
            output: made.as_ref().map(Manifest::digest),
            started,
            seconds,
            host,
            cpu: judged.measure.is_some().then_some(cpu),
            facts: judged.facts.into(),
            measure: judged.measure,
            numerics,
            repro: task
                .step
                .kind
                .is_in_specs()
                .then(|| reproducer(&self.options.again(), &task.step.name)),
            why: Some(task.why.clone()),
            attempts: task.attempts.clone(),
            stands: None,
        };
        (record, (made, left), transient)
    }

    /// What is wrong with what a failed step required, where it was executed here: the failure is then none of its own.
    fn damaged(&self, task: &Task<'_>, record: &Record) -> Option<String> {
        if !record.outcome.is_failure() || self.elsewhere(task).is_some() {
            return None;
        }
        task.step.required().into_iter().find_map(|required| {
            let provision = self.provision.with(required.toolchain.as_ref());
            let what = provision.damage(required.requirement)?;
            Some(format!(
                "the {} is not as it was installed ({what})",
                titled(&required)
            ))
        })
    }

    fn stands(&self, task: &Task<'_>, record: &Record, is_transient: bool) -> Option<Digest> {
        // What another machine lacks or does is not known here.
        if self.elsewhere(task).is_some() {
            return None;
        }
        // It passed before with the same key, so it need not fail again, and the result stays what the store holds.
        if self
            .store
            .hit(&record.key.digest())
            .is_ok_and(|hit| hit.is_some())
        {
            return None;
        }
        let has_crashed = record.outcome == Outcome::Crash;
        let before = has_crashed
            .then(|| self.store.latest(&record.step).ok().flatten())
            .flatten();
        standing(
            record,
            is_transient,
            before.as_ref(),
            task.step,
            &self.host.fingerprint,
            self.provision,
        )
    }

    /// Each program reports a full disk in its own words. Where the disk is full, and the remedy, are added here.
    fn with_remedy(&self, reason: String) -> String {
        if !reason.contains("No space left on device") || reason.contains(bfs::FULL_DISK) {
            return reason;
        }
        format!(
            "{reason}; hint: steps work in {}: {}",
            self.store.root().join("tmp").display(),
            bfs::FULL_DISK
        )
    }

    /// A step whose tree is not in the store has failed: no other step could read it.
    fn not_kept(&self, record: Record, error: StoreError) -> Performed {
        let why = error_text(&error.into());
        let record = match record.outcome {
            Outcome::Pass | Outcome::Flaky => {
                let reason = Some(format!("it passed, but that could not be kept: {why}"));
                Record {
                    outcome: Outcome::Fail,
                    reason,
                    output: None,
                    ..record
                }
            }
            _ => {
                let text = format!("the record of {} was not kept: {why}", record.step);
                self.listener.tell(Event::Warning { text });
                record
            }
        };
        Performed::Executed {
            record: Box::new(record),
            unchanged: false,
            transient: false,
        }
    }
}
