//! A user's program in a working folder of its own, with an environment by allow-list.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use serde_json::json;

use crate::base::fs as bfs;
use crate::runtime::{JobOutput, JobStatus};
use crate::step::CommandCall;
use crate::worker::process::{Group, tail};
use crate::worker::{Ended, Limits, TICK};

/// Runs `call` in `work` (an empty folder) and copies its declared outputs to `out`.
///
/// Inputs are copied in, so that a program that writes to them harms nothing. PATH is passed on to find programs; HOME
/// and TMPDIR are fresh folders; besides these only the declared variables are seen.
pub fn run_command(call: &CommandCall, work: &Path, out: &Path, limits: &Limits<'_>) -> Ended {
    let start = Instant::now();
    match prepare(call, work).and_then(|mut command| Ok(Group::spawn(&mut command, limits.log)?)) {
        Err(e) => {
            Ended::Answered(JobOutput::failed(JobStatus::Error, format!("failed to start `{}`: {e:#}", call.argv[0])))
        }
        Ok(mut group) => loop {
            match group.try_wait() {
                Ok(Some(status)) if status.success() => return collect(call, work, out),
                Ok(Some(status)) => {
                    let last = tail(limits.log, 1);
                    let said = if last.is_empty() { String::new() } else { format!(": {last}") };
                    return Ended::Answered(JobOutput::failed(
                        JobStatus::Error,
                        format!("`{}` ended with {status}{said}", call.argv[0]),
                    ));
                }
                Ok(None) => {}
                Err(e) => return Ended::Broken(format!("failed to wait for `{}`: {e}", call.argv[0])),
            }
            if let Some(ended) = limits.exceeded(start) {
                return ended;
            }
            std::thread::sleep(TICK.min(start.elapsed() / 4 + std::time::Duration::from_micros(200)));
        },
    }
}

fn prepare(call: &CommandCall, work: &Path) -> anyhow::Result<Command> {
    let cwd = work.join("cwd");
    std::fs::create_dir_all(&cwd)?;
    for (name, from) in &call.inputs {
        bfs::copy_all(from, &cwd.join(name))?;
    }
    let mut command = Command::new(&call.argv[0]);
    command.args(&call.argv[1..]).current_dir(&cwd).stdin(std::process::Stdio::null()).env_clear();
    for (variable, folder) in [("HOME", "home"), ("TMPDIR", "tmp")] {
        let folder = work.join(folder);
        std::fs::create_dir_all(&folder)?;
        command.env(variable, folder);
    }
    for name in ["PATH"].into_iter().chain(call.env.iter().map(String::as_str)) {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    Ok(command)
}

fn collect(call: &CommandCall, work: &Path, out: &Path) -> Ended {
    for name in &call.outputs {
        let from = work.join("cwd").join(name);
        if !from.exists() {
            let reason = format!("`{}` ended well but did not make its declared output `{name}`", call.argv[0]);
            return Ended::Answered(JobOutput::failed(JobStatus::Error, reason));
        }
        if let Err(e) = bfs::copy_all(&from, &out.join(name)) {
            return Ended::Broken(format!("failed to take the output `{name}`: {e}"));
        }
    }
    Ended::Answered(JobOutput::ok(json!({"argv": call.argv}), None))
}

/// Runs an installer to its end, telling the last line of its log as it goes.
pub fn run_logged(command: &mut Command, limits: &Limits<'_>) -> anyhow::Result<()> {
    let start = Instant::now();
    let mut group = Group::spawn(command.stdin(std::process::Stdio::null()), limits.log)?;
    let mut said = String::new();
    loop {
        match group.try_wait()? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => anyhow::bail!("it ended with {status}"),
            None => {}
        }
        match limits.exceeded(start) {
            Some(Ended::TimedOut) => anyhow::bail!("it did not end within {} s", limits.timeout.as_secs()),
            Some(_) => anyhow::bail!("interrupted"),
            None => {}
        }
        let last = tail(limits.log, 1);
        if last != said {
            (limits.progress)(last.trim());
            said = last;
        }
        std::thread::sleep(TICK * 4);
    }
}
