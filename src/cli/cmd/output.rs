//! `orch output`: what a step made, out of the store.

use anyhow::Context as _;
use serde_json::json;

use crate::base::fs as bfs;
use crate::cli::args::{Args, OutputArgs};
use crate::cli::exit::{Exit, UsageError};
use crate::cli::printer::Printer;
use crate::cli::project::absolute;
use crate::device::render::bytes;
use crate::store::DiskStore;

pub(super) fn output(args: &Args, output: &OutputArgs, printer: &Printer) -> anyhow::Result<Exit> {
    let store = DiskStore::open(&absolute(&args.cache_dir)?).context("failed to open the store")?;
    let step = &output.step;
    let last = store.latest(step).with_context(|| {
        format!("failed to read the record of `{step}`\n  hint: `orch cache verify --heal` takes out what is damaged; then run again")
    })?;
    let last = last.ok_or_else(|| {
        UsageError(format!("the store knows no step `{step}`\n  hint: `orch plan --all` lists the steps of a spec"))
    })?;
    let tree = last.output.ok_or_else(|| {
        let outcome = last.outcome.label();
        UsageError(format!("`{step}` made nothing when it was last executed, {}: {outcome}", last.started))
    })?;
    let manifest = store.manifest(&tree)?;
    if let Some(name) = &output.cat {
        let names = || manifest.files.iter().map(|file| file.path.as_str());
        let Some(content) = store.read_file(&tree, name)? else {
            let hint = crate::base::suggest::hint(name, names());
            return Err(UsageError(format!("`{step}` made no file `{name}`\n  hint: {hint}")).into());
        };
        printer.raw(&content)?;
        return Ok(Exit::Success);
    }
    if let Some(folder) = &output.to {
        for file in &store.check_tree(&tree)?.files {
            let content = store.read_file(&tree, &file.path)?.unwrap_or_default();
            let to = folder.join(&file.path);
            bfs::write_if_changed(&to, &content).with_context(|| format!("failed to write `{}`", to.display()))?;
        }
    }
    if output.json {
        printer.json(&json!({"step": step, "tree": tree, "made": last.started, "files": manifest.files}));
        return Ok(Exit::Success);
    }
    let lines: Vec<_> = manifest
        .files
        .iter()
        .map(|file| format!("{:>10}  {}  {}", bytes(file.size), file.digest.short(), file.path))
        .collect();
    printer.out(&lines.join("\n"));
    printer.note(&format!("made {} in {:.2} s", last.started, last.seconds));
    Ok(Exit::Success)
}
