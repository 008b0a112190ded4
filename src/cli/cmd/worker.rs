//! `orch worker <runtime>`: the child side of a job.

use std::process::ExitCode;

use crate::catalogue::RUNTIMES;
use crate::cli::exit::Exit;
use crate::device;
use crate::runtime::{JobOutput, serve::serve_one};
use crate::session::UsageError;

pub(super) fn worker(name: &str) -> anyhow::Result<Exit> {
    let known = || RUNTIMES.iter().filter_map(|runtime| Some((runtime.name, runtime.execute?)));
    let code = if name == "probe" {
        serve_one(|job, _| {
            let backend = device::probe_here(&job.op, &job.params);
            JobOutput::ok(serde_json::to_value(backend).expect("BUG: a backend serialises"), None)
        })
    } else if let Some((_, execute)) = known().find(|(known, _)| *known == name) {
        serve_one(execute)
    } else {
        let hint = crate::base::suggest::hint(name, known().map(|(known, _)| known));
        return Err(UsageError(format!("no runtime is called `{name}`\n  hint: {hint}")).into());
    };
    Ok(if code == ExitCode::SUCCESS { Exit::Success } else { Exit::Usage })
}
