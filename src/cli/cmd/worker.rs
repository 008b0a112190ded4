//! `orch worker <runtime>`: the child side of a job.

use crate::cli::exit::{Exit, UsageError};
use crate::device;
use crate::runtime::{JobOutput, RUNTIMES, serve::serve_one};

pub(super) fn worker(name: &str) -> anyhow::Result<Exit> {
    if name == "probe" {
        let code = serve_one(|job, _| {
            let backend = device::probe_here(&job.op, &job.params);
            JobOutput::ok(serde_json::to_value(backend).expect("BUG: a backend serialises"), None)
        });
        std::process::exit(if code == std::process::ExitCode::SUCCESS { 0 } else { 2 });
    }
    let Some(runtime) = RUNTIMES.iter().find(|runtime| runtime.id() == name) else {
        let hint = crate::base::suggest::hint(name, RUNTIMES.iter().map(|runtime| runtime.id()));
        return Err(UsageError(format!("no runtime is called `{name}`\n  hint: {hint}")).into());
    };
    let code = serve_one(|job, progress| runtime.execute(job, progress));
    Ok(if code == std::process::ExitCode::SUCCESS { Exit::Success } else { Exit::Usage })
}
