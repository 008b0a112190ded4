//! This side of a step that executes elsewhere: what is sent, and the record of what came back.

use std::path::Path;
use std::time::Duration;

use serde_json::json;

use crate::base::{Digest, fs as bfs};
use crate::event::Event;
use crate::exec::away::order::{Answer, Inputs, Order, VERSION};
use crate::exec::away::{Content, Departing, Given, Returned, Submission};
use crate::exec::perform::ended::{Done, InputLost, ServerFile};
use crate::exec::perform::outcome::{Judged, set_fact};
use crate::exec::perform::performer::{self, Performer, RemoteSteps};
use crate::exec::perform::task::{InputAt, Task, placed, wants_another};
use crate::exec::perform::{attempts, check_measure};
use crate::exec::routing::listed;
use crate::record::{Outcome, Record};
use crate::step::{Step, StepId};
use crate::store::{Manifest, ManifestFile};

/// What an execution there may take besides the step itself: to lay out, to hash, to start.
const AROUND: Duration = Duration::from_secs(300);

impl RemoteSteps for Departing<'_> {
    fn takes(&self, step: &Step) -> bool {
        self.routing.sends(step, self.inventory)
    }

    fn perform(
        &self,
        performer: &Performer<'_>,
        task: &Task<'_>,
    ) -> anyhow::Result<performer::Returned> {
        let sending = Sending {
            performer,
            departing: self,
        };
        loop {
            let inputs = sending.inputs(task)?;
            if let Some(returned) = sending.submit(task, inputs)? {
                return Ok(returned);
            }
            // Those that are left there are sent from here, and the others are made again.
            self.bring_inputs(performer, task)?;
        }
    }

    fn bring_inputs(&self, performer: &Performer<'_>, task: &Task<'_>) -> anyhow::Result<()> {
        self.absent.bring_inputs(self.executor, performer, task)
    }

    fn note_absent(&self, record: &Record, made: Manifest, files: Vec<ServerFile>) {
        self.absent.note(record, made, files);
    }
}

/// A step that is sent to the server, and the performer that keeps its result.
struct Sending<'a, 'p> {
    performer: &'a Performer<'p>,
    departing: &'a Departing<'p>,
}

impl Sending<'_, '_> {
    /// The inputs of a step by name, and the files of all of them.
    fn inputs(&self, task: &Task<'_>) -> anyhow::Result<(Inputs, Vec<Given>)> {
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
                    let found = match self.departing.absent.files(digest) {
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
            .performer
            .store
            .check_tree(digest)
            .map_err(InputLost::or(from, *digest))?;
        let here = |file: &ManifestFile| Content::Here {
            at: self.performer.store.blob(file),
            is_fixed: true,
        };
        Ok(manifest
            .files
            .into_iter()
            .map(|file| (here(&file), file))
            .collect())
    }

    /// Submits a step and waits for its result; None if an input that had stayed there is gone.
    fn submit(
        &self,
        task: &Task<'_>,
        (inputs, files): (Inputs, Vec<Given>),
    ) -> anyhow::Result<Option<performer::Returned>> {
        let Departing {
            executor,
            routing,
            absent,
            ..
        } = *self.departing;
        let performer = self.performer;
        let step = task.step;
        let out = self.performer.scratch.dir("out")?;
        let log = self.performer.store.log_path(&step.name);
        attempts::clear_logs(&log, &task.attempts);
        let progress = |text: &str| performer.tell(task, text);
        let warn = |text: &str| {
            self.performer.listener.tell(Event::Warning {
                text: format!("{}: {text}", step.name),
            })
        };
        let required = routing.required(step);
        let submission = Submission {
            order: Order::of(
                step,
                &task.key,
                inputs,
                self.performer.options.settings.job_memory,
            ),
            inputs: files,
            properties: required.clone(),
            is_anew: !task.attempts.is_empty() || wants_another(&task.why),
            leaves: routing.leaves(task.is_top) && !absent.was_lost(task.id),
            timeout: Duration::from_secs(step.timeout_seconds) + AROUND,
            out: &out,
            log: &log,
            cancel: self.performer.cancel,
            progress: &progress,
            warn: &warn,
        };
        let named = |why: String| {
            format!(
                "{why} (executor {}, asked for {})",
                executor.name(),
                listed(&required)
            )
        };
        let mut was_remembered = false;
        let done = match executor.perform(submission) {
            Returned::Performed {
                mut answer,
                is_remembered,
                left,
            } => {
                was_remembered = is_remembered;
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
        Ok(Some(performer::Returned {
            done: done?,
            is_remembered: was_remembered,
        }))
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
            let is_here =
                left.is_some() && self.performer.store.check_tree(&claimed.digest()).is_ok();
            done.left = left.filter(|_| !is_here);
            if done.left.is_none() && !is_here {
                let made = self.performer.store.place(out)?;
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
