//! One execution of one step, on a job thread: verified inputs in, work, published output and record out.

use std::path::Path;
use std::time::Duration;

use crate::base::Digest;
use crate::event::{Event, Listener, Span};
use crate::exec::host::HostFacts;
use crate::exec::options::Options;
use crate::exec::perform::bug::Bugs;
use crate::exec::perform::ended::{Done, InputLost, Performed, ServerFile};
use crate::exec::perform::inputs::LaidTrees;
use crate::exec::perform::keep::Begun;
use crate::exec::perform::servers::Servers;
use crate::exec::perform::standing::stands_here;
use crate::exec::perform::task::{Task, wants_another};
use crate::exec::perform::workers::Workers;
use crate::provision::Provision;
use crate::record::Record;
use crate::step::Step;
use crate::store::remote::Remote;
use crate::store::{DiskStore, Manifest, Scratch};
use crate::worker::{Cancel, Gone, Workplace};

/// Performs steps on other machines.
pub(in crate::exec) trait RemoteSteps: Sync {
    /// Whether a step goes away.
    fn takes(&self, step: &Step) -> bool;

    /// Performs a step on another machine.
    fn perform(&self, performer: &Performer<'_>, task: &Task<'_>) -> anyhow::Result<Returned>;

    /// Fetches those inputs of a step that stayed on the server.
    fn bring_inputs(&self, performer: &Performer<'_>, task: &Task<'_>) -> anyhow::Result<()>;

    /// Takes note of a tree that stayed on the server.
    fn note_absent(&self, record: &Record, made: Manifest, files: Vec<ServerFile>);
}

/// The result of a step that was performed on another machine.
pub(in crate::exec) struct Returned {
    pub(in crate::exec) done: Done,
    /// It was executed before this run, and the server remembers the result.
    pub(in crate::exec) is_remembered: bool,
}

/// What an execution needs; shared by all job threads.
pub(in crate::exec) struct Performer<'a> {
    pub(in crate::exec) store: &'a DiskStore,
    pub(in crate::exec) scratch: &'a Scratch,
    pub(in crate::exec) laid: LaidTrees<'a>,
    /// The folder in which commands work.
    pub(in crate::exec) workplace: &'a Workplace,
    pub(in crate::exec) provision: &'a Provision,
    pub(in crate::exec) servers: &'a Servers<'a>,
    pub(in crate::exec) workers: &'a Workers<'a>,
    pub(in crate::exec) listener: &'a dyn Listener,
    pub(in crate::exec) cancel: &'a Cancel,
    pub(in crate::exec) host: &'a HostFacts,
    pub(in crate::exec) options: &'a Options,
    pub(in crate::exec) bugs: &'a Bugs<'a>,
    /// The shared remote store, if one is configured.
    pub(in crate::exec) remote: Option<&'a dyn Remote>,
    /// The executor of the steps that go away, if any does.
    pub(in crate::exec) remote_steps: Option<&'a dyn RemoteSteps>,
}

impl Performer<'_> {
    /// Performs a step and gives the time that it took. `entered` is called once the step waits for nothing of this machine
    /// any more, or for another orch that executes the same.
    pub(in crate::exec) fn perform(&self, task: Task<'_>, entered: &dyn Fn()) -> (Performed, Span) {
        let begun = Begun::now();
        let performed = self
            .bugs
            .caught(&task.step.name, || self.attempt(&task, begun, entered));
        performed.unwrap_or_else(|bug| begun.to_now(self.broken_off(&task, begun, bug)))
    }

    fn attempt(&self, task: &Task<'_>, begun: Begun, entered: &dyn Fn()) -> (Performed, Span) {
        if self.cancel.is_cancelled() {
            return begun.to_now(self.keep(task, begun, Ok(Done::interrupted())));
        }
        let key_digest = task.key.digest();
        let _lock = match self.store.lock_key(&key_digest, |waited| {
            entered();
            self.go_on_waiting(task, waited)
        }) {
            Ok(Some(lock)) => lock,
            Ok(None) => return begun.to_now(self.keep(task, begun, Ok(Done::interrupted()))),
            Err(e) => return begun.to_now(self.keep(task, begun, Err(e.into()))),
        };
        // A rerun is executed here and not taken from another process; a record that is too old is the one that would
        // be found.
        if !wants_another(&task.why)
            && let Some(record) = self.held(task, &key_digest)
            && record
                .output
                .is_none_or(|digest| self.store.check_tree(&digest).is_ok())
        {
            return begun.to_now(Performed::Hit(Box::new(record)));
        }
        if let Some(remote_steps) = self.elsewhere(task) {
            return begun.to_now(self.perform_away(task, begun, remote_steps));
        }
        // After the lock of the key: two processes with the same steps would wait for each other otherwise.
        let Some(_devices) = self.occupy(task) else {
            return begun.to_now(self.keep(task, begun, Ok(Done::interrupted())));
        };
        entered();
        // What the step waited for is none of its time.
        let begun = if task.step.kind.runs_models() {
            Begun::now()
        } else {
            begun
        };
        begun.to_now(self.keep(task, begun, self.perform_here(task)))
    }

    /// The executor of this step, if that is not this machine.
    pub(in crate::exec) fn elsewhere(&self, task: &Task<'_>) -> Option<&dyn RemoteSteps> {
        self.remote_steps
            .filter(|remote_steps| remote_steps.takes(task.step))
    }

    fn perform_away(
        &self,
        task: &Task<'_>,
        begun: Begun,
        remote_steps: &dyn RemoteSteps,
    ) -> Performed {
        let returned = self
            .bring_from_remote(task)
            .and_then(|()| remote_steps.perform(self, task));
        let is_remembered = returned
            .as_ref()
            .is_ok_and(|returned| returned.is_remembered);
        let done = returned.and_then(|returned| task.files_are_the_same().map(|()| returned.done));
        match self.keep(task, begun, done) {
            Performed::Executed { record, .. }
                if is_remembered && record.outcome.may_be_shared() =>
            {
                Performed::Remembered(record)
            }
            performed => performed,
        }
    }

    fn perform_here(&self, task: &Task<'_>) -> anyhow::Result<Done> {
        self.bring_from_remote(task)?;
        if let Some(remote_steps) = self.remote_steps {
            remote_steps.bring_inputs(self, task)?;
        }
        let result = self
            .execute(task, self.given(task)?)
            .and_then(|done| task.files_are_the_same().map(|()| done));
        if let Some(gone) = result.as_ref().err().and_then(|e| e.downcast_ref::<Gone>())
            && let Some((from, digest)) = task.tree(&gone.input)
        {
            return Err(InputLost {
                from,
                digest,
                what: gone.to_string(),
            }
            .into());
        }
        self.trees_are_the_same(task)?;
        result
    }

    /// The record that another process has kept meanwhile.
    fn held(&self, task: &Task<'_>, key: &Digest) -> Option<Record> {
        let failed = || self.store.failure(key).ok().flatten();
        let stands = |record: &Record| {
            stands_here(record, task.step, &self.host.fingerprint, self.provision)
        };
        let passed = || {
            let hit = self.store.hit(key).ok().flatten()?;
            let failed_since = self.store.failed_since(&task.step.name, key, &hit);
            let record = self.store.record(&hit).ok()?;
            matches!(failed_since, Ok(None)).then_some(record)
        };
        passed().or_else(|| failed().filter(stands))
    }

    /// Called while another orch process executes the same key. False ends the waiting.
    fn go_on_waiting(&self, task: &Task<'_>, waited: Duration) -> bool {
        if waited > Duration::from_secs(1) {
            self.tell(
                task,
                &format!(
                    "waiting for another orch that is executing it ({} s)",
                    waited.as_secs()
                ),
            );
        }
        !self.cancel.is_cancelled()
    }

    /// What a step is doing.
    pub(in crate::exec) fn tell(&self, task: &Task<'_>, text: &str) {
        self.listener.tell(Event::StepProgress {
            step: task.step.name.clone(),
            text: text.to_owned(),
        });
    }
}

/// The path of a step's log, unless it is empty or missing.
pub(in crate::exec) fn log_if_any(path: &Path) -> Option<String> {
    let size = std::fs::metadata(path).ok()?.len();
    (size > 0).then(|| path.display().to_string())
}
