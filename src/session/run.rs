//! A plan performed: its steps, its journal, what is shared with other machines, what people look at, and the memo.

use crate::cases::{self, Finished};
use crate::device::{Host, free_memory};
use crate::event::{Event, Listener};
use crate::exec::{Context, How, Options};
use crate::memo::{Recorded, Removals};
use crate::session::out_dir::{self, Handed, LastRun};
use crate::session::recorded::Recording;
use crate::session::request::measuring_flags;
use crate::session::run_log::RunLog;
use crate::session::sharing::{RemoteSummary, Sharing};
use crate::session::{Blamed, Planned, Session, Settings, away};
use crate::step::StepId;

/// A run that came to its end.
pub struct Run {
    pub planned: Planned,
    pub finished: Finished,
    pub handed: Handed,
    /// What was found out about its failed cases, where that was requested.
    pub blamed: Vec<Blamed>,
    /// What a remote store did.
    pub remote: Option<RemoteSummary>,
    /// Whether the files about the run could be written. Whoever reports the run reports this first.
    pub written: anyhow::Result<()>,
    pub(super) options: Options,
    /// The store as it was before the first step was looked up.
    pub(super) before: Removals,
    /// What the history has of it.
    pub(super) recorded: Option<Recorded>,
}

impl Run {
    /// The steps that were executed.
    pub fn executed(&self) -> Vec<String> {
        let plan = &self.planned.project.plan;
        let how = |id: StepId| self.finished.results[id.0 as usize].how;
        let ids = plan.ids().filter(|id| how(*id) == How::Executed);
        ids.map(|id| plan.step(id).name.clone()).collect()
    }
}

impl Session {
    /// Performs a plan and hands out what it made. `uploads` hears how many are still to be waited for.
    pub fn run(
        &self,
        planned: Planned,
        settings: &Settings,
        listener: &dyn Listener,
        uploads: &dyn Fn(usize),
    ) -> anyhow::Result<Run> {
        let project = &planned.project;
        let (routing, away) = away::depart(settings)?;
        let options = Options {
            routing,
            ..self.options(&planned, settings)
        };
        let run_log = RunLog::new(listener, self, &options, settings)?;
        let before = Removals::of(&self.store);
        // What a report does not show is not begun: steps chosen by name leave none.
        let last = planned
            .has_pages
            .then(|| LastRun::begin(&options.settings.out_dir, &run_log.head.started))
            .transpose()?;
        let mut recording =
            Recording::begin(&planned, &options.spec, &run_log.run, &run_log.head.started);
        let sharing = Sharing::open(settings, &self.store, &run_log)?;
        let remote = sharing.remote();
        let away = away.as_deref();
        let context = Context {
            remote,
            away,
            ..self.context(project, &options, &run_log)
        };
        let ended = self.perform(&context, planned.has_pages, &mut recording);
        let remote = sharing.finish(&self.cancel, uploads);
        let hits = |finished: &Finished| {
            finished
                .results
                .iter()
                .filter(|result| result.how == How::Hit)
                .count() as u32
        };
        let counted = ended
            .as_ref()
            .ok()
            .map(|(finished, ..)| (finished.interrupted, hits(finished)));
        let written = run_log.finish(&project.plan, counted);
        let (finished, handed, blamed) = ended?;
        if let Some(last) = last.filter(|_| handed.page.is_some()) {
            last.ended(finished.doc.scope.is_some())?;
        }
        let warn = |text: &str| {
            listener.tell(Event::Warning {
                text: text.to_owned(),
            })
        };
        let recorded = recording
            .and_then(|recording| recording.end(self, &planned, &finished, settings, &warn));
        Ok(Run {
            planned,
            finished,
            handed,
            blamed,
            remote,
            written,
            options,
            before,
            recorded,
        })
    }

    /// The options of a run.
    pub fn options(&self, planned: &Planned, settings: &Settings) -> Options {
        Options {
            settings: settings.clone(),
            jobs: settings.jobs.unwrap_or(self.host.report.cores.max(1)),
            memory: settings
                .memory
                .or_else(|| free_memory(&Host::real()))
                .unwrap_or(u64::MAX),
            seed: settings
                .seed
                .unwrap_or_else(|| jiff::Timestamp::now().as_microsecond() as u64),
            mocked: self.mocked.clone(),
            flags: [
                self.locations.flags(),
                measuring_flags(planned.fallback, &planned.project.clock),
                settings.flags(),
                planned.project.sweep.flags(),
            ]
            .concat(),
            ..planned.options.clone()
        }
    }

    /// Performs the plan and hands out what it made; once more, if that was lost in between.
    fn perform(
        &self,
        context: &Context<'_>,
        has_pages: bool,
        recording: &mut Option<Recording>,
    ) -> anyhow::Result<(Finished, Handed, Vec<Blamed>)> {
        let hand_out =
            |finished: &Finished| out_dir::hand_out(context, finished, &self.locations, has_pages);
        let mut run = |context: &Context<'_>| {
            let mut finished = cases::run(context)?;
            let mut blamed = Vec::new();
            if context.options.settings.blame && has_pages && !finished.interrupted {
                blamed = self.blame_failed(context, &mut finished)?;
            }
            finished.doc.run = recording.as_mut().map(Recording::ran);
            // A run that executes nothing finds what the last one found.
            let may_differ = has_pages && finished.doc.summary.executed > 0;
            if let Some(recording) = recording.as_ref().filter(|_| may_differ) {
                finished.doc.since = recording.since(&self.locations, &finished.doc);
            }
            anyhow::Ok((finished, blamed))
        };
        let (finished, blamed) = run(context)?;
        match hand_out(&finished) {
            Ok(handed) => Ok((finished, handed, blamed)),
            Err(e) if out_dir::is_lost(&e) && !finished.interrupted => {
                context.listener.tell(Event::Warning {
                    text: format!("{e:#}; what was lost is made again"),
                });
                let again = Options {
                    rerun: Default::default(),
                    rerun_failed: false,
                    ..context.options.clone()
                };
                let (finished, blamed) = run(&Context {
                    options: &again,
                    ..*context
                })?;
                let handed = hand_out(&finished)?;
                Ok((finished, handed, blamed))
            }
            Err(e) => Err(e),
        }
    }
}
