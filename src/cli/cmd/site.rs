//! `orch site`: reports as a static site.

use serde_json::json;

use crate::base::figures::counted;
use crate::cli::args::{Args, SiteArgs};
use crate::cli::cmd::report::{document, documents};
use crate::cli::exit::Exit;
use crate::cli::printer::Printer;
use crate::report::{compare, merge, site};
use crate::session::{Handed, place_site, trends};

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
    if asked.json {
        printer.json(&json!({"index": index, "written": written, "as_before": stayed, "removed": gone}));
    } else {
        let (written, index) = (counted(written, "file"), index.display());
        printer.out(&format!("{written} written, {stayed} as before, {gone} removed: {index}\n"));
    }
    Ok(Exit::Success)
}
