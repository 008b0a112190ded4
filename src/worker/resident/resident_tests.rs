//! The real daemon with the real fork server, whose ops misbehave (`python/tests/probe_server.py`), on the system's Python.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};

use super::socket::Channel;
use super::*;
use crate::base::lock;
use crate::confine::{Enforced, Grants};
use crate::runtime::{Job, JobOutput, JobStatus};
use crate::worker::testing::{eventually, is_alive};
use crate::worker::{Bounds, Cancel, Ended, Limits, Server, command, run_oneshot};

const BOUNDS: Bounds = Bounds {
    idle: Duration::from_secs(600),
    most: 4,
    memory: 4 << 30,
};

/// A daemon on a thread of its own, and a folder for its callers.
struct At {
    dir: tempfile::TempDir,
    place: Place,
    cancel: Cancel,
    notes: &'static Mutex<Vec<String>>,
    daemon: Option<JoinHandle<()>>,
}

impl At {
    fn new(bounds: Bounds) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let place = Place::at(dir.path().join("daemon"));
        let cancel = Cancel::default();
        let notes: &Mutex<Vec<String>> = Box::leak(Box::default());
        let its_place = place.clone();
        let its_cancel = cancel.clone();
        let daemon = std::thread::spawn(move || {
            let note = |text: &str| lock(notes).push(text.to_owned());
            serve(&its_place, bounds, &its_cancel, &note).unwrap();
        });
        eventually("it listens", || {
            lock(notes).iter().any(|note| note.starts_with("listens"))
        });
        Self {
            dir,
            place,
            cancel,
            notes,
            daemon: Some(daemon),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn has_noted(&self, text: &str) -> bool {
        lock(self.notes).iter().any(|note| note.contains(text))
    }

    /// A server of the daemon's; `variable` is one that decides which fork server it comes from.
    fn server(&self, variable: &str) -> anyhow::Result<Option<Server>> {
        let log = self.path("server.log");
        let packages = [installation_of("python")];
        Server::call(
            &self.place,
            &python(variable),
            &["decimal"],
            &packages,
            &log,
        )
    }

    fn run(&self, server: &Server, id: u32, op: &str, params: Value) -> Ended {
        let cancel = Cancel::default();
        let log = self.path(&format!("log-{id}"));
        let limits = Limits::of_time(Duration::from_secs(60), &cancel, &log);
        self.run_within(server, id, op, params, &limits)
    }

    fn run_within(
        &self,
        server: &Server,
        id: u32,
        op: &str,
        params: Value,
        limits: &Limits<'_>,
    ) -> Ended {
        let out = self.path(&format!("out-{id}"));
        fs::create_dir(&out).unwrap();
        let job = Job {
            id,
            op: op.into(),
            params,
            sandbox: Grants::folders([out.as_path()]),
            out,
            ..Job::default()
        };
        server.run(&job, limits)
    }

    fn output(&self, server: &Server, id: u32, op: &str, params: Value) -> JobOutput {
        match self.run(server, id, op, params) {
            Ended::Answered(output) => output,
            other => panic!("{op}: {other:?}"),
        }
    }
}

impl Drop for At {
    fn drop(&mut self) {
        self.cancel.cancel();
        let ended = self.daemon.take().map(JoinHandle::join);
        assert!(std::thread::panicking() || matches!(ended, Some(Ok(()))));
    }
}

fn installation_of(folder: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    crate::base::fs::installation(&path).unwrap()
}

fn python(variable: &str) -> Command {
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("python");
    let mut command = command("python3");
    command
        .args(["-m", "tests.probe_server"])
        .current_dir(&package)
        .env("PYTHONPATH", &package)
        .env("OMP_SCHEDULE", variable)
        .env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

fn why_not(called: anyhow::Result<Option<Server>>) -> String {
    match called {
        Ok(server) => panic!("a server: {}", server.is_some()),
        Err(error) => format!("{error:#}"),
    }
}

#[test]
fn each_end_is_that_of_a_server_of_ones_own() {
    let at = At::new(BOUNDS);
    let server = at.server("a").unwrap().unwrap();
    assert!(server.is_resident());
    let facts = at.output(&server, 1, "echo", json!({"seed": 3})).facts;
    assert_eq!(facts["params"], json!({"seed": 3}));
    assert!(matches!(
        at.run(&server, 2, "crash", json!({})),
        Ended::Died {
            signal: Some(11),
            ..
        }
    ));
    assert_eq!(
        at.output(&server, 3, "memory", json!({})).status,
        JobStatus::Oom
    );
    let log = at.path("log");
    let cancel = Cancel::default();
    let second = Limits::of_time(Duration::from_secs(1), &cancel, &log);
    assert!(matches!(
        at.run_within(&server, 4, "sleep", json!({}), &second),
        Ended::TimedOut
    ));
    let small = Limits {
        memory: Some(300 << 20),
        ..Limits::of_time(Duration::from_secs(60), &cancel, &log)
    };
    let ended = at.run_within(&server, 5, "eat", json!({}), &small);
    assert!(
        matches!(&ended, Ended::OutOfMemory(why) if why.ends_with("more than its limit of 300 MiB")),
        "{ended:?}"
    );
    let files = json!({"files": [at.path("out-6/own"), at.path("theirs")], "port": 9});
    let facts = at.output(&server, 6, "reach", files).facts;
    if Enforced::here().is_some() {
        assert_eq!(facts["files"], json!(["written", "PermissionError"]));
    }
}

#[test]
fn callers_share_a_fork_server_unless_a_library_could_tell_them_apart() {
    let at = At::new(BOUNDS);
    let mut ids = 1..;
    let pids = ["a", "a", "b"].map(|variable| {
        let server = at.server(variable).unwrap().unwrap();
        ids.next()
            .map(|id| at.output(&server, id, "echo", json!({})).facts["pid"].clone())
    });
    assert_ne!(pids[0], pids[1], "each caller has a server of its own");
    let started = lock(at.notes)
        .iter()
        .filter(|note| note.contains(" starts, process"))
        .count();
    assert_eq!(started, 2);
}

#[test]
fn without_a_daemon_there_is_no_server_and_a_bad_one_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let place = Place::at(dir.path());
    let call = || Server::call(&place, &python("a"), &[], &[], &dir.path().join("log"));
    assert!(call().unwrap().is_none());
    // One that was killed leaves its socket.
    drop(socket::listen_at(&place.socket()).unwrap());
    assert!(why_not(call()).contains("refused"), "{}", why_not(call()));
    fs::remove_file(place.socket()).unwrap();
    let listener = socket::listen_at(&place.socket()).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            eventually("a caller comes", || {
                Channel::accept(&listener).is_ok_and(|channel| {
                    let hello = json!({"protocol": PROTOCOL + 1, "secret": 0});
                    channel.send(&hello, &[]).is_ok()
                })
            });
        });
        let why = why_not(call());
        assert!(why.contains("the daemon is of another version"), "{why}");
    });
    // A daemon that stands still.
    let why = why_not(call());
    assert!(why.contains("temporarily unavailable"), "{why}");
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let why = why_not(call());
    assert!(why.contains("is open to other users"), "{why}");
}

#[test]
fn a_server_whose_fork_server_dies_has_died_and_leaves_nobody() {
    let at = At::new(BOUNDS);
    let server = at.server("a").unwrap().unwrap();
    let ended = std::thread::scope(|scope| {
        let job = scope.spawn(|| at.run(&server, 1, "sleep", json!({})));
        eventually("it works", || at.path("out-1/pids").exists());
        let notes = lock(at.notes).clone();
        let pid = notes
            .iter()
            .find_map(|note| note.split_once(", process ")?.1.parse().ok());
        // SAFETY: takes no pointers; the process was started by this test.
        unsafe { libc::kill(pid.unwrap(), libc::SIGKILL) };
        job.join().unwrap()
    });
    let Ended::ServerDied(why) = ended else {
        panic!("{ended:?}");
    };
    assert_eq!(why, "the Python server ended (its fork server is gone)");
    let pids = fs::read_to_string(at.path("out-1/pids")).unwrap();
    let job = pids.split_once(' ').unwrap().0.parse().unwrap();
    assert!(!is_alive(job), "the job is gone before it is reported");
    eventually("what it started is gone", || {
        !pids
            .split_whitespace()
            .any(|pid| is_alive(pid.parse().unwrap()))
    });
    let next = at.server("a").unwrap().unwrap();
    assert_eq!(at.output(&next, 2, "echo", json!({})).status, JobStatus::Ok);
}

#[test]
fn fork_servers_end_when_nobody_uses_them_and_are_never_too_many() {
    let at = At::new(Bounds {
        idle: Duration::from_millis(1500),
        most: 1,
        ..BOUNDS
    });
    let server = at.server("a").unwrap().unwrap();
    at.output(&server, 1, "echo", json!({}));
    let why = why_not(at.server("b"));
    assert!(why.contains("all 1 fork servers are at work"), "{why}");
    drop(server);
    eventually("another takes its place", || at.server("b").is_ok());
    eventually("nobody uses that one", || at.has_noted("nobody used it"));
}

#[test]
fn fork_servers_that_hold_too_much_end_once_they_are_idle() {
    let at = At::new(Bounds {
        memory: 1,
        ..BOUNDS
    });
    let server = at.server("a").unwrap().unwrap();
    at.output(&server, 1, "echo", json!({}));
    drop(server);
    eventually("it ends", || at.has_noted("ends: all hold "));
}

#[test]
fn one_daemon_listens_in_a_folder() {
    let at = At::new(BOUNDS);
    let why = serve(&at.place, BOUNDS, &at.cancel, &|_| {}).unwrap_err();
    let process = format!("runs already (process {}", std::process::id());
    assert!(why.to_string().contains(&process), "{why}");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&at.path("daemon")), 0o700);
    assert_eq!(mode(&at.place.socket()), 0o600);
}

/// Otherwise a step could have the daemon, which is free, do what the step may not.
#[test]
fn who_is_confined_learns_no_secret() {
    let at = At::new(BOUNDS);
    let channel = Channel::open(&at.place.socket()).unwrap();
    let patience = Duration::from_secs(5);
    let hello: Hello = channel.receive_within(patience).unwrap().read().unwrap();
    let secret = format!("/proc/{}/fd/{}", std::process::id(), hello.secret);
    assert_eq!(fs::read_to_string(&secret).unwrap().len(), 64);
    let read_by = |grants: Grants| {
        let script = format!(
            r#"read job; test "$(cat {secret} | wc -c)" = 64 && reads=ok || reads=error
            echo '{{"event":"result","id":1,"output":{{"status":"'$reads'"}}}}' >&3"#
        );
        let mut command = Command::new("sh");
        command.args(["-c", &script]);
        let job = Job {
            id: 1,
            op: "x".into(),
            sandbox: grants,
            ..Job::default()
        };
        let cancel = Cancel::default();
        let log = at.path("shell.log");
        match run_oneshot(command, &job, &Limits::of_time(patience, &cancel, &log)) {
            Ended::Answered(output) => output.status,
            other => panic!("{other:?}"),
        }
    };
    if Enforced::here().is_some() {
        let own = Grants::folders([at.dir.path()]);
        assert_eq!(read_by(own), JobStatus::Error);
    }
    // Without the secret nothing is done.
    let request = Request {
        secret: "x".into(),
        origin: Origin {
            program: "python3".into(),
            args: vec![],
            environment: BTreeMap::new(),
            preload: vec![],
            installations: vec![],
        },
        machine: Machine::here(),
        start: Start {
            env: BTreeMap::new(),
            cwd: "/".into(),
            umask: 0,
            nice: 0,
            limits: vec![],
        },
    };
    channel.send(&request, &[]).unwrap();
    let word: Word = channel.receive_within(patience).unwrap().read().unwrap();
    assert!(
        matches!(&word, Word::Refused(why) if why == "the caller does not know the secret"),
        "{word:?}"
    );
}

#[test]
fn another_user_is_not_heard() {
    if own_user() != 0 {
        return;
    }
    let at = At::new(BOUNDS);
    // Even where the folder was opened by mistake.
    for path in [at.dir.path(), &at.path("daemon"), &at.place.socket()] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    }
    let socket = at.place.socket();
    let hears = |user: u32| {
        let socket = socket.clone();
        let mut command = Command::new("true");
        command.uid(user).gid(user);
        // SAFETY: this process holds no lock that the calls need; what they allocate is the child's own.
        unsafe {
            command.pre_exec(move || {
                let channel = Channel::open(&socket)?;
                let heard = channel.receive_within(Duration::from_secs(5));
                // Only errors of the kernel's reach the parent.
                let closed = |_| io::Error::from_raw_os_error(libc::EPIPE);
                heard.map(drop).map_err(closed)
            });
        }
        command.status().map_err(|error| error.kind())
    };
    assert!(hears(0).is_ok());
    assert_eq!(hears(65534), Err(io::ErrorKind::BrokenPipe));
}
