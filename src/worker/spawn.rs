//! Starting a program at the price of the program: nothing that grows with the size of orch is copied for it.
//!
//! Knows neither what the program is for nor what becomes of its output.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(any(not(target_os = "linux"), test))]
mod portable {
    use super::*;
    use crate::worker::process::speak_to;
    use crate::worker::reads::Filter;

    /// Starts `program` by what the standard library offers everywhere. Nothing here can watch what it reads, so a filter is
    /// never made.
    pub(in crate::worker) fn start(
        program: &Program<'_>,
        _filter: Option<&mut Filter>,
    ) -> io::Result<Started> {
        let file = program.file()?;
        let mut command = std::process::Command::new(&file);
        command
            .args(&program.argv[1..])
            .current_dir(program.cwd)
            .env_clear()
            .envs(program.env.iter().cloned());
        speak_to(command.stdin(std::process::Stdio::null()), program.output)?;
        Ok(Started {
            group: Group::spawn(&mut command, None)?,
            file,
        })
    }
}

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

#[cfg(target_os = "linux")]
pub(super) use linux::start;
#[cfg(not(target_os = "linux"))]
pub(super) use portable::start;

use rustix::fs::{Access, access};
use rustix::io::Errno;

use crate::confine::Confinement;
use crate::worker::process::Group;

pub(super) struct Program<'a> {
    pub(super) argv: &'a [String],
    /// Everything that it sees of the environment.
    pub(super) env: Vec<(OsString, OsString)>,
    pub(super) cwd: &'a Path,
    /// Both of its output streams.
    pub(super) output: BorrowedFd<'a>,
    /// What it is held to.
    pub(super) confinement: Option<&'a Confinement>,
}

impl Program<'_> {
    /// The file that is executed: as it is named, or the first of that name on PATH.
    fn file(&self) -> io::Result<PathBuf> {
        let name = &self.argv[0];
        if name.contains('/') {
            return Ok(name.into());
        }
        let path = self
            .env
            .iter()
            .find(|(variable, _)| variable == "PATH")
            .map_or(OsStr::new(""), |(_, path)| path);
        let mut problem = io::Error::from_raw_os_error(libc::ENOENT);
        for folder in std::env::split_paths(path) {
            let file = folder.join(name);
            match access(&file, Access::EXEC_OK) {
                Ok(()) if file.is_file() => return Ok(file),
                Err(e) if e == Errno::ACCESS => problem = e.into(),
                _ => {}
            }
        }
        Err(problem)
    }
}

fn c_string(text: &OsStr) -> io::Result<std::ffi::CString> {
    std::ffi::CString::new(text.as_bytes()).map_err(|_| {
        io::Error::other(format!(
            "{text:?} contains a NUL byte, which arguments cannot hold"
        ))
    })
}

pub(super) struct Started {
    pub(super) group: Group,
    /// The file that was executed.
    pub(super) file: PathBuf,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::reads::Filter;
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::time::Duration;

    type Start = fn(&Program<'_>, Option<&mut Filter>) -> io::Result<Started>;

    /// How it ended, and its output.
    fn run(
        start: Start,
        argv: &[&str],
        cwd: &Path,
    ) -> io::Result<(std::process::ExitStatus, String)> {
        let (mut reader, writer) = std::io::pipe()?;
        let argv: Vec<_> = argv.iter().map(|arg| (*arg).to_owned()).collect();
        let env = vec![
            ("PATH".into(), std::env::var_os("PATH").unwrap()),
            ("SEEN".into(), "yes".into()),
        ];
        let mut started = start(
            &Program {
                argv: &argv,
                env,
                cwd,
                output: writer.as_fd(),
                confinement: None,
            },
            None,
        )?;
        drop(writer);
        let mut said = String::new();
        reader.read_to_string(&mut said)?;
        Ok((started.group.finish(Duration::from_secs(20))?, said))
    }

    fn every_way(test: impl Fn(Start)) {
        test(portable::start);
        #[cfg(target_os = "linux")]
        test(linux::start);
    }

    #[test]
    fn it_gets_its_arguments_folder_environment_and_streams() {
        every_way(|start| {
            let dir = tempfile::tempdir().unwrap();
            let cwd = dir.path().canonicalize().unwrap();
            let (status, said) = run(
                start,
                &[
                    "sh",
                    "-c",
                    "pwd; echo $0 $1 $SEEN $HOME >&2; cat; exit 3",
                    "a",
                    "b c",
                ],
                &cwd,
            )
            .unwrap();
            assert_eq!(status.code(), Some(3));
            assert_eq!(said, format!("{}\na b c yes\n", cwd.display()));
        });
    }

    #[test]
    fn it_leads_a_group_and_inherits_no_signal_setting() {
        every_way(|start| {
            let dir = tempfile::tempdir().unwrap();
            // Rust ignores SIGPIPE in its own programs; a program that inherited that would never end in `| head`.
            let script = "grep -E '^Sig(Blk|Ign)' /proc/self/status; test $(ps -o pgid= -p $$) = $$ && echo leads";
            let (_, said) = run(start, &["sh", "-c", script], dir.path()).unwrap();
            assert!(said.ends_with("leads\n"), "{said}");
            let sets = said
                .lines()
                .filter_map(|line| line.strip_prefix("Sig")?.split_once(":\t"));
            let sets: Vec<_> = sets
                .map(|(name, set)| (name, u64::from_str_radix(set, 16).unwrap()))
                .collect();
            let pipe = 1 << (libc::SIGPIPE - 1);
            assert!(
                matches!(sets[..], [("Blk", 0), ("Ign", ignored)] if ignored & pipe == 0),
                "{said}"
            );
        });
    }

    #[test]
    fn what_cannot_be_executed_is_an_error_and_a_script_without_its_first_line_is_none() {
        every_way(|start| {
            let dir = tempfile::tempdir().unwrap();
            let error = |argv: &[&str]| run(start, argv, dir.path()).unwrap_err().kind();
            assert_eq!(error(&["no-such-program"]), io::ErrorKind::NotFound);
            assert_eq!(error(&["./nothing"]), io::ErrorKind::NotFound);
            std::fs::write(dir.path().join("bare"), "echo $1").unwrap();
            assert_eq!(error(&["./bare"]), io::ErrorKind::PermissionDenied);
            let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(dir.path().join("bare"), executable).unwrap();
            assert_eq!(
                run(start, &["./bare", "told"], dir.path()).unwrap().1,
                "told\n"
            );
        });
    }
}
