//! What a run of a whole zoo of models costs besides its steps: planned, looked up, again by its memo, one row changed.
//!
//!     cargo bench --bench zoo -- [--models 1000] [--dir target/zoo] [--env-dir cache/envs] [--orch PATH]
//!
//! The models are the rows of `specs/models.yaml` under other names and seeds, the targets those of `specs/all.yaml`. No step
//! is executed: each is published as a small tree with a record under the key that orch gives it, as `tests/keys` does.
//! Then the real binary runs. Its times are the least of five; CPU time holds on a busy machine too. `--dir` keeps the
//! results for the next time.

#![allow(clippy::print_stdout, reason = "it is what a benchmark is for")]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use orch::device::{self, Backend, Host, Libraries};
use orch::event::{Event, Listener};
use orch::exec::{self, Context, HostFacts, Options, Preview};
use orch::key::KeyDoc;
use orch::matrix::{Fallback, Matrix};
use orch::plan::{self, Clock};
use orch::provision::Provision;
use orch::record::{Outcome, Record};
use orch::report;
use orch::spec::Spec;
use orch::step::{Requirement, Stage, Step};
use orch::store::{DiskStore, Scratch};
use orch::toolchain::EnvName;
use orch::worker::Cancel;
use serde_json::json;

const RUNS: usize = 5;
/// The first row, which `changed` gives another seed.
const FIRST: &str = "  bert_0:\n";

fn main() {
    let given = |name: &str, usual: &str| {
        let mut args = std::env::args().skip_while(|arg| arg != name).skip(1);
        args.next().unwrap_or_else(|| usual.to_owned())
    };
    let models: usize = given("--models", "1000")
        .parse()
        .expect("a number of models");
    let absolute = |text: String| std::path::absolute(text).unwrap();
    let dir = absolute(given("--dir", "target/zoo")).join(models.to_string());
    let orch = PathBuf::from(given("--orch", env!("CARGO_BIN_EXE_orch")));
    let zoo = Zoo {
        orch,
        envs: absolute(given("--env-dir", "cache/envs")),
        spec: dir.join("zoo.yaml"),
        dir,
    };
    fs::create_dir_all(&zoo.dir).unwrap();
    let rows = rows(models);
    zoo.write(&rows);
    let clock = Instant::now();
    let (steps, made) = zoo.fill();
    println!(
        "{models} models, {steps} steps; {made} made in {:.0} s\n",
        clock.elapsed().as_secs_f64()
    );
    println!("| what | CPU | wall |\n|---|--:|--:|");
    zoo.told("a run that finds everything, without a memo", || {
        let _ = fs::remove_dir_all(zoo.dir.join("cache/v2/memos"));
        zoo.run()
    });
    zoo.told("the same run again: nothing changed", || zoo.run());
    let mut seed = clock.elapsed().as_nanos() % 1_000_000;
    zoo.told("one row changed: until the first step starts", || {
        seed += 1;
        zoo.write(&rows.replacen(FIRST, &format!("{FIRST}    seed: {seed}\n"), 1));
        zoo.run_until_a_step_starts()
    });
    zoo.write(&rows);
}

/// The rows of `specs/models.yaml` again and again, each time under other names.
fn rows(models: usize) -> String {
    let text = fs::read_to_string(specs("models.yaml")).unwrap();
    let (_, rows) = text.split_once("\nmodels:\n").unwrap();
    let is_head = |line: &str| line.starts_with("  ") && !line[2..].starts_with([' ', '#']);
    let mut blocks: Vec<(String, String)> = Vec::new();
    for line in rows.lines().filter(|line| !line.trim().is_empty()) {
        match blocks.last_mut() {
            _ if is_head(line) => {
                blocks.push((line.trim().trim_end_matches(':').to_owned(), String::new()))
            }
            Some((_, body)) => writeln!(body, "{line}").unwrap(),
            None => {}
        }
    }
    let mut made = String::from("models:\n");
    for number in 0..models {
        let (name, body) = &blocks[number % blocks.len()];
        let seed = if number == 0 || body.contains("    seed:") {
            String::new()
        } else {
            format!("    seed: {number}\n")
        };
        write!(made, "  {name}_{number}:\n{seed}{body}").unwrap();
    }
    made
}

fn specs(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("specs")
        .join(name)
}

struct Zoo {
    orch: PathBuf,
    dir: PathBuf,
    envs: PathBuf,
    spec: PathBuf,
}

impl Zoo {
    fn write(&self, rows: &str) {
        let all = fs::read_to_string(specs("all.yaml")).unwrap();
        for name in ["pipelines.yaml", "targets.yaml"] {
            fs::copy(specs(name), self.dir.join(name)).unwrap();
        }
        fs::write(self.dir.join("models.yaml"), rows).unwrap();
        fs::write(&self.spec, all).unwrap();
    }

    /// Makes what is not there yet. Gives how many steps there are, and how many were made.
    fn fill(&self) -> (usize, usize) {
        let spec = Spec::load(&self.spec).unwrap_or_else(|e| panic!("{e}"));
        let store = DiskStore::open(&self.dir.join("cache")).unwrap();
        let provision = Provision::new(self.envs.clone(), None, Cancel::default()).unwrap();
        let (host, inventory) = here(&provision);
        let clock = Clock::default().on(&inventory);
        let plan =
            plan::build_with(&spec, &Matrix::of(&spec), Fallback::default(), &clock).unwrap();
        let scratch = store.scratch().unwrap();
        let context = Context {
            plan: &plan,
            store: &store,
            provision: &provision,
            listener: &Silent,
            probe: &Unasked,
            inventory: &inventory,
            host: &host,
            options: &options(),
            cancel: &Cancel::default(),
            remote: None,
            away: None,
        };
        let mut made = 0;
        loop {
            let before = made;
            for (step, preview) in plan.steps.iter().zip(context.previews().unwrap()) {
                if let Preview::WouldRun { key: Some(key), .. } = preview {
                    publish(&store, &scratch, step, &key);
                    made += 1;
                }
            }
            if made == before {
                return (plan.steps.len(), made);
            }
        }
    }

    fn start(&self) -> Child {
        let mut command = Command::new(&self.orch);
        command
            .args(["--env-dir", self.envs.to_str().unwrap(), "run", "zoo.yaml"])
            .current_dir(&self.dir);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(fs::File::create(self.dir.join("said")).unwrap());
        command.spawn().unwrap()
    }

    /// Seconds of CPU and of wall.
    fn run(&self) -> (f64, f64) {
        let before = children();
        let clock = Instant::now();
        let status = self.start().wait().unwrap();
        assert!(
            status.success(),
            "orch failed: see {}",
            self.dir.join("said").display()
        );
        (children() - before, clock.elapsed().as_secs_f64())
    }

    /// The journal is begun with the first step that starts. The run is killed then: what it executes is not the question.
    fn run_until_a_step_starts(&self) -> (f64, f64) {
        let runs = self.dir.join("cache/history/runs");
        let journals = || -> BTreeSet<PathBuf> {
            fs::read_dir(&runs)
                .map(|found| found.flatten().map(|entry| entry.path()).collect())
                .unwrap_or_default()
        };
        let known = journals();
        let clock = Instant::now();
        let mut child = self.start();
        let has_begun = || {
            let new = journals().into_iter().find(|path| !known.contains(path));
            new.is_some_and(|path| {
                fs::read_to_string(path).is_ok_and(|text| text.contains("\"began\""))
            })
        };
        while !has_begun() {
            assert!(
                child.try_wait().unwrap().is_none(),
                "no step started: see {}",
                self.dir.join("said").display()
            );
            std::thread::sleep(Duration::from_millis(2));
        }
        let wall = clock.elapsed().as_secs_f64();
        let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
        let fields: Vec<_> = stat
            .rsplit(')')
            .next()
            .unwrap()
            .split_whitespace()
            .collect();
        let ticks: f64 = fields[11..13]
            .iter()
            .map(|field| field.parse::<f64>().unwrap())
            .sum();
        child.kill().unwrap();
        child.wait().unwrap();
        // What is ended with it is not to disturb the next one.
        std::thread::sleep(Duration::from_millis(500));
        (ticks / 100.0, wall)
    }

    fn told(&self, what: &str, mut measure: impl FnMut() -> (f64, f64)) {
        let took: Vec<_> = (0..RUNS).map(|_| measure()).collect();
        let least = |of: fn(&(f64, f64)) -> f64| took.iter().map(of).fold(f64::MAX, f64::min);
        println!(
            "| {what} | {:.3} s | {:.3} s |",
            least(|took| took.0),
            least(|took| took.1)
        );
    }
}

/// CPU seconds of all children that have ended.
fn children() -> f64 {
    // SAFETY: all-zero is a value of this plain structure, and getrusage fills it in.
    let usage = unsafe {
        let mut usage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    let libc::rusage {
        ru_utime, ru_stime, ..
    } = usage;
    seconds(ru_utime) + seconds(ru_stime)
}

/// This machine as `orch run` sees it.
fn here(provision: &Provision) -> (HostFacts, Vec<Backend>) {
    let fingerprint = device::fingerprint(&Host::real());
    let report = report::Host {
        name: "zoo".into(),
        os: fingerprint.os,
        cpu: fingerprint.cpu,
        cpu_identity: fingerprint.cpu_identity,
        cores: fingerprint.cores,
        memory_bytes: fingerprint.memory_bytes,
    };
    let host = HostFacts::new(fingerprint.digest, fingerprint.computing, report, |name| {
        std::env::var_os(name)
    });
    let is_ready = provision.is_ready(Requirement::Env(EnvName::Browser));
    let libraries = Libraries {
        browser: is_ready.then(|| provision.browser().ok()).flatten(),
        answers: Some(provision.dir().join("answers")),
        ..Libraries::default()
    };
    (
        host,
        device::inventory_cheap(&Host::real().with_libraries(libraries)),
    )
}

fn options() -> Options {
    Options {
        jobs: 1,
        memory: u64::MAX,
        spec: "zoo.yaml".into(),
        ..Options::default()
    }
}

/// What stands in for the execution of a step.
fn publish(store: &DiskStore, scratch: &Scratch, step: &Step, key: &KeyDoc) {
    let out = scratch.dir("out").unwrap();
    let file = format!(
        "test_{}.py",
        step.name.replace(|c: char| !c.is_ascii_alphanumeric(), "_")
    );
    fs::write(out.join(file), &step.name).unwrap();
    let samples: Vec<f64> = (0..20).map(|n| 1.25 + f64::from(n) / 7.0).collect();
    let times = json!({
        "load_ms": 12.25, "first_ms": 3.5, "warmup_ms": [2.5, 2.25, 2.125], "samples_ms": samples,
        "sync": "synchronous call",
    });
    let mut measure = json!({
        "peak_rss_bytes": 123_456_789, "requested_device": "cpu", "actual_device": "cpu",
        "placement": {"CPUExecutionProvider": 42},
    });
    if step.kind.is_timed(step) {
        measure
            .as_object_mut()
            .unwrap()
            .extend(times.as_object().unwrap().clone());
    }
    let numerics = json!({
        "reference": "torch 2.13.0 cpu fp32", "tolerance": null, "max_abs": 1e-6, "mae": 1e-7, "cosine": 0.999_999_9,
        "worst": 0.01, "passed": true, "tensors": {},
        "control": {"differs_by": 1.5, "worst": 1500.0}, "dropped": {"layer": "encoder.layer.1", "differs_by": 0.5, "worst": 500.0},
    });
    let at = |stage: Stage, value: serde_json::Value| (step.stage == stage).then_some(value);
    let record = Record {
        step: step.name.clone(),
        key: key.clone(),
        outcome: Outcome::Pass,
        reason: None,
        output: Some(store.publish(&out).unwrap()),
        started: "2026-11-22T12:00:00Z".into(),
        seconds: 1.0,
        host: "zoo".into(),
        cpu: None,
        facts: json!({"versions": {"onnxruntime": "1.24.0"}, "route": "dynamo", "seconds": {"load": 0.5}}).into(),
        measure: at(Stage::Run, measure).map(|value| serde_json::from_value(value).unwrap()),
        numerics: at(Stage::Judge, numerics).map(|value| serde_json::from_value(value).unwrap()),
        repro: None,
        why: None,
        attempts: vec![],
        stands: None,
    };
    store.keep(&record, None).unwrap();
}

/// Nothing executes here, so no device is asked for anything.
struct Unasked;

impl exec::Probe for Unasked {
    fn query(&self, backend: &str) -> Backend {
        Backend::unavailable(backend, "nobody asks it here")
    }
}

struct Silent;

impl Listener for Silent {
    fn tell(&self, event: Event) {
        if let Event::Warning { text } = event {
            panic!("orch warns: {text}");
        }
    }
}
