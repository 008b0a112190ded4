//! `orch bench`: a run that measures everything anew, in rounds; with `--strict` on a quiet machine or not at all.

use std::cell::Cell;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::cli::cmd::run::{self, RunArgs, on_interrupt};
use crate::cli::{Args, Exit, Printer};
use crate::device::Host;
use crate::device::conditions::Watch;
use crate::report::ReportDoc;
use crate::session::{self, Ask, Request, Session, Settings, usage};
use crate::worker::Cancel;

/// How many rounds tell an unchanged model from one that became slower.
const ROUNDS: u32 = 5;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct BenchArgs {
    #[command(flatten)]
    run: RunArgs,
    /// Wait up to a minute, or so many seconds, for a quiet machine before the first round, measure nothing if it stays
    /// busy, and fail if a round was disturbed
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "60")]
    #[arg(help_heading = "Measuring")]
    strict: Option<u32>,
    /// The seed for the random order of rounds, to repeat an order [default: a new one each time]
    #[arg(long, value_name = "N", help_heading = "Measuring")]
    seed: Option<u64>,
}

/// So long a machine is looked at to tell whether it is quiet.
const LOOK: Duration = Duration::from_secs(1);

pub(super) fn bench(args: &Args, bench: &BenchArgs, printer: &Printer) -> anyhow::Result<Exit> {
    if bench.run.spec.check || bench.run.watch {
        let flag = if bench.run.spec.check {
            "--check"
        } else {
            "--watch"
        };
        usage!("`orch bench` measures, and {flag} does not go with that: use `orch run`");
    }
    let request = bench.run.request();
    // Everything that is timed, anew.
    let request = Request {
        rounds: request.rounds.or(Some(ROUNDS)),
        anew: true,
        ..request
    };
    let settings = Settings {
        seed: bench.seed,
        ..bench.run.settings()
    };
    session::can_be_written(&settings, &args.locations())?;
    let tell = |text: &str| printer.note(text);
    let mut session = Session::open(&args.locations())?;
    session.without_cuda_for(&request, &settings, &tell)?;
    let mut planned = session.plan(&request, Ask::Installing(&tell), &tell)?;
    if planned.measures_nothing() {
        usage!(
            "none of the selected cases is timed\n  hint: `measure: none` of the spec, of a target or of a model says so, \
             and stand-ins for hardware are not timed"
        );
    }
    if bench.run.resume {
        session.resume(&mut planned, &settings.command, &tell)?;
    }
    on_interrupt(&session.cancel, || {})?;
    if let Some(seconds) = bench.strict
        && let Some(why) = disturbance(&session.cancel, Duration::from_secs(seconds.into()), &tell)
    {
        printer.note(&format!(
            "nothing was measured: this machine is not quiet: {why}"
        ));
        return Ok(Exit::NothingRan);
    }
    let disturbed = Cell::new(0);
    let show = |doc: &ReportDoc, page: Option<&Path>| {
        let remarked = |case: &&crate::report::CaseResult| {
            case.metrics.as_ref().is_some_and(|m| !m.remarks.is_empty())
        };
        disturbed.set(doc.cases.iter().filter(remarked).count());
        run::show(doc, page, &bench.run, printer);
    };
    let (exit, _) = run::perform(&session, planned, (&request, &settings), &show, printer)?;
    if bench.strict.is_some() && exit == Exit::Success && disturbed.get() > 0 {
        let count = disturbed.get();
        let noun = crate::base::figures::plural(disturbed.get(), "case was", "cases were");
        printer.note(&format!(
            "{count} {noun} disturbed while being measured; the report says by what"
        ));
        return Ok(Exit::Failed);
    }
    Ok(exit)
}

/// Waits for a quiet machine. Why it did not become one.
fn disturbance(cancel: &Cancel, patience: Duration, tell: &dyn Fn(&str)) -> Option<String> {
    let host = Host::real();
    let begin = Instant::now();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut has_reported = false;
    loop {
        let watch = Watch::begin(&host, cores);
        std::thread::sleep(LOOK);
        let remarks = watch.end().remarks();
        if remarks.is_empty() || cancel.is_cancelled() {
            return None;
        }
        let why = remarks.join("; ");
        if begin.elapsed() > patience {
            return Some(why);
        }
        if !std::mem::replace(&mut has_reported, true) {
            tell(&format!("waits for a quiet machine: {why}"));
        }
    }
}
