//! `compile`: an ONNX artefact becomes a QNN context binary for one chip.
//!
//! Equal inputs give equal bytes: the model is compiled from memory, because the provider writes the path of a model's
//! file into its output. Whatever fails leaves the output folder empty.

use std::path::Path;

use ::ort::logging::LogLevel;
use ::ort::session::Session;
use ::ort::session::builder::SessionBuilder;
use anyhow::{Context, Result, anyhow, bail, ensure};
use serde_json::{Value, json};

use super::Params;
use super::host::{Message, Messages, QNN, exhausts_memory, listening, plain, strict};
use super::place::Bench;
use super::placement::Placement;
use super::refusal::{Verdict, examine};
use super::source::{Prepared, Source, WRONG_OPTIMISERS};
use crate::base::fs as bfs;
use crate::runtime::manifest::Manifest;
use crate::runtime::refusal::Refusal;
use crate::runtime::{Job, JobOutput, JobStatus, tensors};

/// Floating-point graphs run in half precision on the HTP, whatever the ONNX says.
const HALF: &str = "fp16";
/// The artefacts of whole numbers where the file says so, and of half precision between them.
const QUANTISED: &[&str] = &["int8-static", "a16w8"];

/// An ONNX file of one Relu over a 1×4 float tensor.
const RELU: &[u8] =
    b"\x08\x08:>\n\x0f\n\x01x\x12\x01y\x1a\x01r\"\x04Relu\x12\x01gZ\x13\n\x01x\x12\x0e\n\x0c\x08\x01\x12\x08\n\x02\
\x08\x01\n\x02\x08\x04b\x13\n\x01y\x12\x0e\n\x0c\x08\x01\x12\x08\n\x02\x08\x01\n\x02\x08\x04B\x04\n\x00\x10\x11";

pub(super) fn compile(job: &Job, params: &Params) -> Result<JobOutput> {
    let made = make(job, params);
    if made.is_err() {
        // The provider leaves a plain ONNX behind when it fails; nobody may take it for a compiled model.
        clear(&job.out)?;
    }
    made
}

fn make(job: &Job, params: &Params) -> Result<JobOutput> {
    let precision = params.precision.as_deref().unwrap_or(HALF);
    let is_quantised = QUANTISED.contains(&precision);
    if precision != HALF && !is_quantised {
        let known = QUANTISED.join("`, `");
        bail!("QNN compiles at `{HALF}`, `{known}` and not at `{precision}`");
    }
    ensure!(
        params.ep.as_deref().is_none_or(|ep| ep == "qnn"),
        "only `ep: qnn` compiles models"
    );
    let stem = stem(params)?;
    let source = Source::read(job.artefact()?)?;
    let given = source
        .manifest
        .rest
        .get("precision")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if is_quantised && given != precision {
        bail!("the model is quantised by its file: it is `{given}`, not `{precision}`");
    }
    let mut bench = Bench::qnn(params)?;
    if is_quantised {
        whole(&mut bench.place.options);
    }
    let prepared = source.prepare(&bench.host, is_quantised, params.rewrites.unwrap_or(true))?;

    let file = job.out.join(format!("{stem}_ctx.onnx"));
    let (mut builder, messages) = listening(bench.lenient()?, LogLevel::Warning)?;
    builder = writing(strict(builder)?, &file)?
        .with_disabled_optimizers(WRONG_OPTIMISERS)
        .map_err(plain)?;
    let compiled = builder.commit_from_memory(&prepared.bytes);
    misread_option(&messages)?;
    let compiled = match compiled {
        Ok(session) => Placement::of(&session)?,
        Err(error) => {
            let reason = match broken(&messages) {
                Some(broken) => broken,
                None => match examine(bench.lenient()?, QNN, &prepared.bytes)? {
                    Verdict::Refused(reason) => {
                        return Err(Refusal::because(JobStatus::Unsupported, reason));
                    }
                    Verdict::Broken(reason) => reason,
                    Verdict::Unexplained => error.message().to_owned(),
                },
            };
            return Err(failed(&reason, takes_another(&bench)));
        }
    };
    let nodes = || bench.optimised(|builder| builder.commit_from_memory(&prepared.bytes));
    bench.place.assert(&compiled, nodes)?;

    // The file is loaded again, as a run will load it: the session above proves the model, not what was written.
    let session = strict(bench.lenient()?)?
        .commit_from_file(&file)
        .map_err(plain);
    let session = session.context("the compiled model does not load")?;
    bench.place.assert(&Placement::of(&session)?, nodes)?;
    let outputs: Vec<_> = session
        .outputs()
        .iter()
        .map(|output| output.name().to_owned())
        .collect();
    let wanted = &source.manifest.outputs;
    ensure!(
        outputs == *wanted,
        "the compiled model returns {outputs:?}, and the ONNX model {wanted:?}"
    );
    publish(
        job,
        &bench,
        &source,
        &prepared,
        (&file, &session),
        precision,
    )?;
    let mut facts = bench.facts()?;
    facts.insert("placement".to_owned(), json!(compiled.counts()));
    facts.insert("lowering".to_owned(), json!(prepared.rules));
    facts.insert("qnn_sdk".to_owned(), json!(sdk(&session)));
    Ok(JobOutput::ok(Value::Object(facts), None))
}

/// A compiler that fails on a whole model names no node that it refuses, and often says no more than a code. Whether it is
/// the model that it refuses, another one shows.
fn failed(reason: &str, takes_another: Result<()>) -> anyhow::Error {
    if let Err(other) = takes_another {
        return anyhow!("the QNN compiler failed: {reason}; and on a model of one Relu: {other:#}");
    }
    let status = if exhausts_memory(reason) {
        JobStatus::Oom
    } else {
        JobStatus::Unsupported
    };
    Refusal::because(
        status,
        format!("the QNN compiler refuses the model: {reason}"),
    )
}

/// Whether the compiler works here at all.
fn takes_another(bench: &Bench<'_>) -> Result<()> {
    let session = strict(bench.lenient()?)?
        .commit_from_memory(RELU)
        .map_err(plain)?;
    match Placement::of(&session)?.elsewhere(QNN).first() {
        Some(node) => bail!("it leaves `{}`", node.operator),
        None => Ok(()),
    }
}

/// Makes the session write what it compiled, as a small ONNX file beside a binary.
///
/// ONNX Runtime's compile API would do the same without its graph optimisations, and half of the operators that the
/// compiler refuses (an exported GELU's Erf) are gone only after those.
fn writing(builder: SessionBuilder, file: &Path) -> Result<SessionBuilder> {
    let path = file
        .to_str()
        .with_context(|| format!("`{}` is not UTF-8", file.display()))?;
    let entries = [
        ("ep.context_enable", "1"),
        ("ep.context_embed_mode", "0"),
        ("ep.context_file_path", path),
    ];
    entries
        .into_iter()
        .try_fold(builder, |builder, (key, value)| {
            builder.with_config_entry(key, value).map_err(plain)
        })
}

fn stem(params: &Params) -> Result<&str> {
    let stem = params.stem.as_deref().unwrap_or("model");
    let plain = !stem.is_empty()
        && stem
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    // The model's file stores the name of its binary: the stem is part of the bytes, and a path would leave the folder.
    ensure!(
        plain,
        "`stem` is `{stem}`: use letters, digits, `-` and `_`"
    );
    Ok(stem)
}

/// The provider answers an option that it does not understand with a warning and a default of its own.
fn misread_option(messages: &Messages) -> Result<()> {
    let messages = messages
        .lock()
        .map(|messages| messages.clone())
        .unwrap_or_default();
    match messages
        .iter()
        .find(|message| message.place.contains("Parse"))
    {
        Some(message) => bail!("QNN did not understand an option: {}", message.text.trim()),
        None => Ok(()),
    }
}

/// The provider's own error, where it failed as a whole.
fn broken(messages: &Messages) -> Option<String> {
    messages.lock().ok()?.iter().find_map(Message::failure)
}

/// Left to itself, the provider leaves to the CPU what quantises the model's inputs and what gives its outputs back as
/// floating point.
fn whole(options: &mut Vec<(String, String)>) {
    const OFFLOAD: &str = "offload_graph_io_quantization";
    if options.iter().all(|(name, _)| name != OFFLOAD) {
        options.push((OFFLOAD.to_owned(), "0".to_owned()));
        options.sort();
    }
}

/// The SDK that prepared the model, by the model's own word: `v2:6:2.51.0:…`.
fn sdk(session: &Session) -> Option<String> {
    let information = session
        .metadata()
        .ok()?
        .custom("ep_compatibility_info.QNNExecutionProvider")?;
    information.split(':').nth(2).map(str::to_owned)
}

/// Puts beside the compiled model what a run of it needs.
fn publish(
    job: &Job,
    bench: &Bench<'_>,
    source: &Source<'_>,
    prepared: &Prepared,
    (file, session): (&Path, &Session),
    precision: &str,
) -> Result<()> {
    let taken: Vec<_> = session
        .inputs()
        .iter()
        .map(|input| input.name().to_owned())
        .collect();
    // An input that the graph does not use is gone from the compiled model.
    for (file, given) in [
        (tensors::INPUTS, Some(&source.inputs)),
        (tensors::CONTROL_INPUTS, source.control.as_ref()),
    ] {
        let Some(mut inputs) = given.cloned() else {
            continue;
        };
        inputs.retain(|name, _| taken.contains(name));
        tensors::write(&job.out.join(file), &inputs)?;
    }
    let mut rest = json!({
        "format": "qnn",
        "model": file.file_name().unwrap_or_default().to_string_lossy(),
        "precision": precision,
        "options": bench.place.options(),
        "lowering": prepared.rules,
    });
    for carried in ["route", "opset", "scheme"] {
        if let Some(value) = source.manifest.rest.get(carried) {
            rest[carried] = value.clone();
        }
    }
    rest["versions"] = json!({"onnxruntime": bench.host.version, "qnn_sdk": sdk(session)});
    let Value::Object(rest) = rest else {
        unreachable!()
    };
    Manifest {
        inputs: taken,
        outputs: source.manifest.outputs.clone(),
        rest,
    }
    .write(&job.out)
}

fn clear(folder: &Path) -> Result<()> {
    let left = || {
        format!(
            "failed to clear `{}` after a failed compile",
            folder.display()
        )
    };
    for entry in std::fs::read_dir(folder).with_context(left)? {
        let entry = entry.with_context(left)?;
        let path = entry.path();
        let kind = entry.file_type().with_context(left)?;
        if kind.is_dir() {
            bfs::remove_dir(&path)
        } else {
            bfs::remove_file(&path)
        }
        .with_context(left)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_npu_quantises_inputs_unless_the_spec_leaves_that_to_the_cpu() {
        let made = |given: &[(&str, &str)]| {
            let mut options = given
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect();
            whole(&mut options);
            options
                .iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(
            made(&[("soc_model", "60")]),
            "offload_graph_io_quantization=0 soc_model=60"
        );
        assert_eq!(
            made(&[("offload_graph_io_quantization", "1")]),
            "offload_graph_io_quantization=1"
        );
    }

    #[test]
    fn whose_failure_it_is_another_model_shows() {
        let words = "QNN.graphAddNode() failed for node `Mul0` of type `ElementWiseMultiply` with error code 6005";
        let refused = failed(words, Ok(()));
        assert_eq!(Refusal::status_of(&refused), JobStatus::Unsupported);
        assert_eq!(
            refused.to_string(),
            format!("the QNN compiler refuses the model: {words}")
        );
        let broken = failed(
            "QNN SetupBackend failed",
            Err(anyhow!("QNN SetupBackend failed")),
        );
        assert_eq!(Refusal::status_of(&broken), JobStatus::Error);
        assert_eq!(
            broken.to_string(),
            "the QNN compiler failed: QNN SetupBackend failed; and on a model of one Relu: QNN SetupBackend failed"
        );
        assert_eq!(
            Refusal::status_of(&failed("Failed to allocate memory", Ok(()))),
            JobStatus::Oom
        );
    }
}
