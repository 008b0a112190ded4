//! Kinds of steps: what each puts into its key, what it needs, and what is to be done. Nothing here does it.
//!
//! A new kind is one file and one line in [`KINDS`]; a conversion is a row of the catalogue.

/// The name of a kind, and what performs all of its steps: parts, as `parts!` takes them, or groups of them.
macro_rules! known_as {
    ($name:literal: $($parts:tt)+) => {
        known_as!($name, [$crate::catalogue::parts!($($parts)+)]);
    };
    ($name:literal, $parts:expr) => {
        fn name(&self) -> &'static str {
            $name
        }

        fn code(&self, _: &Step) -> &Code {
            static CODE: Code = Code::of(&$parts);
            &CODE
        }
    };
}

/// What a kind needs whose work an op of the Python package does: packages of an environment, and its server.
macro_rules! in_python {
    ($env:expr, $packages:expr) => {
        fn tools(&self, _: &Step) -> Vec<Tool> {
            $packages.map(|package| Tool { env: $env, package }).into()
        }

        fn requires(&self, _: &Step) -> Vec<Requirement> {
            vec![Requirement::Env($env)]
        }

        fn server(&self, _: &Step) -> Option<EnvName> {
            Some($env)
        }
    };
}

pub mod blame;
pub mod blame_export;
mod calibration;
mod command;
mod compose;
mod convert;
pub mod generate;
mod judge;
mod materialise;
pub mod model_folder;
mod own;
pub mod ready;
mod recipe;
mod render;
mod run;
mod write;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::base::words::words;
use crate::catalogue::ARTEFACTS;
use crate::key::KeyDoc;
use crate::spec::{Files, Program};
use crate::toolchain::{EnvName, Tool, Toolchain};

pub use crate::catalogue::{
    Access, Code, Library, MemoryGuess, Needs, Part, Places, Requirement, RunParams, SharedFolder,
    Sources, StoredFile, TestMeasure, Worker, WorkerCall,
};
pub use blame::BLAME;
pub use blame_export::BLAME_EXPORT;
pub use calibration::CALIBRATION;
pub use command::COMMAND;
pub use compose::{ASSEMBLE, COMPOSE, component};
pub use generate::{InputSummary, TestContext};
pub use judge::{JUDGE, JudgeParams, Judgement};
pub use materialise::{MATERIALISE, MATERIALISE_OWN};
pub use own::{OWN, execute};
pub use ready::{READY, REFERENCE};
pub use recipe::INPUTS;
pub use render::{RENDER, test_context, test_env, test_file_name};
pub use run::RUN;
pub use write::WRITE;

/// All kinds: those of steps of their own, and a kind for each conversion of the catalogue.
pub static KINDS: LazyLock<Vec<&'static dyn StepKind>> = LazyLock::new(|| {
    let own: [&'static dyn StepKind; 15] = [
        &BLAME,
        &BLAME_EXPORT,
        &INPUTS,
        &CALIBRATION,
        &MATERIALISE,
        &MATERIALISE_OWN,
        &COMPOSE,
        &ASSEMBLE,
        &READY,
        &REFERENCE,
        &RENDER,
        &RUN,
        &JUDGE,
        &COMMAND,
        &WRITE,
    ];
    let conversions = ARTEFACTS.iter().flat_map(|artefact| artefact.conversions);
    let conversions = conversions.map(|conversion| *conversion as &'static dyn StepKind);
    own.into_iter().chain(conversions).collect()
});

/// Position of a step in its plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct StepId(pub u32);

/// One node of the graph. It does no I/O and is the same on every host.
#[derive(Clone)]
pub struct Step {
    /// Readable and stable: `convert:bert:openvino-fp16`.
    pub name: String,
    pub stage: Stage,
    pub kind: &'static dyn StepKind,
    pub params: Params,
    pub inputs: Inputs,
    /// Upper bound of its execution. Not in the key: it cannot change an output.
    pub timeout_seconds: u64,
    /// Bytes of main memory that it takes by the user's word. Not in the key: it only decides what executes beside it.
    pub memory: Option<NonZeroU64>,
    /// How often it is tried again after a transient failure, if the command line does not say. Not in the key either.
    pub retries: Option<u32>,
    /// How many seconds of the run may go into measuring it again, if the command line does not say. Not in the key either.
    pub remeasure_seconds: u64,
    /// The locks of its environments; None means orch's own. Its key has the packages that they name.
    pub toolchain: Option<Arc<Toolchain>>,
}

/// What must be installed, and with which locks; None means orch's own.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Required {
    pub requirement: Requirement,
    pub toolchain: Option<Arc<Toolchain>>,
}

impl From<Requirement> for Required {
    fn from(requirement: Requirement) -> Self {
        Self {
            requirement,
            toolchain: None,
        }
    }
}

impl Step {
    /// One of which the user gave neither how much memory it takes nor how often it is tried.
    pub fn new(
        name: impl Into<String>,
        stage: Stage,
        kind: &'static dyn StepKind,
        params: impl Into<Params>,
        inputs: Inputs,
        timeout_seconds: u64,
    ) -> Self {
        let name = name.into();
        let params = params.into();
        Self {
            name,
            stage,
            kind,
            params,
            inputs,
            timeout_seconds,
            memory: None,
            retries: None,
            remeasure_seconds: 0,
            toolchain: None,
        }
    }

    /// The toolchain of one of its environments; None where orch's own lock holds.
    pub fn toolchain_of(&self, env: EnvName) -> Option<Arc<Toolchain>> {
        self.toolchain
            .clone()
            .filter(|toolchain| toolchain.covers(env))
    }

    /// What must be installed before it can execute.
    pub fn required(&self) -> Vec<Required> {
        let of = |requirement| Required {
            requirement,
            toolchain: match requirement {
                Requirement::Env(env) => self.toolchain_of(env),
                Requirement::TorchWorker => self.toolchain_of(EnvName::Torch),
                Requirement::Swiftshader => None,
            },
        };
        self.kind.requires(self).into_iter().map(of).collect()
    }

    /// Exit codes by which a program says that another attempt may succeed.
    pub fn transient_codes(&self) -> &[u32] {
        if let Params::Program(program) = &self.params {
            &program.transient
        } else {
            &[]
        }
    }

    /// Whether a program finds this input as links to files that other steps read too.
    pub fn is_lent(&self, input: &str) -> bool {
        match &self.params {
            Params::Program(program) => program.lent.iter().any(|name| **name == *input),
            _ => false,
        }
    }

    /// The parameters of a run.
    pub fn run(&self) -> &RunParams {
        match &self.params {
            Params::Run(params) => params,
            _ => panic!("BUG: {} is no run", self.name),
        }
    }

    /// What a generated test is made from.
    pub fn test(&self) -> &TestContext {
        match &self.params {
            Params::Test(context) => context,
            _ => panic!("BUG: {} is no generated test", self.name),
        }
    }

    /// The steps whose output this one reads, by its names for them.
    pub fn trees(&self) -> impl Iterator<Item = (&str, StepId)> {
        self.inputs.iter().filter_map(|(name, source)| {
            if let Source::Step(id) = source {
                Some((&**name, *id))
            } else {
                None
            }
        })
    }

    pub fn dependencies(&self) -> impl Iterator<Item = StepId> + '_ {
        self.trees().map(|(_, id)| id)
    }

    /// The user's folders of which it reads files that were found by listing them.
    pub fn listed_folders(&self) -> BTreeSet<PathBuf> {
        let of = |(label, source): &(Arc<str>, Source)| match source {
            Source::File(path) => model_folder::folder_of(label, path),
            Source::Step(_) => None,
        };
        self.inputs.iter().filter_map(of).collect()
    }

    /// The user's files and folders that it reads.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.inputs.iter().filter_map(|(_, source)| {
            if let Source::File(path) = source {
                Some(&**path)
            } else {
                None
            }
        })
    }
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Step({})", self.name)
    }
}

/// All parameters of a step, besides its inputs. It enters the key whole, so it holds no path.
#[derive(Debug, Clone)]
pub enum Params {
    /// An object.
    Json(Box<Value>),
    /// The parameters of the kinds of which each case has its own. They become JSON when the key is made, and not
    /// before: kept as JSON, they would take most of a plan's memory and time.
    Run(Box<RunParams>),
    Test(Box<TestContext>),
    Judge(Box<JudgeParams>),
    /// The parameters of the kinds of which a plan may have millions: what the spec holds.
    Program(Arc<Program>),
    Files(Arc<Files>),
}

impl Params {
    /// The parameters of a kind whose parameters are JSON.
    pub fn json(&self) -> &Value {
        match self {
            Self::Json(value) => value,
            _ => panic!("BUG: these parameters are no JSON"),
        }
    }

    fn value(&self) -> Cow<'_, Value> {
        match self {
            Self::Run(params) => Cow::Owned(json!(params)),
            Self::Test(context) => Cow::Owned(json!(context)),
            Self::Judge(params) => Cow::Owned(json!(params)),
            Self::Json(_) | Self::Program(_) | Self::Files(_) => Cow::Borrowed(self.json()),
        }
    }

    /// Adds them to a key.
    pub fn describe(&self, key: &mut KeyDoc) {
        match self {
            Self::Json(_) | Self::Run(_) | Self::Test(_) | Self::Judge(_) => {
                key.set_json("param", &self.value())
            }
            Self::Program(program) => {
                key.set("param.argv", JsonList(&program.argv));
                key.set("param.env", JsonList(&program.env));
                key.set("param.outputs", JsonList(&program.outputs));
                // What nobody asks for is in no key.
                if program.network {
                    key.set("param.network", true);
                }
                if !program.lent.is_empty() {
                    key.set("param.lent", JsonList(&program.lent));
                }
                if !program.writable.is_empty() {
                    let named: Vec<_> = program
                        .writable
                        .iter()
                        .map(|(name, _)| name.clone())
                        .collect();
                    key.set("param.writable", JsonList(&named));
                }
            }
            Self::Files(files) => {
                for (path, text) in &files.0 {
                    key.set_parts(&["param.write.", path], Value::from(text.as_str()));
                }
            }
        }
    }

    pub fn parse<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        T::deserialize(&*self.value())
    }
}

/// A list that is shown as [`Value`] would show it, without making one.
struct JsonList<'a>(&'a [Arc<str>]);

impl fmt::Display for JsonList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (index, text) in self.0.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { "," })?;
            match text
                .bytes()
                .any(|byte| byte < b' ' || byte == b'"' || byte == b'\\')
            {
                true => write!(f, "{}", Value::from(&**text))?,
                false => [r#"""#, text, r#"""#]
                    .into_iter()
                    .try_for_each(|part| f.write_str(part))?,
            }
        }
        f.write_str("]")
    }
}

impl From<Value> for Params {
    fn from(value: Value) -> Self {
        Self::Json(Box::new(value))
    }
}

/// What a step reads, by the names under which its kind knows it.
pub type Inputs = Vec<(Arc<str>, Source)>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The output tree of another step.
    Step(StepId),
    /// A file or folder of the user's.
    File(Arc<Path>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    Generate,
    Convert,
    Run,
    /// Holding what ran against the reference.
    Judge,
    Command,
}

words!(pub Stage {
    "generate" => Generate, "convert" => Convert, "run" => Run, "judge" => Judge, "command" => Command,
});

/// What is to be done, with absolute paths filled in.
pub enum Work {
    /// Files whose content is known: their paths in the step's tree, and what is in them.
    Files(Vec<(String, Vec<u8>)>),
    /// Work in this process: quick, and free of native libraries.
    Pure(Box<dyn FnOnce() -> anyhow::Result<()> + Send>),
    /// Work in this process too: a verdict, which a step's tree and its record both hold.
    Judge(Box<dyn FnOnce() -> anyhow::Result<Judgement> + Send>),
    /// Work in a child that speaks the job protocol.
    Worker(WorkerCall),
    /// A user's program in its own working folder.
    Command(CommandCall),
}

#[derive(Default)]
pub struct CommandCall {
    pub argv: Vec<String>,
    /// Files and folders of the user's, to be copied into the working folder under these names.
    pub inputs: BTreeMap<String, PathBuf>,
    /// Trees, to be laid into the working folder under these names.
    pub trees: BTreeMap<String, Vec<StoredFile>>,
    /// Taken from the working folder afterwards.
    pub outputs: Vec<String>,
    pub env: Vec<String>,
    pub access: Access,
}

pub trait StepKind: Sync {
    /// Stable; stands in keys and plans.
    fn name(&self) -> &'static str;
    /// What performs this step.
    fn code(&self, step: &Step) -> &Code;
    /// Packages whose versions can change the output.
    fn tools(&self, _step: &Step) -> Vec<Tool> {
        Vec::new()
    }
    /// What runs on a device is keyed by the host that it is of.
    fn runs_on_device(&self) -> bool {
        false
    }
    /// Whether it executes models on this machine, on which nobody else measures meanwhile.
    fn runs_models(&self) -> bool {
        self.runs_on_device()
    }
    /// Whether it takes times: they age, and need a device for themselves.
    fn is_timed(&self, _step: &Step) -> bool {
        false
    }
    /// Whether it fetches what it needs from elsewhere, which may refuse it today and give it tomorrow.
    fn fetches(&self, _step: &Step) -> bool {
        false
    }
    /// Native artefacts differ by target triple.
    fn is_native(&self) -> bool {
        false
    }
    fn needs(&self, _step: &Step) -> Needs {
        Needs::ONE_CORE
    }
    /// A guess for kinds that work on models. None for those that take little, and for those of which nobody can know.
    fn memory(&self) -> Option<MemoryGuess> {
        None
    }
    /// `memory` of a device's own memory, for kinds that may hold a device.
    fn device_memory(&self) -> Option<MemoryGuess> {
        None
    }
    /// Whether a spec can have such steps, so that `orch run` performs one by its name.
    fn is_in_specs(&self) -> bool {
        true
    }
    /// Whether its work takes trees as files of the store, and not as a folder.
    fn lays_in(&self) -> bool {
        false
    }
    fn requires(&self, _step: &Step) -> Vec<Requirement> {
        Vec::new()
    }
    /// The environment whose Python server does the work, where one does.
    fn server(&self, _step: &Step) -> Option<EnvName> {
        None
    }
    fn lower(&self, step: &Step, places: &Places) -> anyhow::Result<Work>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_shown_as_json_shows_them() {
        for texts in [
            vec![],
            vec!["a"],
            vec!["a b", "\"q\"", "x\\y", "line\nend", "\u{7f}ä"],
        ] {
            let shared: Vec<Arc<str>> = texts.iter().copied().map(Arc::from).collect();
            assert_eq!(
                JsonList(&shared).to_string(),
                serde_json::json!(texts).to_string()
            );
        }
    }

    #[test]
    fn kinds_have_names_of_their_own() {
        let names: std::collections::BTreeSet<_> = KINDS.iter().map(|kind| kind.name()).collect();
        assert_eq!(names.len(), KINDS.len());
    }
}
