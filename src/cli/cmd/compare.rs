//! `orch compare`: what differs between two reports, which are files or runs of the history.

mod confirm;
mod sides;

use anyhow::Context as _;

use crate::base::named;
use crate::cli::args::{Args, CompareArgs, CompareFormat};
use crate::cli::exit::Exit;
use crate::cli::printer::Printer;
use crate::report::compare;
use crate::report::text::Styles;

pub(super) fn compare(args: &Args, asked: &CompareArgs, printer: &Printer) -> anyhow::Result<Exit> {
    let sides = sides::sides(args, [&asked.base, &asked.head], printer)?;
    let [base, head] = &sides.reports;
    let mut comparison = compare::compare((&base.0, &base.1), (&head.0, &head.1), &sides.noises);
    if let Some(revision) = &asked.confirm {
        confirm::confirm(args, revision, &mut comparison, printer)?;
    }
    let format = if asked.json { CompareFormat::Json } else { asked.format };
    let page = match format {
        CompareFormat::Text if asked.output.is_some() => compare::text(&comparison, &Styles::plain()),
        CompareFormat::Text => compare::text(&comparison, &Styles::colored()),
        CompareFormat::Json => serde_json::to_string_pretty(&comparison).context("BUG: a comparison serialises")?,
        CompareFormat::Markdown => compare::markdown(&comparison),
    };
    match &asked.output {
        Some(path) => {
            named::save_named(path, page.as_bytes()).with_context(|| format!("failed to write `{}`", path.display()))?
        }
        None if format == CompareFormat::Text => printer.out(&page),
        None => printer.data(&page),
    }
    let is_worse = comparison.changes.iter().any(compare::Change::is_worse);
    Ok(if asked.gate && is_worse { Exit::Failed } else { Exit::Success })
}
