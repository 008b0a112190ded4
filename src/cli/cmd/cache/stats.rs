//! `orch cache stats`

use std::fmt::Write;

use serde_json::json;

use crate::base::figures::{bytes, counted};
use crate::cli::{Args, Exit, Printer};
use crate::store::{DiskStore, OfSteps, Stats};

pub(super) fn stats(
    args: &Args,
    store: &DiskStore,
    envs: bool,
    json: bool,
    printer: &Printer,
) -> anyhow::Result<Exit> {
    let stats = store.stats()?;
    let envs = envs.then(|| args.provision()?.installed()).transpose()?;
    if json {
        let mut document = json!(stats);
        if let Some(envs) = &envs {
            document["environments"] = json!(envs);
        }
        printer.json(&document);
        return Ok(Exit::Success);
    }
    let mut text = text(&stats);
    if let Some(envs) = envs {
        let _ = writeln!(
            text,
            "\nenvironments: {}",
            bytes(envs.iter().map(|env| env.bytes).sum())
        );
        for env in envs {
            let note = if env.current {
                ""
            } else {
                "  of another version of orch, or of another lock"
            };
            let _ = writeln!(
                text,
                "  {:>8}  {}  last used {}{note}",
                bytes(env.bytes),
                env.path.display(),
                env.last_used
            );
        }
    }
    printer.out(text.trim_end());
    Ok(Exit::Success)
}

fn text(stats: &Stats) -> String {
    let mut text = format!(
        "{} ({} are current for their keys), {}, {}: {}; log {}\n",
        counted(stats.records, "record"),
        stats.held,
        counted(stats.trees, "tree"),
        counted(stats.files, "file"),
        bytes(stats.bytes),
        bytes(stats.log_bytes),
    );
    let row = |(name, of): (&String, &OfSteps)| {
        format!(
            "  {:>8}  {name}  {}",
            bytes(of.bytes),
            counted(of.records, "record")
        )
    };
    if !stats.stages.is_empty() {
        let rows: Vec<_> = stats.stages.iter().map(row).collect();
        let _ = write!(
            text,
            "\nby stage (an output of several steps counts for each)\n{}\n",
            rows.join("\n")
        );
    }
    let large = stats
        .largest
        .iter()
        .filter(|(_, of)| of.bytes > 0)
        .map(|(name, of)| row((name, of)));
    let rows: Vec<_> = large.collect();
    if !rows.is_empty() {
        let _ = write!(text, "\nlargest steps\n{}\n", rows.join("\n"));
    }
    text
}
