//! A worker that is kept: a process that does one job after another, each for somebody else.
//!
//! It is overseen as a worker of one job is, job by job. It works in a folder of its own for as long as it lives, and
//! is held to it. Whether it may do another job is not decided here.

#![expect(clippy::disallowed_methods, reason = "moves a job's output into place")]

use std::io::Write;
use std::path::PathBuf;
use std::process::{ChildStdin, Command};
use std::time::Duration;

use crate::base::fs as bfs;
use crate::confine::{Confinement, Grants};
use crate::runtime::Job;
use crate::worker::lines::Lines;
use crate::worker::oneshot::{AtWork, spawn_with_result_pipe};
use crate::worker::output_log::Ear;
use crate::worker::process::Group;
use crate::worker::{Ended, Limits, family};

/// Ended with all below it when dropped, and its folder removed.
pub struct Kept {
    /// None once it has ended.
    process: Option<(Group, Lines)>,
    stdin: ChildStdin,
    ear: Ear,
    jobs: u32,
    folder: PathBuf,
}

impl Kept {
    /// Starts `command`, which works in `folder`: what it writes lies in `scratch` there, and what a job makes in `out`.
    pub fn start(mut command: Command, folder: PathBuf, sandbox: &Grants) -> std::io::Result<Self> {
        let ear = Ear::new()?;
        let confinement = Confinement::of(sandbox)?;
        let (lines, mut group) = spawn_with_result_pipe(&mut command, ear.output(), confinement)?;
        let stdin = group.stdin().expect("BUG: stdin is piped");
        Ok(Self {
            process: Some((group, lines)),
            stdin,
            ear,
            jobs: 0,
            folder,
        })
    }

    pub fn jobs(&self) -> u32 {
        self.jobs
    }

    /// Bytes that it holds with all below it.
    pub fn held_bytes(&self) -> Option<u64> {
        family::family_bytes(self.process.as_ref()?.0.leader())
    }

    /// Does a job; `job.out` is an empty folder, which takes what was made.
    pub fn run(&mut self, job: &Job, limits: &Limits<'_>) -> Ended {
        self.jobs += 1;
        let Some((group, lines)) = self.process.take() else {
            return Ended::Broken("the kept worker has ended".into());
        };
        let out = self.folder.join("out");
        let output_log = match std::fs::create_dir(&out).and_then(|()| self.ear.hear(limits.log)) {
            Ok(output_log) => output_log,
            Err(e) => return Ended::Broken(format!("failed to prepare a kept worker: {e}")),
        };
        let mut line = serde_json::to_vec(&Job {
            out: out.clone(),
            ..job.clone()
        })
        .expect("BUG: a job serialises");
        line.push(b'\n');
        // One that has died is recognised by its end.
        let _ = self.stdin.write_all(&line);
        let mut worker = AtWork::of(group, lines, output_log, limits, true);
        let ended = worker
            .wait(job, limits)
            .unwrap_or_else(|e| Ended::Broken(format!("failed to wait for the worker: {e}")));
        let (mut group, lines, output_log) = worker.rest();
        let is_alive =
            matches!(ended, Ended::Answered(_)) && matches!(group.wait(Duration::ZERO), Ok(None));
        match lines.filter(|_| is_alive) {
            Some(lines) => self.process = Some((group, lines)),
            None => {
                let _ = group.finish(Duration::ZERO);
                group.sweep();
            }
        }
        let ended = output_log.end(ended);
        match std::fs::remove_dir(&job.out).and_then(|()| std::fs::rename(&out, &job.out)) {
            Err(e) if matches!(ended, Ended::Answered(_)) => {
                Ended::Broken(format!("failed to take what was made: {e}"))
            }
            _ => ended,
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.process = None;
        // What stays goes with the run's own folder.
        let _ = bfs::remove_left(&self.folder);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::base::process::Stat;
    use crate::runtime::JobOutput;
    use crate::worker::Cancel;

    /// Does what a job's operation says, in a shell, and answers.
    const SHELL: &str = r#"while read -r job; do
        field() { echo "$job" | sed "s/.*\"$1\":\"\{0,1\}\([^,\"]*\).*/\1/"; }
        out=$(field out)
        eval "$(field op)"
        echo "{\"event\":\"result\",\"id\":$(field id),\"output\":{\"status\":\"ok\"}}" >&3
    done"#;

    struct World {
        dir: tempfile::TempDir,
        worker: Kept,
    }

    fn world() -> World {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().canonicalize().unwrap().join("kept");
        std::fs::create_dir(&folder).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", SHELL]).current_dir(&folder);
        let worker = Kept::start(
            command,
            folder.clone(),
            &Grants::folders([folder.as_path()]),
        )
        .unwrap();
        World { dir, worker }
    }

    impl World {
        /// How the job ended, what it made, and its output.
        fn run(&mut self, id: u32, op: &str, seconds: u64) -> (Ended, Option<String>, String) {
            let at = |name: &str| self.dir.path().join(format!("{name}-{id}"));
            std::fs::create_dir(at("out")).unwrap();
            let job = Job {
                id,
                op: op.into(),
                params: json!({}),
                out: at("out"),
                ..Job::default()
            };
            let log = at("log");
            let cancel = Cancel::default();
            let limits = Limits::of_time(Duration::from_secs(seconds), &cancel, &log);
            let ended = self.worker.run(&job, &limits);
            let read = |path: PathBuf| std::fs::read_to_string(path).ok();
            (
                ended,
                read(at("out").join("made")),
                read(log).unwrap_or_default(),
            )
        }
    }

    #[test]
    fn jobs_follow_each_other_in_one_process_and_keep_apart_what_they_make_and_say() {
        let mut world = world();
        for id in 1..4 {
            let (ended, made, output) = world.run(
                id,
                &format!("ls $out; echo $$ > $out/made; echo job {id} >&2"),
                20,
            );
            assert!(
                matches!(ended, Ended::Answered(JobOutput { .. })),
                "{ended:?}"
            );
            assert_eq!(output, format!("job {id}\n"));
            assert_eq!(
                made.unwrap().trim(),
                world
                    .worker
                    .process
                    .as_ref()
                    .unwrap()
                    .0
                    .leader()
                    .to_string()
            );
        }
        assert_eq!(world.worker.jobs(), 3);
        assert!(world.worker.held_bytes().is_some());
        let folder = world.worker.folder.clone();
        drop(world.worker);
        assert!(!folder.exists());
    }

    #[test]
    fn one_that_dies_or_takes_too_long_is_over_with_all_that_it_started() {
        for (op, seconds) in [("kill -9 $$", 20), ("sleep 600", 1)] {
            let mut world = world();
            let (ended, made, _) = world.run(1, "sleep 500 & echo $! > $out/made", 20);
            assert!(matches!(ended, Ended::Answered(_)), "{ended:?}");
            let left: i32 = made.unwrap().trim().parse().unwrap();
            let (ended, ..) = world.run(2, op, seconds);
            match op {
                "sleep 600" => assert!(matches!(ended, Ended::TimedOut), "{ended:?}"),
                _ => assert!(
                    matches!(
                        ended,
                        Ended::Died {
                            signal: Some(9),
                            ..
                        }
                    ),
                    "{ended:?}"
                ),
            }
            assert!(
                Stat::of(left).is_none(),
                "what an earlier job started lives on"
            );
            assert!(matches!(world.run(3, ":", 20).0, Ended::Broken(_)));
        }
    }

    #[test]
    fn it_writes_to_its_own_folder_only() {
        let mut world = world();
        let (.., output) = world.run(1, "cd ..; touch theirs", 20);
        let is_held = crate::confine::Enforced::here().is_some();
        assert_eq!(
            world.dir.path().join("theirs").exists(),
            !is_held,
            "{output}"
        );
    }
}
