//! This side of a step that executes elsewhere: what is sent, and the record of what came back.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde_json::json;

use crate::base::fs as bfs;
use crate::event::Event;
use crate::exec::away::order::{Answer, Order, VERSION};
use crate::exec::away::{Elsewhere, Errand, Errands, Given, Routing, listed};
use crate::exec::keep::Begun;
use crate::exec::outcome::Judged;
use crate::exec::perform::{Done, Performed, Performer, check_measure, error_text};
use crate::exec::schedule::retry;
use crate::exec::task::{InputAt, Task, placed};
use crate::key::MissReason;
use crate::record::{Outcome, Record};
use crate::store::{Manifest, StoreError};

/// What an execution there may take besides the step itself: to lay out, to hash, to start.
const AROUND: Duration = Duration::from_secs(300);

/// Why a step cannot be sent.
enum Unsent {
    Lost(Performed),
    Error(anyhow::Error),
}

impl Performer<'_> {
    /// Who performs this step, if not this machine.
    pub(in crate::exec) fn elsewhere(&self, task: &Task<'_>) -> Option<(&dyn Elsewhere, &Routing)> {
        let (away, routing) = (self.away?, self.routing?);
        routing.sends(task.step, self.inventory).then_some((away, routing))
    }

    pub(in crate::exec) fn perform_away(
        &self,
        task: &Task<'_>,
        begun: Begun,
        (away, routing): (&dyn Elsewhere, &Routing),
    ) -> Performed {
        let done = match self.inputs(task) {
            Ok((inputs, files)) => self.run_errand(task, away, routing, inputs, files),
            Err(Unsent::Lost(lost)) => return lost,
            Err(Unsent::Error(e)) => Err(e),
        };
        let is_remembered = done.as_ref().is_ok_and(|(_, is_remembered)| *is_remembered);
        let done = done.and_then(|(done, _)| task.files_are_the_same().map(|()| done));
        match self.keep(task, begun, done) {
            Performed::Executed { record, .. } if is_remembered && is_success(&record) => Performed::Remembered(record),
            performed => performed,
        }
    }

    fn inputs(&self, task: &Task<'_>) -> Result<(Inputs, Vec<Given>), Unsent> {
        let (mut inputs, mut files) = (Inputs::new(), Vec::new());
        for (number, (name, at)) in task.inputs.iter().enumerate() {
            let folder = format!("inputs/{number}");
            match at {
                InputAt::Tree { from, digest } => {
                    let manifest = self.store.check_tree(digest).map_err(|e| match e {
                        StoreError::Damaged { .. } => {
                            let what = error_text(&e.into());
                            Unsent::Lost(Performed::InputLost { from: *from, digest: *digest, what })
                        }
                        e => Unsent::Error(e.into()),
                    })?;
                    files.extend(manifest.files.iter().map(|file| Given {
                        path: format!("{folder}/{}", file.path),
                        at: self.store.blob(file),
                        is_executable: file.executable,
                        is_fixed: true,
                    }));
                    inputs.insert(name.clone(), (folder, Some(manifest)));
                }
                InputAt::File(path, _) => {
                    files.extend(files_of(path, &folder).map_err(Unsent::Error)?);
                    inputs.insert(name.clone(), (folder, None));
                }
            }
        }
        Ok((inputs, files))
    }

    fn run_errand(
        &self,
        task: &Task<'_>,
        away: &dyn Elsewhere,
        routing: &Routing,
        inputs: Inputs,
        files: Vec<Given>,
    ) -> anyhow::Result<(Done, bool)> {
        let (step, out) = (task.step, self.scratch.dir("out")?);
        let log = self.store.log_path(&step.name);
        retry::clear_logs(&log, &task.attempts);
        let progress = |text: &str| {
            self.listener.tell(Event::StepProgress { step: step.name.clone(), text: text.to_owned() });
        };
        let warn = |text: &str| self.listener.tell(Event::Warning { text: format!("{}: {text}", step.name) });
        let asked = routing.asked(step);
        let errand = Errand {
            order: Order::of(step, &task.key, inputs, self.job_memory),
            inputs: files,
            properties: asked.clone(),
            env: routing.env.clone(),
            is_anew: !task.attempts.is_empty() || matches!(task.why, MissReason::Asked | MissReason::TooOld { .. }),
            timeout: Duration::from_secs(step.timeout_seconds) + AROUND,
            out: &out,
            log: &log,
            cancel: self.cancel,
            progress: &progress,
            warn: &warn,
        };
        let named = |why: String| format!("{why} (executor {}, asked for {})", away.name(), listed(&asked));
        let mut remembered = false;
        let done = match away.perform(errand) {
            Errands::Performed { mut answer, is_remembered } => {
                remembered = is_remembered;
                if answer.outcome == Outcome::SkipUnavailable {
                    answer.reason = answer.reason.map(named);
                }
                self.take_in(task, *answer, &out)
            }
            Errands::Unavailable(why) => Ok(Done::only(Judged::failed(Outcome::SkipUnavailable, named(why)))),
            Errands::TooLong(limit) => {
                let why = format!("it did not end within {} s", limit.as_secs());
                Ok(Done::only(Judged::failed(Outcome::Timeout, named(why)).transient()))
            }
            Errands::Interrupted => Ok(Done::only(Judged::failed(Outcome::Incomplete, "interrupted"))),
            Errands::Failed(why, may_pass) => {
                let judged = Judged::failed(Outcome::Fail, named(why));
                Ok(Done::only(if may_pass { judged.transient() } else { judged }))
            }
        };
        bfs::remove_dir(&out)?;
        done.map(|done| (done, remembered))
    }

    /// What a worker answered, as far as it is believed.
    fn take_in(&self, task: &Task<'_>, answer: Answer, out: &Path) -> anyhow::Result<Done> {
        let Answer { version, key, outcome, reason, transient, mut facts, measure, made, origin } = answer;
        anyhow::ensure!(version == VERSION && key == task.key.digest(), "the worker answered for another step");
        anyhow::ensure!(made.is_some() == (outcome == Outcome::Pass), "the worker's answer contradicts itself");
        if !facts.is_object() {
            facts = json!({});
        }
        facts["executor"] = json!({"host": origin.host, "fingerprint": origin.fingerprint, "cpu": origin.cpu});
        let mut judged = placed(Judged { outcome, reason, facts, measure, transient }, task);
        if let Some(measure) = &mut judged.measure {
            measure.order = task.order;
        }
        let mut done = Done { origin: Some(origin), ..Done::only(judged) };
        if outcome == Outcome::Pass && task.step.kind.runs_on_device() {
            check_measure(&mut done, task.step.kind.is_timed(task.step));
        }
        if let Some(claimed) = made.filter(|_| done.judged.outcome == Outcome::Pass) {
            let made = self.store.place(out)?;
            anyhow::ensure!(made == claimed, "what came is not what the worker says that it made");
            done.made = Some(made);
        }
        Ok(done)
    }
}

/// Whether it may stand for another execution.
fn is_success(record: &Record) -> bool {
    matches!(record.outcome, Outcome::Pass | Outcome::SkipUnsupported)
}

type Inputs = BTreeMap<String, (String, Option<Manifest>)>;

/// A user's file, or all that lie in a folder.
fn files_of(path: &Path, at: &str) -> anyhow::Result<Vec<Given>> {
    let one = |path: &Path, at: String| {
        let is_executable = bfs::is_executable(&std::fs::metadata(path)?);
        Ok(Given { path: at, at: path.to_owned(), is_executable, is_fixed: false })
    };
    if !path.is_dir() {
        return Ok(vec![one(path, at.to_owned())?]);
    }
    bfs::files_below(path)?.into_iter().map(|name| one(&path.join(&name), format!("{at}/{name}"))).collect()
}
