//! `orch cache export` and `orch cache import`

use std::fs::File;
use std::io::{self, BufWriter, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use serde_json::json;

use crate::base::figures::plural;
use crate::base::figures::{bytes, counted};
use crate::cli::args::SpecArgs;
use crate::cli::cmd::cache::gc::{HeldKeys, held_keys};
use crate::cli::{Args, Exit, Printer};
use crate::store::{DiskStore, Exported, Which};

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct ExportArgs {
    /// The file to write; - for stdout
    file: PathBuf,
    #[command(flatten)]
    spec: SpecArgs,
    /// Export everything that the store holds, whatever the spec
    #[arg(long, conflicts_with_all = ["spec", "SelectionArgs"])]
    all: bool,
    /// Write nothing if the store lacks a step of the spec
    #[arg(long, conflicts_with = "all")]
    require_complete: bool,
    /// Print one JSON document on stdout
    #[arg(long)]
    json: bool,
}

/// So many of the steps that are not held are named.
const NAMED: usize = 5;

pub(super) fn export(args: &Args, export: &ExportArgs, printer: &Printer) -> anyhow::Result<Exit> {
    let to_stdout = export.file == Path::new("-");
    let chosen = if export.all {
        None
    } else {
        let HeldKeys {
            spec,
            keys,
            missing,
        } = held_keys(args, &export.spec.request(), printer)?;
        if keys.is_empty() {
            bail!("the store holds nothing that {spec} needs\n  hint: `orch run {spec}` makes it");
        }
        if export.require_complete && !missing.is_empty() {
            bail!(
                "{}; nothing was written\n  hint: `orch run {spec}` makes them",
                not_held(&missing)
            );
        }
        Some((keys, missing))
    };
    let store = args.store()?;
    let which = chosen
        .as_ref()
        .map_or(Which::All, |(keys, _)| Which::Keys(keys));
    let exported = if to_stdout {
        store.export(&which, io::stdout().lock(), &export.file)?
    } else {
        store
            .write_out(&export.file, |file| {
                let exported = store.export(
                    &which,
                    BufWriter::with_capacity(1 << 20, file),
                    &export.file,
                )?;
                if export.require_complete && exported.lost > 0 {
                    bail!("{}; nothing was written", lost(exported.lost));
                }
                anyhow::Ok(exported)
            })
            .with_context(|| format!("failed to write `{}`", export.file.display()))?
    };
    let missing = chosen.map(|(_, missing)| missing).unwrap_or_default();
    report(&exported, &missing, export, printer, to_stdout);
    Ok(Exit::Success)
}

fn report(
    exported: &Exported,
    missing: &[String],
    export: &ExportArgs,
    printer: &Printer,
    to_stdout: bool,
) {
    let written = std::fs::metadata(&export.file)
        .ok()
        .filter(std::fs::Metadata::is_file);
    let written = written.map_or(exported.blobs.bytes, |meta| meta.len());
    let text = format!(
        "{}, {}, {}: {}",
        counted(exported.records, "record"),
        counted(exported.trees, "tree"),
        counted(exported.blobs.count, "file"),
        bytes(written)
    );
    match (export.json, to_stdout) {
        (_, true) => printer.note(&text),
        (true, false) => {
            let mut document = json!(exported);
            document["bytes"] = json!(written);
            document["not_held"] = json!(missing);
            printer.json(&document);
        }
        (false, false) => printer.out(&text),
    }
    if exported.lost > 0 {
        printer.note(&format!("warning: {}", lost(exported.lost)));
    }
    if !missing.is_empty() {
        printer.note(&format!(
            "warning: {}; they run after the import",
            not_held(missing)
        ));
    }
}

fn lost(number: u64) -> String {
    format!(
        "{} left out, because what they made is gone or cannot be read",
        counted(number, "record")
    )
}

fn not_held(missing: &[String]) -> String {
    let named = missing
        .iter()
        .take(NAMED)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    let more = if missing.len() > NAMED {
        format!(" and {} more", missing.len() - NAMED)
    } else {
        String::new()
    };
    let verb = plural(missing.len(), "is", "are");
    format!(
        "{} of the spec {verb} not held: {named}{more}",
        counted(missing.len(), "step")
    )
}

pub(super) fn import(
    store: &DiskStore,
    file: &Path,
    json: bool,
    printer: &Printer,
) -> anyhow::Result<Exit> {
    let from: Box<dyn Read> = if file == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        Box::new(File::open(file).with_context(|| format!("failed to open `{}`", file.display()))?)
    };
    let imported = store.import(from, file)?;
    printer.answer(
        json,
        || &imported,
        || {
            format!(
                "{} ({} new), {} ({} new), {} ({} new, {})",
                counted(imported.records, "record"),
                imported.new_records,
                counted(imported.trees, "tree"),
                imported.new_trees,
                counted(imported.blobs.count, "file"),
                imported.new_blobs.count,
                bytes(imported.new_blobs.bytes)
            )
        },
    );
    Ok(Exit::Success)
}
