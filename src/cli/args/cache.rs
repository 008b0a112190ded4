//! Arguments of `orch cache`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

use super::SpecArgs;
use crate::base::Size;
use crate::exec::MaxAge;

#[derive(Debug, Subcommand)]
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
    Gc(GcArgs),
    /// Write what a spec needs from the store into one file
    Export(Box<ExportArgs>),
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

#[derive(Debug, ClapArgs)]
#[command(
    after_help = "Every given limit holds afterwards. A result was last used when its step was executed, or when a result made \
    from it was. A run that finds everything up to date writes nothing, so it does not count as a use: name the specs \
    that you run with --keep. It is safe to run this while other orch processes run."
)]
pub(in crate::cli) struct GcArgs {
    /// Remove the least recently used results until at most this much is left, e.g. 500M, 10G (powers of 1024; GB: 1000)
    #[arg(long, value_name = "SIZE")]
    pub(in crate::cli) max_size: Option<Size>,
    /// Remove results that were not used for this long, e.g. 12h, 30d, 2w
    #[arg(long, value_name = "AGE")]
    pub(in crate::cli) max_age: Option<MaxAge>,
    /// Keep only the newest N results of each step
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(in crate::cli) keep_last: Option<u32>,
    /// Keep what a run of this spec would reuse, whatever the limits (repeatable)
    #[arg(long, value_name = "SPEC")]
    pub(in crate::cli) keep: Vec<PathBuf>,
    /// Also remove environments and workers of other versions of orch
    #[arg(long)]
    pub(in crate::cli) envs: bool,
    /// Show what would be removed, and remove nothing
    #[arg(long)]
    pub(in crate::cli) dry_run: bool,
    /// Print one JSON document on stdout
    #[arg(long)]
    pub(in crate::cli) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct ExportArgs {
    /// The file to write; - for stdout
    pub(in crate::cli) file: PathBuf,
    #[command(flatten)]
    pub(in crate::cli) spec: SpecArgs,
    /// Export everything that the store holds, whatever the spec
    #[arg(long, conflicts_with_all = ["spec", "SelectionArgs"])]
    pub(in crate::cli) all: bool,
    /// Write nothing if the store lacks a step of the spec
    #[arg(long, conflicts_with = "all")]
    pub(in crate::cli) require_complete: bool,
    /// Print one JSON document on stdout
    #[arg(long)]
    pub(in crate::cli) json: bool,
}
