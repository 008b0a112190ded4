//! `orch site`: reports as a static site.

use std::path::PathBuf;

use serde_json::json;

use crate::base::figures::counted;
use crate::cli::cmd::report::{document, documents};
use crate::cli::{Args, Exit, Printer};
use crate::report::{compare, merge, site};
use crate::session::{Handed, place_site, trends};

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct SiteArgs {
    /// The folder for the site; files there that are not orch's are left alone
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// What it shows: the matrix.json of a run, or of several shards or machines [default: the last run's in orch-out]
    #[arg(long, value_name = "FILE", num_args = 1.., default_value = "orch-out/report/matrix.json", hide_default_value = true)]
    report: Vec<PathBuf>,
    /// An older matrix.json: adds what changed since, with a feed
    #[arg(long, value_name = "FILE")]
    since: Option<PathBuf>,
    /// Print one JSON document on stdout
    #[arg(long)]
    json: bool,
}

pub(super) fn site(args: &Args, asked: &SiteArgs, printer: &Printer) -> anyhow::Result<Exit> {
    let doc = merge::merge(&documents(&asked.report)?)?;
    let base = asked.since.as_ref().map(|path| anyhow::Ok((path.display().to_string(), document(path)?)));
    let base = base.transpose()?;
    let head = asked.report.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
    let changes =
        base.as_ref().map(|(name, base)| compare::compare((name, base), (&head, &doc), &compare::Noises::new()));
    let files = site::site(&doc, changes.as_ref(), &trends(&args.locations(), &|text| printer.note(text)))?;
    let mut handed = Handed::default();
    let [written, stayed, gone] = place_site(&files, &asked.dir, &mut handed)?;
    handed.told.iter().for_each(|text| printer.note(text));
    let index = asked.dir.join("index.html");
    let document = || json!({"index": index, "written": written, "as_before": stayed, "removed": gone});
    printer.answer(asked.json, document, || {
        let (written, index) = (counted(written, "file"), index.display());
        format!("{written} written, {stayed} as before, {gone} removed: {index}\n")
    });
    Ok(Exit::Success)
}
