//! `orch compare`: what differs between two reports, which are files or runs of the history.

mod accepted;
mod reports;

use std::path::PathBuf;

use anyhow::Context as _;

use crate::base::{Bug, figures, named};
use crate::cli::cmd::run::on_interrupt;
use crate::cli::{Args, Exit, Printer};
use crate::report::text::Styles;
use crate::report::{Machine, compare};
use crate::session::{self, usage};
use crate::worker::Cancel;
pub(super) use reports::{Reports, note_newer};

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct CompareArgs {
    /// Base: the `matrix.json` of a run, or a run of the history (1 for the last, 2 for the one before, its name, a day, a time, an
    /// age such as 7d, or a git revision)
    #[arg(value_name = "BASE")]
    base: PathBuf,
    /// Head, given like the base [default: the report of what ran last, of all or of a part: the newer one in orch-out]
    #[arg(value_name = "HEAD")]
    head: Option<PathBuf>,
    /// Exit with 1 if a case broke, can no longer be proved right, is less accurate, takes more memory, or is confirmed to be
    /// slower
    #[arg(long)]
    gate: bool,
    /// Measure both sides again in turns where times differ, 5 to 25 processes each; the base's files come from this git
    /// revision
    #[arg(long, value_name = "REVISION")]
    confirm: Option<String>,
    /// How it is printed
    #[arg(long, value_enum, default_value_t = CompareFormat::Text)]
    format: CompareFormat,
    /// Shorthand for --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Write to this file instead of stdout
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(in crate::cli) enum CompareFormat {
    Text,
    Json,
    /// A comment on a pull request
    Markdown,
}

pub(super) fn compare(
    args: &Args,
    compare: &CompareArgs,
    printer: &Printer,
) -> anyhow::Result<Exit> {
    if let Some(path) = &compare.output {
        // Measuring again takes minutes.
        named::try_named(path)
            .with_context(|| format!("`{}` cannot be written", path.display()))?;
    }
    let mut reports = Reports::new(args, printer);
    let base = reports.named(&compare.base)?;
    let head = reports.head(compare.head.as_deref())?;
    if base.is_same_run(&head) {
        let hint =
            "`orch run` makes another report; a base is a report that was kept of an earlier run";
        let base = base.name;
        let head = head.name;
        usage!(
            "base and head are one run: `{base}` and `{head}` say when it began\n  hint: {hint}"
        );
    }
    let acceptances = accepted::acceptances()?;
    let noises = reports.noises(&Machine::from(&head.doc.host))?;
    // Nothing is taken into the history as long as it is open, and measuring again takes minutes.
    drop(reports);
    let mut comparison =
        compare::compare((&base.name, &base.doc), (&head.name, &head.doc), &noises);
    comparison.base.run = base.began;
    comparison.head.run = head.began;
    if let Some(revision) = &compare.confirm {
        let cancel = Cancel::default();
        on_interrupt(&cancel, || {})?;
        let tell = |text: &str| printer.note(text);
        session::confirm(&args.locations(), revision, &mut comparison, &cancel, &tell)?;
    }
    comparison.accept(&acceptances, &figures::today());
    let format = if compare.json {
        CompareFormat::Json
    } else {
        compare.format
    };
    let page = match format {
        CompareFormat::Text if compare.output.is_some() => {
            compare::text(&comparison, &Styles::plain())
        }
        CompareFormat::Text => compare::text(&comparison, &Styles::colored()),
        CompareFormat::Json => serde_json::to_string_pretty(&comparison)
            .context(Bug::new("a comparison serialises"))?,
        CompareFormat::Markdown => compare::markdown(&comparison),
    };
    match &compare.output {
        Some(path) => named::save_named(path, page.as_bytes())
            .with_context(|| format!("failed to write `{}`", path.display()))?,
        None if format == CompareFormat::Text => printer.out(&page),
        None => printer.data(&page),
    }
    let is_worse = comparison.changes.iter().any(compare::Change::is_worse);
    let mut worse = comparison.changes.iter().filter(|change| change.is_worse());
    if compare.gate && worse.any(|change| compare::is_acceptable(change.kind)) {
        let base = compare.base.display();
        printer.note(&format!(
            "hint: where a change is intended, `orch accept --figures {base} --reason TEXT` lets it pass for a while"
        ));
    }
    Ok(if compare.gate && is_worse {
        Exit::Failed
    } else {
        Exit::Success
    })
}
