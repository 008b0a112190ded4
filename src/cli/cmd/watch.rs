//! `orch run --watch`: runs, waits until a file that the run depends on is another, and runs again.
//!
//! What the files are like is `watched`'s concern; what a run is, `run`'s.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;

use crate::base::figures::counted;
use crate::cli::cmd::run::{RunArgs, on_interrupt, perform, show};
use crate::cli::exit::{self, Exit};
use crate::cli::{Args, Printer};
use crate::report::ReportDoc;
use crate::session::{self, Ask, Planned, Session, Watched, absolute};
use crate::spec::Spec;
use crate::worker::Cancel;

/// How many names a line lists.
const LISTED: usize = 5;

pub(super) fn watch(args: &Args, run: &RunArgs, printer: &Printer) -> anyhow::Result<Exit> {
    session::can_be_written(&run.settings(), &args.locations())?;
    let cancel = Cancel::default();
    let (sender, receiver) = channel();
    let wake = sender.clone();
    on_interrupt(&cancel, move || {
        let _ = wake.send(());
    })?;
    let ignored = vec![absolute(&args.cache_dir)?, absolute(&run.out_dir)?];
    let mut watched = Watched::new(sender, ignored);
    let mut first = true;
    while !cancel.is_cancelled() {
        let executed = cycle(args, run, printer, &cancel, &mut watched, first)?;
        first = false;
        if cancel.is_cancelled() {
            break;
        }
        let changed = match watched.changed() {
            // What changed during the run is run at once.
            changed if !changed.is_empty() => changed,
            _ => {
                let files = counted(watched.count(), "file");
                let did = executed.map_or_else(|| "nothing ran".to_owned(), |names| ran(&names));
                printer.note(&format!(
                    "watch: {did}; waiting for a change of {files} (interrupt to end)"
                ));
                watched.wait(&receiver, &cancel)
            }
        };
        if cancel.is_cancelled() {
            break;
        }
        watched.debounce(&receiver, &cancel);
        printer.note(&format!("\nwatch: {} changed", listed(&changed)));
    }
    printer.note("watch: ended");
    Ok(Exit::Interrupted)
}

/// One run. Mistakes are shown and waited on: the next change may mend them. Gives what was executed, if it got so far.
fn cycle(
    args: &Args,
    run: &RunArgs,
    printer: &Printer,
    cancel: &Cancel,
    watched: &mut Watched,
    first: bool,
) -> anyhow::Result<Option<Vec<String>>> {
    // Opened anew each time: what was verified in the last run may be damaged by now.
    let mut session = Session::open_with(&args.locations(), cancel.clone())?;
    // Stamped before they are read, so that a change while they are read is noticed.
    let mut files = Vec::new();
    let _ = Spec::load_noting(&run.spec.spec, &mut files);
    let tell = |text: &str| printer.note(text);
    watched.set(&files, &tell);
    let mut request = run.request();
    let settings = run.settings();
    if !first {
        request.rerun.clear(); // requested once, not after every change
    }
    let ready = session.without_cuda_for(&request, &settings, &tell);
    let result = ready
        .and_then(|()| session.plan(&request, Ask::Installing(&tell), &tell))
        .and_then(|planned| {
            watched.add(&inputs(&planned), &tell);
            let show = |doc: &ReportDoc, page: Option<&Path>| show(doc, page, run, printer);
            perform(&session, planned, (&request, &settings), &show, printer)
        });
    match result {
        Ok((_, executed)) => Ok(Some(executed)),
        Err(error) if exit::of_error(&error) == Exit::Bug => Err(error),
        Err(error) => {
            printer.error(&error);
            Ok(None)
        }
    }
}

/// The user's files and folders that the steps read.
fn inputs(planned: &Planned) -> Vec<PathBuf> {
    planned
        .project
        .plan
        .files()
        .map(Path::to_owned)
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect()
}

/// `command:sorted, command:first ran`
fn ran(names: &[String]) -> String {
    if names.is_empty() {
        "nothing had to run".into()
    } else {
        format!("{} ran", listed(names))
    }
}

fn listed(names: &[String]) -> String {
    let rest = names.len().saturating_sub(LISTED);
    let shown = names[..names.len() - rest].join(", ");
    if rest == 0 {
        shown
    } else {
        format!("{shown} and {rest} more")
    }
}
