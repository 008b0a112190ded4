//! `orch output`: what a step made, as the spec has it now, out of the store.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use serde_json::json;

use crate::base::figures::bytes;
use crate::base::named::write_named;
use crate::base::{Digest, fs as bfs, shell, suggest};
use crate::cli::args::NameArgs;
use crate::cli::cmd::previews;
use crate::cli::{Args, Exit, Printer};
use crate::exec::Preview;
use crate::record::Record;
use crate::session::{
    self, Ask, Handed, Named, Project, Request, Session, Spot, UsageError, usage,
};
use crate::step::StepId;
use crate::store::{DiskStore, Manifest, ManifestFile};

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct OutputArgs {
    #[command(flatten)]
    of: NameArgs,
    /// Print this file of its output
    #[arg(long, value_name = "FILE", conflicts_with_all = ["to", "json"])]
    cat: Option<String>,
    /// Copy its output into this folder
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// Also replace files in that folder whose content the store does not hold
    #[arg(long, requires = "to")]
    force: bool,
    /// Use the untimed step of `orch run --check`
    #[arg(long)]
    check: bool,
    /// Use the output of the last execution, whatever the spec says now
    #[arg(long)]
    latest: bool,
    /// Print one JSON document on stdout
    #[arg(long)]
    json: bool,
}

/// A step's output, and whose.
struct Made {
    step: String,
    store: Arc<DiskStore>,
    record: Box<Record>,
    tree: Digest,
    /// Generated tests load it.
    named: Option<Named>,
}

pub(super) fn output(args: &Args, output: &OutputArgs, printer: &Printer) -> anyhow::Result<Exit> {
    let found = if output.latest {
        latest(args, output)?
    } else {
        current(args, output, printer)?
    };
    let made = match found {
        Ok(made) => made,
        Err(why) => {
            printer.note(&why);
            return Ok(Exit::NothingRan);
        }
    };
    let manifest = made.store.manifest(&made.tree)?;
    if let Some(name) = &output.cat {
        let names = || manifest.files.iter().map(|file| file.path.as_str());
        let Some(content) = made.store.read_file(&made.tree, name)? else {
            let hint = suggest::hint(name, names());
            usage!("`{}` made no file `{name}`\n  hint: {hint}", made.step);
        };
        printer.raw(&content)?;
        return Ok(Exit::Success);
    }
    if let Some(folder) = &output.to {
        copy(&made, folder, output.force, printer)?;
    }
    let Made {
        step, record, tree, ..
    } = made;
    let Record {
        key,
        started,
        seconds,
        ..
    } = &*record;
    if output.json {
        printer
            .json(&json!({"step": step, "key": key.digest(), "tree": tree, "made": started, "files": manifest.files}));
        return Ok(Exit::Success);
    }
    let line = |file: &ManifestFile| {
        format!(
            "{:>10}  {}  {}",
            bytes(file.size),
            file.digest.short(),
            file.path
        )
    };
    printer.out(
        &manifest
            .files
            .iter()
            .map(line)
            .collect::<Vec<_>>()
            .join("\n"),
    );
    printer.note(&format!("made {started} in {seconds:.2} s"));
    Ok(Exit::Success)
}

/// What the last execution made, whatever its key; or why there is nothing.
fn latest(args: &Args, output: &OutputArgs) -> anyhow::Result<Result<Made, String>> {
    let store = args.store_to_look()?;
    let mut step = output.of.name().to_owned();
    let mut last = store.latest(&step).with_context(|| unreadable(&step))?;
    // Only a case needs the spec, which knows its steps.
    if last.is_none()
        && let Ok(project) = Project::load(&Request::all(output.of.spec()))
    {
        step = project.plan.step(one(&project, &step)?).name.clone();
        last = store.latest(&step).with_context(|| unreadable(&step))?;
    }
    let last = last.ok_or_else(|| {
        UsageError(format!(
            "the store has no step `{step}`\n  hint: `orch plan --all` lists the steps of a spec"
        ))
    })?;
    Ok(made(step, store.into(), Box::new(last), None))
}

/// The step that is meant, which must be one: what several made has no one name for a file.
fn one(project: &Project, name: &str) -> anyhow::Result<StepId> {
    let steps = project.meant(name)?.steps();
    if let [id] = *steps.iter().copied().collect::<Vec<_>>() {
        return Ok(id);
    }
    let hint = format!(
        "hint: name one of them: `orch plan --all {}` lists steps",
        project.name
    );
    usage!(
        "`{name}` names {} steps, but only one can be printed or copied at a time\n  {hint}",
        steps.len()
    )
}

fn unreadable(step: &str) -> String {
    format!(
        "failed to read the record of `{step}`\n  hint: `orch cache verify --heal` removes what is damaged; then run again"
    )
}

fn made(
    step: String,
    store: Arc<DiskStore>,
    record: Box<Record>,
    named: Option<Named>,
) -> Result<Made, String> {
    match record.output {
        Some(tree) => Ok(Made {
            step,
            store,
            record,
            tree,
            named,
        }),
        None => {
            let outcome = record.outcome.label();
            let reason = record.reason.as_deref().unwrap_or("no reason is known");
            Err(format!(
                "`{}` made nothing when it was executed, {}: {outcome}: {reason}",
                record.step, record.started
            ))
        }
    }
}

/// What is held for the key that the step has under the spec, or why there is nothing.
fn current(
    args: &Args,
    output: &OutputArgs,
    printer: &Printer,
) -> anyhow::Result<Result<Made, String>> {
    let session = Session::open_to_look(&args.locations())?;
    let store = &session.store;
    let spec = output.of.spec();
    let project = session.project(&Request { check: output.check, ..Request::all(spec) }, Ask::Installed).context(
        "the spec says what is current: name it after the step, or ask with --latest for what the last execution made",
    )?;
    let spec = spec.display().to_string();
    let name = output.of.name();
    let id = one(&project, name).map_err(|unknown| match store.latest(name) {
        Ok(Some(last)) => {
            let hint = format!("hint: --latest gives the output of {}", last.started);
            UsageError(format!("no step of {spec} is called `{name}`\n  {hint}")).into()
        }
        _ => unknown,
    })?;
    let step = &project.plan.step(id).name;
    let last = store.latest(step).with_context(|| unreadable(step));
    let mut previews = previews(&session, &project, Some(id), printer)?;
    let why = match previews.swap_remove(id.0 as usize) {
        Preview::Hit { record } => {
            let named = session::loaded(&project.plan)
                .find(|(of, _)| *of == id)
                .map(|(_, named)| named);
            return Ok(made(step.clone(), store.clone(), record, named));
        }
        Preview::WouldRun { key, reason } => match last? {
            Some(last) if key.as_ref() == Some(&last.key) && last.output.is_none() => {
                return Ok(made(step.clone(), store.clone(), Box::new(last), None));
            }
            Some(last) => format!(
                "{reason}\n  hint: --latest gives the output of {}",
                last.started
            ),
            None => reason.to_string(),
        },
        Preview::Skipped {
            outcome, reason, ..
        } => format!("{}: {reason}", outcome.label()),
        Preview::NotNeeded => "nothing that can run here needs it".into(),
    };
    let run = format!(
        "orch run {} --step {}{}",
        shell::word(&spec),
        shell::quoted(step),
        args.locations().flags()
    );
    Ok(Err(format!(
        "the store holds nothing for `{step}` as {spec} has it now: {why}\n  hint: `{run}` makes it"
    )))
}

/// Copies, never links: what people do with them is their own affair.
fn copy(made: &Made, folder: &Path, force: bool, printer: &Printer) -> anyhow::Result<()> {
    let Made {
        store, tree, named, ..
    } = made;
    if let Some(named) = named.clone() {
        let mut handed = Handed::default();
        let spot = Spot {
            store,
            tree: *tree,
            folder,
            named,
        };
        let is_filled = spot
            .fill(&mut handed)
            .with_context(|| format!("failed to fill `{}`", folder.display()))?;
        handed.notes.iter().for_each(|text| printer.note(text));
        if is_filled {
            return Ok(());
        }
    }
    let manifest = store.check_tree(tree)?;
    if !force && let Some(path) = in_the_way(store, &manifest, folder) {
        usage!(
            "`{path}` already exists with other content, so nothing was copied\n  hint: --force replaces it"
        );
    }
    for file in &manifest.files {
        let to = folder.join(&file.path);
        if Digest::of_file(&to).is_ok_and(|digest| digest == file.digest) {
            continue;
        }
        let failed = || format!("failed to write `{}`", to.display());
        fs::create_dir_all(to.parent().unwrap_or(folder)).with_context(failed)?;
        let mut from = fs::File::open(store.content(file)?)?;
        write_named(&to, |out| std::io::copy(&mut from, out)).with_context(failed)?;
        if file.executable {
            bfs::make_executable(&to).with_context(failed)?;
        }
    }
    Ok(())
}

/// What would be lost: the store's own content is there again at any time.
fn in_the_way(store: &DiskStore, manifest: &Manifest, folder: &Path) -> Option<String> {
    let mut paths = manifest
        .files
        .iter()
        .map(|file| (file, folder.join(&file.path)));
    let found = paths.find(|(file, path)| {
        let is_known = || {
            Digest::of_file(path).is_ok_and(|digest| digest == file.digest || store.holds(&digest))
        };
        fs::symlink_metadata(path).is_ok() && !is_known()
    });
    found.map(|(_, path)| path.display().to_string())
}
