//! A folder of its own, and the real `orch` in it. Knows nothing of what is tested.
//!
//! `Sandbox::new().file("specs/all.yaml", "…")` then `.run(["run", "specs/all.yaml"])` gives an [`Ended`], whose checks
//! print everything the program said when they fail.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test target uses its own part of this module"
)]

pub mod installed;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Variables of the developer's machine that the program under test may see.
const PASSED_ON: [&str; 6] = [
    "PATH",
    "LANG",
    "SSL_CERT_FILE",
    "UV_CACHE_DIR",
    "PIP_CACHE_DIR",
    "ORCH_SANDBOX",
];
/// Whatever tells installers where their registries and proxies are.
const PASSED_ON_PREFIXES: [&str; 6] = ["PIP_", "UV_", "CARGO_", "RUSTUP_", "HTTP", "http"];

pub struct Sandbox {
    dir: tempfile::TempDir,
    env: BTreeMap<String, String>,
    cache: PathBuf,
    installs: bool,
}

impl Sandbox {
    pub fn new() -> Self {
        // Another user than the one who built the tests names a folder of his own.
        let above = std::env::var_os("ORCH_TEST_TMPDIR")
            .unwrap_or_else(|| env!("CARGO_TARGET_TMPDIR").into());
        let dir = tempfile::Builder::new()
            .prefix("orch-test-")
            .tempdir_in(above)
            .unwrap();
        let cache = dir.path().join("cache");
        Self {
            dir,
            env: BTreeMap::new(),
            cache,
            installs: false,
        }
    }

    pub fn file(self, name: &str, text: impl AsRef<[u8]>) -> Self {
        self.write(name, text);
        self
    }

    pub fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Uses another sandbox's store.
    pub fn cache_of(mut self, other: &Sandbox) -> Self {
        self.cache = other.cache.clone();
        self
    }

    /// The test needs Python environments or workers: they are installed once, into a folder that all tests share.
    pub fn installs(mut self) -> Self {
        self.installs = true;
        self
    }

    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub fn read(&self, name: &str) -> String {
        let path = self.path(name);
        fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A folder of the store.
    pub fn store(&self, name: &str) -> PathBuf {
        self.cache.join("v2").join(name)
    }

    /// Everything below a folder of the store, sorted.
    pub fn stored_files(&self, name: &str) -> Vec<PathBuf> {
        let all = walkdir::WalkDir::new(self.store(name))
            .sort_by_file_name()
            .into_iter();
        all.filter_map(|entry| {
            entry
                .ok()
                .filter(|e| e.file_type().is_file())
                .map(|e| e.into_path())
        })
        .collect()
    }

    /// The journals of runs, oldest first.
    pub fn journals(&self) -> Vec<PathBuf> {
        self.of_runs("jsonl")
    }

    /// The results of runs, oldest first.
    pub fn results(&self) -> Vec<PathBuf> {
        self.of_runs("gz")
    }

    fn of_runs(&self, ending: &str) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.path("cache/history/runs"));
        let paths = entries.into_iter().flatten().flatten().map(|it| it.path());
        let mut found: Vec<_> = paths
            .filter(|path| path.extension().is_some_and(|own| own == ending))
            .collect();
        found.sort();
        found
    }

    /// The file of the store that holds this content.
    pub fn blob(&self, content: &str) -> PathBuf {
        let mut blobs = self.stored_files("blobs").into_iter();
        let found = blobs.find(|path| fs::read(path).unwrap() == content.as_bytes());
        found.unwrap_or_else(|| panic!("the store does not hold {content:?}"))
    }

    /// A file that a step made when it was last executed.
    pub fn output(&self, step: &str, name: &str) -> String {
        self.run(["output", step, "--latest", "--cat", name])
            .success()
            .stdout
    }

    pub fn stats(&self) -> serde_json::Value {
        self.run(["cache", "stats", "--json"]).success().json()
    }

    pub fn command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_orch"));
        command.args(args).current_dir(self.dir.path()).env_clear();
        for (name, value) in std::env::vars() {
            let installer = self.installs
                && PASSED_ON_PREFIXES
                    .iter()
                    .any(|prefix| name.starts_with(prefix));
            if PASSED_ON.contains(&name.as_str()) || installer {
                command.env(name, value);
            }
        }
        if self.installs {
            command.env("ORCH_ENV_DIR", env_dir());
            if let Some(home) = std::env::var_os("HOME") {
                command.env("HOME", home); // where uv, pip and cargo keep what they know of registries
            }
        }
        // One lock wherever the tests run.
        command.env("ORCH_TORCH_INDEX", "pypi");
        // Tests run beside each other: threads that spin while they wait would wait for those of other tests.
        command.env("OMP_WAIT_POLICY", "PASSIVE");
        // Of every step, however short.
        command.env("ORCH_VERBOSE", "1");
        // A daemon of the developer's is not what is tested.
        command.env("ORCH_DAEMON", "off");
        command
            .env("ORCH_CACHE_DIR", &self.cache)
            // Tests that time steps beside each other do not wait for each other.
            .env("ORCH_DEVICE_LOCK_DIR", self.cache.with_extension("locks"))
            .env("NO_COLOR", "1")
            .envs(&self.env)
            .stdin(Stdio::null());
        command
    }

    pub fn run<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Ended {
        let mut command = self.command(args);
        let shown = format!("{:?}", command.get_args().collect::<Vec<_>>());
        let output = command.output().expect("orch starts");
        self.ended(shown, output)
    }

    /// As `run`, started by another program: its arguments, and then orch's own command line.
    pub fn run_through<const N: usize>(&self, starter: [&str; N], args: &[&str]) -> Ended {
        let orch = self.command(args);
        let mut command = Command::new(starter[0]);
        command
            .args(&starter[1..])
            .arg(orch.get_program())
            .args(args)
            .current_dir(self.dir.path())
            .env_clear();
        command
            .envs(
                orch.get_envs()
                    .filter_map(|(name, value)| Some((name, value?))),
            )
            .stdin(Stdio::null());
        self.ended(format!("{args:?}"), command.output().expect("it starts"))
    }

    /// Starts without waiting. Its output is kept for [`Sandbox::wait`].
    pub fn spawn<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Child {
        self.command(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("orch starts")
    }

    pub fn wait(&self, child: Child) -> Ended {
        self.ended(
            "(spawned)".into(),
            child.wait_with_output().expect("orch ends"),
        )
    }

    fn ended(&self, shown: String, output: Output) -> Ended {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("orch writes UTF-8");
        let redact = |text: String| redacted(&text, self.dir.path());
        Ended {
            shown,
            code: output.status.code(),
            stdout: text(output.stdout),
            stderr: redact(text(output.stderr)),
        }
    }
}

/// What a test leaves out is shown with its output.
#[expect(
    clippy::print_stderr,
    reason = "what a test leaves out is shown with its output"
)]
pub fn skipped(why: &str) {
    eprintln!("skipped: {why}");
}

/// Where environments are installed; kept between test runs.
pub fn env_dir() -> PathBuf {
    let own = || Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("test-envs");
    std::env::var_os("ORCH_TEST_ENV_DIR")
        .or_else(|| std::env::var_os("ORCH_ENV_DIR"))
        .map_or_else(own, PathBuf::from)
}

/// The one list of what differs from run to run.
fn redacted(text: &str, dir: &Path) -> String {
    let text = text.replace(&*dir.to_string_lossy(), "[DIR]");
    let mut out = String::new();
    let mut rest = text.as_str();
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, digits) = rest.split_at(at);
        let end = digits
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(digits.len());
        let (number, after) = digits.split_at(end);
        out.push_str(before);
        let is_time = before.ends_with(' ')
            && after.starts_with(" s")
            && !after[2..].starts_with(|c: char| c.is_alphanumeric());
        out.push_str(if is_time { "[TIME]" } else { number });
        rest = after;
    }
    out + rest
}

/// What the program said and how it ended.
pub struct Ended {
    shown: String,
    pub code: Option<i32>,
    /// As it was, because it is data.
    pub stdout: String,
    /// Redacted.
    pub stderr: String,
}

impl Ended {
    #[track_caller]
    fn fail(&self, what: &str) -> ! {
        let Self {
            shown,
            code,
            stdout,
            stderr,
        } = self;
        panic!(
            "orch {shown}: {what}\n--- code {code:?}\n--- stdout\n{stdout}\n--- stderr\n{stderr}"
        );
    }

    #[track_caller]
    pub fn code(self, expected: i32) -> Self {
        if self.code != Some(expected) {
            self.fail(&format!("expected exit code {expected}"));
        }
        self
    }

    #[track_caller]
    pub fn success(self) -> Self {
        self.code(0)
    }

    #[track_caller]
    pub fn stderr_has(self, text: &str) -> Self {
        if !self.stderr.contains(text) {
            self.fail(&format!("stderr lacks {text:?}"));
        }
        self
    }

    #[track_caller]
    pub fn stderr_lacks(self, text: &str) -> Self {
        if self.stderr.contains(text) {
            self.fail(&format!("stderr has {text:?}"));
        }
        self
    }

    #[track_caller]
    pub fn stdout_has(self, text: &str) -> Self {
        if !self.stdout.contains(text) {
            self.fail(&format!("stdout lacks {text:?}"));
        }
        self
    }

    #[track_caller]
    pub fn stdout_lacks(self, text: &str) -> Self {
        if self.stdout.contains(text) {
            self.fail(&format!("stdout has {text:?}"));
        }
        self
    }

    /// stdout as exactly one JSON document.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|e| self.fail(&format!("stdout is not one JSON document: {e}")))
    }

    /// Checks figures of `summary`.
    #[track_caller]
    pub fn summary<const N: usize>(self, expected: [(&str, u64); N]) -> Self {
        let document = self.json();
        for (name, value) in expected {
            if document["summary"][name] != value {
                self.fail(&format!(
                    "summary.{name} is {}, expected {value}",
                    document["summary"][name]
                ));
            }
        }
        self
    }
}

/// A limit that holds on a machine where every core is free, lengthened by how many processes share a core now.
pub fn beside_load(limit: Duration) -> Duration {
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    // "0.52 0.58 0.59 3/467 12345": the average of a minute, and how many run or wait at this moment.
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let fields: Vec<&str> = text.split_whitespace().collect();
    let average: Option<f64> = fields.first().and_then(|field| field.parse().ok());
    let running: Option<f64> = fields
        .get(3)
        .and_then(|field| field.split('/').next()?.parse().ok());
    let busy = average.unwrap_or(0.0).max(running.unwrap_or(0.0));
    limit.mul_f64((busy / cores).max(1.0))
}

/// Waits until something holds; a test that waits longer than a minute, or more beside load, is wrong.
#[track_caller]
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(
            start.elapsed() < beside_load(Duration::from_secs(60)),
            "waited in vain until {what}"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Processes, zombies aside, whose command line holds `marker`.
pub fn processes_with(marker: &str) -> Vec<u32> {
    let alive = |pid: u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let state = stat.rsplit_once(')')?.1.trim_start().chars().next()?;
        let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        (state != 'Z' && String::from_utf8_lossy(&line).contains(marker)).then_some(pid)
    };
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| *pid != std::process::id())
        .filter_map(alive)
        .collect()
}

/// A marker that no other test and no other run of it has.
pub fn marker(name: &str) -> String {
    format!(
        "orch-marker-{name}-{}-{}",
        std::process::id(),
        jiff::Timestamp::now().as_nanosecond()
    )
}

/// Sends a signal to one process.
pub fn signal(child: &Child, signal: i32) {
    // SAFETY: kill takes no pointers, and the child is ours and not yet waited for.
    unsafe { libc::kill(child.id() as i32, signal) };
}

/// A model for a device that no Linux machine has: a generated test, and a run that is unavailable.
pub const WITHOUT_DEVICE: &str = "version: 1
pipelines:
  text: {description: 'ids to logits', tasks: [fill-mask]}
targets:
  mps: {runtime: torch, backend: mps, artefact: torchscript, precisions: [fp32]}
models:
  bert: {class: BertForMaskedLM, family: encoder-only, task: fill-mask, pipeline: text,
    inputs: {input_ids: {dtype: int64, shape: [batch, seq], value: 1}}}
";

/// Where `text` stands in a file.
pub fn find(path: &Path, text: &str) -> usize {
    let bytes = fs::read(path).unwrap();
    let found = bytes
        .windows(text.len())
        .rposition(|window| window == text.as_bytes());
    found.unwrap_or_else(|| panic!("{} holds no {text}", path.display()))
}

/// Flips one bit of a file in its place.
pub fn flip_at(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 1;
    fs::write(path, bytes).unwrap();
}

/// Changes one byte of a file, whatever its permissions.
pub fn flip_byte(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    fs::remove_file(path).unwrap();
    fs::write(path, bytes).unwrap();
}

/// Orch's own browser, installed.
pub fn browser(sandbox: &Sandbox) -> PathBuf {
    sandbox.run(["setup", "browser"]).success();
    let devices = sandbox.run(["devices", "--json"]).json();
    let text = devices.to_string();
    let end = text
        .find("/chromium/chromium\"")
        .expect("the prober names the browser")
        + "/chromium/chromium".len();
    let begin = text[..end].rfind('"').unwrap() + 1;
    text[begin..end].into()
}
