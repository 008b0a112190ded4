//! `orch cache gc --envs`

use serde_json::{Value, json};

use crate::base::figures::{bytes, counted};
use crate::cli::{Args, Printer};

/// What became of the environments of other versions of orch.
pub(super) struct Envs {
    gone: Vec<(String, u64)>,
    /// The environments that stay, each with the reason.
    stay: Vec<(String, String)>,
}

/// `running` is since when another orch works in this store: it may be the one that uses them.
pub(super) fn collect(args: &Args, running: Option<&str>, dry_run: bool) -> anyhow::Result<Envs> {
    let provision = args.provision()?;
    let mut envs = Envs {
        gone: Vec::new(),
        stay: Vec::new(),
    };
    if running.is_none() {
        for (path, bytes) in provision.unfinished(dry_run)? {
            envs.gone.push((path.display().to_string(), bytes));
        }
    }
    for installed in provision
        .installed()?
        .into_iter()
        .filter(|installed| !installed.current)
    {
        let path = installed.path.display().to_string();
        let why = match running {
            Some(since) => Some(format!(
                "an orch that may use it has been running since {since}"
            )),
            None if dry_run => provision.in_use(&installed),
            None => provision.remove(&installed)?,
        };
        match why {
            Some(why) => envs.stay.push((path, why)),
            None => envs.gone.push((path, installed.bytes)),
        }
    }
    Ok(envs)
}

impl Envs {
    pub(super) fn json(&self) -> Value {
        let gone: Vec<_> = self
            .gone
            .iter()
            .map(|(path, bytes)| json!({"path": path, "bytes": bytes}))
            .collect();
        let stay: Vec<_> = self
            .stay
            .iter()
            .map(|(path, why)| json!({"path": path, "why": why}))
            .collect();
        json!({"gone": gone, "stay": stay})
    }

    pub(super) fn rows(&self) -> Vec<String> {
        let all = self.gone.iter().map(|(_, size)| size).sum();
        let mut rows = Vec::new();
        if !self.gone.is_empty() {
            rows.push(format!(
                "{}, {}",
                counted(self.gone.len(), "environment"),
                bytes(all)
            ));
            rows.extend(
                self.gone
                    .iter()
                    .map(|(path, size)| format!("  {path}, {}", bytes(*size))),
            );
        }
        rows
    }

    pub(super) fn report(&self, printer: &Printer) {
        for (path, why) in &self.stay {
            printer.note(&format!("{path} stays: {why}"));
        }
    }
}
