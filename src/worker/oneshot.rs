//! A process per job: `orch worker <runtime>`, `orch-torch`.

use std::io::{PipeReader, Read, Write};
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use command_fds::{CommandFdExt, FdMapping};

use crate::runtime::{Job, Reply};
use crate::worker::process::Group;
use crate::worker::{Ended, Limits, TICK};

/// The descriptor on which a child answers.
pub(super) const RESULT_FD: i32 = 3;
/// The environment variable that names it.
pub(super) const RESULT_FD_VAR: &str = "ORCH_RESULT_FD";
/// An answer longer than this is junk.
const LONGEST_LINE: usize = 64 << 20;

/// Starts `command`, hands it the job, and waits for its answer.
pub fn run_oneshot(mut command: Command, job: &Job, limits: &Limits<'_>) -> Ended {
    let start = Instant::now();
    let broken = |what: &str, e: std::io::Error| Ended::Broken(format!("failed to {what}: {e}"));
    let (reader, mut group) = match spawn_with_result_pipe(&mut command, limits.log) {
        Ok(pair) => pair,
        Err(e) => return broken(&format!("start `{}`", command.get_program().display()), e),
    };
    let mut line = serde_json::to_vec(job).expect("BUG: a job serialises");
    line.push(b'\n');
    let mut stdin = group.stdin().expect("BUG: stdin is piped");
    // A child that died before reading is told apart below, by its exit status.
    let _ = stdin.write_all(&line);
    drop(stdin);
    let mut lines = Lines::new(reader);
    let mut answer = None;
    loop {
        if let Some(ended) = limits.exceeded(start) {
            return ended; // dropping the group ends it
        }
        match lines.next(TICK) {
            Next::Line(bytes) => match serde_json::from_slice::<Reply>(&bytes) {
                Ok(Reply::Progress { text, .. }) => (limits.progress)(&text),
                Ok(Reply::Result { output, .. }) => {
                    answer = Some(output);
                    break;
                }
                Ok(Reply::Died { signal, code, .. }) => return Ended::Died { signal, code },
                Err(e) => return Ended::Broken(format!("the worker wrote junk on its result descriptor: {e}")),
            },
            Next::Nothing => {}
            Next::End => break,
            Next::TooLong => return Ended::Broken(format!("the worker's answer is longer than {LONGEST_LINE} bytes")),
            Next::Failed(e) => return broken("read the worker's answer", e),
        }
    }
    // Native libraries may crash on their way out; an answer that was given stands all the same.
    let patience =
        if answer.is_some() { Duration::from_secs(5) } else { limits.timeout.saturating_sub(start.elapsed()) };
    match (answer, group.finish(patience.min(Duration::from_secs(5)))) {
        (Some(mut output), _) => {
            if let (Some(peak), Some(facts)) = (group.peak_rss_bytes(), output.facts.as_object_mut()) {
                facts.entry("peak_rss_bytes").or_insert(peak.into());
            }
            Ended::Answered(output)
        }
        (None, Ok(status)) => {
            use std::os::unix::process::ExitStatusExt;
            Ended::Died { signal: status.signal(), code: status.code() }
        }
        (None, Err(e)) => broken("wait for the worker", e),
    }
}

pub(super) fn spawn_with_result_pipe(
    command: &mut Command,
    log: &std::path::Path,
) -> std::io::Result<(PipeReader, Group)> {
    let (reader, writer) = std::io::pipe()?;
    command.stdin(Stdio::piped()).env(RESULT_FD_VAR, RESULT_FD.to_string());
    command
        .fd_mappings(vec![FdMapping { parent_fd: writer.into(), child_fd: RESULT_FD }])
        .map_err(|e| std::io::Error::other(e.to_string()))?;
    let group = Group::spawn(command, log)?;
    // The writing end lives in `command`'s mapping; with it gone, the reader sees the child's end.
    *command = Command::new("");
    Ok((reader, group))
}

pub(super) enum Next {
    Line(Vec<u8>),
    /// Nothing came in the time given.
    Nothing,
    End,
    TooLong,
    Failed(std::io::Error),
}

/// Lines of a pipe, waited for with a limit.
pub(super) struct Lines {
    pipe: PipeReader,
    buffer: Vec<u8>,
}

impl Lines {
    pub(super) fn new(pipe: PipeReader) -> Self {
        Self { pipe, buffer: Vec::new() }
    }

    pub(super) fn next(&mut self, patience: Duration) -> Next {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.drain(..=end).take(end).collect();
                return Next::Line(line);
            }
            if self.buffer.len() > LONGEST_LINE {
                return Next::TooLong;
            }
            let mut poll = libc::pollfd { fd: self.pipe.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one valid pollfd, for the length of the call.
            let ready = unsafe { libc::poll(&mut poll, 1, patience.as_millis() as i32) };
            match ready {
                0 => return Next::Nothing,
                n if n < 0 => {
                    let e = std::io::Error::last_os_error();
                    return if e.kind() == std::io::ErrorKind::Interrupted { Next::Nothing } else { Next::Failed(e) };
                }
                _ => {}
            }
            let mut chunk = [0; 64 * 1024];
            match self.pipe.read(&mut chunk) {
                Ok(0) => return Next::End,
                Ok(n) => self.buffer.extend_from_slice(&chunk[..n]),
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Next::Failed(e),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::Cancel;
    use std::path::Path;

    fn job(dir: &Path) -> Job {
        Job {
            id: 1,
            op: "x".into(),
            params: serde_json::Value::Null,
            inputs: Default::default(),
            out: dir.into(),
            log: None,
            env: Default::default(),
        }
    }

    fn shell(script: &str, timeout: Duration) -> (Ended, String) {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let cancel = Cancel::default();
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let limits = Limits { timeout, cancel: &cancel, log: &log, progress: &|_| {} };
        let ended = run_oneshot(command, &job(dir.path()), &limits);
        (ended, std::fs::read_to_string(&log).unwrap_or_default())
    }

    const ANSWER: &str = r#"echo '{"event":"result","id":1,"output":{"status":"ok"}}' >&3"#;

    #[test]
    fn noise_on_stdout_is_log_and_not_protocol() {
        let (ended, log) = shell(&format!("echo '{{junk'; read job; {ANSWER}; echo bye >&2"), Duration::from_secs(10));
        assert!(matches!(ended, Ended::Answered(_)), "{ended:?}");
        assert!(log.contains("{junk") && log.contains("bye"));
    }

    #[test]
    fn a_crash_after_the_answer_does_not_take_it_back() {
        let (ended, _) = shell(&format!("{ANSWER}; kill -SEGV $$"), Duration::from_secs(10));
        assert!(matches!(ended, Ended::Answered(_)), "{ended:?}");
    }

    #[test]
    fn death_junk_and_hanging_are_told_apart() {
        let (ended, _) = shell("kill -SEGV $$", Duration::from_secs(10));
        assert!(matches!(ended, Ended::Died { signal: Some(11), .. }), "{ended:?}");
        let (ended, _) = shell("exit 7", Duration::from_secs(10));
        assert!(matches!(ended, Ended::Died { code: Some(7), .. }), "{ended:?}");
        let (ended, _) = shell("echo junk >&3; sleep 60", Duration::from_secs(10));
        assert!(matches!(ended, Ended::Broken(_)), "{ended:?}");
    }

    #[test]
    fn a_timeout_ends_grandchildren_that_ignore_sigterm() {
        let dir = tempfile::tempdir().unwrap();
        let pid_file = dir.path().join("pid");
        let script = format!("(trap '' TERM; sleep 60) & echo $! > {}; wait", pid_file.display());
        let (ended, _) = shell(&script, Duration::from_millis(300));
        assert!(matches!(ended, Ended::TimedOut), "{ended:?}");
        let pid: i32 = std::fs::read_to_string(pid_file).unwrap().trim().parse().unwrap();
        let gone = (0..100).any(|_| {
            std::thread::sleep(Duration::from_millis(20));
            let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            // SAFETY: signal 0 only asks whether the process exists.
            unsafe { libc::kill(pid, 0) != 0 || state.contains(") Z") }
        });
        assert!(gone, "grandchild {pid} outlived its group");
    }
}
