//! The worker's end of the job protocol: take a job, send its replies, and exit or take the next one.
//!
//! Knows the descriptors and the wire (docs/design/jobs.md); knows nothing of what a job does.

use std::any::Any;
use std::fs::File;
use std::io::{self, BufRead, Write};
use std::os::fd::{FromRawFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::{Execute, Job, JobOutput, JobStatus, Reply};
use crate::base::Bug;
use crate::base::variable;

/// Names the descriptor that replies are written to.
pub const RESULT_FD: &str = "ORCH_RESULT_FD";

/// Exit code of a worker that could not speak the protocol; a job that failed exits with 0, because its reply says so.
const BROKEN_PROTOCOL: u8 = 2;

/// Reads one job from stdin, does it and answers on the result descriptor. stdout and stderr stay the job's log.
pub fn serve_one(execute: impl FnOnce(&Job, &dyn Fn(&str)) -> JobOutput) -> ExitCode {
    ended(result_channel().and_then(|channel| serve(io::stdin().lock(), &channel, execute)))
}

/// Does one job after another, until stdin ends.
pub fn serve_kept(execute: Execute) -> ExitCode {
    let serve = |channel: File| {
        let mut lines = io::stdin().lock().lines();
        lines
            .try_for_each(|line| perform(&line.context("failed to read a job")?, &channel, execute))
    };
    ended(result_channel().and_then(serve))
}

fn ended(served: Result<()>) -> ExitCode {
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // If even the log is closed, the error cannot be reported.
            let _ = writeln!(io::stderr(), "error: {error:#}");
            ExitCode::from(BROKEN_PROTOCOL)
        }
    }
}

/// Makes the descriptor private to this process: programs that the job starts must neither keep it open nor write to
/// it.
fn result_channel() -> Result<File> {
    let text = variable::text(RESULT_FD).with_context(|| {
        format!("environment variable {RESULT_FD} is not set; a worker is started by orch, which passes it")
    })?;
    let fd: RawFd = text
        .parse()
        .with_context(|| format!("{RESULT_FD}={text} is not a descriptor's number"))?;
    if fd <= libc::STDERR_FILENO {
        bail!(
            "{RESULT_FD}={fd} is a standard stream, which belongs to the log; pass a descriptor of its own"
        );
    }
    // SAFETY: fcntl on a number that may be no open descriptor fails with EBADF and touches nothing.
    let own = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) };
    if own < 0 {
        return Err(io::Error::last_os_error())
            .with_context(|| format!("failed to take {RESULT_FD}={fd}"));
    }
    // SAFETY: the number came from the parent for this use only, and `own` was just made and has no other owner.
    unsafe {
        libc::close(fd);
        Ok(File::from_raw_fd(own))
    }
}

fn serve(
    mut input: impl BufRead,
    channel: &File,
    execute: impl FnOnce(&Job, &dyn Fn(&str)) -> JobOutput,
) -> Result<()> {
    let mut line = String::new();
    input
        .read_line(&mut line)
        .context("failed to read a job from stdin")?;
    if line.trim().is_empty() {
        bail!("stdin ended without a job");
    }
    perform(&line, channel, execute)
}

/// Does the job that a line holds, and sends its replies.
fn perform(
    line: &str,
    channel: &File,
    execute: impl FnOnce(&Job, &dyn Fn(&str)) -> JobOutput,
) -> Result<()> {
    let job: Job = match serde_json::from_str(line) {
        Ok(job) => job,
        Err(error) => {
            let reason = format!("the job line cannot be read: {error}");
            // With an id the sender can be answered; without one it is no job.
            let Ok(Numbered { id }) = serde_json::from_str(line) else {
                bail!(reason)
            };
            return send(
                channel,
                &Reply::Result {
                    id,
                    output: JobOutput::failed(JobStatus::Error, reason),
                },
            );
        }
    };
    let progress = |text: &str| {
        // A lost progress line changes no result; a closed channel shows when the result is sent.
        let _ = send(
            channel,
            &Reply::Progress {
                id: job.id,
                text: text.to_owned(),
            },
        );
    };
    let output =
        catch_unwind(AssertUnwindSafe(|| execute(&job, &progress))).unwrap_or_else(|panic| {
            JobOutput::failed(
                JobStatus::Error,
                format!("worker panicked: {}", panic_message(&*panic)),
            )
        });
    send(channel, &Reply::Result { id: job.id, output })
}

#[derive(Deserialize)]
struct Numbered {
    id: u32,
}

/// One write per line, so that a killed worker leaves whole lines behind.
fn send(mut channel: &File, reply: &Reply) -> Result<()> {
    let mut line = serde_json::to_vec(reply).context(Bug::new("a reply does not serialise"))?;
    line.push(b'\n');
    channel
        .write_all(&line)
        .context("failed to write a reply to the result descriptor")
}

/// The message of a panic, if it has one.
pub fn panic_message(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a message")
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek};

    use serde_json::Value;

    use super::*;

    /// The replies to one line on stdin, or the protocol error.
    fn replies(
        line: &str,
        execute: impl FnOnce(&Job, &dyn Fn(&str)) -> JobOutput,
    ) -> Result<Vec<Value>> {
        let mut channel = tempfile::tempfile().unwrap();
        serve(line.as_bytes(), &channel, execute)?;
        let mut text = String::new();
        channel.rewind().unwrap();
        channel.read_to_string(&mut text).unwrap();
        Ok(text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect())
    }

    const JOB: &str = "{\"id\":7,\"op\":\"run\",\"out\":\"/nowhere\"}\n";

    #[test]
    fn progress_comes_before_the_one_result() {
        let replies = replies(JOB, |job, progress| {
            progress(&job.op);
            JobOutput::ok(Value::Null, None)
        })
        .unwrap();
        assert_eq!(
            replies[0],
            serde_json::json!({"event": "progress", "id": 7, "text": "run"})
        );
        assert_eq!(replies[1]["event"], "result");
        assert_eq!(replies[1]["output"]["status"], "ok");
        assert_eq!(replies.len(), 2);
    }

    #[test]
    fn a_panic_is_an_error_with_its_words() {
        let replies = replies(JOB, |job, _| panic!("no operator {}", job.id)).unwrap();
        assert_eq!(replies[0]["output"]["status"], "error");
        assert_eq!(
            replies[0]["output"]["reason"],
            "worker panicked: no operator 7"
        );
    }

    #[test]
    fn a_broken_job_is_answered_when_it_has_an_id_and_refused_when_not() {
        let never = |_: &Job, _: &dyn Fn(&str)| unreachable!("no job was read");
        let answered = replies("{\"id\":9,\"op\":\"run\"}\n", never).unwrap();
        assert_eq!(answered[0]["id"], 9);
        assert!(
            answered[0]["output"]["reason"]
                .as_str()
                .unwrap()
                .contains("missing field `out`")
        );
        assert!(replies("hello\n", never).is_err());
        assert!(replies("", never).is_err());
    }
}
