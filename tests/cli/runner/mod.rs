//! A small GitHub: it runs the ready workflow as it is written, each job in a folder of its own.
//!
//! It knows what the workflow uses: `if` and `${{ }}`, caches that never change and belong to a branch, artefacts whose names are
//! taken once in a run, attempts, and jobs that are cancelled. `cargo install` and `gh` are stand-ins: building orch takes minutes,
//! and there is no GitHub.

mod expression;

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::Sandbox;
use expression::{Context, filled, holds, text_of};

/// What pull requests may read of caches besides their own.
const MAIN: &str = "refs/heads/main";

/// A repository on GitHub, with what is kept between runs.
pub(crate) struct GitHub {
    sandbox: Sandbox,
    workflow: Value,
    caches: Mutex<Vec<Entry>>,
    /// Names of hosts that run jobs, and what else differs there.
    pub(crate) python: String,
}

/// An entry of the cache.
#[derive(Debug, Clone)]
struct Entry {
    branch: String,
    key: String,
    files: PathBuf,
}

/// One run of the workflow, with what its attempts share.
pub(crate) struct Run {
    pub(crate) id: u32,
    pub(crate) attempt: u32,
    /// `push`, `pull_request` or `schedule`.
    pub(crate) event: &'static str,
    pub(crate) sha: String,
    /// Of a pull request: the commit that it would be merged into.
    pub(crate) base_sha: Option<String>,
    /// Whether a pull request comes from a fork, whose jobs have no rights.
    pub(crate) is_of_fork: bool,
    artifacts: Mutex<BTreeMap<String, PathBuf>>,
}

/// How a job ended, and what each of its steps did.
#[derive(Debug, Clone)]
pub(crate) struct Ended {
    pub(crate) job: String,
    /// `success`, `failure`, `cancelled` or `skipped`.
    pub(crate) result: &'static str,
    /// By name or action: outcome and what it said.
    pub(crate) steps: Vec<(String, &'static str, String)>,
    /// What it wrote for people.
    pub(crate) summary: String,
}

impl Ended {
    #[track_caller]
    pub(crate) fn step(&self, name: &str) -> (&'static str, &str) {
        let found = self.steps.iter().rfind(|(step, ..)| step.contains(name));
        let (_, outcome, said) = found.unwrap_or_else(|| panic!("no step {name}: {self:#?}"));
        (outcome, said)
    }
}

/// Ends a job while one of its steps runs.
#[derive(Debug, Clone)]
pub(crate) struct Cancel {
    pub(crate) shard: u64,
    pub(crate) step: &'static str,
    /// What the step prints when it has come far enough.
    pub(crate) when: &'static str,
    pub(crate) signal: i32,
}

/// What is other than usual in one attempt.
#[derive(Debug, Default, Clone)]
pub(crate) struct Trouble {
    pub(crate) cancel: Option<Cancel>,
    /// What starts the shell of the step called `Run` in this shard: a program and its first arguments, which are what is
    /// wrong with its machine.
    pub(crate) starter: Option<(u64, Vec<String>)>,
}

impl GitHub {
    /// Of a sandbox whose folder is the repository's work tree.
    pub(crate) fn new(sandbox: Sandbox, workflow: Value) -> Self {
        let github = Self {
            sandbox,
            workflow,
            caches: Mutex::default(),
            python: "3.12.7".to_owned(),
        };
        github.git("init -q");
        github.commit("base");
        // Branches move, and none of them is checked out.
        github.git("checkout -q --detach");
        github
    }

    pub(crate) fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    #[track_caller]
    fn git(&self, line: &str) -> String {
        let shell = format!(
            "git -c user.name=x -c user.email=x@y.z -c init.defaultBranch=main -c core.hooksPath=/dev/null {line}"
        );
        let output = Command::new("sh")
            .args(["-c", &shell])
            .current_dir(self.sandbox.path(""))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success(), "{line}: {said}");
        said.trim().to_owned()
    }

    /// The commit of what the work tree holds now.
    #[track_caller]
    pub(crate) fn commit(&self, subject: &str) -> String {
        self.git("add specs models");
        self.git(&format!("commit -q --allow-empty -m '{subject}'"));
        self.git("rev-parse HEAD")
    }

    pub(crate) fn run(&self, id: u32, event: &'static str) -> Run {
        let sha = self.git("rev-parse HEAD");
        if event == "pull_request" {
            let base_sha = Some(self.git("rev-parse main"));
            return Run {
                base_sha,
                ..self.run_of(id, event, sha)
            };
        }
        self.git("branch -f main HEAD");
        self.run_of(id, event, sha)
    }

    fn run_of(&self, id: u32, event: &'static str, sha: String) -> Run {
        Run {
            id,
            attempt: 1,
            event,
            sha,
            base_sha: None,
            is_of_fork: false,
            artifacts: Mutex::default(),
        }
    }

    /// The jobs of one attempt in their order: the shards, two at a time, and then the report.
    pub(crate) fn attempt(&self, run: &Run, trouble: &Trouble) -> Vec<Ended> {
        let job = &self.workflow["jobs"]["models"];
        let axes = &job["strategy"]["matrix"];
        let mut combinations = vec![json!({})];
        for (axis, values) in axes.as_object().unwrap() {
            combinations = combinations
                .iter()
                .flat_map(|known| {
                    values.as_array().unwrap().iter().map(move |value| {
                        let mut one = known.clone();
                        one[axis] = value.clone();
                        one
                    })
                })
                .collect();
        }
        let mut ended = Vec::new();
        for pair in combinations.chunks(2) {
            let jobs: Vec<Ended> = std::thread::scope(|scope| {
                let started: Vec<_> = pair
                    .iter()
                    .map(|matrix| scope.spawn(|| self.job(run, "models", matrix.clone(), trouble)))
                    .collect();
                started.into_iter().map(|job| job.join().unwrap()).collect()
            });
            ended.extend(jobs);
        }
        ended.push(self.job(run, "report", json!({}), trouble));
        ended
    }

    fn job(&self, run: &Run, name: &str, matrix: Value, trouble: &Trouble) -> Ended {
        let shown = format!(
            "{name}-{}",
            text_of(&matrix).replace(['{', '}', '"', ':', ','], "")
        );
        let home = self
            .sandbox
            .path(&format!("jobs/{}-{}/{shown}", run.id, run.attempt));
        let job = Job {
            github: self,
            run,
            spec: &self.workflow["jobs"][name],
            workspace: home.join("work"),
            cancel: trouble
                .cancel
                .clone()
                .filter(|cancel| matrix["shard"] == cancel.shard),
            starter: trouble
                .starter
                .clone()
                .filter(|(shard, _)| matrix["shard"] == *shard)
                .map_or_else(Vec::new, |(_, words)| words),
            matrix,
            home,
            status: "success",
            outcomes: json!({}),
        };
        job.ended(shown)
    }

    fn restored(&self, job: &Job<'_>, with: &Value) -> (Value, String) {
        let key = job.filled(&with["key"]);
        let fallback = job.filled(&with["restore-keys"]);
        let prefixes: Vec<&str> = fallback.lines().map(str::trim).collect();
        let caches = self.caches.lock().unwrap();
        let own = job.branch();
        let branches = [own.as_str(), MAIN];
        let of_branch = |branch: &str| {
            let all = caches.iter().rev().filter(|entry| entry.branch == branch);
            let all: Vec<&Entry> = all.collect();
            let exact = all.iter().find(|entry| entry.key == key);
            let like = prefixes
                .iter()
                .filter(|prefix| !prefix.is_empty())
                .find_map(|prefix| all.iter().find(|entry| entry.key.starts_with(*prefix)));
            exact.or(like).map(|entry| (*entry).clone())
        };
        let found = branches.into_iter().find_map(of_branch);
        let hit = found.as_ref().is_some_and(|entry| entry.key == key);
        if let Some(entry) = &found {
            for (at, path) in job.paths(&with["path"]).iter().enumerate() {
                let from = entry.files.join(at.to_string());
                if from.exists() {
                    copied(&from, path);
                }
            }
        }
        let said = found.map_or("nothing restored".to_owned(), |entry| entry.key);
        (
            json!({"cache-hit": if hit { "true" } else { "" }, "cache-primary-key": key}),
            said,
        )
    }

    fn saved(&self, job: &Job<'_>, with: &Value) -> String {
        let key = job.filled(&with["key"]);
        let branch = job.branch();
        let mut caches = self.caches.lock().unwrap();
        let is_taken = |entry: &Entry| entry.branch == branch && entry.key == key;
        if caches.iter().any(is_taken) {
            return format!("{key} is taken: not saved");
        }
        let files = self.sandbox.path(&format!("entries/{}", caches.len()));
        let mut is_empty = true;
        for (at, path) in job.paths(&with["path"]).iter().enumerate() {
            if path.exists() {
                copied(path, &files.join(at.to_string()));
                is_empty = false;
            }
        }
        if is_empty {
            return "nothing to save".to_owned();
        }
        let said = format!("saved {key}");
        caches.push(Entry { branch, key, files });
        said
    }

    /// The keys of entries, oldest first.
    pub(crate) fn keys(&self) -> Vec<String> {
        let caches = self.caches.lock().unwrap();
        caches.iter().map(|entry| entry.key.clone()).collect()
    }
}

/// A job that runs: a machine that was started for it.
struct Job<'a> {
    github: &'a GitHub,
    run: &'a Run,
    spec: &'a Value,
    matrix: Value,
    home: PathBuf,
    workspace: PathBuf,
    cancel: Option<Cancel>,
    starter: Vec<String>,
    /// `success`, `failure` or `cancelled`, as of now.
    status: &'static str,
    /// Outcome and outputs of steps by their id.
    outcomes: Value,
}

impl Context for Job<'_> {
    fn value(&self, path: &[String]) -> Value {
        let run = self.run;
        let is_pull = run.event == "pull_request";
        let pull = json!({
            "number": 7,
            "base": {"sha": run.base_sha},
            "head": {"repo": {"full_name": if run.is_of_fork { "fork/models" } else { "own/models" }}},
        });
        let contexts = json!({
            "github": {
                "event_name": run.event,
                "ref": self.branch(),
                "sha": run.sha,
                "run_id": run.id,
                "run_attempt": run.attempt,
                "repository": "own/models",
                "token": "none",
                "base_ref": if is_pull { "main" } else { "" },
                "event": if is_pull { json!({"pull_request": pull}) } else { json!({}) },
            },
            "runner": {"os": "Linux", "arch": "X64"},
            "matrix": self.matrix,
            "env": self.github.workflow["env"],
            "steps": self.outcomes,
        });
        path.iter()
            .fold(contexts, |value, name| value[name.as_str()].clone())
    }

    fn call(&self, function: &str, arguments: &[Value]) -> Value {
        match function {
            "always" => json!(true),
            "success" => json!(self.status == "success"),
            "failure" => json!(self.status == "failure"),
            "cancelled" => json!(self.status == "cancelled"),
            "hashFiles" => json!(self.digest_of(arguments)),
            _ => panic!("the workflow calls `{function}`"),
        }
    }
}

impl Job<'_> {
    fn branch(&self) -> String {
        match self.run.event {
            "pull_request" => "refs/pull/7/merge".to_owned(),
            _ => MAIN.to_owned(),
        }
    }

    fn filled(&self, value: &Value) -> String {
        filled(&text_of(value), self)
    }

    /// Empty where no file matches, as GitHub's.
    fn digest_of(&self, patterns: &[Value]) -> String {
        let files = walkdir::WalkDir::new(&self.workspace).sort_by_file_name();
        let mut hasher = orch::base::Hasher::default();
        let mut is_empty = true;
        for entry in files.into_iter().filter_map(Result::ok) {
            let path = entry.path().strip_prefix(&self.workspace).unwrap();
            let shown = path.to_str().unwrap();
            let is_meant =
                |pattern: &Value| orch::base::glob::matches(pattern.as_str().unwrap(), shown);
            if entry.file_type().is_file() && patterns.iter().any(is_meant) {
                hasher.update(&fs::read(entry.path()).unwrap());
                is_empty = false;
            }
        }
        if is_empty {
            String::new()
        } else {
            hasher.digest().to_string()
        }
    }

    /// A list of paths, a line each.
    fn paths(&self, list: &Value) -> Vec<PathBuf> {
        let text = self.filled(list);
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        lines
            .map(|line| match line.strip_prefix("~/") {
                Some(below) => self.home.join(below),
                None => self.workspace.join(line),
            })
            .collect()
    }

    fn ended(mut self, job: String) -> Ended {
        fs::create_dir_all(&self.workspace).unwrap();
        let bin = self.home.join("bin");
        fs::create_dir_all(&bin).unwrap();
        let orch = self.github.sandbox.command(["--version"]);
        let orch = orch.get_program().to_str().unwrap().to_owned();
        let cargo = format!(
            "#!/bin/sh\nmkdir -p \"$HOME/.cargo/bin\" && ln -f '{orch}' \"$HOME/.cargo/bin/orch\" || cp '{orch}' \"$HOME/.cargo/bin/orch\"\n"
        );
        program(&bin.join("cargo"), &cargo);
        program(
            &bin.join("gh"),
            "#!/bin/sh\necho \"$*\" >> \"$HOME/gh.log\"\n",
        );
        let mut steps = Vec::new();
        let all = self.spec["steps"].as_array().unwrap();
        for (at, step) in all.iter().enumerate() {
            let name = step["name"]
                .as_str()
                .or(step["uses"].as_str())
                .unwrap()
                .to_owned();
            let condition = step["if"].as_str().unwrap_or("success()");
            // A condition that names no status holds on success only.
            let names_status = ["always()", "cancelled()", "failure()", "success()"]
                .iter()
                .any(|status| condition.contains(status));
            let is_wanted = (names_status || self.status == "success") && holds(condition, &self);
            let (outcome, outputs, said) = if is_wanted {
                self.perform(step, &name, at)
            } else {
                ("skipped", json!({}), String::new())
            };
            if let Some(id) = step["id"].as_str() {
                self.outcomes[id] = json!({"outcome": outcome, "outputs": outputs});
            }
            match outcome {
                "failure" if self.status == "success" => self.status = "failure",
                "cancelled" => self.status = "cancelled",
                _ => {}
            }
            steps.push((name, outcome, said));
        }
        let summary = fs::read_to_string(self.home.join("summary")).unwrap_or_default();
        Ended {
            job,
            result: self.status,
            steps,
            summary,
        }
    }

    fn perform(&self, step: &Value, name: &str, at: usize) -> (&'static str, Value, String) {
        let Some(action) = step["uses"].as_str() else {
            return self.lines(step, name, at);
        };
        let with = &step["with"];
        let (action, _) = action.split_once('@').unwrap();
        let (outputs, said) = match action {
            "actions/checkout" => (json!({}), self.check_out(with)),
            "actions/setup-python" => {
                (json!({"python-version": self.github.python}), String::new())
            }
            "actions/cache/restore" => self.github.restored(self, with),
            "actions/cache/save" => (json!({}), self.github.saved(self, with)),
            "actions/upload-artifact" => match self.upload(with) {
                Ok(said) => (json!({}), said),
                Err(said) => return ("failure", json!({}), said),
            },
            "actions/download-artifact" => (json!({}), self.download(with)),
            _ => panic!("the workflow uses `{action}`"),
        };
        ("success", outputs, said)
    }

    fn check_out(&self, with: &Value) -> String {
        if !with["repository"].is_null() {
            // orch's sources: as much of them as tells one version from another.
            let to = self.workspace.join(with["path"].as_str().unwrap());
            fs::create_dir_all(&to).unwrap();
            fs::write(to.join("Cargo.toml"), self.filled(&with["ref"])).unwrap();
            return String::new();
        }
        let origin = self.github.sandbox.path("");
        let lines = format!(
            "git clone -q '{}' . && git checkout -q {}",
            origin.display(),
            self.run.sha
        );
        let done = Command::new("sh")
            .args(["-c", &lines])
            .current_dir(&self.workspace)
            .output()
            .unwrap();
        assert!(done.status.success(), "{done:?}");
        String::new()
    }

    fn upload(&self, with: &Value) -> Result<String, String> {
        let name = self.filled(&with["name"]);
        let mut artifacts = self.run.artifacts.lock().unwrap();
        if artifacts.contains_key(&name) && with["overwrite"] != true {
            return Err(format!("409: {name} is there already"));
        }
        let paths = self.paths(&with["path"]);
        let there: Vec<&PathBuf> = paths.iter().filter(|path| path.exists()).collect();
        if there.is_empty() {
            return Ok("no files".to_owned());
        }
        let to = self.github.sandbox.path(&format!(
            "artifacts/{}-{}/{name}",
            self.run.id, self.run.attempt
        ));
        fs::create_dir_all(&to).unwrap();
        // Below the folder that all of them have in common.
        if let [folder] = &paths[..] {
            copied(folder, &to);
        } else {
            for path in there {
                copied(path, &to.join(path.file_name().unwrap()));
            }
        }
        artifacts.insert(name.clone(), to);
        Ok(name)
    }

    fn download(&self, with: &Value) -> String {
        let pattern = self.filled(&with["pattern"]);
        let into = self.workspace.join(self.filled(&with["path"]));
        let artifacts = self.run.artifacts.lock().unwrap();
        let mut names = Vec::new();
        for (name, files) in artifacts.iter() {
            if orch::base::glob::matches(&pattern, name) {
                copied(files, &into.join(name));
                names.push(name.clone());
            }
        }
        names.join(" ")
    }

    /// Runs a step's shell lines.
    fn lines(&self, step: &Value, name: &str, at: usize) -> (&'static str, Value, String) {
        let lines = text_of(&step["run"]);
        assert!(!lines.contains("${{"), "{name}");
        let script = self.home.join(format!("script-{at}"));
        fs::write(&script, lines).unwrap();
        let mut words: Vec<String> = Vec::new();
        if name == "Run" {
            words.extend(self.starter.iter().cloned());
        }
        words.extend(["bash", "-e", script.to_str().unwrap()].map(str::to_owned));
        let outputs = self.home.join(format!("outputs-{at}"));
        fs::write(&outputs, "").unwrap();
        let said_at = self.home.join(format!("said-{at}"));
        let said_file = fs::File::create(&said_at).unwrap();
        let orch = self.github.sandbox.command(["--version"]);
        let path = format!(
            "{}:{}:{}",
            self.home.join("bin").display(),
            self.home.join(".cargo/bin").display(),
            std::env::var("PATH").unwrap()
        );
        let mut bash = Command::new(&words[0]);
        bash.args(&words[1..])
            .current_dir(&self.workspace)
            .env_clear()
            .envs(
                orch.get_envs()
                    .filter_map(|(name, value)| Some((name, value?))),
            )
            .env_remove("ORCH_CACHE_DIR")
            .env("HOME", &self.home)
            .env("PATH", path)
            .env("GITHUB_OUTPUT", &outputs)
            .env("GITHUB_STEP_SUMMARY", self.home.join("summary"))
            .env("GITHUB_EVENT_NAME", self.run.event)
            .env("GITHUB_RUN_ATTEMPT", self.run.attempt.to_string())
            .env("GITHUB_REPOSITORY", "own/models")
            .env(
                "GITHUB_BASE_REF",
                if self.run.base_sha.is_some() {
                    "main"
                } else {
                    ""
                },
            )
            .stdin(Stdio::null())
            .stdout(said_file.try_clone().unwrap())
            .stderr(said_file)
            .process_group(0);
        for spec in [
            &self.github.workflow["env"],
            &self.spec["env"],
            &step["env"],
        ] {
            for (name, value) in spec.as_object().into_iter().flatten() {
                bash.env(name, self.filled(value));
            }
        }
        let mut child = bash.spawn().unwrap();
        let mut is_cancelled = false;
        if let Some(cancel) = self.cancel.as_ref().filter(|cancel| name == cancel.step) {
            let limit = Instant::now() + crate::support::beside_load(Duration::from_secs(60));
            while !fs::read_to_string(&said_at).unwrap().contains(cancel.when) {
                assert!(
                    Instant::now() < limit && child.try_wait().unwrap().is_none(),
                    "{name} never came as far as to print {:?}",
                    cancel.when
                );
                std::thread::sleep(Duration::from_millis(10));
            }
            let group = -(child.id() as i32);
            // SAFETY: a signal to a process group that this test made.
            unsafe { libc::kill(group, cancel.signal) };
            is_cancelled = true;
        }
        let status = child.wait().unwrap();
        let said = fs::read_to_string(&said_at).unwrap_or_default();
        let written = fs::read_to_string(&outputs).unwrap();
        let outputs: BTreeMap<String, String> = written
            .lines()
            .filter_map(|line| line.split_once('='))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let outcome = match status.success() {
            _ if is_cancelled => "cancelled",
            true => "success",
            false => "failure",
        };
        let said = format!(
            "{said}{written}[{:?}, {:?}]",
            status.code(),
            status.signal()
        );
        (outcome, json!(outputs), said)
    }
}

fn program(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Copies a file by a process of its own. If this one wrote a program, a child that another thread forks meanwhile would
/// hold it open for writing, and nobody could start it ("text file busy").
fn copied_by_another(from: &Path, to: &Path) {
    let done = Command::new("cp")
        .arg("--preserve=mode")
        .args([from, to])
        .status()
        .unwrap();
    assert!(
        done.success() || !from.exists(),
        "{} was not copied",
        from.display()
    );
}

/// Copies a file, or a folder with all that is in it, as an archive would: what is removed meanwhile is left out, since
/// what a cancelled job started may still be ending.
fn copied(from: &Path, to: &Path) {
    for entry in walkdir::WalkDir::new(from) {
        let entry = match entry {
            Err(e) if e.io_error().map(std::io::Error::kind) == Some(ErrorKind::NotFound) => {
                continue;
            }
            entry => entry.unwrap(),
        };
        let below = entry.path().strip_prefix(from).unwrap();
        let to = if below.as_os_str().is_empty() {
            to.to_owned()
        } else {
            to.join(below)
        };
        if entry.file_type().is_dir() {
            fs::create_dir_all(&to).unwrap();
            continue;
        }
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        if entry.file_type().is_symlink() {
            let _ = symlink(fs::read_link(entry.path()).unwrap(), &to);
        } else if entry.file_type().is_file() {
            copied_by_another(entry.path(), &to);
        }
    }
}
