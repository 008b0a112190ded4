//! The real server with ops that misbehave (`python/tests/probe_server.py`), on the system's Python.

use super::*;
use crate::confine::Grants;
use crate::runtime::JobStatus;
use crate::worker::Cancel;
use crate::worker::testing::{eventually, is_alive};
use std::path::PathBuf;

struct Place {
    dir: tempfile::TempDir,
    server: Server,
    cancel: Cancel,
    memory: Option<u64>,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("python");
        let mut command = Command::new("python3");
        command
            .args(["-m", "tests.probe_server"])
            .current_dir(package)
            .env("PYTHONDONTWRITEBYTECODE", "1");
        let server = Server::start(command, &[], &dir.path().join("server.log")).unwrap();
        Self {
            dir,
            server,
            cancel: Cancel::default(),
            memory: None,
        }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn run(&self, id: u32, op: &str, params: serde_json::Value) -> Ended {
        self.run_within(id, op, params, Duration::from_secs(60))
    }

    fn run_within(&self, id: u32, op: &str, params: serde_json::Value, timeout: Duration) -> Ended {
        let out = self.at(&format!("out-{id}"));
        std::fs::create_dir(&out).unwrap();
        let job = Job {
            id,
            op: op.into(),
            params,
            out,
            sandbox: Grants::everything(),
            ..Job::default()
        };
        let log = self.at(&format!("log-{id}"));
        self.server.run(
            &job,
            &Limits {
                memory: self.memory,
                ..Limits::of_time(timeout, &self.cancel, &log)
            },
        )
    }

    fn status(&self, id: u32, op: &str, params: serde_json::Value) -> JobStatus {
        match self.run(id, op, params) {
            Ended::Answered(output) => output.status,
            other => panic!("{op}: {other:?}"),
        }
    }
}

#[test]
fn each_end_is_reported_and_the_server_serves_on() {
    let place = Place::new();
    assert_eq!(place.status(1, "echo", json!({})), JobStatus::Ok);
    assert!(matches!(
        place.run(2, "crash", json!({})),
        Ended::Died {
            signal: Some(11),
            ..
        }
    ));
    assert!(matches!(
        place.run(3, "vanish", json!({})),
        Ended::Died { code: Some(9), .. }
    ));
    assert_eq!(place.status(4, "memory", json!({})), JobStatus::Oom);
    assert_eq!(
        place.status(5, "junk", json!({"text": "x\n"})),
        JobStatus::Error
    );
    assert_eq!(place.status(6, "noise", json!({})), JobStatus::Ok);
    let log = std::fs::read_to_string(place.at("log-6")).unwrap();
    assert!(
        log.contains("from native code") && log.contains("raw stderr"),
        "{log}"
    );
    let second = Duration::from_secs(1);
    assert!(matches!(
        place.run_within(7, "sleep", json!({}), second),
        Ended::TimedOut
    ));
    // A busy machine takes its time until the download begins, which counts.
    let long = json!({"download": 5.0, "work": 0.0});
    assert!(matches!(
        place.run_within(10, "fetch", long, 4 * second),
        Ended::Answered(_)
    ));
    let slow = json!({"download": 0.0, "work": 60.0});
    assert!(matches!(
        place.run_within(11, "fetch", slow, second),
        Ended::TimedOut
    ));
    assert!(matches!(
        place.run_within(8, "tidy", json!({"stays": true}), second),
        Ended::TimedOut
    ));
    assert!(
        place.at("out-8/clean").exists(),
        "it got SIGTERM before SIGKILL"
    );
    assert_eq!(place.status(9, "echo", json!({})), JobStatus::Ok);
}

#[cfg(target_os = "linux")]
#[test]
fn a_job_that_takes_too_much_memory_is_ended_with_both_figures() {
    let place = Place {
        memory: Some(300 << 20),
        ..Place::new()
    };
    let ended = place.run(1, "eat", json!({}));
    let Ended::OutOfMemory(why) = ended else {
        panic!("{ended:?}")
    };
    assert!(
        why.starts_with("it held ") && why.ends_with(", more than its limit of 300 MiB"),
        "{why}"
    );
    // What the server holds already is not the job's alone, and little of it is written to.
    assert_eq!(place.status(2, "echo", json!({})), JobStatus::Ok);
}

#[cfg(target_os = "linux")]
#[test]
fn a_server_that_dies_is_reported_as_such_and_leaves_nobody() {
    let place = Place::new();
    let ended = std::thread::scope(|scope| {
        let jobs = [
            scope.spawn(|| place.run(1, "sleep", json!({}))),
            // It leaves group and session.
            scope.spawn(|| place.run(2, "escape", json!({"ends": "cancelled"}))),
        ];
        eventually("both work", || {
            place.at("out-1/pids").exists() && place.at("out-2/pid").exists()
        });
        // SAFETY: the call takes no pointer; the process is this test's own.
        assert_eq!(unsafe { libc::kill(place.server.pid(), libc::SIGKILL) }, 0);
        let [one, other] = jobs.map(|job| job.join().unwrap());
        assert!(matches!(one, Ended::ServerDied(_)), "{one:?}");
        other
    });
    let Ended::ServerDied(why) = ended else {
        panic!("{ended:?}")
    };
    assert_eq!(why, "the Python server ended (signal: 9 (SIGKILL))");
    assert_eq!(
        place.server.why_replace().as_deref(),
        Some("the Python server ended (signal: 9 (SIGKILL))")
    );
    for name in ["out-1/pids", "out-2/pid"] {
        let pids = std::fs::read_to_string(place.at(name)).unwrap();
        assert!(
            !pids
                .split_whitespace()
                .any(|pid| is_alive(pid.parse().unwrap())),
            "{name}"
        );
    }
    assert!(
        matches!(place.run(3, "echo", json!({})), Ended::ServerDied(_)),
        "a job that comes too late gets the same end"
    );
}

#[test]
fn a_worn_server_still_does_the_jobs_that_it_has() {
    let place = Arc::new(Place::new());
    assert_eq!(place.server.why_replace(), None);
    assert_eq!(place.status(1, "echo", json!({})), JobStatus::Ok);
    assert_eq!(place.server.why_replace(), None);
    place.server.jobs.store(MOST_JOBS, Ordering::Relaxed);
    let why = format!("process {} has done 500 jobs", place.server.pid());
    assert_eq!(place.server.why_replace(), Some(why));
    let last = place.clone();
    let job = std::thread::spawn(move || last.status(2, "nap", json!({})));
    eventually("it works", || place.at("out-2").exists());
    drop(place);
    assert_eq!(job.join().unwrap(), JobStatus::Ok);
}
