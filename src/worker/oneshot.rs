//! A process per job: `orch worker <runtime>`, `orch-torch`.

#![expect(
    clippy::disallowed_methods,
    reason = "leaves a placeholder of a command"
)]

use std::io::Write;
use std::os::fd::BorrowedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use command_fds::{CommandFdExt, FdMapping};

use crate::confine::Confinement;
use crate::runtime::{Job, JobOutput, Reply, serve};
use crate::worker::lines::{Lines, Next};
use crate::worker::output_log::OutputLog;
use crate::worker::oversee::{Overseer, Verdict};
use crate::worker::process::{Group, poll, readable, speak_to};
use crate::worker::{Ended, Limits, TICK};

/// The descriptor on which a child answers.
pub(super) const RESULT_FD: i32 = 3;
/// How long a worker may live that has answered, or can answer no more.
const LEAVING: Duration = Duration::from_secs(5);

/// Starts `command`, hands it the job, and waits for its answer.
pub fn run_oneshot(mut command: Command, job: &Job, limits: &Limits<'_>) -> Ended {
    let broken = |what: &str, e: std::io::Error| Ended::Broken(format!("failed to {what}: {e}"));
    let output_log = match OutputLog::new(limits.log) {
        Ok(output_log) => output_log,
        Err(e) => return broken("make a pipe", e),
    };
    command.envs(&job.env);
    let confinement = match Confinement::of(&job.sandbox) {
        Ok(confinement) => confinement,
        Err(e) => return broken("make a sandbox", e),
    };
    let (lines, mut group) =
        match spawn_with_result_pipe(&mut command, output_log.output(), confinement) {
            Ok(pair) => pair,
            Err(e) => return broken(&format!("start `{}`", command.get_program().display()), e),
        };
    let mut line = serde_json::to_vec(job).expect("BUG: a job serialises");
    line.push(b'\n');
    let mut stdin = group.stdin().expect("BUG: stdin is piped");
    // A child that died before reading is recognised below, by its exit status.
    let _ = stdin.write_all(&line);
    drop(stdin);
    let mut worker = AtWork::of(group, lines, output_log, limits, false);
    let ended = worker.wait(job, limits);
    let (mut group, _, output_log) = worker.rest();
    let _ = group.finish(Duration::ZERO);
    group.sweep();
    let mut ended = output_log.end(ended.unwrap_or_else(|e| broken("wait for the worker", e)));
    if let Ended::Answered(output) = &mut ended {
        output.peak_rss_bytes = output.peak_rss_bytes.or(group.peak_rss_bytes());
    }
    ended
}

/// A worker that has its job.
pub(super) struct AtWork<'a> {
    group: Group,
    /// The lines, until their end.
    lines: Option<Lines>,
    output_log: OutputLog<'a>,
    overseer: Overseer<'a>,
    answer: Option<JobOutput>,
    /// The moment when a worker that has answered, or cannot any more, must be gone.
    leave_by: Option<Instant>,
    /// It stays after its answer.
    is_kept: bool,
}

impl<'a> AtWork<'a> {
    pub(super) fn of(
        group: Group,
        lines: Lines,
        output_log: OutputLog<'a>,
        limits: &'a Limits<'a>,
        is_kept: bool,
    ) -> Self {
        let mut overseer = Overseer::new(limits);
        overseer.watch(group.leader());
        Self {
            group,
            lines: Some(lines),
            output_log,
            overseer,
            answer: None,
            leave_by: None,
            is_kept,
        }
    }

    /// What is left of a job that is over; it is watched no more.
    pub(super) fn rest(mut self) -> (Group, Option<Lines>, OutputLog<'a>) {
        self.overseer.unwatch();
        (self.group, self.lines, self.output_log)
    }

    pub(super) fn wait(&mut self, job: &Job, limits: &Limits<'_>) -> std::io::Result<Ended> {
        let mut nap = Duration::from_micros(200);
        loop {
            let lines = self.lines.as_ref().map_or(-1, Lines::fd);
            let mut fds = [
                lines,
                self.output_log.fd(),
                self.group.pidfd().unwrap_or(-1),
            ]
            .map(readable);
            poll(
                &mut fds,
                if self.group.pidfd().is_some() {
                    TICK
                } else {
                    nap
                },
            )?;
            nap = (nap * 2).min(Duration::from_millis(10));
            if fds[1].revents != 0 {
                self.output_log.take_in();
            }
            // Checked before the last lines are read, so that none can come after them.
            let status = self.group.wait(Duration::ZERO)?;
            if let Some(junk) = self.hear(job, limits) {
                return Ok(self.overseer.why().unwrap_or(junk));
            }
            if let Some(status) = status {
                return Ok(self.end(status));
            }
            if self.is_kept
                && let Some(answer) = self.answer.take()
            {
                return Ok(Ended::Answered(answer));
            }
            if self.leave_by.is_some_and(|by| Instant::now() >= by) {
                // Native libraries may hang on their way out; an answer that was given stands all the same.
                let silent =
                    "the worker closed its result descriptor without an answer and kept running";
                return Ok(self
                    .answer
                    .take()
                    .map_or_else(|| Ended::Broken(silent.into()), Ended::Answered));
            }
            match self.overseer.look() {
                Verdict::GoesOn => {}
                Verdict::Terminate => self.group.terminate(),
                Verdict::Kill => {
                    return Ok(self.overseer.why().expect("BUG: killed for no reason"));
                }
            }
        }
    }

    /// Takes in what stands on the result descriptor; gives how the job ended if that is no answer.
    fn hear(&mut self, job: &Job, limits: &Limits<'_>) -> Option<Ended> {
        let junk = |what: &str| Some(junk(what));
        // Who never stops talking must not keep the clock from being looked at.
        for _ in 0..10_000 {
            match self.lines.as_mut()?.next() {
                Next::Line(bytes) => match serde_json::from_slice::<Reply>(&bytes) {
                    Ok(reply) if reply.id() != job.id => {
                        return junk(&format!(
                            "an answer for job {}, and it has job {}",
                            reply.id(),
                            job.id
                        ));
                    }
                    Ok(_) if self.answer.is_some() => return junk("a line after its answer"),
                    Ok(Reply::Progress { text, .. }) => (limits.progress)(&text),
                    Ok(Reply::Result { output, .. }) => {
                        self.answer = Some(output);
                        self.leave_by = Some(Instant::now() + LEAVING);
                    }
                    Ok(Reply::Started { .. } | Reply::Download { .. } | Reply::Died { .. }) => {
                        return junk("the words of a server");
                    }
                    Err(e) => return junk(&e.to_string()),
                },
                Next::Nothing => return None,
                Next::End(half) => {
                    self.lines = None;
                    self.leave_by.get_or_insert(Instant::now() + LEAVING);
                    return if half { junk("half a line") } else { None };
                }
                Next::TooLong(bytes) => return junk(&format!("a line of more than {bytes} bytes")),
                Next::Failed(e) => {
                    return Some(Ended::Broken(format!(
                        "failed to read the worker's answer: {e}"
                    )));
                }
            }
        }
        None
    }

    /// How a job ended whose process has.
    fn end(&mut self, status: ExitStatus) -> Ended {
        if let Some(why) = self.overseer.why() {
            return why;
        }
        // Native libraries may crash on their way out; an answer that was given stands all the same.
        match self.answer.take() {
            Some(output) => Ended::Answered(output),
            // A child that is being started beside it may hold the descriptor a moment longer, so its end does not show.
            None if status.success() && self.lines.as_ref().is_some_and(Lines::has_half) => {
                junk("half a line")
            }
            None => self.overseer.death(status.signal(), status.code()),
        }
    }
}

fn junk(what: &str) -> Ended {
    Ended::Broken(format!(
        "the worker wrote invalid data to its result descriptor: {what}"
    ))
}

/// Starts `command`, whose stdout and stderr go to `output`. Jobs go to its stdin, and its answers come as lines.
pub(super) fn spawn_with_result_pipe(
    command: &mut Command,
    output: BorrowedFd<'_>,
    confinement: Option<Confinement>,
) -> std::io::Result<(Lines, Group)> {
    let (reader, writer) = std::io::pipe()?;
    command
        .stdin(Stdio::piped())
        .env(serve::RESULT_FD, RESULT_FD.to_string());
    command
        .fd_mappings(vec![FdMapping {
            parent_fd: writer.into(),
            child_fd: RESULT_FD,
        }])
        .map_err(|e| std::io::Error::other(e.to_string()))?;
    speak_to(command, output)?;
    let group = Group::spawn(command, confinement)?;
    // The writing end lives in `command`'s mapping; with it gone, the reader sees the child's end.
    *command = Command::new("");
    Ok((Lines::new(reader)?, group))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::confine::{Enforced, Grants};
    use crate::worker::Cancel;
    use crate::worker::testing::{eventually, is_alive};
    use std::path::Path;

    fn job() -> Job {
        Job {
            id: 1,
            op: "x".into(),
            sandbox: Grants::everything(),
            ..Job::default()
        }
    }

    fn shell(script: &str, timeout: Duration) -> (Ended, String) {
        let dir = tempfile::tempdir().unwrap();
        shell_of(&job(), script, timeout, dir.path())
    }

    /// How a job ended that a shell did in a folder, and its output.
    fn shell_of(job: &Job, script: &str, timeout: Duration, dir: &Path) -> (Ended, String) {
        let log = dir.join("log");
        let cancel = Cancel::default();
        let mut command = Command::new("sh");
        command.args(["-c", script]).current_dir(dir);
        let ended = run_oneshot(command, job, &Limits::of_time(timeout, &cancel, &log));
        (ended, std::fs::read_to_string(&log).unwrap_or_default())
    }

    const ANSWER: &str = r#"echo '{"event":"result","id":1,"output":{"status":"ok"}}' >&3"#;

    #[test]
    fn noise_on_stdout_is_log_and_not_protocol() {
        let (ended, log) = shell(
            &format!("echo '{{junk'; read job; {ANSWER}; echo bye >&2"),
            Duration::from_secs(10),
        );
        assert!(matches!(ended, Ended::Answered(_)), "{ended:?}");
        assert!(log.contains("{junk") && log.contains("bye"));
    }

    /// CUDA reads it when it starts, which may be before a job is read.
    #[test]
    fn a_worker_starts_with_the_environment_of_its_job() {
        let dir = tempfile::tempdir().unwrap();
        let job = Job {
            env: [("CUDA_VISIBLE_DEVICES".to_owned(), "GPU-a1".to_owned())].into(),
            ..job()
        };
        let script = format!("echo shown $CUDA_VISIBLE_DEVICES; {ANSWER}");
        let (ended, output) = shell_of(&job, &script, Duration::from_secs(10), dir.path());
        assert!(matches!(ended, Ended::Answered(_)), "{ended:?}");
        assert_eq!(output, "shown GPU-a1\n");
    }

    #[test]
    fn a_worker_is_held_to_what_its_job_was_given() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir(at("own")).unwrap();
        let job = Job {
            sandbox: Grants::folders([at("own").as_path()]),
            ..job()
        };
        let script = format!("read job; echo x > own/made; echo x > theirs; {ANSWER}");
        let (ended, _) = shell_of(&job, &script, Duration::from_secs(10), dir.path());
        assert!(matches!(ended, Ended::Answered(_)), "{ended:?}");
        assert!(at("own/made").exists());
        assert_eq!(at("theirs").exists(), !Enforced::here().is_some());
    }

    #[test]
    fn a_crash_after_the_answer_does_not_take_it_back() {
        let (ended, _) = shell(&format!("{ANSWER}; kill -SEGV $$"), Duration::from_secs(10));
        assert!(matches!(ended, Ended::Answered(_)), "{ended:?}");
    }

    #[test]
    fn deaths_are_distinguished() {
        for (script, by, with) in [
            ("kill -SEGV $$", Some(11), None),
            ("exit 7", None, Some(7)),
            ("kill -KILL $$", Some(9), None),
            // Who holds the descriptor open must not keep the job waiting for the dead.
            ("setsid sleep 60 & exit 7", None, Some(7)),
        ] {
            let (ended, _) = shell(script, Duration::from_secs(10));
            assert!(
                matches!(ended, Ended::Died { signal, code } if (signal, code) == (by, with)),
                "{script}: {ended:?}"
            );
        }
    }

    #[test]
    fn who_gives_up_for_want_of_memory_is_no_crash() {
        let words = "terminate called after throwing an instance of std::bad_alloc";
        let (ended, _) = shell(
            &format!("echo {words} >&2; kill -ABRT $$"),
            Duration::from_secs(10),
        );
        assert!(
            matches!(&ended, Ended::OutOfMemory(why) if why.ends_with(words)),
            "{ended:?}"
        );
        let (ended, _) = shell(
            "echo an assertion failed >&2; kill -ABRT $$",
            Duration::from_secs(10),
        );
        assert!(
            matches!(
                ended,
                Ended::Died {
                    signal: Some(libc::SIGABRT),
                    ..
                }
            ),
            "{ended:?}"
        );
    }

    #[test]
    fn junk_is_reported_as_what_it_is() {
        for (script, what) in [
            ("echo junk >&3; sleep 60".to_owned(), "expected value"),
            (
                ANSWER.replace("\"id\":1", "\"id\":2"),
                "an answer for job 2, and it has job 1",
            ),
            (format!("{ANSWER}; {ANSWER}"), "a line after its answer"),
            (r#"printf '{"event":"res' >&3"#.to_owned(), "half a line"),
            (
                r#"echo '{"event":"started","id":1,"pid":1}' >&3; sleep 60"#.to_owned(),
                "the words of a server",
            ),
            (
                "yes | tr -d '\\n' >&3".to_owned(),
                "a line of more than 16777216 bytes",
            ),
        ] {
            let (ended, _) = shell(&script, Duration::from_secs(20));
            let Ended::Broken(why) = ended else {
                panic!("{script}: {ended:?}")
            };
            assert!(
                why.starts_with("the worker wrote invalid data to its result descriptor: ")
                    && why.contains(what),
                "{why}"
            );
        }
    }

    #[test]
    fn who_closes_its_descriptor_and_stays_is_ended() {
        let (ended, _) = shell("exec 3>&-; sleep 60", Duration::from_secs(20));
        assert!(
            matches!(&ended, Ended::Broken(why) if why.contains("without an answer")),
            "{ended:?}"
        );
    }

    #[test]
    fn a_timeout_ends_grandchildren_that_ignore_sigterm() {
        let dir = tempfile::tempdir().unwrap();
        let pid_file = dir.path().join("pid");
        let script = format!(
            "(trap '' TERM; sleep 60) & echo $! > {}; wait",
            pid_file.display()
        );
        let (ended, _) = shell(&script, Duration::from_millis(300));
        assert!(matches!(ended, Ended::TimedOut), "{ended:?}");
        let pid: i32 = std::fs::read_to_string(pid_file)
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        eventually("the grandchild is gone", || !is_alive(pid));
    }
}
