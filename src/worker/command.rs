//! A user's program in a working folder of its own, with an environment by allow-list.

#![expect(clippy::disallowed_methods, reason = "starts commands of specs")]

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::base::variable;
use crate::confine::{Confinement, Enforced};
use crate::runtime::{FailureCause, JobOutput, JobStatus};
use crate::step::CommandCall;
use crate::worker::inputs::{Gone, NotLaid, lay_in};
use crate::worker::output_log::OutputLog;
use crate::worker::outputs::{Refused, take_out};
use crate::worker::oversee::{Overseer, Verdict};
use crate::worker::process::{Group, poll, readable, speak_to, tail};
use crate::worker::project::Project;
use crate::worker::redact::Redact;
use crate::worker::sandbox::{Sandbox, grants};
use crate::worker::{Ended, Limits, TICK};

/// A hint for commands that the sandbox denied something.
const HINT: &str = "; hint: a step reads files of the project that `inputs` names, writes to its own folders only, and \
                    opens no connection; `writable` names other folders, `network: true` allows TCP";

/// The places where the programs of a run work, and whose files they must declare.
pub struct Workplace {
    /// The folder of the working folders, which is removed with the run.
    pub sandboxes: PathBuf,
    pub project: Project,
}

/// Files by their paths in a step's tree.
type Files = Vec<(String, PathBuf)>;

/// How a program ended, and what it made.
pub struct CommandEnd {
    pub ended: Ended,
    /// Those of its outputs, if it ended well: to be moved away before this is dropped, because then they go.
    pub files: Files,
    /// What cannot be removed with it lies below the run's own folder.
    _sandbox: Option<Sandbox>,
}

/// Runs `call` in a sandbox. Outputs that somebody may still write to are copied to the empty folder `out`.
///
/// PATH is passed on to find programs; HOME and TMPDIR are empty folders; besides these only the declared variables
/// are seen. Nothing is run if an input has gone.
pub fn run_command(
    call: &CommandCall,
    workplace: &Workplace,
    out: &Path,
    limits: &Limits<'_>,
) -> Result<CommandEnd, Gone> {
    let broken = |what: &str, e: std::io::Error| Ended::Broken(format!("failed to {what}: {e}"));
    let sandbox = match Sandbox::make(&workplace.sandboxes) {
        Ok(sandbox) => sandbox,
        Err(e) => {
            return Ok(CommandEnd {
                ended: broken("make a working folder", e),
                files: vec![],
                _sandbox: None,
            });
        }
    };
    let (ended, files) = match lay_in(call, &sandbox.cwd) {
        Ok(()) => {
            run_in(&sandbox, call, workplace, out, limits).unwrap_or_else(|ended| (*ended, vec![]))
        }
        Err(NotLaid::Gone(gone)) => return Err(gone),
        Err(NotLaid::Io(e)) => (broken("lay in the inputs", e), vec![]),
    };
    Ok(CommandEnd {
        ended,
        files,
        _sandbox: Some(sandbox),
    })
}

fn run_in(
    sandbox: &Sandbox,
    call: &CommandCall,
    workplace: &Workplace,
    out: &Path,
    limits: &Limits<'_>,
) -> Result<(Ended, Files), Box<Ended>> {
    let failed = |why: String| JobOutput::failed(JobStatus::Error, why);
    let program = &call.argv[0];
    let mut running = Running::start(call, sandbox, &workplace.project, limits.log)
        .map_err(|e| Ended::Answered(failed(format!("failed to start `{program}`: {e}"))))?;
    let ended = running.wait(limits);
    let End {
        is_quiet,
        left,
        log,
        peak_rss_bytes,
    } = running.finish();
    let mut facts = json!({"argv": call.argv});
    if !left.is_empty() {
        facts[LEFT_BEHIND] = json!(left);
    }
    let status = ended?;
    log.map_err(|e| {
        Ended::Broken(format!(
            "failed to write the log {}: {e}",
            limits.log.display()
        ))
    })?;
    let mut cause = None;
    let (output, files) = if !status.success() {
        let last = tail(limits.log, 1);
        let reason = if last.is_empty() {
            String::new()
        } else {
            format!(": {last}")
        };
        let of_signal = || status.signal().map(FailureCause::Signal);
        cause = status.code().map(FailureCause::ExitCode).or_else(of_signal);
        let hint = if last.contains("Permission denied") && Enforced::here().is_some() {
            HINT
        } else {
            ""
        };
        (
            failed(format!("`{program}` ended with {status}{reason}{hint}")),
            vec![],
        )
    } else {
        let taken = call
            .outputs
            .iter()
            .map(|name| take_out(name, &sandbox.cwd, out, is_quiet));
        match taken.collect::<Result<Vec<_>, _>>() {
            Ok(files) => (
                JobOutput::ok(json!(null), None),
                files.into_iter().flatten().collect(),
            ),
            Err(Refused::Output(why)) => {
                (failed(format!("`{program}` ended well but {why}")), vec![])
            }
            Err(Refused::Io(why)) => return Err(Box::new(Ended::Broken(why))),
        }
    };
    let output = JobOutput {
        facts,
        cause,
        peak_rss_bytes,
        ..output
    };
    Ok((Ended::Answered(output), files))
}

/// The fact that lists, by name, the processes that a step left running.
const LEFT_BEHIND: &str = "left_behind";

/// The warning about a step whose facts say that it left processes running.
pub fn left_behind(step: &str, facts: &Value) -> Option<String> {
    let left = facts[LEFT_BEHIND].as_array()?;
    let names: Vec<_> = left.iter().filter_map(Value::as_str).collect();
    Some(format!(
        "{step} left processes running ({}); they were ended with it; hint: start a service that is to go on before orch",
        names.join(", ")
    ))
}

/// A program at work.
struct Running<'a> {
    group: Group,
    output_log: OutputLog<'a>,
}

/// What is known when it is over.
struct End {
    /// Whether nobody is left, as far as is known, who could write to an output.
    is_quiet: bool,
    /// Processes that had left the group and were ended with it, by name.
    left: Vec<String>,
    log: std::io::Result<()>,
    peak_rss_bytes: Option<u64>,
}

impl<'a> Running<'a> {
    fn start(
        call: &CommandCall,
        sandbox: &Sandbox,
        project: &Project,
        log: &'a Path,
    ) -> std::io::Result<Self> {
        let mut env: Vec<(OsString, OsString)> = vec![
            ("HOME".into(), (&sandbox.home).into()),
            ("TMPDIR".into(), (&sandbox.tmp).into()),
        ];
        for name in ["PATH"]
            .into_iter()
            .chain(call.env.iter().map(String::as_str))
        {
            if let Some(value) = variable::os(name) {
                env.retain(|(known, _)| known != name);
                env.push((name.into(), value));
            }
        }
        let declared = env.iter().filter_map(|(name, value)| {
            Some((
                name.to_str()
                    .filter(|name| call.env.iter().any(|known| known == name))?,
                value.as_os_str(),
            ))
        });
        let output_log = OutputLog::new(log)?.without(Redact::of(declared));
        let path = env.iter().find(|(name, _)| name == "PATH");
        let hidden = project.hidden_from(call, path.map(|(_, path)| path.as_os_str()));
        let grants = grants(&call.access, &sandbox.folders())?.without(hidden);
        let mut command = Command::new(&call.argv[0]);
        command
            .args(&call.argv[1..])
            .current_dir(&sandbox.cwd)
            .env_clear()
            .envs(env);
        speak_to(command.stdin(Stdio::null()), output_log.output())?;
        let group = Group::spawn(&mut command, Confinement::of(&grants)?)?;
        Ok(Self { group, output_log })
    }

    /// Waits for its end and takes in its output; ends it when it must end.
    fn wait(&mut self, limits: &Limits<'_>) -> Result<ExitStatus, Box<Ended>> {
        let mut overseer = Overseer::new(limits);
        overseer.watch(self.group.leader());
        let broken = |e: std::io::Error| {
            Box::new(Ended::Broken(format!(
                "failed to wait for the program: {e}"
            )))
        };
        let mut nap = Duration::from_micros(200);
        // A negative number is left out by the kernel.
        let mut fds = [self.group.pidfd().unwrap_or(-1), self.output_log.fd()].map(readable);
        loop {
            let patience = if fds[0].fd >= 0 { TICK } else { nap };
            poll(&mut fds, patience).map_err(broken)?;
            let [ended, spoke] = [fds[0].revents, fds[1].revents];
            if spoke != 0 {
                self.output_log.take_in();
            }
            if ended != 0 || fds[0].fd < 0 {
                if let Some(status) = self.group.wait(Duration::ZERO).map_err(broken)? {
                    return overseer.judge(status);
                }
                nap = (nap * 2).min(Duration::from_millis(10));
            }
            match overseer.look() {
                Verdict::GoesOn => {}
                Verdict::Terminate => self.group.terminate(),
                Verdict::Kill => {
                    return Err(Box::new(overseer.why().expect("BUG: killed for no reason")));
                }
            }
        }
    }

    /// Ends what is left of it.
    fn finish(mut self) -> End {
        let _ = self.group.finish(Duration::ZERO);
        let mut is_quiet = self.group.is_over();
        let mut left = Vec::new();
        if is_quiet {
            self.group.nobody_is_left();
        } else {
            left = self.group.sweep();
            // Where the kernel keeps no lists of children, the group is all that is known.
            is_quiet =
                self.group.is_over() || (!cfg!(target_os = "linux") && self.group.is_empty());
        }
        End {
            is_quiet,
            left,
            log: self.output_log.finish(),
            peak_rss_bytes: self.group.peak_rss_bytes(),
        }
    }
}

#[cfg(test)]
#[path = "command_tests.rs"]
mod tests;
