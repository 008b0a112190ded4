//! What a run writes down about itself while the listener shows it: its journal always, a trace where one is requested.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context as _;

use crate::base::figures;
use crate::event::{Event, Listener};
use crate::exec::Options;
use crate::history;
use crate::journal::{Head, Journal};
use crate::plan::Plan;
use crate::session::{Session, Settings, runs_dir};
use crate::trace::Recorder;

/// The folder in which the command was given.
pub(super) fn folder() -> String {
    std::env::current_dir()
        .unwrap_or_default()
        .display()
        .to_string()
}

/// The version of the journal's shape.
const VERSION: u32 = 1;

/// Passes every event on to the listener.
pub(super) struct RunLog<'a> {
    listener: &'a dyn Listener,
    start: Instant,
    memory: u64,
    /// The run's name in the history.
    pub(super) run: String,
    pub(super) head: Head,
    journal: Journal,
    trace: Option<(PathBuf, Recorder)>,
}

impl<'a> RunLog<'a> {
    pub(super) fn new(
        listener: &'a dyn Listener,
        session: &Session,
        options: &Options,
        settings: &Settings,
    ) -> anyhow::Result<Self> {
        let start = Instant::now();
        let head = Head {
            version: VERSION,
            started: figures::exactly_now(),
            command: settings.command.clone(),
            folder: folder(),
            host: session.host.report.name.clone(),
            jobs: options.jobs,
            again: options.again(),
        };
        let run = history::name(&head.started);
        let runs = runs_dir(&session.locations)?;
        let journal = Journal::new(&runs, &run, head.clone(), start);
        let trace = settings
            .trace
            .clone()
            .map(|path| (path, Recorder::new(start)));
        Ok(Self {
            listener,
            start,
            memory: options.memory,
            run,
            head,
            journal,
            trace,
        })
    }

    /// Closes the journal and writes the trace, also of a run that ended badly. A journal that could not be written is
    /// a warning; a trace was requested, so it is an error. `ended`: whether the run was interrupted, and its hits; None if it
    /// ended with an error.
    pub(super) fn finish(&self, plan: &Plan, ended: Option<(bool, u32)>) -> anyhow::Result<()> {
        let (interrupted, hits) = ended.unwrap_or((true, 0));
        if let Err(e) = self
            .journal
            .finish(self.start.elapsed().as_secs_f64(), interrupted, hits)
        {
            let text =
                format!("the journal of this run was not kept, so `orch history` lacks it: {e}");
            self.listener.tell(Event::Warning { text });
        }
        let Some((path, recorder)) = &self.trace else {
            return Ok(());
        };
        let written = recorder.write(path, plan, &self.head, self.memory);
        written.with_context(|| format!("failed to write the trace `{}`", path.display()))
    }
}

impl Listener for RunLog<'_> {
    fn tell(&self, event: Event) {
        if let Some((_, recorder)) = &self.trace {
            recorder.tell(event.clone());
        }
        self.journal.tell(event.clone());
        self.listener.tell(event);
    }
}
