//! Models: task, inputs, outputs and tolerances; `source` checks where a model comes from.

use std::collections::BTreeMap;

use indexmap::IndexMap;

use super::inputs::{self, DEFAULT_DIMS};
use super::source::{components, source, span};
use super::{Row, Section, plain_name, repeated, targets, texts, unknown};
use crate::spec::error::Sink;
use crate::spec::raw;
use crate::spec::shape::{At, Field};
use crate::spec::values::Size;
use crate::spec::words::Weights as RawWeights;
use crate::spec::{Dim, Export, Input, Model, Priority, Route};

const DEFAULT_ROUTES: [Route; 3] = [Route::Legacy, Route::Dynamo, Route::Transformers];
/// The pipeline of a ready file that names none, and its task: it needs no row.
pub(super) const TENSORS: &str = "tensors";
/// The family of a ready file that names none.
pub(super) const OTHER: &str = "other";
/// What the families of models made from a class are called. Of a ready file nobody but its owner knows what it is.
pub(super) const FAMILIES: &[&str] = &[
    "encoder-only",
    "decoder-only",
    "encoder-decoder",
    "vision",
    "vision-text",
    "audio",
    "multimodal",
    "diffusion",
    "mixture-of-experts",
    "state-space",
    "time-series",
    "rag",
];
const DEFAULT_OPSET: u32 = 17;
const DEFAULT_CALIBRATION_SETS: u32 = 16;
/// Each lies in memory while a model is calibrated; ranges are stable long before the most.
const CALIBRATION_SETS: std::ops::RangeInclusive<u32> = 1..=4096;
/// Conversions may import whole frameworks and compile; an hour is a hang, except for the largest models.
const DEFAULT_TIMEOUT_SECONDS: u64 = 3600;
/// Opsets that current exporters can write; a given version may support fewer, and says so itself.
const OPSETS: std::ops::RangeInclusive<u32> = 9..=30;

pub(super) fn models(
    section: &Section<'_, raw::Model>,
    pipelines: &Section<'_, raw::Pipeline>,
    general: &targets::Tolerances,
    most: Option<u64>,
    sink: &mut Sink,
) -> IndexMap<String, Model> {
    let mut models = IndexMap::new();
    for row in &section.rows {
        if let Some(model) = model(row, pipelines, general, most, sink) {
            models.insert(row.name.value.clone(), model);
        }
    }
    components(section, sink);
    models
}

fn model(
    row: &Row<'_, raw::Model>,
    pipelines: &Section<'_, raw::Pipeline>,
    general: &targets::Tolerances,
    most: Option<u64>,
    sink: &mut Sink,
) -> Option<Model> {
    let raw = row.value;
    let source = source(row, most, sink);
    let usage = usage(row, pipelines, sink);
    let mut dims = dims(raw, sink);
    let inputs = inputs(row, &mut dims, sink);
    let export = export(raw, sink);
    let generate = generate(raw, &dims, &inputs, sink);
    let tolerances = targets::own_tolerances(&raw.tolerances, general, sink);
    repeated(raw.outputs.items(), |name| format!("output `{name}`"), sink);
    names(raw, sink);
    super::at_least_one(&raw.timeout_seconds, "timeout_seconds", sink);
    let (family, task, pipeline) = usage?;
    Some(Model {
        name: row.name.value.clone(),
        loc: sink.loc(row.name.span),
        source: source?,
        family,
        task,
        pipeline,
        tags: texts(&raw.tags),
        priority: raw.priority.or(Priority::Medium),
        dims,
        inputs,
        outputs: texts(&raw.outputs),
        seed: raw.seed.or(0),
        export,
        tolerances,
        untimed: raw.measure.value().is_some(),
        calibration_sets: calibration_sets(raw, sink),
        memory: raw.memory.value().map(|memory| memory.0),
        timeout_seconds: raw.timeout_seconds.or(DEFAULT_TIMEOUT_SECONDS),
        generate,
        positions: raw.positions.value().map(|positions| positions.0.get()),
    })
}

fn is_ready(raw: &raw::Model) -> bool {
    raw.class.is_absent() && raw.compose.is_absent()
}

fn names(raw: &raw::Model, sink: &mut Sink) {
    let lists = [
        (raw.outputs.items(), "output"),
        (raw.tags.items(), "tag"),
        (raw.external.items(), "external file"),
    ];
    for (names, what) in lists {
        names.iter().for_each(|name| plain_name(name, what, sink));
    }
    for (field, what) in [(&raw.family, "family"), (&raw.task, "task")] {
        field
            .given()
            .into_iter()
            .for_each(|name| plain_name(name, what, sink));
    }
    let inputs = raw
        .inputs
        .value()
        .into_iter()
        .flat_map(|rows| rows.0.iter().map(|(name, _)| (name, "input")));
    let dims = raw
        .dims
        .value()
        .into_iter()
        .flat_map(|rows| rows.0.iter().map(|(name, _)| (name, "dim")));
    inputs
        .chain(dims)
        .for_each(|(name, what)| plain_name(name, what, sink));
}

/// What a model is for: its family, task and pipeline. A ready file has defaults for all three; for others they must be given.
/// None where one was given and is wrong, or is missing and was reported.
fn usage(
    row: &Row<'_, raw::Model>,
    pipelines: &Section<'_, raw::Pipeline>,
    sink: &mut Sink,
) -> Option<(String, String, String)> {
    let raw = row.value;
    let is_ready = is_ready(raw);
    for (key, field) in [
        ("family", &raw.family),
        ("task", &raw.task),
        ("pipeline", &raw.pipeline),
    ] {
        if field.is_absent() && !is_ready {
            sink.error(row.name.span, format!("`{}` lacks `{key}`", row.name.value));
        }
    }
    let or = |field: &Field<String>, usual: &str| match field {
        Field::Absent if is_ready => Some(usual.to_owned()),
        _ => field.cloned(),
    };
    let pipeline = or(&raw.pipeline, TENSORS);
    let own = pipelines
        .rows
        .iter()
        .find(|row| Some(&row.name.value) == pipeline.as_ref());
    let first = own.and_then(|own| texts(&own.value.tasks).into_iter().next());
    let task = or(&raw.task, first.as_deref().unwrap_or(TENSORS));
    agree(raw, pipelines, sink);
    let misnamed = |family: &&At<String>| !is_ready && !FAMILIES.contains(&family.value.as_str());
    if let Some(family) = raw.family.given().filter(misnamed) {
        unknown("family", family, FAMILIES, sink);
    }
    Some((or(&raw.family, OTHER)?, task?, pipeline?))
}

/// The pipeline exists and does the task.
fn agree(raw: &raw::Model, pipelines: &Section<'_, raw::Pipeline>, sink: &mut Sink) {
    let Some(pipeline) = raw.pipeline.given() else {
        return;
    };
    if !pipelines.names.contains(&pipeline.value.as_str()) {
        if pipeline.value != TENSORS {
            unknown("pipeline", pipeline, &pipelines.names, sink);
        }
        return;
    }
    let tasks = |row: &Row<'_, raw::Pipeline>| texts(&row.value.tasks);
    let Some(own) = pipelines
        .rows
        .iter()
        .find(|row| row.name.value == pipeline.value)
    else {
        return;
    };
    let Some(task) = raw.task.given() else { return };
    if own.value.tasks.given().is_none() || tasks(own).contains(&task.value) {
        return;
    }
    let other = pipelines
        .rows
        .iter()
        .find(|row| tasks(row).contains(&task.value));
    match other {
        Some(other) => {
            let message = format!("pipeline `{}` has no task `{}`", pipeline.value, task.value);
            sink.error_hint(
                task.span,
                message,
                format!("pipeline `{}` has it", other.name.value),
            );
        }
        None => {
            let all: Vec<String> = pipelines.rows.iter().flat_map(tasks).collect();
            unknown(
                "task",
                task,
                &all.iter().map(String::as_str).collect::<Vec<_>>(),
                sink,
            );
        }
    }
}

fn dims(raw: &raw::Model, sink: &mut Sink) -> BTreeMap<String, u64> {
    let mut dims = BTreeMap::new();
    for (name, size) in raw.dims.rows().iter() {
        if let Some(size) = size.as_ref().filter(|size| size.value == 0) {
            sink.error(
                size.span,
                format!("dim `{}` must be at least 1", name.value),
            );
        }
        // A size that was reported as wrong still declares its name.
        dims.insert(
            name.value.clone(),
            size.as_ref().map_or(1, |size| size.value),
        );
    }
    dims
}

fn inputs(
    row: &Row<'_, raw::Model>,
    dims: &mut BTreeMap<String, u64>,
    sink: &mut Sink,
) -> IndexMap<String, Input> {
    let raw = row.value;
    let declared = dims.clone();
    let from_file = !raw.inputs_from.is_absent();
    if let (true, Some(given)) = (from_file, span(&raw.inputs)) {
        sink.error_hint(
            given,
            "`inputs_from` replaces `inputs`",
            "keep one of the two",
        );
    }
    let empty = raw.inputs.value().is_some_and(|rows| rows.0.is_empty());
    let is_ready = is_ready(raw);
    if !from_file && (raw.inputs.is_absent() || (empty && !is_ready)) {
        let hint = match is_ready {
            true => "add `inputs` or `inputs_from`; `inputs: {}` for a model that takes none",
            false => "add `inputs`",
        };
        sink.error_hint(
            row.name.span,
            format!("model `{}` has no inputs", row.name.value),
            hint,
        );
    }
    let no_processor = match (raw.class.is_absent(), raw.weights.value()) {
        (true, _) if !is_ready => Some("a model with `compose` has none"),
        (true, _) => Some("a ready file has none"),
        (false, None | Some(RawWeights::Seeded)) => Some("seeded weights have none"),
        _ => None,
    };
    let mut inputs = IndexMap::new();
    for (name, value) in raw.inputs.rows().iter() {
        if let Some(value) = value
            && let Some(input) =
                inputs::input(name, &value.value, dims, row.folder, no_processor, sink)
        {
            inputs.insert(name.value.clone(), input);
        }
    }
    unused_dims(raw, &declared, sink);
    inputs
}

/// A dim that no shape uses is a mistake: usually a shape has a number instead of the name.
fn unused_dims(raw: &raw::Model, declared: &BTreeMap<String, u64>, sink: &mut Sink) {
    let Some(inputs) = raw.inputs.value() else {
        return;
    };
    let sizes = inputs
        .0
        .iter()
        .filter_map(|(_, input)| Some(input.as_ref()?.value.shape.items()))
        .flatten();
    let used: Vec<&str> = sizes
        .filter_map(|size| match &size.value {
            Size::Named(name) => Some(name.as_str()),
            Size::Fixed(_) => None,
        })
        .collect();
    for (name, _) in raw.dims.rows().iter() {
        let usual = DEFAULT_DIMS.iter().any(|(usual, _)| *usual == name.value);
        if !usual && declared.contains_key(&name.value) && !used.contains(&name.value.as_str()) {
            let hint = "use its name in a shape, or remove it";
            sink.error_hint(
                name.span,
                format!("no input's shape uses the dim `{}`", name.value),
                hint,
            );
        }
    }
}

/// It stands where there are recipes that make several sets.
fn calibration_sets(raw: &raw::Model, sink: &mut Sink) -> u32 {
    let Some(sets) = raw.calibration_sets.given() else {
        return DEFAULT_CALIBRATION_SETS;
    };
    if !CALIBRATION_SETS.contains(&sets.value) {
        let least = CALIBRATION_SETS.start();
        let most = CALIBRATION_SETS.end();
        let hint =
            format!("from {least} to {most}; without the field it is {DEFAULT_CALIBRATION_SETS}");
        sink.error_hint(
            sets.span,
            format!("nothing is calibrated on {} sets of inputs", sets.value),
            hint,
        );
    }
    let mut inputs = raw.inputs.rows().iter();
    let has_recipe = |input: &raw::Input| !inputs::is_processed(input);
    if !inputs.any(|(_, input)| input.as_ref().is_none_or(|input| has_recipe(&input.value))) {
        let hint = "take it out: without recipes, calibration takes the inputs that there are";
        sink.error_hint(
            sets.span,
            "no input of this model has a recipe that makes further sets".to_owned(),
            hint,
        );
    }
    sets.value
}

/// The declared token ids must hold what is generated.
fn generate(
    raw: &raw::Model,
    dims: &BTreeMap<String, u64>,
    inputs: &IndexMap<String, Input>,
    sink: &mut Sink,
) -> Option<u32> {
    let given = raw.generate.given()?;
    let ids = ["decoder_input_ids", "input_ids"]
        .into_iter()
        .find_map(|name| Some((name, inputs.get(name)?)));
    let Some((name, Input { shape, .. })) = ids.filter(|(_, input)| input.shape.len() == 2) else {
        // Inputs that are wrong were reported.
        if !inputs.is_empty() {
            let hint = "declare them as rows of token ids, or leave `generate` out";
            sink.error_hint(
                given.span,
                "`generate` needs the input `input_ids` or `decoder_input_ids`",
                hint,
            );
        }
        return None;
    };
    let length = match &shape[1] {
        Dim::Fixed(length) => *length,
        Dim::Named(name) => dims.get(name).copied().unwrap_or(u64::MAX),
    };
    if given.value == 0 || u64::from(given.value) > length {
        let message = format!(
            "`generate: {}` does not fit: `{name}` is {length} long",
            given.value
        );
        sink.error_hint(
            given.span,
            message,
            format!("from 1 to {length} tokens, or longer `{name}`"),
        );
    }
    Some(given.value)
}

fn export(raw: &raw::Model, sink: &mut Sink) -> Export {
    let mut export = Export {
        routes: DEFAULT_ROUTES.to_vec(),
        opset: DEFAULT_OPSET,
        stand_ins: true,
        rewrites: true,
    };
    let Some(given) = raw.export.value() else {
        return export;
    };
    super::not_empty(&given.routes, "routes", sink);
    let routes = given.routes.items();
    repeated(routes, |route| format!("route `{}`", route.word()), sink);
    if !given.routes.is_absent() {
        export.routes = routes.iter().map(|route| route.value).collect();
    }
    if let Some(stand_ins) = given.stand_ins.given() {
        export.stand_ins = stand_ins.value;
    }
    if let Some(rewrites) = given.rewrites.given() {
        export.rewrites = rewrites.value;
    }
    if let Some(opset) = given.opset.given() {
        export.opset = opset.value;
        if !OPSETS.contains(&opset.value) {
            let message = format!("opset {} is none that is known", opset.value);
            sink.error_hint(
                opset.span,
                message,
                format!("from {} to {}", OPSETS.start(), OPSETS.end()),
            );
        }
    }
    export
}

#[cfg(test)]
mod tests {
    use crate::spec::classes;

    /// `python/orch_py/zoo/families.py` gives a type its family.
    #[test]
    fn the_families_of_transformers_are_known() {
        let strange = |(_, family): &(&str, Option<&str>)| {
            family.is_some_and(|own| !super::FAMILIES.contains(&own))
        };
        assert_eq!(classes::types().find(strange), None);
    }
}
