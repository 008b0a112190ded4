//! What the rows of the catalogue are written in: what must be installed, what a step occupies while it executes, what is
//! required of a worker, what it may reach.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;

use crate::toolchain::EnvName;

/// What must be installed before a step can execute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Requirement {
    Env(EnvName),
    /// The `orch-torch` executable.
    TorchWorker,
    /// A Vulkan driver in software, for WebGPU on a machine without a GPU's.
    Swiftshader,
}

/// How much of the machine a step takes for itself, as far as its kind knows; whether that is free is the executor's
/// concern. Memory is not in it: no kind knows it, so it is estimated and learnt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Needs {
    /// So many of the cores that `--jobs` gives, beside whatever else shares the machine.
    Shared { cores: u32 },
    /// A device, and one core for the part of the work that the host does. A timed use has the device to itself; others
    /// share it as far as its memory goes.
    Device {
        /// The backend whose prober knows it, e.g. `cuda`.
        backend: String,
        /// The device as the target names it: `cuda`, `cuda:1`, `GPU.0`.
        device: String,
        timed: bool,
    },
    /// The whole machine: a timed run on the CPU.
    Exclusive,
}

impl Needs {
    pub const ONE_CORE: Self = Self::Shared { cores: 1 };
}

/// A first guess at the memory that a step takes, for as long as nothing was measured: bytes, whatever it reads, and
/// bytes for each byte of the trees that it reads.
#[derive(Debug, Clone, Copy)]
pub struct MemoryGuess {
    pub base: u64,
    pub factor: u64,
}

/// A native library inside an installed wheel.
#[derive(Debug, PartialEq, Eq)]
pub struct Wheel {
    pub env: EnvName,
    /// The wheel that brings it, …
    pub package: &'static str,
    /// … its folder below site-packages, …
    pub folder: &'static str,
    /// … and how the file's name begins.
    pub prefix: &'static str,
}

/// What a worker loads or starts, known by its path once it is installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Library {
    Wheel(&'static Wheel),
    /// Not one library but the folder of SwiftShader and its loader.
    Swiftshader,
    /// The executable that pages are opened with.
    Browser,
    /// The folder of ONNX Runtime Web's bundles.
    OrtWeb,
    /// The folder of npm's packages with Transformers.js.
    TransformersJs,
    /// The program that reaches phones.
    Adb,
    /// The folder of Qualcomm's SDK.
    QnnSdk,
    /// The interpreter of a Python environment, for a worker of another environment.
    Interpreter(EnvName),
}

pub struct WorkerCall {
    pub worker: Worker,
    pub op: &'static str,
    pub params: Value,
    /// Parameters whose values are the paths of libraries, known once their environment is there.
    pub libraries: Vec<(&'static str, Library)>,
    pub access: Access,
}

impl WorkerCall {
    /// A call of a worker that needs no library and reaches nothing but its own folders.
    pub fn of(worker: Worker, op: &'static str, params: &impl Serialize) -> Self {
        Self {
            worker,
            op,
            params: serialised(params),
            libraries: vec![],
            access: Access::default(),
        }
    }
}

/// A worker's parameters as they are sent to it.
pub(super) fn serialised(params: &impl Serialize) -> Value {
    serde_json::to_value(params).expect("BUG: a worker's parameters serialise")
}

/// What a step may reach besides its own folders.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Access {
    pub network: bool,
    /// Folders that it may write to; made if they are not there.
    pub write: Vec<PathBuf>,
    /// Folders of the user's that other programs share, which it may write to as well.
    pub shared: Vec<SharedFolder>,
    /// It works with the user's own home, to read what lies there.
    pub home: bool,
}

/// A folder of the user's that other programs share. Where it is depends on the machine, and is looked up where a worker
/// starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SharedFolder {
    /// The cache of the Hub's client, which keeps what it fetches.
    HubCache,
    /// The folder of adb's keys.
    Android,
    /// The folder for temporary files, where adb's server keeps its log.
    Temporary,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Worker {
    /// `orch worker <runtime>`
    Orch(&'static str),
    /// `orch worker <runtime>`, kept for the run's other jobs with the same parameters: what they share takes longer to start than
    /// a job, and none of them is timed.
    Kept(&'static str),
    /// `orch-torch`
    Torch,
    /// A long-lived server of this environment, forking for the job.
    Python(EnvName),
}

/// One file of a tree, verified.
#[derive(Debug, Clone)]
pub struct StoredFile {
    /// The path in the tree.
    pub path: String,
    pub at: PathBuf,
    /// Read by other steps too, from a folder to which no step may write; laid in as a link.
    pub is_lent: bool,
}

/// The folders of one execution: those of a step's inputs, and that of its output.
#[derive(Default)]
pub struct Places {
    pub inputs: BTreeMap<String, PathBuf>,
    /// Trees that were not laid out, because the step lays them in by itself (`StepKind::lays_in`).
    pub trees: BTreeMap<String, Vec<StoredFile>>,
    /// An empty folder.
    pub out: PathBuf,
    /// A folder for what is not part of the output.
    pub scratch: PathBuf,
}

impl Places {
    pub fn input(&self, name: &str) -> &Path {
        self.inputs
            .get(name)
            .unwrap_or_else(|| panic!("BUG: the step has no input `{name}`"))
    }
}
