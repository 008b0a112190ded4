//! Runs a short tool such as `chromium --version` and kills its whole process group when it takes too long.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::device::host::ToolOutput;

/// Generous: the slowest tool asked (a cold browser printing its version) takes one to two seconds.
const LIMIT: Duration = Duration::from_secs(10);
/// More output than any of these tools prints; the rest is dropped.
const LONGEST: u64 = 256 << 10;

pub(crate) fn run(program: &Path, args: &[&str]) -> Option<ToolOutput> {
    run_within(program, args, LIMIT)
}

fn run_within(program: &Path, args: &[&str], limit: Duration) -> Option<ToolOutput> {
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .ok()?;
    let stdout = child.stdout.take()?;
    let reader = thread::spawn(move || {
        let mut bytes = vec![];
        let _ = stdout.take(LONGEST).read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    });
    let status = wait(&mut child, limit)?;
    Some(ToolOutput { ok: status.success(), stdout: reader.join().ok()? })
}

/// The exit status, or None after killing the group. The group is killed after a good end too: a helper process that
/// keeps the pipe open would block the reader.
fn wait(child: &mut Child, limit: Duration) -> Option<std::process::ExitStatus> {
    let start = Instant::now();
    let mut pause = Duration::from_micros(500);
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Some(status),
            Ok(None) if start.elapsed() < limit => {
                thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(20));
            }
            _ => break None,
        }
    };
    // SAFETY: kill with a negative process id signals that group, which this function's caller created.
    unsafe { libc::kill(-(child.id() as libc::pid_t), libc::SIGKILL) };
    if status.is_none() {
        let _ = child.wait();
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_answers_and_a_slow_one_is_killed_with_its_children() {
        let sh = Path::new("/bin/sh");
        let said = run_within(sh, &["-c", "echo hello"], LIMIT).unwrap();
        assert_eq!(said, ToolOutput { ok: true, stdout: "hello\n".to_owned() });
        let start = Instant::now();
        assert_eq!(run_within(sh, &["-c", "sleep 30 & sleep 30"], Duration::from_millis(50)), None);
        assert_eq!(run_within(sh, &["-c", "sleep 30 & echo done"], LIMIT).unwrap().stdout, "done\n");
        assert!(start.elapsed() < Duration::from_secs(5));
    }
}
