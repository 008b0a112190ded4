//! Arguments about failures: how often to retry, and which to expect.

use std::time::Duration;

use clap::Args as ClapArgs;

use super::SpecArgs;
use crate::exec::Backoff;

#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Retries")]
pub(in crate::cli) struct RetryArgs {
    /// How often to retry a step that failed for a transient reason [default: what the spec says, else 0]
    #[arg(long, value_name = "N", env = "ORCH_RETRIES", hide_env = true)]
    pub(in crate::cli) retries: Option<u32>,
    /// Seconds to wait before the first retry; the wait doubles each time, plus or minus half
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, hide_short_help = true, value_parser = seconds)]
    pub(in crate::cli) retry_wait: f64,
    /// Seed for the waits, so that they are the same each time
    #[arg(long, value_name = "N", hide = true)]
    pub(in crate::cli) retry_seed: Option<u64>,
}

fn seconds(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "it is not a number".to_owned())?;
    if (0.0..=3600.0).contains(&value) { Ok(value) } else { Err("it must be from 0 to 3600".to_owned()) }
}

impl RetryArgs {
    pub(in crate::cli) fn backoff(&self) -> Backoff {
        let now = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        // Two runs that fail together come back at different times.
        let seed = self.retry_seed.unwrap_or_else(|| now().as_nanos() as u64 ^ u64::from(std::process::id()));
        Backoff { first: Duration::from_secs_f64(self.retry_wait), seed, ..Backoff::default() }
    }
}

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct AcceptArgs {
    #[command(flatten)]
    pub(in crate::cli) spec: SpecArgs,
    /// Why the newly expected failures are accepted, in one sentence
    #[arg(long, value_name = "TEXT")]
    pub(in crate::cli) reason: Option<String>,
    /// Show what would change, and write nothing
    #[arg(long)]
    pub(in crate::cli) dry_run: bool,
    /// Print one JSON document on stdout
    #[arg(long)]
    pub(in crate::cli) json: bool,
}
