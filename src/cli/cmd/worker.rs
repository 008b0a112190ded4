//! `orch worker <runtime>`: the child side of a job.

use std::process::ExitCode;

use crate::cli::exit::{Exit, UsageError};
use crate::device;
use crate::runtime::{JobOutput, RUNTIMES, serve::serve_one};

pub(super) fn worker(name: &str) -> anyhow::Result<Exit> {
    let code = if name == "probe" {
        serve_one(|job, _| {
            let backend = device::probe_here(&job.op, &job.params);
            JobOutput::ok(serde_json::to_value(backend).expect("BUG: a backend serialises"), None)
        })
    } else if let Some(runtime) = RUNTIMES.iter().find(|runtime| runtime.id() == name) {
        serve_one(|job, progress| runtime.execute(job, progress))
    } else {
        let hint = crate::base::suggest::hint(name, RUNTIMES.iter().map(|runtime| runtime.id()));
        return Err(UsageError(format!("no runtime is called `{name}`\n  hint: {hint}")).into());
    };
    Ok(if code == ExitCode::SUCCESS { Exit::Success } else { Exit::Usage })
}
