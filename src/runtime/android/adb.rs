//! One phone through `adb`: commands in its shell, files to it and from it, each bounded by a deadline.
//!
//! It knows nothing of models. A command for the phone's shell is sent as one word, so its quoting is the caller's;
//! whether a command ended, and how, is read from a line of its own at the end of its output, because older phones hand
//! no exit code back and a phone that is gone says nothing.

#![expect(clippy::disallowed_methods, reason = "starts adb")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::base::process;
use crate::base::text::last_line;

/// Begins the line that a command's exit code stands in.
const ENDED: &str = "orch-ended:";

/// The deadline came before the phone's answer.
#[derive(Debug, thiserror::Error)]
#[error("the phone did not answer in time")]
pub(super) struct Late;

/// The connection ended before the command did.
#[derive(Debug, thiserror::Error)]
#[error("the phone went away: {0}")]
pub(super) struct Gone(pub(super) String);

/// What a command in the phone's shell printed, and how it ended.
pub(super) struct ShellOutput {
    pub(super) code: i32,
    pub(super) text: String,
}

#[derive(Clone)]
pub(super) struct Adb {
    pub(super) program: PathBuf,
    /// None before a phone is chosen.
    pub(super) serial: Option<String>,
    pub(super) deadline: Instant,
}

impl Adb {
    pub(super) fn shell(&self, script: &str) -> Result<ShellOutput> {
        let (_, stdout, stderr) = self.call(&[
            "shell",
            &format!("({script}); ended=$?; echo; echo {ENDED}$ended"),
        ])?;
        let ended = stdout.trim_end().rsplit_once(ENDED);
        let Some((text, code)) =
            ended.and_then(|(text, code)| Some((text, code.trim().parse().ok()?)))
        else {
            let last = last_line(&stdout)
                .or(last_line(&stderr))
                .unwrap_or("adb's shell ended without a word");
            return Err(Gone(last.to_owned()).into());
        };
        Ok(ShellOutput {
            code,
            text: text.trim_end().replace('\r', ""),
        })
    }

    /// [`Adb::shell`] for what must end well.
    pub(super) fn do_shell(&self, script: &str) -> Result<String> {
        let ShellOutput { code, text } = self.shell(script)?;
        if code != 0 {
            bail!(
                "`{script}` ended with {code} on the phone: {}",
                text.lines().last().unwrap_or_default()
            );
        }
        Ok(text)
    }

    pub(super) fn push(&self, from: &Path, to: &str) -> Result<()> {
        let from = from
            .to_str()
            .with_context(|| format!("`{}` is not UTF-8", from.display()))?;
        self.copied(&["push", from, to])
    }

    pub(super) fn pull(&self, from: &str, to: &Path) -> Result<()> {
        let to = to
            .to_str()
            .with_context(|| format!("`{}` is not UTF-8", to.display()))?;
        self.copied(&["pull", from, to])
    }

    fn copied(&self, args: &[&str]) -> Result<()> {
        let (good, stdout, stderr) = self.call(args)?;
        if good {
            return Ok(());
        }
        let last = last_line(&stdout)
            .or(last_line(&stderr))
            .unwrap_or_default();
        // adb's words for a connection that ended, as against a full disk or a file that is not there.
        let is_gone = [
            "not found",
            "offline",
            "unauthorized",
            "no devices",
            "closed",
        ]
        .iter()
        .any(|w| last.contains(w));
        if is_gone && last.contains("device") {
            return Err(Gone(last.to_owned()).into());
        }
        bail!("adb {} failed: {last}", args[0])
    }

    /// Whether it ended well, its stdout and its stderr.
    pub(super) fn call(&self, args: &[&str]) -> Result<(bool, String, String)> {
        let mut command = Command::new(&self.program);
        command
            .args(self.serial.iter().flat_map(|serial| ["-s", serial]))
            .args(args);
        bounded(&mut command, self.deadline)
    }
}

/// Runs a program to its end or the deadline, whichever comes first.
pub(super) fn bounded(command: &mut Command, deadline: Instant) -> Result<(bool, String, String)> {
    let left = deadline.saturating_duration_since(Instant::now());
    let ended = process::run_within(command, left, false);
    let ended =
        ended.with_context(|| format!("failed to run `{}`", command.get_program().display()))?;
    let Some(output) = ended else {
        return Err(Late.into());
    };
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    // The log is for people; a closed one changes nothing.
    let _ = writeln!(std::io::stderr(), "$ {command:?}\n{stdout}{stderr}");
    Ok((output.status.success(), stdout, stderr))
}
