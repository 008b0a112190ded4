//! What pages show of the history, where there is one and what reads it is installed: no page waits for an installation.

use crate::catalogue::Requirement;
use crate::history::{History, runs_dir};
use crate::report::Trends;
use crate::session::{Locations, Tell, history_dir, provision};
use crate::toolchain::EnvName;
use crate::worker::Cancel;

/// Empty where there is none. One that cannot be read is told, and pages are made without it.
pub fn trends(locations: &Locations, tell: Tell<'_>) -> Trends {
    read(locations, tell).unwrap_or_else(|error| {
        tell(&format!("the pages show no history: {error:#}"));
        Trends::new()
    })
}

fn read(locations: &Locations, tell: Tell<'_>) -> anyhow::Result<Trends> {
    let dir = history_dir(locations)?;
    if !runs_dir(&dir).is_dir() {
        return Ok(Trends::new());
    }
    let provision = provision(locations, Cancel::default())?;
    if !provision.is_ready(Requirement::Env(EnvName::Duckdb)) {
        anyhow::bail!("DuckDB, which reads it, is not installed\n  hint: `orch history` installs it");
    }
    let library = provision.duckdb(&|_| {})?;
    History::new(dir, &library)?.read(tell)?.trends()
}
