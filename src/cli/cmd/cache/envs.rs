//! `orch cache gc --envs`

use serde_json::{Value, json};

use crate::base::figures::{bytes, counted};
use crate::cli::{Args, Printer};
use crate::exec::MaxAge;

/// What became of the environments.
pub(super) struct Envs {
    gone: Vec<Gone>,
    /// The environments that stay, each with the reason.
    stay: Vec<(String, String)>,
}

struct Gone {
    path: String,
    bytes: u64,
    /// None of what an installation left unfinished.
    last_used: Option<String>,
}

/// `older_than` is how long what goes was not used: without it, all goes that this orch does not use. `running` is since when another orch works in this store: it may be the one that uses them.
pub(super) fn collect(
    args: &Args,
    running: Option<&str>,
    older_than: Option<&MaxAge>,
    dry_run: bool,
) -> anyhow::Result<Envs> {
    let provision = args.provision()?;
    let mut envs = Envs {
        gone: Vec::new(),
        stay: Vec::new(),
    };
    if running.is_none() {
        for (path, bytes) in provision.unfinished(dry_run)? {
            envs.gone.push(Gone {
                path: path.display().to_string(),
                bytes,
                last_used: None,
            });
        }
    }
    for installed in provision
        .installed()?
        .into_iter()
        .filter(|installed| match older_than {
            Some(age) => age.is_exceeded(&installed.last_used),
            None => !installed.current,
        })
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
            None => envs.gone.push(Gone {
                path,
                bytes: installed.bytes,
                last_used: Some(installed.last_used),
            }),
        }
    }
    Ok(envs)
}

impl Envs {
    pub(super) fn json(&self) -> Value {
        let gone: Vec<_> = self
            .gone
            .iter()
            .map(
                |gone| json!({"path": gone.path, "bytes": gone.bytes, "last_used": gone.last_used}),
            )
            .collect();
        let stay: Vec<_> = self
            .stay
            .iter()
            .map(|(path, why)| json!({"path": path, "why": why}))
            .collect();
        json!({"gone": gone, "stay": stay})
    }

    pub(super) fn rows(&self) -> Vec<String> {
        let all = self.gone.iter().map(|gone| gone.bytes).sum();
        let mut rows = Vec::new();
        if !self.gone.is_empty() {
            rows.push(format!(
                "{}, {}",
                counted(self.gone.len(), "environment"),
                bytes(all)
            ));
            rows.extend(self.gone.iter().map(|gone| {
                let size = bytes(gone.bytes);
                let used = gone.last_used.as_ref();
                let used = used.map_or(String::new(), |at| format!(", last used {at}"));
                format!("  {}, {size}{used}", gone.path)
            }));
        }
        rows
    }

    pub(super) fn report(&self, printer: &Printer) {
        for (path, why) in &self.stay {
            printer.note(&format!("{path} stays: {why}"));
        }
    }
}
