//! `orch run`: prints what a session found, or what the last one left behind if nothing changed.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;

use crate::base::text::without_secrets;
use crate::base::{Size, lock, shell};
use crate::cases::Finished;
use crate::cli::args::{SPEC, ScopeArgs, SpecArgs, Words, count, one_of, steps, whole};
use crate::cli::cmd::{blame, watch};
use crate::cli::console::Console;
use crate::cli::github;
use crate::cli::{Args, Exit, Printer};
use crate::config::{Download, ExecutorOverride, Where};
use crate::exec::{Backoff, KeepGoing};
use crate::report::{self, ReportDoc, Summary};
use crate::session::{
    self, Ask, OUT_DIR, Planned, Recalled, Request, Session, Settings, page_of, recall, suspects,
};
use crate::worker::{self, Cancel};

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct RunArgs {
    #[command(flatten)]
    pub(super) spec: SpecArgs,
    #[command(flatten)]
    scope: ScopeArgs,
    /// Only these steps and what they need, e.g. 'convert:bert:*'; 'failed': those that failed last time, executed again
    #[arg(long = "step", value_name = "GLOB", add = steps())]
    steps: Vec<String>,
    /// Execute again even if nothing changed: steps, 'run' for all measurements, 'case:bert:*', 'failed' (including
    /// standing failures) or 'flaky'
    #[arg(long, value_name = "GLOB", add = steps())]
    rerun: Vec<String>,
    /// How many steps may run at once [default: the number of cores]
    #[arg(long, short, value_name = "N", value_parser = count::<u32>)]
    jobs: Option<u32>,
    /// How much memory all running steps may use together, e.g. 8GiB [default: what is free when the run begins]
    #[arg(long, value_name = "SIZE")]
    memory: Option<Size>,
    #[command(flatten)]
    retry: RetryArgs,
    /// What to start after a failure
    #[arg(long, value_name = "WHAT", default_value = "always", value_parser = one_of(KEEP_GOING))]
    keep_going: KeepGoing,
    /// Shorthand for --keep-going never
    #[arg(long, conflicts_with = "keep_going")]
    fail_fast: bool,
    /// Kill a step that uses more memory than this and call it OOM, e.g. 4GiB [default: nine tenths of the machine's]
    #[arg(long, env = "ORCH_JOB_MEMORY", value_name = "SIZE")]
    job_memory: Option<Size>,
    /// Continue the last run of this command line after it was interrupted or killed: finished steps are not repeated,
    /// failed ones are not retried
    #[arg(long, conflicts_with = "watch")]
    pub(super) resume: bool,
    /// Run again whenever the spec or a file that it reads changes, until interrupted
    #[arg(long, conflicts_with = "json")]
    pub(super) watch: bool,
    /// Do not use the remote store
    #[arg(long)]
    no_remote: bool,
    /// A server of the Remote Execution API that executes steps, e.g. grpc://host:8980 [default: that of orch.toml]
    #[arg(long, value_name = "URL")]
    executor: Option<String>,
    /// Steps that the executor gets [default: auto]
    #[arg(long = "where", value_name = "WHERE", value_parser = one_of(WHERE))]
    whereabouts: Option<Where>,
    /// Outputs to download from the executor and the remote store; what a local step reads is always downloaded [default:
    /// all of an executor's; of a remote store's those below 16 MiB and the top-level ones]
    #[arg(long, value_name = "WHAT", value_parser = one_of(DOWNLOAD))]
    download: Option<Download>,
    /// How many seconds of the run may go into measuring again what is not quiet (`~`): noisy, disturbed, in two modes
    /// [default: what the spec says, else 10]
    #[arg(long, value_name = "SECONDS", help_heading = "Measuring")]
    remeasure: Option<u64>,
    /// Begin even if a step is expected to hold more memory than this machine has, or all to write more than is free
    #[arg(long)]
    oversized: bool,
    /// Then search for what makes failed cases wrong, as `orch blame --all` does; the report has the findings
    #[arg(long, conflicts_with = "steps")]
    blame: bool,
    /// Exit with 0 instead of 3 if nothing ran, for jobs whose hardware may be absent
    #[arg(long)]
    allow_none: bool,
    /// Print one JSON document on stdout
    #[arg(long)]
    pub(super) json: bool,
    /// The folder for the report, the generated tests and copies of artefacts
    #[arg(long, default_value = OUT_DIR, value_name = "DIR")]
    pub(super) out_dir: PathBuf,
    /// Write a Chrome trace of the run, for ui.perfetto.dev
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
}

const KEEP_GOING: &Words<KeepGoing> = &[
    ("always", KeepGoing::Always, "Every step whose inputs exist"),
    (
        "dependencies",
        KeepGoing::Dependencies,
        "Only steps that serve a case which can still pass",
    ),
    ("never", KeepGoing::Never, "Nothing new"),
];
const WHERE: &Words<Where> = &[
    ("local", Where::Local, "None"),
    ("remote", Where::Remote, "All that can execute remotely"),
    (
        "auto",
        Where::Auto,
        "Those that need a device which this machine lacks",
    ),
];
const DOWNLOAD: &Words<Download> = &[
    ("all", Download::All, "All outputs"),
    (
        "toplevel",
        Download::Toplevel,
        "Outputs that no other step reads, and those requested by name",
    ),
    ("none", Download::None, "Nothing"),
];

impl RunArgs {
    fn allowing_none(&self, exit: Exit) -> Exit {
        if self.allow_none && exit == Exit::NothingRan {
            Exit::Success
        } else {
            exit
        }
    }

    pub(super) fn request(&self) -> Request {
        Request {
            steps: self.steps.clone(),
            rerun: self.rerun.clone(),
            ..self.spec.scoped(&self.scope)
        }
    }

    pub(super) fn settings(&self) -> Settings {
        Settings {
            jobs: self.jobs,
            memory: self.memory.map(|size| size.0),
            job_memory: self.job_memory.map(|size| size.0),
            keep_going: if self.fail_fast {
                KeepGoing::Never
            } else {
                self.keep_going
            },
            retries: self.retry.retries,
            backoff: self.retry.backoff(),
            remeasure_seconds: self.remeasure,
            seed: None,
            oversized: self.oversized,
            no_remote: self.no_remote,
            executor: ExecutorOverride {
                url: self.executor.clone(),
                whereabouts: self.whereabouts,
                download: self.download,
            },
            out_dir: self.out_dir.clone(),
            trace: self.trace.clone(),
            blame: self.blame,
            command: command_line(),
        }
    }
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Retries")]
pub(in crate::cli) struct RetryArgs {
    /// How often to retry a step that failed for a transient reason [default: what the spec says, else 0]
    #[arg(long, value_name = "N", env = "ORCH_RETRIES", hide_env = true, value_parser = whole::<u32>)]
    retries: Option<u32>,
    /// Seconds to wait before the first retry; the wait doubles each time, plus or minus half
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, hide_short_help = true, value_parser = seconds)]
    retry_wait: f64,
    /// Seed for the waits, so that they are the same each time
    #[arg(long, value_name = "N", hide = true)]
    retry_seed: Option<u64>,
}

impl RetryArgs {
    fn backoff(&self) -> Backoff {
        let now = || {
            std::time::SystemTime::now()
                .duration_since(std::time::UNIX_EPOCH)
                .unwrap_or_default()
        };
        // Two runs that fail together come back at different times.
        let seed = self
            .retry_seed
            .unwrap_or_else(|| now().as_nanos() as u64 ^ u64::from(std::process::id()));
        Backoff {
            first: Duration::from_secs_f64(self.retry_wait),
            seed,
            ..Backoff::default()
        }
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "it is not a number".to_owned())?;
    if (0.0..=3600.0).contains(&value) {
        Ok(value)
    } else {
        Err("it must be from 0 to 3600".to_owned())
    }
}

pub(super) fn run(args: &Args, run: &RunArgs, printer: &Printer) -> anyhow::Result<Exit> {
    if run.watch {
        return watch::watch(args, run, printer);
    }
    let locations = args.locations();
    let request = run.request();
    let settings = run.settings();
    if !run.resume
        && let Some(recalled) = recall(&locations, &request, &settings)?
        && let Some(exit) = show_recalled(&recalled, &request, run, printer)
    {
        return Ok(exit);
    }
    if !request.spec.is_file() {
        // Mistakes are reported before anything is made here.
        session::spec(&request.spec)?;
    }
    if request.steps.is_empty() {
        // Steps that are named leave no report.
        session::can_be_written(&settings, &locations)?;
    }
    let tell = |text: &str| printer.note(text);
    if !locations.cache_dir.exists() {
        // A mistake in what was named leaves no store behind.
        Session::open_to_look(&locations)?.plan(&request, Ask::Installed, &|_| ())?;
    }
    let mut session = Session::open(&locations)?;
    session.without_cuda_for(&request, &settings, &tell)?;
    let mut planned = session.plan(&request, Ask::Installing(&tell), &tell)?;
    if run.resume {
        session.resume(&mut planned, &settings.command, &tell)?;
    }
    on_interrupt(&session.cancel, || {})?;
    let show = |doc: &ReportDoc, page: Option<&Path>| show(doc, page, run, printer);
    let (exit, _) = perform(&session, planned, (&request, &settings), &show, printer)?;
    Ok(run.allowing_none(exit))
}

/// This process's command line, quoted for a shell; as it may be written down.
pub(super) fn command_line() -> String {
    let args = std::env::args()
        .skip(1)
        .map(|arg| format!(" {}", shell::word(&without_secrets(&arg))));
    std::iter::once("orch".to_owned()).chain(args).collect()
}

/// Set by the first interrupt.
static IS_INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Whether somebody interrupted this process: whatever error a command then ends with is a consequence.
pub(in crate::cli) fn is_interrupted() -> bool {
    IS_INTERRUPTED.load(Ordering::Relaxed)
}

/// Cancels on the first interrupt, and ends everything at once on the second.
pub(super) fn on_interrupt(
    cancel: &Cancel,
    also: impl Fn() + Send + 'static,
) -> anyhow::Result<()> {
    static CURRENT: Mutex<Option<Cancel>> = Mutex::new(None);
    let current = || lock(&CURRENT);
    // The handler stays for as long as the process lives; the run that listens last is cancelled.
    if current().replace(cancel.clone()).is_some() {
        return Ok(());
    }
    ctrlc::set_handler(move || {
        let Some(cancel) = current().clone() else {
            return;
        };
        if cancel.is_cancelled() {
            // Interrupted twice: now.
            worker::kill_all();
            #[expect(
                clippy::exit,
                reason = "on its own thread, a handler has no other way to end the program"
            )]
            std::process::exit(Exit::Interrupted as i32);
        }
        IS_INTERRUPTED.store(true, Ordering::Relaxed);
        cancel.cancel();
        also();
    })
    .context("failed to listen for interrupts")
}

/// Performs what was requested and has it shown, with the page of it; gives the steps that were executed besides the exit code.
pub(super) fn perform(
    session: &Session,
    planned: Planned,
    (request, settings): (&Request, &Settings),
    show: &dyn Fn(&ReportDoc, Option<&Path>),
    printer: &Printer,
) -> anyhow::Result<(Exit, Vec<String>)> {
    session.require_that_it_fits(&planned, settings)?;
    let mut console = Console::new(printer.verbosity());
    let ended = session.run(planned, settings, &console, &|left| console.uploads(left));
    console.close();
    let mut ended = ended?;
    let finished = &ended.finished;
    show(&finished.doc, ended.handed.page.as_deref());
    if !ended.blamed.is_empty() {
        printer.note(blame::texts(&ended.blamed).trim_end());
    }
    printer.sharing(ended.remote.take());
    ended
        .handed
        .notes
        .iter()
        .for_each(|text| printer.note(text));
    if finished.met_bug {
        printer.note(BUG);
    }
    if finished.interrupted {
        printer.note("the same command line with --resume continues where this run ended");
    }
    let nothing = &ended.planned.nothing;
    nothing.iter().for_each(|why| printer.note(why));
    let exit = exit_of(finished, nothing.is_some());
    let executed = ended.executed();
    // The run is reported first: what went wrong with a file about it must not hide it.
    std::mem::replace(&mut ended.written, Ok(()))?;
    session.keep(ended, request, settings, &|text| printer.note(text));
    Ok((exit, executed))
}

/// The command that finds out whose fault wrong outputs are; None where there are none that it looks into.
fn whose_fault(doc: &ReportDoc) -> Option<String> {
    let spec = Path::new(&doc.spec);
    let cases = match &suspects(doc)[..] {
        [] => return None,
        [case] => shell::word(case).into_owned(),
        _ => "--all".to_owned(),
    };
    let spec = if spec == Path::new(SPEC) {
        String::new()
    } else {
        shell::path_option("--spec", spec)
    };
    Some(format!("whose fault it is: `orch blame {cases}{spec}`"))
}

/// The message where a bug of orch's own did not end everything.
const BUG: &str = "steps marked `BUG:` hit a bug in orch; please report them with their logs";

/// What a run prints at its end.
pub(super) fn show(doc: &ReportDoc, page: Option<&Path>, run: &RunArgs, printer: &Printer) {
    if github::is_here() {
        github::report(doc, printer);
    }
    if run.json {
        printer.data(&report::json::render(doc));
        return;
    }
    show_text(
        &report::text::body(doc, &printer.styles()),
        &doc.summary,
        page,
        printer,
    );
    if !run.blame {
        whose_fault(doc).iter().for_each(|hint| printer.note(hint));
    }
}

/// Prints the report for people; `body` is all but the last line.
fn show_text(body: &str, summary: &Summary, page: Option<&Path>, printer: &Printer) {
    let last = report::text::summary_line(summary, &printer.styles());
    printer.out(&format!("{body}{last}\n"));
    if let Some(page) = page {
        printer.note(&format!("report: {}", page.display()));
    }
}

/// What the last run found. None if it cannot be read.
fn show_recalled(
    recalled: &Recalled,
    request: &Request,
    run: &RunArgs,
    printer: &Printer,
) -> Option<Exit> {
    let summary = recalled.summary();
    let page = page_of(&run.out_dir, request.part().is_some());
    if run.json || github::is_here() {
        show(&recalled.doc()?, Some(&page), run, printer);
    } else {
        // The text that was kept is as wide as a file's.
        let text = match printer.width() {
            report::text::WIDTH => recalled.text()?,
            _ => report::text::body(&recalled.doc()?, &printer.styles()),
        };
        show_text(&text, &summary, Some(&page), printer);
        if summary.failed > 0 {
            let hint = recalled.doc().as_ref().and_then(whose_fault);
            hint.iter().for_each(|hint| printer.note(hint));
        }
    }
    // Only the counts are known; what was executed or a hit in it passed.
    Some(run.allowing_none(exit_by(&summary, summary.executed + summary.hits > 0)))
}

/// `nothing`: nothing was requested, because nothing is in the part that was. That is no failure of anything.
fn exit_of(finished: &Finished, nothing: bool) -> Exit {
    if finished.interrupted {
        return Exit::Interrupted;
    }
    if finished.met_bug {
        return Exit::Bug;
    }
    let made = nothing
        || finished
            .results
            .iter()
            .any(|result| result.outcome.is_made());
    exit_by(&finished.doc.summary, made)
}

/// The exit code by the counts of a run. `made`: whether it made anything besides cases. Steps chosen by name, or commands, are
/// something that ran although no case was requested.
fn exit_by(summary: &Summary, made: bool) -> Exit {
    match (
        has_failed(summary),
        summary.is_well() || (summary.cases == 0 && made),
    ) {
        (true, _) => Exit::Failed,
        (false, true) => Exit::Success,
        (false, false) => Exit::NothingRan,
    }
}

/// Something failed that neither the spec expects nor another device answers for. An unexpected success did, too.
fn has_failed(summary: &Summary) -> bool {
    summary.failed + summary.failed_steps > 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::FileDigests;

    #[test]
    fn a_bug_counts_for_more_than_any_result_and_an_interruption_for_more_than_a_bug() {
        let doc: ReportDoc =
            serde_json::from_str(include_str!("../../../tests/fixtures/report/doc.json")).unwrap();
        assert!(has_failed(&doc.summary), "it would be another failure");
        let exit = |met_bug, interrupted| {
            let files = FileDigests::load("nowhere".into());
            let doc = doc.clone();
            let absent = Default::default();
            exit_of(
                &Finished {
                    results: vec![],
                    interrupted,
                    met_bug,
                    doc,
                    files,
                    absent,
                },
                false,
            )
        };
        assert_eq!(exit(false, false), Exit::Failed);
        assert_eq!((exit(true, false), Exit::Bug as u8), (Exit::Bug, 70));
        assert_eq!(exit(true, true), Exit::Interrupted);
    }
}
