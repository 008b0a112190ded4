//! What the user declared, checked: every reference resolves, every name keeps its place in the YAML.
//!
//! Building a [`Spec`] reads the spec files and the locks of their toolchains, and looks whether the pictures and sounds that they name are there. Nothing else:
//! no network, no environment, no device.
//! `yaml.rs` turns text into the shapes of `raw.rs`; `check.rs` turns those into the types here.

mod yaml;
mod error;
mod classes;
mod shape;
mod tolerance;
mod values;
mod words;
mod raw;
mod load;
mod check;
mod commands;
pub mod edit;
mod expect;
mod measure;
pub mod recipe;
pub mod schema;

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::sync::Arc;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use crate::base::words::words;
use crate::base::{Digest, Loc};
use crate::catalogue::{Artefact, Runtime};
use crate::device::BackendRow;
use crate::toolchain::Toolchain;

pub use crate::base::Precision;
pub use crate::catalogue::ReadyFormat;
pub use crate::catalogue::onnx::Int8Range;
pub use crate::runtime::tensors::Element;
pub use classes::{library, types as model_types, version as transformers_version};
pub use commands::{Command, CommandInput, Commands, Does, Files, Program};
pub use error::{SpecError, SpecErrors};
pub use expect::{Expect, ExpectedStage, ExpectedStatus, Fault, FaultCause};
pub use load::is_spec;
pub use measure::Timing;
pub use tolerance::Tolerance;
pub use words::Half;
pub use yaml::typed as yaml_as;

/// YAML as plain data, for readers who do not care for places. None if it is not YAML.
pub fn yaml_data(text: &str) -> Option<serde_json::Value> {
    let (node, errors) = yaml::parse(text);
    node.filter(|_| errors.is_empty())
        .map(|node| node.to_json())
}

/// The checked content of a spec file and all that it includes.
#[derive(Debug, Clone)]
pub struct Spec {
    /// Folder of the root file: relative paths in `onnx:`, `path:`, … resolve against the file that names them.
    pub root: PathBuf,
    /// Every YAML file read, in reading order, with the digest of its bytes.
    pub files: Vec<SourceFile>,
    pub models: IndexMap<String, Model>,
    pub pipelines: IndexMap<String, Pipeline>,
    /// By name: each row once for each of its toolchains.
    pub targets: IndexMap<String, Target>,
    pub toolchains: IndexMap<String, Arc<Toolchain>>,
    /// Tolerance per precision, e.g. `fp32`; a target or a model may override it.
    pub tolerances: BTreeMap<Precision, Tolerance>,
    pub measure: Measure,
    pub matrix: MatrixSpec,
    /// Names of targets, the best first, by family or `any`.
    pub prefer: IndexMap<String, Vec<String>>,
    pub commands: Commands,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SourceFile {
    pub path: PathBuf,
    pub digest: Digest,
}

/// One row of `models:`.
#[derive(Debug, Clone)]
pub struct Model {
    pub name: String,
    pub loc: Loc,
    pub source: Source,
    pub family: String,
    pub task: String,
    pub pipeline: String,
    pub tags: Vec<String>,
    pub priority: Priority,
    /// Named sizes usable in input shapes; `batch` and `seq` are the usual ones.
    pub dims: BTreeMap<String, u64>,
    pub inputs: IndexMap<String, Input>,
    /// Names of the outputs that are compared, in order; empty means all that the model returns.
    pub outputs: Vec<String>,
    pub seed: u64,
    pub export: Export,
    /// The tolerances that replace the general ones and the target's.
    pub tolerances: BTreeMap<Precision, Tolerance>,
    /// Whether its runs are checked only, on every target.
    pub untimed: bool,
    /// How many sets of inputs its quantisation is calibrated on.
    pub calibration_sets: u32,
    /// Bytes that each step on it takes by the user's word.
    pub memory: Option<NonZeroU64>,
    /// How long each step that makes or converts it may take.
    pub timeout_seconds: u64,
    /// How many tokens are generated besides; None: no text.
    pub generate: Option<u32>,
    /// How many positions at the end of a text have scores; None: all.
    pub positions: Option<u32>,
}

impl Target {
    /// The name of its column at one precision, as pages and tests have it: `cpu-fp32`.
    pub fn column(&self, precision: Precision) -> String {
        format!("{}-{}", self.name, precision.word())
    }
}

impl Model {
    /// The names of the models that it is made of, by the parts that they play.
    pub fn components(&self) -> impl Iterator<Item = (&str, &str)> {
        let components = match &self.source {
            Source::Composed { components, .. } => Some(components),
            Source::Transformers { .. } | Source::Ready { .. } => None,
        };
        components
            .into_iter()
            .flatten()
            .map(|(part, model)| (part.as_str(), model.as_str()))
    }

    /// Whether it generates text.
    pub fn generates(&self) -> bool {
        self.generate.is_some()
            || matches!(
                self.source,
                Source::Composed {
                    how: Compose::Rag,
                    ..
                }
            )
    }

    /// Its type in the locked transformers, e.g. `bert`, by its class.
    pub fn model_type(&self) -> Option<&'static str> {
        match &self.source {
            Source::Transformers { class, .. } => classes::model_type(class),
            Source::Composed { .. } | Source::Ready { .. } => None,
        }
    }
}

/// One row of `pipelines:`: a way of using models.
#[derive(Debug, Clone)]
pub struct Pipeline {
    pub tasks: Vec<String>,
    /// `templates/pipelines/<template>.py.j2`.
    pub template: String,
    /// The outputs whose whole numbers are tokens, by task.
    pub tokens: BTreeMap<String, Vec<String>>,
}

impl Spec {
    /// The outputs of a model whose whole numbers are tokens, by its task in a pipeline.
    pub fn tokens(&self, model: &Model, pipeline: &str) -> &[String] {
        self.pipelines[pipeline]
            .tokens
            .get(&model.task)
            .map_or(&[], Vec::as_slice)
    }
}

/// The origin of a model.
#[derive(Debug, Clone)]
pub enum Source {
    /// A transformers class. `config` overrides the class defaults (used by `Weights::Seeded` only).
    Transformers {
        class: String,
        config: serde_json::Value,
        weights: Weights,
        /// Representative Hub id (documentation for seeded weights, the source for hub weights).
        hub: Option<Hub>,
        trust_remote_code: bool,
        /// Globs over weights of the checkpoint that the class is known not to use.
        unused_weights: Vec<String>,
        /// Globs over weights of the class that the checkpoint is known to lack and that no output depends on.
        missing_weights: Vec<String>,
        /// None: what the machine's memory allows.
        max_parameters: Option<u64>,
    },
    /// Several models that a loop calls.
    Composed {
        how: Compose,
        /// Keys of [`Spec::models`] by the parts that they play.
        components: IndexMap<String, String>,
        /// What the loop takes besides.
        config: serde_json::Value,
    },
    /// A ready file: no torch needed. Absolute paths.
    Ready {
        format: ReadyFormat,
        path: PathBuf,
        /// Files in which an ONNX file keeps its weights, relative to its folder.
        external: Vec<String>,
        /// `.npz`, `.safetensors`, or a folder of `input_*.pb`: replaces the recipe.
        inputs_from: Option<PathBuf>,
        /// `.npz`, `.safetensors`, or a folder of `output_*.pb`: the reference. None: ONNX Runtime's CPU provider is.
        expected: Option<PathBuf>,
    },
}

words! {
    /// The loops that call models.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Compose { "rag" => Rag, "ddpm" => Ddpm, "dit" => Dit, "stable-diffusion" => StableDiffusion }
}

impl Compose {
    /// The parts that it takes, one model each.
    pub fn parts(self) -> &'static [&'static str] {
        match self {
            Self::Rag => &["question", "context", "generator"],
            Self::Ddpm => &["unet"],
            Self::Dit => &["transformer", "vae"],
            Self::StableDiffusion => &["text_encoder", "unet", "vae"],
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Weights {
    /// Random, from the model's seed. Offline.
    Seeded,
    /// Weights of the Hub's cache (HF_HOME) or online, at the pinned revision.
    Hub,
    /// Weights of a local folder in `save_pretrained` layout (absolute path).
    Path(PathBuf),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hub {
    pub id: String,
    /// 40-hex commit; required for hub weights.
    pub revision: Option<String>,
}

words! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Priority { "high" => High, "medium" => Medium, "low" => Low }
}

/// Recipe of one input tensor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Input {
    pub dtype: Element,
    /// Sizes: numbers, or names from `dims`, already resolved against the model's defaults on expansion.
    pub shape: Vec<Dim>,
    pub fill: Fill,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dim {
    Fixed(u64),
    Named(String),
}

/// How an input is filled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fill {
    /// Integers, low inclusive, high exclusive.
    Randint(i64, i64),
    /// Mean, standard deviation.
    Normal(f64, f64),
    /// Low inclusive, high exclusive.
    Uniform(f64, f64),
    Value(f64),
    /// 0, 1, 2, … along the last axis.
    Arange,
    /// Flat values in row-major order.
    Data(Vec<f64>),
    /// Tokenized by the model's own tokenizer, padded to the shape; one string per batch row.
    Text(Vec<String>),
    /// Files that the model's own image processor makes a tensor of. Absolute paths.
    Picture(Vec<PathBuf>),
    /// Files that the model's own feature extractor makes a tensor of. Absolute paths.
    Sound(Vec<PathBuf>),
}

impl Fill {
    /// Whether it takes what comes with the model's weights: a tokenizer, an image processor, a feature extractor.
    pub fn is_processed(&self) -> bool {
        matches!(self, Self::Text(_)) || self.files().is_some()
    }

    /// The files that it is made of, and what they are called in a spec.
    pub fn files(&self) -> Option<(&'static str, &[PathBuf])> {
        match self {
            Self::Picture(files) => Some(("picture", files)),
            Self::Sound(files) => Some(("sound", files)),
            _ => None,
        }
    }
}

/// How ONNX is made: the ladder of exporters, first that passes the parity check wins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Export {
    pub routes: Vec<Route>,
    pub opset: u32,
    /// Whether functions of orch's may stand in for torch's while an exporter traces.
    pub stand_ins: bool,
    /// Whether constants are folded and operators written by others, where the result computes the same.
    pub rewrites: bool,
}

words! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Route {
        /// `torch.onnx.export(dynamo=False)`.
        "legacy" => Legacy,
        /// `torch.onnx.export(dynamo=True)`.
        "dynamo" => Dynamo,
        /// `transformers.exporters.OnnxExporter`.
        "transformers" => Transformers,
    }
}

/// One row of `targets:`.
#[derive(Debug, Clone)]
pub struct Target {
    /// The row's name; with a toolchain, `ROW@TOOLCHAIN`. No name of a row holds `@`.
    pub name: String,
    pub row: String,
    /// The locks that it runs with; None means orch's own.
    pub toolchain: Option<Arc<Toolchain>>,
    /// The runtime that runs it.
    pub runtime: &'static Runtime,
    /// The backend whose prober says if it is there.
    pub backend: &'static BackendRow,
    /// The runtime's own name of the device, e.g. `CPU` for OpenVINO.
    pub device: String,
    /// What it loads.
    pub artefact: &'static Artefact,
    /// The precisions that `half` may come to, the best first.
    pub precisions: Vec<Precision>,
    /// Whether a probe of the device decides which of them it is; None where the precisions are listed.
    pub half: Option<Half>,
    /// Options of the runtime, checked against the runtime's own table (e.g. `soc_model: 60`).
    pub options: BTreeMap<String, serde_json::Value>,
    /// What an executor's worker must offer to run it; with any it never runs on this machine.
    pub properties: BTreeMap<String, String>,
    pub int8_range: Int8Range,
    pub tolerances: BTreeMap<Precision, Tolerance>,
    pub measure: Option<Measure>,
    pub tags: Vec<String>,
    /// How often a run is tried again after a transient failure; None leaves it to the command line.
    pub retries: Option<u32>,
    /// Names of targets that are tried in its place; None leaves it to the command line.
    pub fallback: Option<Vec<String>>,
    /// Whether smaller batches are tried when memory does not suffice; None leaves it to the command line.
    pub halve_batch: Option<bool>,
}

/// How many rounds may be requested.
pub const ROUNDS: std::ops::RangeInclusive<u32> = 1..=99;

/// How a run is measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Measure {
    pub timing: Timing,
    pub warmup: u32,
    pub samples: u32,
    /// How many processes measure a case, at least 1.
    pub rounds: u32,
    /// So many seconds of a run may go into measuring again what is not quiet.
    pub remeasure_seconds: u64,
    /// Sampling stops early after this many seconds, with at least one sample.
    pub max_seconds: f64,
    pub timeout_seconds: u64,
}

/// The cases that exist.
#[derive(Debug, Clone, Default)]
pub struct MatrixSpec {
    /// Globs over model names; empty means all.
    pub models: Vec<String>,
    /// Globs over target names; empty means all.
    pub targets: Vec<String>,
    /// Values of `batch` and `seq` that multiply the cases of models with such a dim; without one, the model's own.
    pub axes: IndexMap<String, Vec<u64>>,
    pub exclude: Vec<Rule>,
    /// Cases besides the product of models and targets; they also bring back what `exclude` took out.
    pub include: Vec<Rule>,
    /// The first one that matches a case counts.
    pub expect: Vec<Arc<Expect>>,
}

/// Matches cases: every given field must match (globs).
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    pub loc: Loc,
    pub model: Option<String>,
    pub family: Option<String>,
    pub target: Option<String>,
    pub precision: Option<Precision>,
    /// Why; required for exclusions, shown in the report.
    pub reason: String,
}
