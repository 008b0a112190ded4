//! `orch cache gc`

use std::collections::HashSet;
use std::path::PathBuf;

use serde_json::json;

use crate::base::figures::{bytes, counted, plural};
use crate::base::{Digest, Size};
use crate::cli::args::count;
use crate::cli::cmd::cache::envs;
use crate::cli::cmd::previews;
use crate::cli::{Args, Exit, Printer};
use crate::exec::{MaxAge, Preview};
use crate::session::{Project, Request, Session, usage};
use crate::store::{Amount, Collected, Limits};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Every given limit holds afterwards. A result was last used when its step was executed, or when a result made \
    from it was. A run that finds everything up to date writes nothing, so it does not count as a use: name the specs \
    that you run with --keep. It is safe to run this while other orch processes run."
)]
pub(in crate::cli) struct GcArgs {
    /// Remove the least recently used results until at most this much is left, e.g. 500M, 10G (powers of 1024; GB: 1000)
    #[arg(long, value_name = "SIZE")]
    max_size: Option<Size>,
    /// Remove results that were not used for this long, e.g. 12h, 30d, 2w
    #[arg(long, value_name = "AGE")]
    max_age: Option<MaxAge>,
    /// Keep only the newest N results of each step
    #[arg(long, value_name = "N", value_parser = count::<u32>)]
    keep_last: Option<u32>,
    /// Keep what a run of this spec would reuse, whatever the limits (repeatable)
    #[arg(long, value_name = "SPEC")]
    keep: Vec<PathBuf>,
    /// Also remove environments and workers that this orch does not use
    ///
    /// Those are the environments of other versions of orch, and those of other locks: of `toolchains:` and of `--locks`. What
    /// is needed again is installed again.
    #[arg(long)]
    envs: bool,
    /// Remove environments, this orch's too, only if unused for so long
    #[arg(long, value_name = "AGE", requires = "envs")]
    older_than: Option<MaxAge>,
    /// Show what would be removed, and remove nothing
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON document on stdout
    #[arg(long)]
    json: bool,
}

pub(super) fn gc(args: &Args, gc: &GcArgs, printer: &Printer) -> anyhow::Result<Exit> {
    let has_limit = gc.max_size.is_some() || gc.max_age.is_some() || gc.keep_last.is_some();
    if !has_limit && !gc.dry_run && !gc.envs {
        usage!(
            "nothing says what may go\n  hint: give --max-size, --max-age or --keep-last, e.g. \
             `orch cache gc --max-size 10G`; --dry-run shows what would go"
        );
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
            limits.keep.extend(
                held_keys(
                    args,
                    &Request {
                        check,
                        ..Request::all(spec)
                    },
                    printer,
                )?
                .keys,
            );
        }
    }
    let store = args.store()?;
    let done = store.collect(&limits, gc.dry_run)?;
    let envs = gc
        .envs
        .then(|| {
            let running = done.running_since.as_deref();
            envs::collect(args, running, gc.older_than.as_ref(), gc.dry_run)
        })
        .transpose()?;
    if gc.json {
        let mut document = json!(done);
        if let Some(envs) = &envs {
            document["environments"] = envs.json();
        }
        printer.json(&document);
    } else {
        let mut rows = rows(&done);
        rows.extend(envs.iter().flat_map(|envs| envs.rows()));
        let verb = if done.dry_run {
            "would remove"
        } else {
            "removed"
        };
        if rows.is_empty() {
            printer.out(&format!("{verb} nothing"));
        } else {
            printer.out(&format!("{verb}\n  {}", rows.join("\n  ")));
        }
        printer.out(&format!(
            "kept {}: {}",
            counted(done.kept_records, "record"),
            amount(done.kept, "file")
        ));
    }
    report(&done, &limits, printer);
    if let Some(envs) = envs {
        envs.report(printer);
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

pub(super) fn held_keys(
    args: &Args,
    request: &Request,
    printer: &Printer,
) -> anyhow::Result<HeldKeys> {
    let session = Session::open(&args.locations())?;
    let project = Project::load_here(request, &session)?;
    let previews = previews(&session, &project, None, printer)?;
    let mut keys = HashSet::new();
    let mut missing = Vec::new();
    for (id, preview) in project.plan.ids().zip(previews) {
        match preview {
            // A failure stays where it happened.
            Preview::Hit { record } if !record.outcome.is_failure() => {
                keys.insert(record.key.digest());
            }
            Preview::Hit { .. } | Preview::WouldRun { .. } => {
                missing.push(project.plan.step(id).name.clone())
            }
            Preview::Skipped { .. } | Preview::NotNeeded => {}
        }
    }
    Ok(HeldKeys {
        spec: project.name,
        keys,
        missing,
    })
}

fn amount(amount: Amount, noun: &str) -> String {
    format!("{}, {}", counted(amount.count, noun), bytes(amount.bytes))
}

fn rows(done: &Collected) -> Vec<String> {
    let gone = done.records;
    let records = [
        (
            gone.generations,
            "older result of a step",
            "older results of steps",
        ),
        (
            gone.old,
            "result not used for too long",
            "results not used for too long",
        ),
        (
            gone.large,
            "result used longest ago, for the size",
            "results used longest ago, for the size",
        ),
        (
            gone.history,
            "record of a failure, or done again since",
            "records of failures, or done again since",
        ),
    ];
    let records = records.into_iter().filter(|(number, ..)| *number > 0);
    let mut rows: Vec<_> = records
        .map(|(number, one, many)| format!("{number} {}", plural(number, one, many)))
        .collect();
    if done.trees + done.blobs.count > 0 {
        rows.push(format!(
            "{}, {}",
            counted(done.trees, "tree"),
            amount(done.blobs, "file")
        ));
    }
    let left = [
        (done.logs, "log", "of steps without records"),
        (done.scratch, "working folder", "of killed processes"),
        (
            done.unfinished,
            "file",
            "left unfinished by killed processes",
        ),
    ];
    let left = left.into_iter().filter(|(some, ..)| some.count > 0);
    rows.extend(left.map(|(some, noun, which)| format!("{} {which}", amount(some, noun))));
    for layout in &done.layouts {
        rows.push(format!(
            "{}, the store of an earlier version: {}",
            layout.path.display(),
            bytes(layout.bytes)
        ));
    }
    if let Some(after) = done
        .log_bytes_after
        .filter(|after| *after < done.log_bytes_before)
    {
        rows.push(format!(
            "{} of the log",
            bytes(done.log_bytes_before - after)
        ));
    }
    rows
}

fn report(done: &Collected, limits: &Limits, printer: &Printer) {
    if let Some(since) = &done.running_since {
        printer.note(&format!(
            "another orch has been running since {since}: everything newer is kept"
        ));
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
