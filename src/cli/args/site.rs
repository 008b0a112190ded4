//! Arguments of `orch site`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct SiteArgs {
    /// The folder for the site; files there that are not orch's are left alone
    #[arg(value_name = "DIR")]
    pub(in crate::cli) dir: PathBuf,
    /// What it shows: the matrix.json of a run, or of several shards or machines [default: the last run's in orch-out]
    #[arg(long, value_name = "FILE", num_args = 1.., default_value = "orch-out/report/matrix.json", hide_default_value = true)]
    pub(in crate::cli) report: Vec<PathBuf>,
    /// An older matrix.json: adds what changed since, with a feed
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) since: Option<PathBuf>,
    /// Print one JSON document on stdout
    #[arg(long)]
    pub(in crate::cli) json: bool,
}
