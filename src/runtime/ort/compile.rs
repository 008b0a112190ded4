//! `compile`: an ONNX artefact becomes a QNN context binary for one chip.
//!
//! Equal inputs give equal bytes: the model is compiled from memory, because the provider writes the path of a model's
//! file into its output. Whatever fails leaves the output folder empty.

use std::path::Path;

use ::ort::logging::LogLevel;
use ::ort::session::Session;
use ::ort::session::builder::SessionBuilder;
use ::ort::value::ValueType;
use anyhow::{Context, ensure};
use serde_json::{Map, Value, json};

use super::host::{CPU, Host, Messages, QNN, listening, plain, strict};
use super::infer::Feed;
use super::placement::Placement;
use super::refusal::{Verdict, examine};
use super::run::{Place, assert_place};
use super::{Failure, Params, tree};
use crate::runtime::manifest::Manifest;
use crate::runtime::tensors::{self, Tensors};
use crate::runtime::{Job, JobOutput, JobStatus};

/// The only one: floating-point graphs run in half precision on the HTP, whatever the ONNX says.
const PRECISION: &str = "fp16";

pub(super) fn compile(job: &Job, params: &Params) -> Result<JobOutput, Failure> {
    let made = make(job, params);
    if made.is_err() {
        // The provider leaves a plain ONNX behind when it fails; nobody may take it for a compiled model.
        clear(&job.out)?;
    }
    made
}

fn make(job: &Job, params: &Params) -> Result<JobOutput, Failure> {
    let precision = params.precision.as_deref().unwrap_or(PRECISION);
    if precision != PRECISION {
        return Err(Failure::error(format!("QNN compiles at `{PRECISION}` and not at `{precision}`")));
    }
    if params.ep.as_deref().is_some_and(|ep| ep != "qnn") {
        return Err(Failure::error("only `ep: qnn` compiles models"));
    }
    let stem = stem(params)?;
    let source = Source::read(tree(job, "artefact")?)?;
    let (host, place) = Place::qnn(params)?;
    let io = source.inspect(&host)?;

    let file = job.out.join(format!("{stem}_ctx.onnx"));
    let (mut builder, messages) = listening(source.adapt(host.builder(QNN, &place.options)?, &io)?, LogLevel::Warning)?;
    builder = writing(strict(builder)?, &file)?;
    let compiled = builder.commit_from_memory(&source.bytes);
    misread_option(&messages)?;
    let compiled = match compiled {
        Ok(session) => Placement::of(&session)?,
        Err(error) => {
            let builder = source.adapt(host.builder(QNN, &place.options)?, &io)?;
            return Err(match examine(builder, QNN, &source.bytes)? {
                Verdict::Refused(reason) => Failure::new(JobStatus::Unsupported, reason),
                Verdict::Broken(reason) => Failure::error(format!("the QNN compiler failed: {reason}")),
                Verdict::Unexplained => Failure::error(format!("the QNN compiler failed: {}", error.message())),
            });
        }
    };
    assert_place(&compiled, &place)?;

    // The file is loaded again, as a run will load it: the session above proves the model, not what was written.
    let session = strict(host.builder(QNN, &place.options)?)?.commit_from_file(&file).map_err(plain);
    let session = session.context("the compiled model does not load")?;
    assert_place(&Placement::of(&session)?, &place)?;
    let outputs: Vec<_> = session.outputs().iter().map(|output| output.name().to_owned()).collect();
    if outputs != io.outputs {
        let reason = format!("the compiled model returns {outputs:?}, and the ONNX model {:?}", io.outputs);
        return Err(Failure::error(reason));
    }
    let inputs = session.inputs().iter().map(|input| input.name().to_owned()).collect();
    source.publish(&job.out, &file, inputs, &host, &place)?;
    let mut facts = place.facts(&host, params)?;
    facts.insert("placement".to_owned(), json!(compiled.counts()));
    facts.insert("model".to_owned(), json!(metadata(&session)));
    Ok(JobOutput::ok(Value::Object(facts), None))
}

/// Makes the session write what it compiled, as a small ONNX file beside a binary.
///
/// ONNX Runtime's compile API would do the same without its graph optimisations, and half of the operators that the
/// compiler refuses (an exported GELU's Erf) are gone only after those.
fn writing(builder: SessionBuilder, file: &Path) -> anyhow::Result<SessionBuilder> {
    let path = file.to_str().with_context(|| format!("`{}` is not UTF-8", file.display()))?;
    let entries = [("ep.context_enable", "1"), ("ep.context_embed_mode", "0"), ("ep.context_file_path", path)];
    entries.into_iter().try_fold(builder, |builder, (key, value)| builder.with_config_entry(key, value).map_err(plain))
}

fn stem(params: &Params) -> Result<&str, Failure> {
    let stem = params.stem.as_deref().unwrap_or("model");
    let plain = !stem.is_empty() && stem.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    // The model's file stores the name of its binary: the stem is part of the bytes, and a path would leave the folder.
    if plain { Ok(stem) } else { Err(Failure::error(format!("`stem` is `{stem}`: use letters, digits, `-` and `_`"))) }
}

/// The ONNX artefact that is compiled.
struct Source<'j> {
    tree: &'j Path,
    manifest: Manifest,
    bytes: Vec<u8>,
    inputs: Tensors,
}

/// What the model takes and returns by its own names.
struct Io {
    outputs: Vec<String>,
    /// Symbolic sizes with the number that the inputs give them.
    sizes: Vec<(String, i64)>,
}

impl<'j> Source<'j> {
    fn read(tree: &'j Path) -> anyhow::Result<Self> {
        let path = tree.join("model.onnx");
        let bytes = std::fs::read(&path).with_context(|| format!("failed to read `{}`", path.display()))?;
        let inputs = tensors::read(&tree.join("inputs.safetensors"))?;
        Ok(Self { tree, manifest: Manifest::read(tree)?, bytes, inputs })
    }

    /// Opens the model unoptimised on the CPU: bad inputs are told here, in plain words, before any compiler is asked.
    fn inspect(&self, host: &Host) -> anyhow::Result<Io> {
        let builder = self.adapt(host.builder(CPU, &[])?, &Io { outputs: Vec::new(), sizes: Vec::new() })?;
        let level = ort::session::builder::GraphOptimizationLevel::Disable;
        let session = builder.with_optimization_level(level).map_err(plain)?.commit_from_memory(&self.bytes);
        let session = session.map_err(plain).context("failed to load model.onnx")?;
        Feed::new(&session, &self.inputs)?;
        let outputs: Vec<_> = session.outputs().iter().map(|output| output.name().to_owned()).collect();
        ensure!(
            outputs == self.manifest.outputs,
            "model.onnx returns {outputs:?}, and its manifest names {:?}",
            self.manifest.outputs
        );
        Ok(Io { outputs, sizes: sizes(&session, &self.inputs)? })
    }

    /// The compiler takes no open sizes; and a model in memory has no folder in which to look for its external weights.
    fn adapt(&self, mut builder: SessionBuilder, io: &Io) -> anyhow::Result<SessionBuilder> {
        for (name, size) in &io.sizes {
            builder = builder.with_dimension_override(name, *size).map_err(plain)?;
        }
        if self.tree.join("model.onnx.data").is_file() {
            // The folder's name would enter the bytes, so it is always `.`: this process does one job, so it may move.
            std::env::set_current_dir(self.tree).context("failed to enter the model's folder")?;
            let key = "session.model_external_initializers_file_folder_path";
            builder = builder.with_config_entry(key, ".").map_err(plain)?;
        }
        Ok(builder)
    }

    fn publish(&self, out: &Path, file: &Path, inputs: Vec<String>, host: &Host, place: &Place) -> anyhow::Result<()> {
        let taken: Tensors =
            self.inputs.iter().filter(|(name, _)| inputs.contains(name)).map(|(n, t)| (n.clone(), t.clone())).collect();
        tensors::write(&out.join("inputs.safetensors"), &taken)?;
        let mut rest = Map::new();
        rest.insert("format".to_owned(), json!("qnn"));
        rest.insert("model".to_owned(), json!(file.file_name().unwrap_or_default().to_string_lossy()));
        rest.insert("precision".to_owned(), json!(PRECISION));
        let options: Map<_, _> = place.options.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        rest.insert("options".to_owned(), Value::Object(options));
        for carried in ["route", "opset"] {
            if let Some(value) = self.manifest.rest.get(carried) {
                rest.insert(carried.to_owned(), value.clone());
            }
        }
        rest.insert("versions".to_owned(), json!({ "onnxruntime": host.version }));
        Manifest { inputs, outputs: self.manifest.outputs.clone(), rest }.write(out)
    }
}

/// Each symbolic size of the model's inputs with the number that the tensors give it.
fn sizes(session: &Session, inputs: &Tensors) -> anyhow::Result<Vec<(String, i64)>> {
    let mut sizes: Vec<(String, i64)> = Vec::new();
    for input in session.inputs() {
        let ValueType::Tensor { dimension_symbols, .. } = input.dtype() else { continue };
        for (symbol, size) in dimension_symbols.iter().zip(inputs[input.name()].shape()) {
            let size = *size as i64;
            match sizes.iter().find(|(name, _)| name == symbol) {
                _ if symbol.is_empty() => {}
                None => sizes.push((symbol.clone(), size)),
                Some((_, other)) => ensure!(
                    *other == size,
                    "the inputs give the size `{symbol}` two values, {other} and {size} (at `{}`)",
                    input.name()
                ),
            }
        }
    }
    Ok(sizes)
}

/// The provider answers an option that it does not understand with a warning and a default of its own.
fn misread_option(messages: &Messages) -> Result<(), Failure> {
    let messages = messages.lock().map(|messages| messages.clone()).unwrap_or_default();
    match messages.iter().find(|message| message.place.contains("Parse")) {
        Some(message) => Err(Failure::error(format!("QNN did not understand an option: {}", message.text.trim()))),
        None => Ok(()),
    }
}

/// What the compiled model says of itself, e.g. the SDK that made it.
fn metadata(session: &Session) -> Map<String, Value> {
    let Ok(metadata) = session.metadata() else { return Map::new() };
    let keys = metadata.custom_keys().unwrap_or_default();
    keys.into_iter().filter_map(|key| metadata.custom(&key).map(|value| (key, json!(value)))).collect()
}

fn clear(folder: &Path) -> anyhow::Result<()> {
    let left = || format!("failed to clear `{}` after a failed compile", folder.display());
    for entry in std::fs::read_dir(folder).with_context(left)? {
        let path = entry.with_context(left)?.path();
        if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) }.with_context(left)?;
    }
    Ok(())
}
