//! `orch bisect`: the release of a runtime since which a case is wrong.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::cli::args::SPEC;
use crate::cli::cmd::run::{command_line, on_interrupt};
use crate::cli::console::Console;
use crate::cli::{Args, Exit, Printer};
use crate::explain::bisect::{Since, Trial};
use crate::session::{Bisected, OUT_DIR, Range, Request, Session, Settings, trial_word};

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct BisectArgs {
    /// The case, such as `bit:cpu-fp32`, or a glob that matches one
    #[arg(value_name = "CASE")]
    case: String,
    /// The spec
    #[arg(long, default_value = SPEC, value_name = "SPEC")]
    spec: PathBuf,
    /// A release that is right; else the oldest that can be tried
    #[arg(long, value_name = "VERSION")]
    good: Option<String>,
    /// A release that is wrong; else the one that the case runs on
    #[arg(long, value_name = "VERSION")]
    bad: Option<String>,
    /// The folder in which `blame/CASE` shows the fault without orch
    #[arg(long, default_value = OUT_DIR, value_name = "DIR")]
    out_dir: PathBuf,
    /// Print one JSON document on stdout
    #[arg(long)]
    json: bool,
}

pub(super) fn bisect(args: &Args, asked: &BisectArgs, printer: &Printer) -> anyhow::Result<Exit> {
    let session = Session::open(&args.locations())?;
    on_interrupt(&session.cancel, || {})?;
    let mut console = Console::new(printer.verbosity());
    let tell = |text: &str| printer.note(text);
    let settings = Settings {
        out_dir: asked.out_dir.clone(),
        command: command_line(),
        ..Settings::default()
    };
    let range = Range {
        good: asked.good.as_deref(),
        bad: asked.bad.as_deref(),
    };
    let request = Request::all(&asked.spec);
    let found = session.bisect(&request, &asked.case, &range, &settings, (&console, &tell));
    console.close();
    let found = found?;
    printer.answer(asked.json, || document(&found), || text(&found));
    Ok(Exit::Success)
}

fn document(found: &Bisected) -> Value {
    let tried = |(release, trial): &(String, Trial)| json!({"release": release, "trial": trial});
    let newest = found.newest.as_ref().map(tried);
    json!({
        "case": found.case,
        "package": found.package,
        "since": found.since,
        "trials": found.trials.iter().map(tried).collect::<Vec<_>>(),
        "newest": newest,
        "finding": found.finding,
    })
}

fn text(found: &Bisected) -> String {
    let Bisected { case, package, .. } = found;
    let mut out = match &found.since {
        Since::Release {
            first,
            last_right,
            untestable,
        } => {
            let between = if untestable.is_empty() {
                String::new()
            } else {
                format!("; no answer from {}", untestable.join(", "))
            };
            format!("{case}: wrong since {package} {first}; {last_right} is right{between}\n")
        }
        Since::NeverRight { oldest } => {
            format!("{case}: {package} was never right: {oldest} is wrong already\n")
        }
        Since::NotWrong { release } => format!("{case}: {package} {release} is not wrong\n"),
        Since::Untestable => format!("{case}: no older release of {package} can be tried\n"),
    };
    if let Some((release, trial)) = &found.newest {
        let word = match trial {
            Trial::Right => format!("right again in {release}, the newest"),
            Trial::Wrong => format!("still wrong in {release}, the newest"),
            Trial::Untestable(why) => format!("{release}, the newest, cannot be tried: {why}"),
        };
        let _ = writeln!(out, "  {word}");
    }
    if let Some(signature) = &found.finding.signature {
        let _ = writeln!(out, "  signature: {signature}");
    }
    let word = |trial: &Trial| match trial {
        // The reason was printed when it was tried, and stands in the document.
        Trial::Untestable(_) => "skipped".to_owned(),
        tested => trial_word(tested),
    };
    let tried: Vec<_> = found
        .trials
        .iter()
        .map(|(release, trial)| format!("{release} {}", word(trial)))
        .collect();
    let _ = writeln!(out, "  tried: {}", tried.join(", "));
    out
}
