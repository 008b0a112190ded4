//! What is known of a step before it executes: whether the store holds its result, and why not. Questions only.

use crate::base::text::error_text;
use crate::exec::options::Options;
use crate::exec::perform::standing::stands_here;
use crate::exec::routing::listed;
use crate::exec::schedule::memory::Peaks;
use crate::exec::schedule::steps::Steps;
use crate::exec::state::{How, StepResult, StepState};
use crate::key::{KeyDoc, MissReason};
use crate::record::{Outcome, Record};
use crate::step::{Stage, StepId};
use crate::store::{StoreError, stat::Stamp};

/// What was found out about a step that is not decided.
pub(super) enum Looked {
    /// Something that it reads is not done.
    Waits,
    Done(StepResult),
    /// The key, the reason, and the memory that the last execution took.
    Ready(KeyDoc, MissReason, Peaks),
    /// The key, and what is wrong with the stored result.
    Damaged(KeyDoc, String),
    /// A verdict that `--rerun failed` asks for. A wrong result is met again by running again, and not by judging the
    /// same once more: so this run, with this key, is what executes, and the verdict waits for it.
    Repeats(StepId, KeyDoc),
    /// Its key cannot be made.
    Failed(StoreError),
}

/// Why a step is not a hit.
enum Missed {
    For(MissReason, Peaks),
    /// There is something, and it is not what was written.
    Damaged(String),
}

impl Steps<'_> {
    /// What is known of a step; where its dependencies are done, that decides it.
    pub(super) fn look_at(&self, id: StepId) -> Looked {
        let done = Looked::Done;
        if let Some(why) = self.unavailable(id) {
            return done(StepResult::skipped(Outcome::SkipUnavailable, why));
        }
        for dependency in self.world.plan.dependencies(id) {
            match self.result(dependency) {
                None => return Looked::Waits,
                Some(result) if !result.outcome.is_made() => {
                    let blamed = Some(result.blamed.unwrap_or(dependency));
                    let reason = result.reason.clone();
                    let fetched = result.fetched;
                    return done(StepResult {
                        blamed,
                        reason,
                        fetched,
                        ..StepResult::skipped(result.outcome, "")
                    });
                }
                Some(_) => {}
            }
        }
        if let Some(backend) = self.mocked(id) {
            let why = format!(
                "the environment pretends that `{backend}` is here (ORCH_MOCK_DEVICES): all was made for this run, and \
                 nothing ran"
            );
            return done(StepResult::skipped(Outcome::Mock, why));
        }
        let key = match self.key(id) {
            Ok(key) => key,
            Err(e) => return Looked::Failed(e),
        };
        match self.look_up(id, &key) {
            Ok(result) => done(result),
            Err(Missed::For(MissReason::Requested, peaks)) => match self.run_to_repeat(id) {
                Some((run, key)) => Looked::Repeats(run, key),
                None => Looked::Ready(key, MissReason::Requested, peaks),
            },
            Err(Missed::For(reason, peaks)) => Looked::Ready(key, reason, peaks),
            Err(Missed::Damaged(what)) => Looked::Damaged(key, what),
        }
    }

    /// The run that a verdict is about, if `--rerun failed` is to measure it anew.
    fn run_to_repeat(&self, id: StepId) -> Option<(StepId, KeyDoc)> {
        let plan = self.world.plan;
        if !self.world.options.rerun_failed || plan.step(id).stage != Stage::Judge {
            return None;
        }
        let mut runs = plan
            .dependencies(id)
            .filter(|from| plan.step(*from).stage == Stage::Run);
        let run = runs.find(|run| {
            self.result(*run)
                .is_some_and(|result| result.how == How::Hit)
        })?;
        Some((run, self.key(run).ok()?))
    }

    /// What is held under this key, its output included, or why nothing is.
    fn look_up(&self, id: StepId, key: &KeyDoc) -> Result<StepResult, Missed> {
        let store = self.world.store;
        let step = self.world.plan.step(id);
        let last = || store.latest(&step.name).ok().flatten();
        if self.world.options.rerun.contains(&id) {
            return Err(Missed::For(
                MissReason::Requested,
                Peaks::of(last().as_ref()),
            ));
        }
        if let Some(what) = self.damaged.get(&id) {
            return Err(Missed::Damaged(what.clone()));
        }
        let damaged = |e: StoreError| Missed::Damaged(error_text(&e.into()));
        let Some(hit) = store.hit(&key.digest()).map_err(damaged)? else {
            let Options {
                rerun_failed,
                stands,
                ..
            } = self.world.options;
            let stands = stands.contains(&id);
            let failed = store.failure(&key.digest()).map_err(damaged)?;
            let kind_of_host = &self.world.host.fingerprint;
            let provision = self.world.provision;
            if let Some(failed) =
                failed.filter(|failed| stands_here(failed, step, kind_of_host, provision))
            {
                if *rerun_failed && !stands {
                    return Err(Missed::For(MissReason::Requested, Peaks::of(Some(&failed))));
                }
                // An equal step may have met it in this run.
                let failed_before = !self.failed_keys.contains(&key.digest());
                return self.fresh(id, failed).map(|result| StepResult {
                    failed_before,
                    ..result
                });
            }
            return match last() {
                Some(last) if stands && last.key == *key && last.outcome != Outcome::Pass => {
                    Ok(StepResult::hit(last))
                }
                last => {
                    let peaks = Peaks::of(last.as_ref());
                    Err(Missed::For(why_missed(last, key), peaks))
                }
            };
        };
        // The same key passed and failed: neither is believed, and the step executes again.
        let failed_since = store.failed_since(&step.name, &key.digest(), &hit);
        if let Some(failed) = failed_since.map_err(damaged)? {
            if self.world.options.stands.contains(&id) {
                return Ok(StepResult::hit(failed));
            }
            let peaks = Peaks::of(Some(&failed));
            return Err(Missed::For(why_missed(Some(failed), key), peaks));
        }
        // What is in it is hashed by whoever reads it: a step that executes, or who hands it out.
        if let Some(digest) = hit.output.filter(|digest| !store.has_tree(digest)) {
            let what = format!("tree {} is gone", digest.short());
            return Err(Missed::For(
                MissReason::OutputLost { what },
                Peaks::default(),
            ));
        }
        // Each run reports what happened before a success, and each dependent of a refusal reports the reason.
        let is_reported = match hit.outcome {
            Outcome::Pass => false,
            outcome => step.stage != Stage::Command || outcome == Outcome::Flaky,
        };
        let ages = self.world.options.max_age.is_some() && step.kind.is_timed(step);
        if !is_reported && !ages {
            return Ok(StepResult::held(hit));
        }
        let record = store.record(&hit).map_err(damaged)?;
        self.fresh(id, record)
    }

    /// What is held, unless it is older than was requested. Only a measurement ages: what a build step makes is the same
    /// whenever it is made from the same inputs.
    fn fresh(&self, id: StepId, record: Record) -> Result<StepResult, Missed> {
        let step = self.world.plan.step(id);
        let max = self
            .world
            .options
            .max_age
            .as_ref()
            .filter(|_| step.kind.is_timed(step));
        if let Some(max) = max.filter(|max| max.is_exceeded(&record.started)) {
            let peaks = Peaks::of(Some(&record));
            return Err(Missed::For(
                MissReason::TooOld {
                    date: record.started,
                    max: max.to_string(),
                },
                peaks,
            ));
        }
        Ok(StepResult::hit(record))
    }

    /// The backend of a run, if the environment pretends that it is here.
    fn mocked(&self, id: StepId) -> Option<&str> {
        let step = self.world.plan.step(id);
        let mocked = &self.world.options.mocked;
        let backend =
            (!mocked.is_empty() && step.stage == Stage::Run).then(|| step.run().backend.name);
        backend.filter(|backend| mocked.contains(*backend))
    }

    /// Why a run's device is not there, as its prober says.
    fn unavailable(&self, id: StepId) -> Option<String> {
        let step = self.world.plan.step(id);
        if step.stage != Stage::Run || self.mocked(id).is_some() || self.world.sends(step) {
            return None;
        }
        let run = step.run();
        if run.is_elsewhere() {
            let properties = listed(&run.properties);
            return Some(format!(
                "its target asks for a machine that offers {properties}, and runs go to no executor here; hint: `--executor URL`"
            ));
        }
        if let Some(why) = run.runtime.absent {
            return Some(why.to_owned());
        }
        let backend = run.backend.name;
        let Some(found) = self
            .world
            .inventory
            .iter()
            .find(|known| known.name == backend)
        else {
            return Some(format!("orch has no prober for `{backend}`"));
        };
        let why = || {
            found
                .reason
                .clone()
                .unwrap_or_else(|| "its prober gave no reason".into())
        };
        (!found.available).then(why)
    }

    /// The stamps of the user's files that a step reads, in their order.
    pub(super) fn stamps(&self, id: StepId) -> Vec<Option<Stamp>> {
        self.world
            .plan
            .step(id)
            .files()
            .map(|path| Stamp::of(path).ok())
            .collect()
    }

    /// Whether the user's files are still as they were when the step's key was made, which may be long ago.
    pub(super) fn reads_what_its_key_says(&self, id: StepId) -> bool {
        let reads_files = self.world.plan.step(id).files().next().is_some();
        match self.state(id) {
            StepState::Ready { key, .. } if reads_files => {
                self.key(id).is_ok_and(|now| now == *key)
            }
            _ => true,
        }
    }

    /// Whether the output of a step that made one is gone.
    pub(super) fn is_lost(&self, id: StepId) -> bool {
        self.output(id)
            .is_some_and(|digest| !self.world.store.has_tree(&digest))
    }
}

/// Why nothing with this key is held, by the latest record of the step.
fn why_missed(last: Option<Record>, key: &KeyDoc) -> MissReason {
    let Some(last) = last else {
        return MissReason::NeverRan;
    };
    let changes = key.changes_since(&last.key);
    if !changes.is_empty() {
        return MissReason::Changed { changes };
    }
    match last.outcome.is_made() {
        true => MissReason::OutputLost {
            what: "the record of its success is gone".into(),
        },
        false => MissReason::DidNotPass {
            outcome: last.outcome.label().into(),
        },
    }
}
