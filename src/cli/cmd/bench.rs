//! `orch bench`: a run that measures everything anew, in rounds; with `--strict` on a quiet machine or not at all.

use std::cell::Cell;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::cli::args::{Args, BenchArgs};
use crate::cli::cmd::run::{self, command_line, on_interrupt};
use crate::cli::exit::Exit;
use crate::cli::printer::Printer;
use crate::device::Host;
use crate::device::conditions::Watch;
use crate::report::ReportDoc;
use crate::session::{Ask, Session, UsageError};
use crate::worker::Cancel;

/// So long a machine is looked at to tell whether it is quiet.
const LOOK: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) fn bench(args: &Args, bench: &BenchArgs, printer: &Printer) -> anyhow::Result<Exit> {
    if bench.run.spec.check || bench.run.watch {
        let flag = if bench.run.spec.check { "--check" } else { "--watch" };
        return Err(
            UsageError(format!("`orch bench` measures, and {flag} does not go with that: use `orch run`")).into()
        );
    }
    let (request, settings) = (bench.request(), bench.settings(command_line()));
    let tell = |text: &str| printer.note(text);
    let session = Session::open(&args.locations())?;
    let mut planned = session.plan(&request, Ask::Installing(&tell), &tell)?;
    if planned.measures_nothing() {
        let text = "none of the selected cases is timed\n  hint: `measure: none` of the spec, of a target or of a model says so, \
                    and stand-ins for hardware are not timed";
        return Err(UsageError(text.to_owned()).into());
    }
    if bench.run.resume {
        session.resume(&mut planned, &settings.command, &tell)?;
    }
    on_interrupt(&session.cancel, || {})?;
    if bench.strict
        && let Some(why) = disturbance(&session.cancel, &tell)
    {
        printer.note(&format!("nothing was measured: this machine is not quiet: {why}"));
        return Ok(Exit::Failed);
    }
    let disturbed = Cell::new(0);
    let show = |doc: &ReportDoc, page: Option<&Path>| {
        let remarked = |case: &&crate::report::CaseResult| case.metrics.as_ref().is_some_and(|m| !m.remarks.is_empty());
        disturbed.set(doc.cases.iter().filter(remarked).count());
        run::show(doc, page, &bench.run, printer);
    };
    let (exit, _) = run::perform(&session, planned, (&request, &settings), &show, printer)?;
    if bench.strict && exit == Exit::Success && disturbed.get() > 0 {
        let (count, noun) = (disturbed.get(), crate::base::figures::plural(disturbed.get(), "case was", "cases were"));
        printer.note(&format!("{count} {noun} disturbed while being measured; the report says by what"));
        return Ok(Exit::Failed);
    }
    Ok(exit)
}

/// Waits for a quiet machine. Why it did not become one.
fn disturbance(cancel: &Cancel, tell: &dyn Fn(&str)) -> Option<String> {
    let (host, begin) = (Host::real(), Instant::now());
    let mut has_told = false;
    loop {
        let watch = Watch::begin(&host);
        std::thread::sleep(LOOK);
        let remarks = watch.end().remarks();
        if remarks.is_empty() || cancel.is_cancelled() {
            return None;
        }
        let why = remarks.join("; ");
        if begin.elapsed() > PATIENCE {
            return Some(why);
        }
        if !std::mem::replace(&mut has_told, true) {
            tell(&format!("waits for a quiet machine: {why}"));
        }
    }
}
