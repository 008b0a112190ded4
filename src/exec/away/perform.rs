//! This side of a step that executes elsewhere: what is sent, and the record of what came back.

use std::path::Path;
use std::time::Duration;

use serde_json::json;

use crate::base::{Digest, fs as bfs};
use crate::event::Event;
use crate::exec::away::order::{Answer, Inputs, Order, VERSION};
use crate::exec::away::{
    Absent, Content, Departing, Given, Returned, ServerFile, Submission, listed,
};
use crate::exec::keep::Begun;
use crate::exec::outcome::{Judged, set_fact};
use crate::exec::perform::{Done, InputLost, Performed, Performer, check_measure};
use crate::exec::schedule::retry;
use crate::exec::task::{InputAt, Task, placed, wants_another};
use crate::record::Outcome;
use crate::step::StepId;
use crate::store::{Manifest, ManifestFile};

/// What an execution there may take besides the step itself: to lay out, to hash, to start.
const AROUND: Duration = Duration::from_secs(300);

impl Performer<'_> {
    /// Who performs this step, if not this machine.
    pub(in crate::exec) fn elsewhere(&self, task: &Task<'_>) -> Option<&Departing<'_>> {
        self.departing
            .as_ref()
            .filter(|departing| departing.routing.sends(task.step, departing.inventory))
    }

    pub(in crate::exec) fn perform_away(
        &self,
        task: &Task<'_>,
        begun: Begun,
        departing: &Departing<'_>,
    ) -> Performed {
        let done = self.sent(task, departing);
        let is_remembered = done.as_ref().is_ok_and(|(_, is_remembered)| *is_remembered);
        let done = done.and_then(|(done, _)| task.files_are_the_same().map(|()| done));
        match self.keep(task, begun, done) {
            Performed::Executed { record, .. }
                if is_remembered && record.outcome.may_be_shared() =>
            {
                Performed::Remembered(record)
            }
            performed => performed,
        }
    }

    /// What came of it, and whether a server only remembered it.
    fn sent(&self, task: &Task<'_>, departing: &Departing<'_>) -> anyhow::Result<(Done, bool)> {
        self.bring_from_remote(task)?;
        loop {
            let inputs = self.inputs(task, departing.absent)?;
            if let Some(done) = self.submit(task, departing, inputs)? {
                return Ok(done);
            }
            // Those that are left there are sent from here, and the others are made again.
            self.bring_inputs(task)?;
        }
    }

    fn inputs(&self, task: &Task<'_>, absent: &Absent) -> anyhow::Result<(Inputs, Vec<Given>)> {
        let mut inputs = Inputs::new();
        let mut files = Vec::new();
        for (number, (name, at)) in task.inputs.iter().enumerate() {
            // Files that belong together, such as those of a model's folder, lie beside each other.
            let folder = if name.contains('/') {
                format!("inputs/{name}")
            } else {
                format!("inputs/{number}")
            };
            match at {
                InputAt::Tree { from, digest } => {
                    let found = match absent.files(digest) {
                        Some(files) => files
                            .into_iter()
                            .map(|(there, file)| (Content::There(there), file))
                            .collect(),
                        None => self.stored_here(*from, digest)?,
                    };
                    files.extend(found.iter().map(|(content, file)| Given {
                        path: format!("{folder}/{}", file.path),
                        content: content.clone(),
                        is_executable: file.executable,
                    }));
                    let manifest = Manifest {
                        files: found.into_iter().map(|(_, file)| file).collect(),
                    };
                    inputs.insert(name.clone(), (folder, Some(manifest)));
                }
                InputAt::File(path, _) => {
                    files.extend(files_of(path, &folder)?);
                    inputs.insert(name.clone(), (folder, None));
                }
            }
        }
        Ok((inputs, files))
    }

    fn stored_here(
        &self,
        from: StepId,
        digest: &Digest,
    ) -> anyhow::Result<Vec<(Content, ManifestFile)>> {
        let manifest = self
            .store
            .check_tree(digest)
            .map_err(InputLost::or(from, *digest))?;
        let here = |file: &ManifestFile| Content::Here {
            at: self.store.blob(file),
            is_fixed: true,
        };
        Ok(manifest
            .files
            .into_iter()
            .map(|file| (here(&file), file))
            .collect())
    }

    /// [`Self::sent`]; None if an input that had stayed there is gone.
    fn submit(
        &self,
        task: &Task<'_>,
        Departing {
            away,
            routing,
            absent,
            ..
        }: &Departing<'_>,
        (inputs, files): (Inputs, Vec<Given>),
    ) -> anyhow::Result<Option<(Done, bool)>> {
        let step = task.step;
        let out = self.scratch.dir("out")?;
        let log = self.store.log_path(&step.name);
        retry::clear_logs(&log, &task.attempts);
        let progress = |text: &str| self.tell(task, text);
        let warn = |text: &str| {
            self.listener.tell(Event::Warning {
                text: format!("{}: {text}", step.name),
            })
        };
        let asked = routing.asked(step);
        let submission = Submission {
            order: Order::of(step, &task.key, inputs, self.job_memory),
            inputs: files,
            properties: asked.clone(),
            is_anew: !task.attempts.is_empty() || wants_another(&task.why),
            leaves: routing.leaves(task.is_top) && !absent.was_lost(task.id),
            timeout: Duration::from_secs(step.timeout_seconds) + AROUND,
            out: &out,
            log: &log,
            cancel: self.cancel,
            progress: &progress,
            warn: &warn,
        };
        let named = |why: String| {
            format!(
                "{why} (executor {}, asked for {})",
                away.name(),
                listed(&asked)
            )
        };
        let mut remembered = false;
        let done = match away.perform(submission) {
            Returned::Performed {
                mut answer,
                is_remembered,
                left,
            } => {
                remembered = is_remembered;
                if answer.outcome == Outcome::SkipUnavailable {
                    answer.reason = answer.reason.map(named);
                }
                self.take_in(task, *answer, left, &out)
            }
            Returned::InputGone => {
                bfs::remove_dir(&out)?;
                return Ok(None);
            }
            Returned::Unavailable(why) => Ok(Done::only(Judged::failed(
                Outcome::SkipUnavailable,
                named(why),
            ))),
            Returned::TooLong(limit) => {
                let why = format!("it did not end within {} s", limit.as_secs());
                Ok(Done::only(
                    Judged::failed(Outcome::Timeout, named(why)).transient(),
                ))
            }
            Returned::Interrupted => Ok(Done::only(Judged::failed(
                Outcome::Incomplete,
                "interrupted",
            ))),
            Returned::Failed(why, may_pass) => {
                let judged = Judged::failed(Outcome::Fail, named(why));
                Ok(Done::only(if may_pass {
                    judged.transient()
                } else {
                    judged
                }))
            }
        };
        bfs::remove_dir(&out)?;
        Ok(Some((done?, remembered)))
    }

    /// What a worker answered, as far as it is believed.
    fn take_in(
        &self,
        task: &Task<'_>,
        answer: Answer,
        left: Option<Vec<ServerFile>>,
        out: &Path,
    ) -> anyhow::Result<Done> {
        let Answer {
            version,
            key,
            outcome,
            reason,
            transient,
            mut facts,
            measure,
            made,
            origin,
        } = answer;
        anyhow::ensure!(
            version == VERSION && key == task.key.digest(),
            "the worker answered for another step"
        );
        anyhow::ensure!(
            made.is_some() == (outcome == Outcome::Pass),
            "the worker's answer contradicts itself"
        );
        let executor =
            json!({"host": origin.host, "fingerprint": origin.fingerprint, "cpu": origin.cpu});
        set_fact(&mut facts, "executor", executor);
        let mut judged = placed(
            Judged {
                outcome,
                reason,
                facts,
                measure,
                transient,
            },
            task,
        );
        if let Some(measure) = &mut judged.measure {
            measure.order = task.order;
        }
        let mut done = Done {
            origin: Some(origin),
            ..Done::only(judged)
        };
        if outcome == Outcome::Pass && task.step.kind.runs_on_device() {
            check_measure(&mut done, task.step.kind.is_timed(task.step));
        }
        if let Some(claimed) = made.filter(|_| done.judged.outcome == Outcome::Pass) {
            // Another step may have made the same here.
            let is_here = left.is_some() && self.store.check_tree(&claimed.digest()).is_ok();
            done.left = left.filter(|_| !is_here);
            if done.left.is_none() && !is_here {
                let made = self.store.place(out)?;
                anyhow::ensure!(
                    made == claimed,
                    "what arrived is not what the worker says it made"
                );
            }
            done.made = Some(claimed);
        }
        Ok(done)
    }
}

/// A user's file, or all that lie in a folder.
fn files_of(path: &Path, at: &str) -> anyhow::Result<Vec<Given>> {
    let one = |path: &Path, at: String| {
        let is_executable = bfs::is_executable(&std::fs::metadata(path)?);
        Ok(Given {
            path: at,
            content: Content::Here {
                at: path.to_owned(),
                is_fixed: false,
            },
            is_executable,
        })
    };
    if !path.is_dir() {
        return Ok(vec![one(path, at.to_owned())?]);
    }
    bfs::files_below(path)?
        .into_iter()
        .map(|name| one(&path.join(&name), format!("{at}/{name}")))
        .collect()
}
