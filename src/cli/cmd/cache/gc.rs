//! `orch cache gc`

use std::collections::HashSet;

use serde_json::json;

use crate::base::Digest;
use crate::base::figures::{bytes, counted, plural};
use crate::cli::args::{Args, GcArgs};
use crate::cli::cmd::Warnings;
use crate::cli::cmd::cache::envs;
use crate::cli::exit::Exit;
use crate::cli::printer::Printer;
use crate::exec::MaxAge;
use crate::exec::Preview;
use crate::session::{Project, Request, Session, UsageError};
use crate::store::{Amount, Collected, Limits};

pub(super) fn gc(args: &Args, gc: &GcArgs, printer: &Printer) -> anyhow::Result<Exit> {
    let has_limit = gc.max_size.is_some() || gc.max_age.is_some() || gc.keep_last.is_some();
    if !has_limit && !gc.dry_run && !gc.envs {
        return Err(UsageError(
            "nothing says what may go\n  hint: give --max-size, --max-age or --keep-last, e.g. \
             `orch cache gc --max-size 10G`; --dry-run shows what would go"
                .into(),
        )
        .into());
    }
    let mut limits = Limits {
        max_bytes: gc.max_size.map(|size| size.0),
        max_age: gc.max_age.as_ref().map(MaxAge::length),
        keep_last: gc.keep_last,
        keep: HashSet::new(),
    };
    for spec in &gc.keep {
        // Of a spec both are kept: what a run needs, and what a check needs.
        for check in [false, true] {
            limits.keep.extend(held_keys(args, &Request { check, ..Request::all(spec) }, printer)?.keys);
        }
    }
    let store = args.store()?;
    let done = store.collect(&limits, gc.dry_run)?;
    let envs = gc.envs.then(|| envs::collect(args, done.running_since.as_deref(), gc.dry_run)).transpose()?;
    if gc.json {
        let mut document = json!(done);
        if let Some(envs) = &envs {
            document["environments"] = envs.json();
        }
        printer.json(&document);
    } else {
        let mut rows = rows(&done);
        rows.extend(envs.iter().flat_map(|envs| envs.rows()));
        let verb = if done.dry_run { "would remove" } else { "removed" };
        if rows.is_empty() {
            printer.out(&format!("{verb} nothing"));
        } else {
            printer.out(&format!("{verb}\n  {}", rows.join("\n  ")));
        }
        printer.out(&format!("kept {}: {}", counted(done.kept_records, "record"), amount(done.kept, "file")));
    }
    tell(&done, &limits, printer);
    if let Some(envs) = envs {
        envs.tell(printer);
    }
    Ok(Exit::Success)
}

/// What a run would find held.
pub(super) struct HeldKeys {
    pub(super) spec: String,
    pub(super) keys: HashSet<Digest>,
    /// The names of the steps that would run.
    pub(super) missing: Vec<String>,
}

pub(super) fn held_keys(args: &Args, request: &Request, printer: &Printer) -> anyhow::Result<HeldKeys> {
    let session = Session::open(&args.locations())?;
    let project = Project::load_here(request, &session)?;
    let options = project.idle_options();
    let listener = Warnings(printer);
    let previews = session.preview(&project, &options, &listener)?;
    let (mut keys, mut missing) = (HashSet::new(), Vec::new());
    for (id, preview) in project.plan.ids().zip(previews) {
        match preview {
            // A failure stays where it happened.
            Preview::Hit { record } if !record.outcome.is_failure() => drop(keys.insert(record.key.digest())),
            Preview::Hit { .. } | Preview::WouldRun { .. } => missing.push(project.plan.step(id).name.clone()),
            Preview::Skipped { .. } | Preview::NotNeeded => {}
        }
    }
    Ok(HeldKeys { spec: project.name, keys, missing })
}

fn amount(amount: Amount, noun: &str) -> String {
    format!("{}, {}", counted(amount.count, noun), bytes(amount.bytes))
}

fn rows(done: &Collected) -> Vec<String> {
    let mut rows = Vec::new();
    let gone = done.records;
    let mut say = |number: u64, one: &str, many: &str| {
        if number > 0 {
            rows.push(format!("{number} {}", plural(number, one, many)));
        }
    };
    say(gone.generations, "older result of a step", "older results of steps");
    say(gone.old, "result not used for too long", "results not used for too long");
    say(gone.large, "result used longest ago, for the size", "results used longest ago, for the size");
    say(gone.history, "record of a failure, or done again since", "records of failures, or done again since");
    if done.trees + done.blobs.count > 0 {
        rows.push(format!("{}, {}", counted(done.trees, "tree"), amount(done.blobs, "file")));
    }
    if done.logs.count > 0 {
        rows.push(format!("{} of steps without records", amount(done.logs, "log")));
    }
    if done.scratch.count > 0 {
        rows.push(format!("{} of killed processes", amount(done.scratch, "working folder")));
    }
    if done.unfinished.count > 0 {
        rows.push(format!("{} left unfinished by killed processes", amount(done.unfinished, "file")));
    }
    for layout in &done.layouts {
        rows.push(format!("{}, the store of an earlier version: {}", layout.path.display(), bytes(layout.bytes)));
    }
    match done.log_bytes_after {
        Some(after) if after < done.log_bytes_before => {
            rows.push(format!("{} of the log", bytes(done.log_bytes_before - after)))
        }
        _ => {}
    }
    rows
}

fn tell(done: &Collected, limits: &Limits, printer: &Printer) {
    if let Some(since) = &done.running_since {
        printer.note(&format!("another orch has been running since {since}: everything newer is kept"));
    }
    for path in &done.unmarked {
        let path = path.display();
        printer.note(&format!(
            "{path} stays: it is not marked as orch's; if it is the store of an older orch, remove it yourself"
        ));
    }
    if done.too_new.count > 0 {
        printer.note(&format!(
            "{} that nothing refers to yet are kept, because they are new",
            amount(done.too_new, "file")
        ));
    }
    if let Some(most) = limits.max_bytes.filter(|most| *most < done.kept.bytes) {
        printer.note(&format!(
            "warning: {} remain, more than {}: what --keep names or a running orch made is not removed",
            bytes(done.kept.bytes),
            bytes(most)
        ));
    }
}
