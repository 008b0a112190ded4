//! `orch submit`: the last run's results as a contribution to somebody's site.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::base::figures::counted;
use crate::cli::cmd::compare::note_newer;
use crate::cli::cmd::report::document;
use crate::cli::{Args, Exit, Printer};
use crate::session::{OUT_DIR, contribute, last_report, usage, write_contribution};

/// Reasons that so few cases share are listed case by case.
const FEW: usize = 3;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct SubmitArgs {
    /// The spec that the last run was of, to be sure [default: whichever it was of]
    spec: Option<PathBuf>,
    /// The name that stands beside the results: yours, or that of your machine or company
    #[arg(long = "as", value_name = "NAME")]
    by: String,
    /// The file for the contribution
    #[arg(long, short, value_name = "FILE")]
    out: PathBuf,
    /// The results: the matrix.json of a run on this machine [default: that of what ran last, of all or of a part: the newer one
    /// in orch-out]
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Print one JSON document on stdout
    #[arg(long)]
    json: bool,
}

pub(super) fn submit(args: &Args, submit: &SubmitArgs, printer: &Printer) -> anyhow::Result<Exit> {
    let report = match &submit.report {
        Some(named) => {
            note_newer(named, printer);
            named.clone()
        }
        None => {
            let last = last_report(Path::new(OUT_DIR))?;
            printer.note(&format!("the results of {}", last.description()));
            last.path
        }
    };
    let doc = document(&report)?;
    if let Some(spec) = submit
        .spec
        .as_ref()
        .filter(|spec| **spec != Path::new(&doc.spec))
    {
        usage!(
            "`{}` is of `{}`, and not of `{}`\n  hint: run that spec first, or name its report with --report",
            report.display(),
            doc.spec,
            spec.display()
        );
    }
    let tell = |text: &str| printer.note(text);
    let made = contribute(&args.locations(), &doc, &submit.by, &tell)?;
    let cases = made.contribution.cases.len();
    let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (case, why) in &made.left {
        by_reason.entry(why).or_default().push(case);
    }
    for (why, left) in by_reason {
        let named = match left.len() {
            ..=FEW => left.join(", "),
            many => counted(many, "case"),
        };
        printer.note(&format!("not contributed: {named}: {why}"));
    }
    let left: BTreeMap<&str, &str> = made
        .left
        .iter()
        .map(|(case, why)| (case.as_str(), why.as_str()))
        .collect();
    if cases > 0 {
        write_contribution(&made.contribution, &submit.out)?;
    }
    let written = (cases > 0).then_some(&submit.out);
    let digest = written.map(|_| &made.contribution.digest);
    let document = || json!({"file": written, "digest": digest, "cases": cases, "left": left, "report": report});
    printer.answer(submit.json, document, || match written {
        Some(path) => format!("{} written: {}\n", counted(cases, "case"), path.display()),
        None => "nothing to contribute\n".to_owned(),
    });
    Ok(if cases > 0 {
        Exit::Success
    } else {
        Exit::NothingRan
    })
}
