//! The steps that make a model: its inputs, its weights and its reference.

use std::path::Path;

use serde_json::{Value, json};

use super::Builder;
use super::own::Made;
use crate::catalogue::with_tokens;
use crate::matrix::Case;
use crate::plan::sizes::{processed, recipes, resolved_inputs};
use crate::spec::{ReadyFormat, Source as ModelSource, Weights};
use crate::step::{self, Inputs, Source, Stage, StepKind, model_folder, ready};

impl Builder<'_> {
    /// `inputs:` and `generate:` of a model at the case's sizes.
    pub(super) fn model(&mut self, case: &Case) -> Made {
        let model = &self.spec.models[&case.model];
        let instance = case.instance();
        let resolved = resolved_inputs(model, case);
        let recipe = recipes(&resolved);
        let inputs = (!recipe.is_empty()).then(|| {
            let params = json!({"seed": model.seed, "inputs": recipe});
            self.add(
                format!("inputs:{instance}"),
                Stage::Generate,
                &step::INPUTS,
                params,
                vec![],
                600,
            )
        });
        let mut sources: Inputs = inputs
            .map(|id| ("inputs".into(), Source::Step(id)))
            .into_iter()
            .collect();
        let name = format!("generate:{instance}");
        match &model.source {
            ModelSource::Transformers {
                class,
                config,
                weights,
                hub,
                trust_remote_code,
                unused_weights,
                missing_weights,
                max_parameters,
            } => {
                let seed = (*weights == Weights::Seeded).then_some(model.seed);
                let mut weights = match weights {
                    Weights::Seeded => json!({"kind": "seeded"}),
                    Weights::Hub => {
                        let hub = hub
                            .as_ref()
                            .expect("BUG: checked: hub weights have a hub id");
                        json!({"kind": "hub", "id": hub.id, "revision": hub.revision})
                    }
                    Weights::Path(path) => {
                        sources.extend(weights_of(path, *trust_remote_code));
                        json!({"kind": "path"})
                    }
                };
                set_globs(&mut weights, "unused", unused_weights);
                set_globs(&mut weights, "missing", missing_weights);
                let processed = processed(&resolved, &mut sources);
                let mut params = json!({
                    "class": class, "config": config, "weights": weights, "seed": seed,
                    "trust_remote_code": trust_remote_code, "outputs": model.outputs, "inputs": processed, "task": model.task,
                });
                // The default is the machine's: it decides whether there is an output, and never which.
                if let Some(most) = max_parameters {
                    params["max_parameters"] = json!(most);
                }
                if let Some(tokens) = model.generate {
                    params["generate"] = json!(tokens);
                }
                if let Some(positions) = model.positions {
                    params["positions"] = json!(positions);
                }
                let params = with_tokens(params, self.spec.tokens(model, &case.pipeline));
                let kind: &'static dyn StepKind = if seed.is_some() {
                    &step::MATERIALISE
                } else {
                    &step::MATERIALISE_OWN
                };
                let made = self.add(
                    name,
                    Stage::Generate,
                    kind,
                    params,
                    sources,
                    model.timeout_seconds,
                );
                Made {
                    model: made,
                    ready: None,
                }
            }
            ModelSource::Composed { how, config, .. } => self.composed(*how, config, case, sources),
            ModelSource::Ready {
                format,
                path,
                external,
                inputs_from,
                expected,
            } => {
                sources.push(("file".into(), Source::File(path.as_path().into())));
                for (label, path) in [("inputs_from", inputs_from), ("expected", expected)] {
                    let file = path
                        .as_ref()
                        .map(|path| Source::File(path.as_path().into()));
                    sources.extend(file.map(|file| (label.into(), file)));
                }
                let folder = path.parent().unwrap_or(Path::new(""));
                let file = |name: &String| {
                    (
                        ready::external(name).into(),
                        Source::File(folder.join(name).into()),
                    )
                };
                let names = ready::external_names(*format, path, external);
                sources.extend(names.iter().map(file));
                if *format == ReadyFormat::Openvino {
                    sources.push((
                        "weights".into(),
                        Source::File(path.with_extension("bin").into()),
                    ));
                }
                // An ONNX file holds its names and their order itself.
                let names: Vec<_> = match format {
                    ReadyFormat::Onnx => vec![],
                    _ => model.inputs.keys().collect(),
                };
                let params = json!({"format": format, "inputs": names, "outputs": model.outputs});
                let made = self.add(
                    name.clone(),
                    Stage::Generate,
                    &step::READY,
                    params,
                    sources,
                    model.timeout_seconds,
                );
                // A runtime computes what the user does not give, and says which second input the model takes.
                let name = format!("{name}:reference");
                let inputs = vec![("artefact".into(), Source::Step(made))];
                let params = json!({"format": format});
                let reference = self.add(
                    name,
                    Stage::Generate,
                    &step::REFERENCE,
                    params,
                    inputs,
                    model.timeout_seconds,
                );
                Made {
                    model: reference,
                    ready: Some(*format),
                }
            }
        }
    }
}

/// The files of a model's folder; the folder itself where it cannot be listed or has none, which the step then says.
fn weights_of(folder: &Path, has_code: bool) -> Inputs {
    let names = model_folder::files(folder, has_code).unwrap_or_default();
    if names.is_empty() {
        return vec![(model_folder::LABEL.into(), Source::File(folder.into()))];
    }
    let input = |name: &String| {
        let path = folder.join(name);
        (model_folder::label(name).into(), Source::File(path.into()))
    };
    names.iter().map(input).collect()
}

/// Adds globs over names of weights to what a step knows of its weights; none are left out.
fn set_globs(weights: &mut Value, key: &str, globs: &[String]) {
    if !globs.is_empty() {
        weights[key] = json!(globs);
    }
}
