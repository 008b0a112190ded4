//! `orch cache`

mod envs;
mod gc;
mod pack;
mod stats;

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::base::figures::bytes;
use crate::cli::cmd::remote;
use crate::cli::{Args, Exit, Printer};
use crate::session::absolute;
use crate::store::{DiskStore, Progress};

#[derive(Debug, clap::Subcommand)]
pub(in crate::cli) enum CacheCommand {
    /// Show what the store holds
    Stats {
        /// Measure the environments too
        #[arg(long)]
        envs: bool,
        /// Print one JSON document on stdout
        #[arg(long)]
        json: bool,
    },
    /// Read the whole store and report what is damaged
    Verify {
        /// Remove damaged entries, so that their steps run again
        #[arg(long)]
        heal: bool,
        /// Print one JSON document on stdout
        #[arg(long)]
        json: bool,
    },
    /// Remove results by age or size, and everything that is no longer needed
    Gc(gc::GcArgs),
    /// Write what a spec needs from the store into one file
    Export(Box<pack::ExportArgs>),
    /// Read what `export` wrote into the store
    Import {
        /// The file; - for stdin
        file: PathBuf,
        /// Print one JSON document on stdout
        #[arg(long)]
        json: bool,
    },
    /// Print where the store is
    Path,
    /// Show whether the remote store is reachable, what it permits, and what is still to be uploaded
    Remote {
        /// Print one JSON document on stdout
        #[arg(long)]
        json: bool,
    },
    /// Upload the results that are not on the remote store yet
    Push {
        /// Also upload results from before the remote was configured
        #[arg(long)]
        all: bool,
    },
}

pub(super) fn cache(
    args: &Args,
    command: &CacheCommand,
    printer: &Printer,
) -> anyhow::Result<Exit> {
    let dir = absolute(&args.cache_dir)?;
    let open = || DiskStore::open(&dir);
    let look = || DiskStore::open_to_look(&dir);
    match command {
        CacheCommand::Path => {
            printer.out(&dir.display().to_string());
            Ok(Exit::Success)
        }
        CacheCommand::Remote { json } => remote::remote(&dir, *json, printer),
        CacheCommand::Push { all } => remote::push(&dir, *all, printer),
        CacheCommand::Stats { envs, json } => stats::stats(args, &look()?, *envs, *json, printer),
        CacheCommand::Verify { heal, json } => verify(&look()?, *heal, *json, printer),
        CacheCommand::Gc(gc) => gc::gc(args, gc, printer),
        CacheCommand::Export(export) => pack::export(args, export, printer),
        CacheCommand::Import { file, json } => pack::import(&open()?, file, *json, printer),
    }
}

fn verify(store: &DiskStore, heal: bool, json: bool, printer: &Printer) -> anyhow::Result<Exit> {
    let reported = Mutex::new(Instant::now());
    let tell = |progress: Progress| {
        // A thread that finds another one reporting has nothing to add.
        let Ok(mut reported) = reported.try_lock() else {
            return;
        };
        if reported.elapsed() > Duration::from_millis(100) {
            *reported = Instant::now();
            let Progress {
                files,
                of,
                bytes: read,
            } = progress;
            printer.passing(&format!("{files} of {of} files read, {}", bytes(read)));
        }
    };
    let problems = store.verify(&tell)?;
    printer.passing("");
    if heal {
        store.heal(&problems)?;
    }
    if json {
        printer.json(&problems);
    } else if problems.is_empty() {
        printer.out("everything is as it was published");
    } else {
        for problem in &problems {
            printer.out(&format!("{}: {}", problem.path.display(), problem.what));
        }
        printer.note(match heal {
            true => "removed; the steps that made them run again on the next `orch run`",
            false => "hint: `orch cache verify --heal` removes them, so that their steps run again",
        });
    }
    Ok(if problems.is_empty() || heal {
        Exit::Success
    } else {
        Exit::Failed
    })
}
