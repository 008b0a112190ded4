//! A real plan over a real store, in which every execution is a stand-in: it publishes a small tree and remembers a
//! record under the key that orch gave it.
//!
//! Nothing here decides what must run: [`orch::exec::preview`] says so, is believed, and is asked again until it says
//! that nothing is left. So what is collected is what a run would have executed, in waves, each with orch's reason.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use orch::device::{Backend, Device, DeviceKind};
use orch::event::{Event, Listener};
use orch::exec::{HostFacts, Options, Preview};
use orch::key::{KeyDoc, MissReason};
use orch::plan::Plan;
use orch::provision::Provision;
use orch::record::{Outcome, Record};
use orch::report;
use orch::session::{Ask, Planned, Request, Session, Settings};
use orch::step::{Code, Needs, Places, Requirement, Sources, Step, StepKind, Work};
use orch::store::DiskStore;
use orch::toolchain::{EnvName, Locks, Tool};
use orch::worker::Cancel;

use crate::project;

/// All that a plan and its keys are made from.
pub(crate) struct World {
    dir: PathBuf,
    /// Removes the folder in the end; a child process works in one of its parent's.
    _guard: Option<tempfile::TempDir>,
    pub(crate) locks: Locks,
    pub(crate) host: HostFacts,
    pub(crate) inventory: Vec<Backend>,
    /// The sources of orch itself, where they are not those of this binary.
    pub(crate) sources: Option<Sources>,
    pub(crate) settings: Settings,
    /// What the spec is called.
    pub(crate) spec: String,
}

/// What a stand-in publishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outputs {
    /// What they always are: what changed turned out not to matter.
    Equal,
    /// Something that follows from the key: whatever changed matters.
    Changed,
}

/// Steps that ran, in order, with orch's reason.
pub(crate) type Reran = Vec<(String, MissReason)>;

struct Silent;
impl Listener for Silent {
    fn tell(&self, event: Event) {
        if let Event::Warning { text } = event {
            panic!("orch warns: {text}");
        }
    }
}

/// The project as it is before anything changes, settled once.
static BASE: LazyLock<World> = LazyLock::new(|| {
    let world = World::in_own(tempfile::tempdir().unwrap(), Locks::default());
    project::write(&world.root());
    let first = world.settle(Outputs::Equal);
    assert!(
        first
            .iter()
            .all(|(_, reason)| *reason == MissReason::NeverRan),
        "{first:?}"
    );
    assert!(first.len() > 40, "{first:?}");
    assert_eq!(world.rewritten(), ["code", "what it shows"].into());
    world
});

impl World {
    /// A copy of the settled project and its store, at a place of its own.
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        copy(&BASE.dir, dir.path());
        Self::in_own(dir, BASE.locks.clone())
    }

    fn in_own(dir: tempfile::TempDir, locks: Locks) -> Self {
        let world = Self::at(dir.path().to_owned(), locks);
        Self {
            _guard: Some(dir),
            ..world
        }
    }

    /// A world whose folder is there.
    pub(crate) fn at(dir: PathBuf, locks: Locks) -> Self {
        let report = report::Host {
            name: "anvil".into(),
            os: "Linux".into(),
            cpu: "a CPU".into(),
            cpu_identity: "a CPU's identity".into(),
            cores: 4,
            memory_bytes: 1 << 34,
        };
        let host = HostFacts {
            target: "x86_64-linux".into(),
            ..HostFacts::new("f".repeat(64), "c".repeat(64), report, |_| None)
        };
        let device = |id: &str, name: &str| Device::new(id, name, DeviceKind::Hardware);
        let inventory = vec![
            Backend::available("cpu", vec![device("cpu", "a CPU")]),
            Backend::available("openvino", vec![device("openvino:CPU", "a CPU")]),
            Backend::available(
                "qnn",
                vec![device("qnn:htp-emulator", "HTP emulator on x86_64")],
            ),
        ];
        Self {
            dir,
            _guard: None,
            locks,
            host,
            inventory,
            sources: None,
            settings: Settings::default(),
            spec: "specs/all.yaml".into(),
        }
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.dir.join("project")
    }

    pub(crate) fn may_execute(&self, name: &str) {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(self.root().join(name), mode).unwrap();
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.root().join(name), text).unwrap();
    }

    /// Replaces the only occurrence of a text in the spec.
    pub(crate) fn edit(&self, from: &str, to: &str) {
        let path = self.root().join("specs/all.yaml");
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(
            text.matches(from).count(),
            1,
            "the spec must hold {from:?} once"
        );
        fs::write(&path, text.replace(from, to)).unwrap();
    }

    /// Another version of a package, or, where it is the same one, other content of it.
    pub(crate) fn bump(&mut self, env: EnvName, package: &str, version: &str) {
        let text = self.locks.text(env);
        let at = text
            .find(&format!("\n{package}=="))
            .unwrap_or_else(|| panic!("{env} locks no {package}"))
            + 1;
        let rest = &text[at..];
        let end = rest.find("\n    --hash=").unwrap();
        let line = format!("{package}=={version} \\\n    --hash=sha256:00 \\");
        let changed = format!("{}{line}{}", &text[..at], &rest[end..]);
        self.locks = self.locks.clone().with(env, changed);
    }

    /// Adds a line to one of orch's own sources.
    pub(crate) fn touch_source(&mut self, path: &str) {
        let sources = self.sources.as_ref().unwrap_or_else(|| Sources::embedded());
        let text = sources
            .text(path)
            .unwrap_or_else(|| panic!("orch has no source {path}"));
        self.sources = Some(sources.with(path, format!("{text}\n")));
    }

    /// Another version of a crate that orch is built with.
    pub(crate) fn bump_crate(&mut self, name: &str) {
        let lock = Sources::embedded().text("Cargo.lock").unwrap();
        let (head, rest) = lock
            .split_once(&format!("\nname = \"{name}\"\nversion = \""))
            .unwrap();
        let changed = format!("{head}\nname = \"{name}\"\nversion = \"99.{rest}");
        self.sources = Some(Sources::embedded().with("Cargo.lock", changed));
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The program as it is here, on a machine that is only described.
    fn session(&self) -> Session {
        let store = DiskStore::open(&self.dir.join("store")).unwrap();
        let envs = self.dir.join("envs");
        let provision = Provision::new(envs, None, Cancel::default())
            .unwrap()
            .locked(self.locks.clone());
        Session::described(store, provision, self.host.clone(), self.inventory.clone())
    }

    pub(crate) fn plan(&self) -> Plan {
        self.planned(&self.session()).project.plan
    }

    fn planned(&self, session: &Session) -> Planned {
        let request = Request::all(&self.root().join("specs/all.yaml"));
        let told = |text: &str| panic!("orch says: {text}");
        let mut planned = session
            .plan(&request, Ask::Installed, &told)
            .unwrap_or_else(|e| panic!("{e}"));
        if let Some(sources) = &self.sources {
            // One implementation performs many steps.
            let mut known: BTreeMap<*const Code, &'static Code> = BTreeMap::new();
            for step in &mut planned.project.plan.steps {
                let code = step.kind.code(step);
                let code = *known
                    .entry(code)
                    .or_insert_with(|| Box::leak(Box::new(code.in_sources(sources))));
                step.kind = Box::leak(Box::new(Recoded {
                    inner: step.kind,
                    code,
                }));
            }
        }
        planned
    }

    /// Does, as stand-ins, all that orch says would run, until it says that nothing would.
    pub(crate) fn settle(&self, outputs: Outputs) -> Reran {
        let session = self.session();
        let planned = self.planned(&session);
        let project = &planned.project;
        let store = &session.store;
        let plan = &project.plan;
        let options = Options {
            spec: self.spec.clone(),
            ..session.options(&planned, &self.settings)
        };
        let mut reran = Reran::new();
        loop {
            let previews = session.preview(project, &options, &Silent).unwrap();
            let mut waiting = Vec::new();
            let before = reran.len();
            for (step, preview) in plan.steps.iter().zip(previews) {
                let name = &step.name;
                match preview {
                    Preview::Hit { .. } => {}
                    Preview::WouldRun { key: None, reason } => {
                        waiting.push(format!("{name}: {reason}"))
                    }
                    Preview::WouldRun {
                        key: Some(key),
                        reason,
                    } => {
                        execute(store, name, &key, outputs, reran.len());
                        assert!(
                            reran.iter().all(|(known, _)| known != name),
                            "{name} ran twice: {reason}"
                        );
                        reran.push((name.clone(), reason));
                    }
                    Preview::Skipped { reason, .. } => panic!("{name} is skipped: {reason}"),
                    Preview::NotNeeded => panic!("{name} is not needed"),
                }
            }
            if reran.len() == before {
                assert!(waiting.is_empty(), "nothing can go on: {waiting:?}");
                return reran;
            }
        }
    }
}

impl World {
    /// Why the pages of the report would be written once more, now that all is settled; empty where they would not.
    pub(crate) fn rewritten(&self) -> BTreeSet<&'static str> {
        let session = self.session();
        let planned = self.planned(&session);
        let options = Options {
            spec: self.spec.clone(),
            ..session.options(&planned, &self.settings)
        };
        let shown = report::shown(&session.held(&planned.project, &options, &Silent).unwrap());
        let code = report::CODE
            .in_sources(self.sources.as_ref().unwrap_or_else(|| Sources::embedded()))
            .digest();
        let changed = [("code", code), ("what it shows", shown)]
            .into_iter()
            .filter(|(what, now)| {
                let path = self.dir.join(what);
                let now = now.to_string();
                let before = fs::read_to_string(&path).unwrap_or_default();
                fs::write(path, &now).unwrap();
                now != before
            });
        changed.map(|(what, _)| what).collect()
    }
}

/// Publishes what stands in for a step's output and remembers that it passed with this key.
fn execute(store: &DiskStore, step: &str, key: &KeyDoc, outputs: Outputs, number: usize) {
    let scratch = store.scratch().unwrap();
    let out = scratch.dir("out").unwrap();
    let content = match outputs {
        Outputs::Equal => step.to_owned(),
        Outputs::Changed => key.digest().to_string(),
    };
    fs::write(out.join("content"), content).unwrap();
    let record = Record {
        step: step.into(),
        key: key.clone(),
        outcome: Outcome::Pass,
        reason: None,
        output: Some(store.publish(&out).unwrap()),
        started: format!("{outputs:?} {number}"),
        seconds: 1.0,
        host: "anvil".into(),
        cpu: None,
        facts: Default::default(),
        measure: None,
        numerics: None,
        repro: None,
        why: None,
        attempts: vec![],
        stands: None,
    };
    store.keep(&record, None).unwrap();
}

/// A kind as other sources would make it.
struct Recoded {
    inner: &'static dyn StepKind,
    code: &'static Code,
}

impl StepKind for Recoded {
    fn name(&self) -> &'static str {
        self.inner.name()
    }
    fn code(&self, _: &Step) -> &Code {
        self.code
    }
    fn tools(&self, step: &Step) -> Vec<Tool> {
        self.inner.tools(step)
    }
    fn runs_on_device(&self) -> bool {
        self.inner.runs_on_device()
    }
    fn is_timed(&self, step: &Step) -> bool {
        self.inner.is_timed(step)
    }
    fn is_native(&self) -> bool {
        self.inner.is_native()
    }
    fn needs(&self, step: &Step) -> Needs {
        self.inner.needs(step)
    }
    fn requires(&self, step: &Step) -> Vec<Requirement> {
        self.inner.requires(step)
    }
    fn server(&self, step: &Step) -> Option<EnvName> {
        self.inner.server(step)
    }
    fn lower(&self, step: &Step, places: &Places) -> anyhow::Result<Work> {
        self.inner.lower(step, places)
    }
}

fn copy(from: &Path, to: &Path) {
    for entry in walkdir::WalkDir::new(from).min_depth(1) {
        let entry = entry.unwrap();
        let target = to.join(entry.path().strip_prefix(from).unwrap());
        if entry.file_type().is_dir() {
            fs::create_dir_all(target).unwrap();
        } else if entry.metadata().unwrap().permissions().readonly() {
            // Published content, which nothing writes to.
            fs::hard_link(entry.path(), target).unwrap();
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
