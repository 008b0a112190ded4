//! `judge:<model>:<variant>`: holds what a run gave against the reference. Measures nothing, so another tolerance only
//! judges again.

use std::path::Path;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::base::Bug;
use crate::base::fs as bfs;
use crate::judge::{Evidence, Numerics, Verdict};
use crate::runtime::generation::{self, Decoded};
use crate::runtime::manifest::Manifest;
use crate::spec::{Precision, Tolerance};
use crate::step::{Code, Places, Step, StepKind, Work};

/// The parameters of a verdict, all of them in its key.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct JudgeParams {
    pub tolerance: Tolerance,
    /// The precision whose usual tolerance it is held against.
    pub precision: Precision,
    /// Names of the outputs whose whole numbers are tokens, by the model's task.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tokens: Vec<String>,
}

/// What a verdict comes to, and why it is no pass.
pub struct Judgement {
    pub verdict: Verdict,
    pub numerics: Numerics,
    pub reason: Option<String>,
}

pub struct Judge;
pub static JUDGE: Judge = Judge;

impl StepKind for Judge {
    known_as!("judge": Rust "step/judge.rs", "judge/"; Crate "safetensors", "half");

    fn lower(&self, step: &Step, places: &Places) -> anyhow::Result<Work> {
        let params: JudgeParams = step.params.parse()?;
        let result = places.input("result").to_owned();
        let model = places.input("model").to_owned();
        let out = places.out.clone();
        Ok(Work::Judge(Box::new(move || {
            judge(&params, &result, &model, &out)
        })))
    }
}

fn judge(
    params: &JudgeParams,
    result: &Path,
    model: &Path,
    out: &Path,
) -> anyhow::Result<Judgement> {
    let manifest = Manifest::read(model)?.rest;
    let field = |key: &str| manifest.get(key).and_then(Value::as_str);
    let present = |tree: &Path, name: &str| Some(tree.join(name)).filter(|path| path.is_file());
    let control_outputs = present(result, "control-outputs.safetensors");
    let control_reference = present(model, "control-reference.safetensors");
    let dropped = present(model, "dropped-reference.safetensors");
    let generated = present(result, generation::GENERATED);
    let generation = present(model, generation::REFERENCE);
    let evidence = Evidence {
        outputs: &result.join("outputs.safetensors"),
        reference: &model.join("reference.safetensors"),
        control_outputs: control_outputs.as_deref(),
        control_reference: control_reference.as_deref(),
        dropped: dropped.as_deref().zip(field("dropped")),
        tokens: &params.tokens,
        generation: generation
            .as_deref()
            .map(|reference| (reference, generated.as_deref())),
        decoded: Decoded::read(&result.join(generation::DECODED))?,
    };
    let (verdict, mut numerics, reason) =
        evidence.judge(field("reference").unwrap_or("unnamed"), &params.tolerance)?;
    let usual = Tolerance::usual(params.precision);
    let looser = params.tolerance.looser_than(&usual).into_iter();
    // A bound on tokens lets nothing through where there are none.
    let looser = looser.filter(|bound| *bound != "tokens" || numerics.tokens.is_some());
    numerics.looser = looser.map(str::to_owned).collect();
    match &mut numerics.control {
        Some(control) => {
            let origin = manifest
                .get("control")
                .map(Origin::deserialize)
                .transpose()?
                .unwrap_or_default();
            control.by = origin.by;
            control.kept = origin.kept;
            control.idle = origin.idle;
            control.idle_rows = origin.idle_rows;
        }
        None => {
            let why =
                field("no_control").unwrap_or("the model's tree holds no outputs of another input");
            numerics.no_control = Some(why.to_owned());
        }
    }
    let text = serde_json::to_string_pretty(&numerics).context(Bug::new("figures are JSON"))?;
    bfs::write_new(out.join("verdict.json"), text).context("failed to write the verdict")?;
    Ok(Judgement {
        verdict,
        numerics,
        reason,
    })
}

/// What the manifest says of the control.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Origin {
    by: Option<String>,
    kept: Vec<String>,
    idle: Vec<String>,
    idle_rows: Vec<usize>,
}
