//! `orch site`: reports as a static site.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::base::figures::counted;
use crate::cli::cmd::compare::{Reports, note_newer};
use crate::cli::cmd::report::documents;
use crate::cli::{Args, Exit, Printer};
use crate::report::compare::{Comparison, compare};
use crate::report::site::Beside;
use crate::report::{Machine, ReportDoc, merge, site};
use crate::session::OUT_DIR;
use crate::session::{
    Handed, TakenIn, contributions, earlier_site, last_report, place_site, trends,
};

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct SiteArgs {
    /// The folder for the site; files there that are not orch's are left alone
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// What it shows: the matrix.json of a run, or of several shards or machines [default: that of what ran last, of all or of a
    /// part: the newer one in orch-out]
    #[arg(long, value_name = "FILE", num_args = 1..)]
    report: Vec<PathBuf>,
    /// Adds what changed since, with a feed: an older matrix.json, or a run of the history, named as for `orch compare` (7d, a day, a
    /// git revision …) [default: with a history, the newest whole run of the spec that is a week old]
    #[arg(long, value_name = "BASE")]
    since: Option<PathBuf>,
    /// Adds what others measured: a folder of files that `orch submit` wrote. Those that do not follow from their own evidence are
    /// refused, and the exit code is 1
    #[arg(long, value_name = "DIR")]
    contrib: Option<PathBuf>,
    /// Print one JSON document on stdout
    #[arg(long)]
    json: bool,
}

pub(super) fn site(args: &Args, site: &SiteArgs, printer: &Printer) -> anyhow::Result<Exit> {
    let reports = match site.report.as_slice() {
        [] => {
            let last = last_report(Path::new(OUT_DIR))?;
            printer.note(&format!("the site shows {}", last.description()));
            vec![last.path]
        }
        named => {
            named.iter().for_each(|path| note_newer(path, printer));
            named.to_vec()
        }
    };
    let doc = merge::merge(&documents(&reports)?)?;
    let changes = changes(args, site, &reports, &doc, printer)?;
    let taken = match &site.contrib {
        Some(folder) => contributions(folder, &doc, &|text| printer.note(text))?,
        None => TakenIn::default(),
    };
    for (path, refusal) in &taken.refused {
        printer.note(&format!("refused: {}: {refusal}", path.display()));
    }
    let beside = Beside {
        changes: changes.as_ref(),
        contributions: &taken.sound,
        earlier: &earlier_site(&site.dir),
    };
    let trends = trends(&args.locations(), &|text| printer.note(text));
    let files = site::site_with(&doc, &trends, &beside)?;
    let mut handed = Handed::default();
    let [written, stayed, gone] = place_site(&files, &site.dir, &mut handed)?;
    handed.notes.iter().for_each(|text| printer.note(text));
    let index = site.dir.join("index.html");
    let since = changes.map(|changes| changes.base.name);
    let refused: Vec<_> = taken
        .refused
        .iter()
        .map(|(path, why)| json!({"file": path, "field": why.field, "value": why.value, "why": why.why}))
        .collect();
    let document = || json!({"index": index, "written": written, "as_before": stayed, "removed": gone, "reports": reports, "since": since, "contributions": taken.sound.len(), "refused": refused});
    printer.answer(site.json, document, || {
        let written = counted(written, "file");
        let index = index.display();
        format!("{written} written, {stayed} as before, {gone} removed: {index}\n")
    });
    Ok(if taken.refused.is_empty() {
        Exit::Success
    } else {
        Exit::Failed
    })
}

/// The run to compare with: the requested one, or else last week's.
fn changes(
    args: &Args,
    site: &SiteArgs,
    shown: &[PathBuf],
    doc: &ReportDoc,
    printer: &Printer,
) -> anyhow::Result<Option<Comparison>> {
    let mut reports = Reports::new(args, printer);
    let base = match (&site.since, shown) {
        (Some(since), _) => Some(reports.named(since)?),
        (None, [_]) => reports.last_week(doc).unwrap_or_else(|error| {
            printer.note(&format!(
                "the site does not say what changed since last week: {error:#}"
            ));
            None
        }),
        // The run of one shard or machine is no base for all of them.
        (None, _) => None,
    };
    let Some(base) = base else { return Ok(None) };
    let name = base.name;
    let base = base.doc;
    printer.note(&format!(
        "what changed since {name}: {}",
        site.dir.join("changes.html").display()
    ));
    let head = shown
        .iter()
        .map(|path| path.display().to_string())
        .collect::<Vec<_>>()
        .join(", ");
    Ok(Some(compare(
        (&name, &base),
        (&head, doc),
        &reports.noises(&Machine::from(&doc.host))?,
    )))
}
