//! `generate:<model>` of a ready file: the file as it is, its inputs, and, where the user has them, its expected outputs.
//!
//! No torch, no Python. The file is changed in two cases: where `outputs` names a part of its outputs, and where the user
//! gives a value for an initializer, which then is an input like any other. Without expected outputs the reference is ONNX Runtime's CPU provider, and is called that.

mod control;
mod reference;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};
use serde_json::{Map, json};

use crate::base::Bug;
use crate::base::fs as bfs;
use crate::runtime::manifest::Manifest;
use crate::runtime::refusal::Refusal;
use crate::runtime::tensors::{self, Tensors};
use crate::runtime::{Job, JobStatus, foreign, ir_file, onnx_change, onnx_external, onnx_file};
use crate::spec::ReadyFormat;
use crate::step::{Code, Places, Step, StepKind, Work, own};

pub use reference::REFERENCE;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ReadyParams {
    pub format: ReadyFormat,
    /// Input names in the order of the recipe: a TorchScript module takes its inputs by position.
    pub inputs: Vec<String>,
    /// Names of the outputs that are compared: of an ONNX file those that it is to give, and for formats that do not tell
    /// their names all that there are.
    pub outputs: Vec<String>,
}

pub struct Ready;
pub static READY: Ready = Ready;

impl StepKind for Ready {
    known_as!("ready": Rust "step/own.rs", "step/ready", "runtime/foreign.rs", "runtime/ir_file.rs", "runtime/manifest.rs",
        "runtime/onnx_change.rs", "runtime/onnx_external.rs", "runtime/onnx_file.rs", "runtime/onnx_proto.rs", "runtime/refusal.rs",
        "runtime/tensors.rs"; Crate "npyz", "prost", "roxmltree", "safetensors", "zip");

    fn lower(&self, step: &Step, _: &Places) -> anyhow::Result<Work> {
        Ok(own::work("ready", step.params.json()))
    }
}

/// Copies the model and writes its tensors; an error names what is wrong with the files.
pub(super) fn bring(job: &Job) -> anyhow::Result<()> {
    let params = ReadyParams::deserialize(&job.params)?;
    let inputs = &job.inputs;
    let file = inputs
        .get("file")
        .context(Bug::new("a ready model has a file"))?;
    match params.format {
        ReadyFormat::Onnx => bring_onnx(file, inputs, &job.out, &params.outputs),
        ReadyFormat::Openvino => bring_openvino(file, inputs, &job.out, params),
        ReadyFormat::Torchscript => bring_torchscript(file, inputs, &job.out, params),
    }
}

/// The user's files, and what a recipe made, by the step's names for them.
type Inputs = BTreeMap<String, PathBuf>;

/// What a model takes and gives.
struct Names {
    inputs: Vec<String>,
    outputs: Vec<String>,
}

/// The files of external data that a model needs: those that its row lists, and those that an ONNX file names itself.
///
/// A file that cannot be read names none here; its step reports why.
pub fn external_names(format: ReadyFormat, file: &Path, listed: &[String]) -> BTreeSet<String> {
    let named = match format {
        ReadyFormat::Onnx => onnx_external::names(file).unwrap_or_default(),
        _ => BTreeSet::new(),
    };
    // What lies outside of the model's folder is refused when it is brought.
    let named = named.into_iter().filter(|name| onnx_file::is_inside(name));
    named.chain(listed.iter().cloned()).collect()
}

/// The name of the input that is a file of external data.
pub fn external(name: &str) -> String {
    format!("external/{name}")
}

fn bring_onnx(file: &Path, inputs: &Inputs, out: &Path, wanted: &[String]) -> anyhow::Result<()> {
    let facts = onnx_file::facts(file)?;
    expressible(file, &facts.inexpressible)?;
    let kept = kept(file, &facts.outputs, wanted)?;
    for name in &facts.external {
        // Taken without a declared input, its content would be in no key.
        let from = inputs.get(&external(name)).with_context(|| {
            format!(
                "`{}` keeps weights in `{name}`, which it did not when the plan was made; run orch again",
                file.display()
            )
        })?;
        // A missing file is an error of the system, which copying gives.
        ensure!(
            !from.exists() || bfs::is_inside(bfs::parent(file), from),
            "`{}`, external data of `{}`, is a link that leads out of the model's folder; put the file itself there",
            from.display(),
            file.display()
        );
        bfs::copy_file(from, &out.join(name)).with_context(|| {
            format!(
                "failed to copy `{}`, external data of `{}`",
                from.display(),
                file.display()
            )
        })?;
    }
    let taken = [facts.inputs.as_slice(), &facts.optional].concat();
    let given = given(inputs, &taken)?;
    takes(&taken, &given)?;
    let overridden: Vec<_> = facts
        .optional
        .into_iter()
        .filter(|name| given.contains_key(name))
        .collect();
    match onnx_change::adapted(file, &overridden, kept)? {
        Some(changed) => {
            bfs::write_new(out.join("model.onnx"), changed).context("failed to write model.onnx")?
        }
        None => bfs::copy_file(file, &out.join("model.onnx"))?,
    }
    let read = |path: &PathBuf| {
        compared(
            path,
            foreign::read(path, "output", &facts.outputs)?,
            &facts.outputs,
            kept,
        )
    };
    let expected = inputs.get("expected").map(read).transpose()?;
    let names = Names {
        inputs: [facts.inputs, overridden].concat(),
        outputs: kept.to_vec(),
    };
    bring_tensors(
        inputs,
        out,
        ReadyFormat::Onnx,
        names,
        &given,
        expected.as_ref(),
    )
}

/// The file may well be right: it is orch that has no such tensors.
fn expressible(file: &Path, inexpressible: &[String]) -> anyhow::Result<()> {
    if inexpressible.is_empty() {
        return Ok(());
    }
    let what = inexpressible.join(", ");
    let why = format!(
        "`{}` cannot be tested here: {what}; inputs and outputs must be tensors of numbers or bools",
        file.display()
    );
    Err(Refusal::because(JobStatus::Unsupported, why))
}

/// The outputs that are compared, of all that the file gives.
fn kept<'n>(file: &Path, all: &'n [String], wanted: &'n [String]) -> anyhow::Result<&'n [String]> {
    if let Some(unknown) = wanted.iter().find(|name| !all.contains(name)) {
        let has = all.join(", ");
        bail!(
            "`outputs` names `{unknown}`, which `{}` does not give; it gives: {has}",
            file.display()
        );
    }
    Ok(if wanted.is_empty() { all } else { wanted })
}

fn bring_openvino(
    file: &Path,
    inputs: &Inputs,
    out: &Path,
    params: ReadyParams,
) -> anyhow::Result<()> {
    let facts = ir_file::facts(file)?;
    expressible(file, &facts.inexpressible)?;
    let weights = file.with_extension("bin");
    bfs::copy_file(file, &out.join("model.xml"))?;
    bfs::copy_file(&weights, &out.join("model.bin")).with_context(|| {
        format!(
            "failed to copy `{}`, the weights of `{}`",
            weights.display(),
            file.display()
        )
    })?;
    let taken = called(&facts.inputs, &params.inputs);
    let given = renamed(given(inputs, &taken)?, &facts.inputs, &taken);
    takes(&taken, &given)?;
    let all = called(&facts.outputs, &params.outputs);
    let (outputs, expected) = if all.len() < facts.outputs.len() {
        unnamed_outputs(inputs, params.outputs)?
    } else {
        let kept = kept(file, &all, &params.outputs)?;
        let path = inputs
            .get("expected")
            .context(Bug::new("checked: an IR comes with what it is to give"))?;
        let read = renamed(foreign::read(path, "output", &all)?, &facts.outputs, &all);
        (kept.to_vec(), Some(compared(path, read, &all, kept)?))
    };
    bring_tensors(
        inputs,
        out,
        ReadyFormat::Openvino,
        Names {
            inputs: taken,
            outputs,
        },
        &given,
        expected.as_ref(),
    )
}

/// What each tensor is called here: as the spec calls it, or by its first name. Those without a name are left out.
fn called(names: &[Vec<String>], spec: &[String]) -> Vec<String> {
    let one = |names: &Vec<String>| {
        names
            .iter()
            .find(|name| spec.contains(name))
            .or(names.first())
            .cloned()
    };
    names.iter().filter_map(one).collect()
}

/// The tensors, each as it is called here, by whichever of its names it came.
fn renamed(tensors: Tensors, names: &[Vec<String>], called: &[String]) -> Tensors {
    let place = |name: &String| names.iter().position(|names| names.contains(name));
    let renamed = |(name, tensor)| {
        (
            place(&name).map_or(name, |place| called[place].clone()),
            tensor,
        )
    };
    tensors.into_iter().map(renamed).collect()
}

fn bring_torchscript(
    file: &Path,
    inputs: &Inputs,
    out: &Path,
    params: ReadyParams,
) -> anyhow::Result<()> {
    bfs::copy_file(file, &out.join("model.pt"))?;
    if params.inputs.is_empty() {
        bail!(
            "a TorchScript module takes its inputs by position, and a file of named tensors has no order; \
             declare them under `inputs` instead of `inputs_from` (`data: […]` gives exact values)"
        );
    }
    let given = given(inputs, &params.inputs)?;
    takes(&params.inputs, &given)?;
    let (outputs, expected) = unnamed_outputs(inputs, params.outputs)?;
    let names = Names {
        inputs: params.inputs,
        outputs,
    };
    bring_tensors(
        inputs,
        out,
        ReadyFormat::Torchscript,
        names,
        &given,
        expected.as_ref(),
    )
}

/// Outputs that the file does not name: all that the spec names or the user expects, and what is expected of them.
fn unnamed_outputs(
    inputs: &Inputs,
    mut outputs: Vec<String>,
) -> anyhow::Result<(Vec<String>, Option<Tensors>)> {
    let Some(path) = inputs.get("expected") else {
        return Ok((outputs, None));
    };
    let read = foreign::read(path, "output", &outputs)?;
    if outputs.is_empty() {
        outputs = read.keys().cloned().collect();
    }
    let expected = compared(path, read, &outputs, &outputs)?;
    Ok((outputs, Some(expected)))
}

/// The tensors that the model gets: from the user's file, or by the recipe. A model may take none.
fn given(inputs: &Inputs, taken: &[String]) -> anyhow::Result<Tensors> {
    match (inputs.get("inputs_from"), inputs.get("inputs")) {
        (Some(path), _) if taken.is_empty() && foreign::is_without(path, "input") => {
            Ok(Tensors::new())
        }
        (Some(path), _) => foreign::read(path, "input", taken),
        (None, Some(tree)) => tensors::read(&tree.join("inputs.safetensors")),
        (None, None) => Ok(Tensors::new()),
    }
}

/// Every tensor is one that the model takes: one that it does not know would be given and change nothing.
fn takes(taken: &[String], given: &Tensors) -> anyhow::Result<()> {
    let unknown: Vec<_> = given
        .keys()
        .filter(|name| !taken.contains(name))
        .map(|name| format!("`{name}`"))
        .collect();
    let takes = if taken.is_empty() {
        "no input".to_owned()
    } else {
        taken.join(", ")
    };
    ensure!(
        unknown.is_empty(),
        "the inputs hold {}, which the model does not take; it takes: {takes}",
        unknown.join(", ")
    );
    Ok(())
}

/// What the user expects of the outputs that are compared; `all` are those of the model, in its order.
fn compared(
    path: &Path,
    mut read: Tensors,
    all: &[String],
    kept: &[String],
) -> anyhow::Result<Tensors> {
    if let Some(unknown) = read.keys().find(|name| !all.contains(name)) {
        let has = all.join(", ");
        bail!(
            "`{}` expects an output `{unknown}`, which the model does not give; it gives: {has}",
            path.display()
        );
    }
    if let Some(missing) = kept.iter().find(|name| !read.contains_key(*name)) {
        let has: Vec<_> = read.keys().map(String::as_str).collect();
        bail!(
            "`{}` says nothing of the output `{missing}`; name those that are compared: `outputs: [{}]`",
            path.display(),
            has.join(", ")
        );
    }
    read.retain(|name, _| kept.contains(name));
    Ok(read)
}

fn bring_tensors(
    inputs: &Inputs,
    out: &Path,
    format: ReadyFormat,
    names: Names,
    given: &Tensors,
    expected: Option<&Tensors>,
) -> anyhow::Result<()> {
    if let Some(missing) = names.inputs.iter().find(|name| !given.contains_key(*name)) {
        let known: Vec<_> = given.keys().map(String::as_str).collect();
        bail!(
            "the model takes an input `{missing}` that nothing gives; given: {}",
            known.join(", ")
        );
    }
    tensors::write(&out.join("inputs.safetensors"), given)?;
    let reference = match expected {
        Some(expected) => {
            tensors::write(&out.join("reference.safetensors"), expected)?;
            "expected outputs given by the user"
        }
        None => "onnxruntime cpu fp32",
    };
    let mut rest = Map::new();
    rest.insert("format".into(), json!(format));
    rest.insert("reference".into(), json!(reference));
    rest.insert("precision".into(), json!("fp32"));
    let recipe = inputs
        .get("inputs")
        .filter(|_| !inputs.contains_key("inputs_from"));
    if let Err(why) = control::bring(recipe.map(PathBuf::as_path), given, out)? {
        rest.insert("no_control".into(), json!(why));
    }
    Manifest {
        inputs: names.inputs,
        outputs: names.outputs,
        rest,
    }
    .write(out)
}

#[cfg(test)]
mod tests;
