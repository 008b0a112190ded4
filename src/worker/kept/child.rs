//! The end of a kept worker in its own process: jobs as lines on stdin, until that ends; answers on the result descriptor.

use std::fs::File;
use std::io::{self, BufRead, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use anyhow::Context;

use crate::runtime::serve::said;
use crate::runtime::{Execute, Job, JobOutput, JobStatus, Reply};
use crate::worker::oneshot::RESULT_FD;

/// Does each job by `execute`.
pub fn serve_kept(execute: Execute) -> ExitCode {
    match serve(execute) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // If even the log is closed, nobody can be told.
            let _ = writeln!(io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn serve(execute: Execute) -> anyhow::Result<()> {
    // SAFETY: whoever starts a worker opens this descriptor for it, and nothing else here has taken it.
    let given = unsafe { OwnedFd::from_raw_fd(RESULT_FD) };
    // Programs that a job starts must not keep it open; a copy is closed when they are executed.
    let channel = File::from(given.try_clone().context("there is no result descriptor; orch starts this worker")?);
    drop(given);
    for line in io::stdin().lock().lines() {
        let job: Job = serde_json::from_str(&line.context("failed to read a job")?).context("a job cannot be read")?;
        let progress = |text: &str| {
            // A lost line changes no result; a closed channel shows when the result is sent.
            let _ = send(&channel, &Reply::Progress { id: job.id, text: text.to_owned() });
        };
        let output = catch_unwind(AssertUnwindSafe(|| execute(&job, &progress)))
            .unwrap_or_else(|panic| JobOutput::failed(JobStatus::Error, format!("worker panicked: {}", said(&*panic))));
        send(&channel, &Reply::Result { id: job.id, output })?;
    }
    Ok(())
}

fn send(mut channel: &File, reply: &Reply) -> anyhow::Result<()> {
    let mut line = serde_json::to_vec(reply).context("BUG: a reply does not serialise")?;
    line.push(b'\n');
    channel.write_all(&line).context("failed to write a reply to the result descriptor")
}
