//! Installers: programs that run to their end, with what they say last and how much they have written.

use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::worker::process::{Group, open_log, speak_to, tail};
use crate::worker::{Ended, Limits, TICK};

/// Runs an installer to its end, reporting the last line of its log, and the bytes that it has written, as they change.
pub fn run_logged(
    command: &mut Command,
    limits: &Limits<'_>,
    written: &dyn Fn(u64),
) -> anyhow::Result<()> {
    let start = Instant::now();
    speak_to(command.stdin(Stdio::null()), open_log(limits.log)?.as_fd())?;
    let mut group = Group::spawn(command, None)?;
    let mut shown = String::new();
    let mut counted = 0;
    loop {
        match group.wait(TICK * 4)? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => anyhow::bail!("it ended with {status}"),
            None => {}
        }
        match limits.exceeded(start) {
            Some(Ended::TimedOut) => {
                anyhow::bail!("it did not end within {} s", limits.timeout.as_secs())
            }
            Some(_) => anyhow::bail!("interrupted"),
            None => {}
        }
        let last = tail(limits.log, 1);
        if last != shown {
            (limits.progress)(last.trim());
            shown = last;
        }
        let bytes = bytes_written(group.leader()).unwrap_or(counted);
        if bytes != counted {
            written(bytes);
            counted = bytes;
        }
    }
}

/// The bytes that a process wrote, by the kernel's count, which costs nothing: folders of tens of thousands of files
/// need not be walked through. None where there is no such count.
fn bytes_written(process: i32) -> Option<u64> {
    let counts = std::fs::read_to_string(format!("/proc/{process}/io")).ok()?;
    counts
        .lines()
        .find_map(|line| line.strip_prefix("wchar: "))?
        .trim()
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::time::Duration;

    use super::*;
    use crate::worker::Cancel;

    #[test]
    #[cfg(target_os = "linux")]
    fn what_an_installer_says_and_writes_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let cancel = Cancel::default();
        let lines = RefCell::new(vec![]);
        let most = Cell::new(0);
        let progress = |line: &str| lines.borrow_mut().push(line.to_owned());
        let limits = Limits {
            progress: &progress,
            ..Limits::of_time(Duration::from_secs(60), &cancel, &log)
        };
        // Python writes by itself, as uv and pip do; it ends when both were reported, however slow the machine is.
        let script = "import sys, time, os\nopen(sys.argv[1], 'wb').write(bytes(5_000_000))\nprint('unpacking', flush=True)\n\
            while not os.path.exists(sys.argv[2]): time.sleep(0.01)";
        let mut command = Command::new("python3");
        let done = dir.path().join("done");
        command
            .args(["-c", script])
            .arg(dir.path().join("file"))
            .arg(&done);
        let written = |bytes: u64| {
            most.set(bytes.max(most.get()));
            if bytes >= 5_000_000 && !lines.borrow().is_empty() {
                std::fs::write(&done, "").unwrap();
            }
        };
        run_logged(&mut command, &limits, &written).unwrap();
        assert!(
            (5_000_000..6_000_000).contains(&most.get()),
            "{}",
            most.get()
        );
        assert_eq!(*lines.borrow(), ["unpacking"]);
    }
}
