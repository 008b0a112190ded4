//! Models: where each comes from, what it takes, what it may not say.

use std::collections::BTreeMap;

use indexmap::IndexMap;

use super::inputs::{self, DEFAULT_DIMS};
use super::{Row, Section, absolute, targets, texts, unknown};
use crate::spec::error::{Sink, Span};
use crate::spec::raw::{self, Weights as RawWeights};
use crate::spec::shape::{At, Field};
use crate::spec::{Export, Hub, Model, Priority, ReadyFormat, Route, Source, Tolerance, Weights};

const DEFAULT_ROUTES: [Route; 3] = [Route::Legacy, Route::Dynamo, Route::Transformers];
const DEFAULT_OPSET: u32 = 17;
/// Opsets that any current exporter can write at all; which of them a given version can, it says itself.
const OPSETS: std::ops::RangeInclusive<u32> = 9..=30;

pub(super) fn models(
    section: &Section<'_, raw::Model>,
    pipelines: &Section<'_, raw::Pipeline>,
    sink: &mut Sink,
) -> IndexMap<String, Model> {
    let mut models = IndexMap::new();
    for row in &section.rows {
        if let Some(model) = model(row, pipelines, sink) {
            models.insert(row.name.value.clone(), model);
        }
    }
    models
}

fn model(row: &Row<'_, raw::Model>, pipelines: &Section<'_, raw::Pipeline>, sink: &mut Sink) -> Option<Model> {
    let raw = row.value;
    let source = source(row, sink);
    usage(raw, pipelines, sink);
    let mut dims = dims(raw, sink);
    let inputs = inputs(row, &mut dims, sink);
    let export = export(raw, sink);
    let tolerance = raw.tolerance.given().and_then(|at| own_tolerance(at, sink));
    if let Some(outputs) = raw.outputs.given() {
        repeated(&outputs.value, "output", sink);
    }
    Some(Model {
        name: row.name.value.clone(),
        loc: sink.loc(row.name.span),
        source: source?,
        family: raw.family.value()?.clone(),
        task: raw.task.value()?.clone(),
        pipeline: raw.pipeline.value()?.clone(),
        tags: texts(&raw.tags),
        priority: raw.priority.value().copied().unwrap_or(Priority::Medium),
        dims,
        inputs,
        outputs: texts(&raw.outputs),
        seed: raw.seed.value().copied().unwrap_or(0),
        export,
        tolerance,
    })
}

fn repeated(names: &[At<String>], what: &str, sink: &mut Sink) {
    for (index, name) in names.iter().enumerate() {
        if names[..index].iter().any(|before| before.value == name.value) {
            sink.error(name.span, format!("{what} `{}` is listed twice", name.value));
        }
    }
}

/// Exactly one of the four sources, and nothing that belongs to another.
fn source(row: &Row<'_, raw::Model>, sink: &mut Sink) -> Option<Source> {
    let raw = row.value;
    let all =
        [("class", &raw.class), ("onnx", &raw.onnx), ("openvino", &raw.openvino), ("torchscript", &raw.torchscript)];
    let given: Vec<(&str, &Field<String>)> = all.into_iter().filter(|(_, field)| !field.is_absent()).collect();
    let (key, field) = match given[..] {
        [one] => one,
        [] => {
            let message = format!("model `{}` has no source", row.name.value);
            sink.error_hint(row.name.span, message, "add one of `class`, `onnx`, `openvino`, `torchscript`");
            return None;
        }
        _ => {
            let keys: Vec<_> = given.iter().map(|(key, _)| *key).collect();
            let message = format!("model `{}` has {} sources: `{}`", row.name.value, keys.len(), keys.join("`, `"));
            sink.error_hint(row.name.span, message, "keep one; make further models for the others");
            return None;
        }
    };
    let format = match key {
        "class" => return class(row, sink),
        "onnx" => ReadyFormat::Onnx,
        "openvino" => ReadyFormat::Openvino,
        _ => ReadyFormat::Torchscript,
    };
    foreign(
        &[
            ("weights", span(&raw.weights)),
            ("hub", span(&raw.hub)),
            ("path", span(&raw.path)),
            ("config", span(&raw.config)),
            ("trust_remote_code", span(&raw.trust_remote_code)),
            ("export", span(&raw.export)),
        ],
        "a model made from `class`",
        key,
        sink,
    );
    let path = |field: &Field<String>| field.value().map(|path| absolute(row.folder, path));
    Some(Source::Ready {
        format,
        path: absolute(row.folder, field.value()?),
        inputs_from: path(&raw.inputs_from),
        expected: path(&raw.expected),
    })
}

fn span<T>(field: &Field<T>) -> Option<Span> {
    field.given().map(|at| at.span)
}

/// Keys that have no effect with this source are refused, and not ignored.
fn foreign(keys: &[(&str, Option<Span>)], owner: &str, source: &str, sink: &mut Sink) {
    for (key, span) in keys {
        if let Some(span) = span {
            sink.error(*span, format!("`{key}` belongs to {owner}; this one has `{source}`"));
        }
    }
}

fn class(row: &Row<'_, raw::Model>, sink: &mut Sink) -> Option<Source> {
    let raw = row.value;
    let ready = [("inputs_from", span(&raw.inputs_from)), ("expected", span(&raw.expected))];
    foreign(&ready, "a model from a ready file", "class", sink);
    let class = raw.class.given()?;
    let identifier = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if class.value.is_empty() || !class.value.chars().all(identifier) {
        let message = format!("`{}` is no name of a Python class", class.value);
        sink.error_hint(class.span, message, "give the class alone, e.g. `BertForMaskedLM`");
    }
    let hub = hub(raw, sink);
    let weights = match raw.weights.given() {
        None if !raw.weights.is_absent() => return None,
        None => RawWeights::Seeded,
        Some(at) => at.value,
    };
    weights_agree(row, weights, sink);
    Some(Source::Transformers {
        class: class.value.clone(),
        config: raw.config.value().map_or_else(|| serde_json::json!({}), |config| config.0.clone()),
        weights: match weights {
            RawWeights::Seeded => Weights::Seeded,
            RawWeights::Hub => Weights::Hub,
            RawWeights::Path => Weights::Path(absolute(row.folder, raw.path.value()?)),
        },
        hub,
        trust_remote_code: raw.trust_remote_code.value().copied().unwrap_or(false),
    })
}

/// What each kind of weights needs and what has no effect with it.
fn weights_agree(row: &Row<'_, raw::Model>, weights: RawWeights, sink: &mut Sink) {
    let raw = row.value;
    let at = span(&raw.weights).unwrap_or(row.name.span);
    if weights == RawWeights::Hub {
        match raw.hub.given() {
            None if raw.hub.is_absent() => {
                let hint = "add `hub: {id: …, revision: <40 hexadecimal digits>}`";
                sink.error_hint(at, "`weights: hub` needs `hub.id` and `hub.revision`", hint);
            }
            Some(hub) if hub.value.revision.is_absent() => {
                let id = hub.value.id.value().map_or("<id>", String::as_str);
                let message = "`weights: hub` needs `hub.revision`: a branch moves, and then the same spec tests \
                               other weights";
                sink.error_hint(hub.span, message, format!("print it: git ls-remote https://huggingface.co/{id} HEAD"));
            }
            _ => {}
        }
    }
    if weights == RawWeights::Path && raw.path.is_absent() {
        let hint = "add `path:`, a folder in `save_pretrained` layout, relative to this file";
        sink.error_hint(at, "`weights: path` needs `path`", hint);
    }
    if let (true, Some(path)) = (weights != RawWeights::Path, span(&raw.path)) {
        sink.error_hint(
            path,
            format!("`path` has an effect with `weights: path` only; here they are `{}`", weights.word()),
            "add `weights: path` or remove it",
        );
    }
    if let (true, Some(config)) = (weights != RawWeights::Seeded, span(&raw.config)) {
        let hint = "hub and path weights bring their own config";
        sink.error_hint(config, "`config` has an effect with seeded weights only", hint);
    }
    if let Some(trust) = raw.trust_remote_code.given().filter(|at| at.value && weights == RawWeights::Seeded) {
        let hint = "seeded weights run no code but that of transformers; remove it";
        sink.error_hint(trust.span, "`trust_remote_code` has an effect with hub and path weights only", hint);
    }
}

fn hub(raw: &raw::Model, sink: &mut Sink) -> Option<Hub> {
    let hub = &raw.hub.given()?.value;
    if let Some(id) = hub.id.given() {
        let part =
            |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
        if id.value.split('/').count() > 2 || !id.value.split('/').all(part) {
            let message = format!("`{}` is no id on the Hub", id.value);
            sink.error_hint(id.span, message, "it looks like `google-bert/bert-base-uncased`");
        }
    }
    if let Some(revision) = hub.revision.given() {
        let hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
        if revision.value.len() != 40 || !revision.value.chars().all(hex) {
            let id = hub.id.value().map_or("<id>", String::as_str);
            let message = format!("revision `{}` is no commit: 40 hexadecimal digits, lower case", revision.value);
            let hint = format!(
                "a branch or tag can move; print the commit: git ls-remote https://huggingface.co/{id} {}",
                revision.value
            );
            sink.error_hint(revision.span, message, hint);
        }
    }
    Some(Hub { id: hub.id.value()?.clone(), revision: hub.revision.value().cloned() })
}

/// The pipeline exists and does the task.
fn usage(raw: &raw::Model, pipelines: &Section<'_, raw::Pipeline>, sink: &mut Sink) {
    if let Some(family) = raw.family.given().filter(|at| at.value.trim().is_empty()) {
        sink.error(family.span, "`family` must not be empty");
    }
    let Some(pipeline) = raw.pipeline.given() else { return };
    if !pipelines.names.contains(&pipeline.value.as_str()) {
        return unknown("pipeline", pipeline, &pipelines.names, sink);
    }
    let tasks = |row: &Row<'_, raw::Pipeline>| texts(&row.value.tasks);
    let Some(own) = pipelines.rows.iter().find(|row| row.name.value == pipeline.value) else { return };
    let Some(task) = raw.task.given() else { return };
    if own.value.tasks.given().is_none() || tasks(own).contains(&task.value) {
        return;
    }
    let other = pipelines.rows.iter().find(|row| tasks(row).contains(&task.value));
    match other {
        Some(other) => {
            let message = format!("pipeline `{}` has no task `{}`", pipeline.value, task.value);
            sink.error_hint(task.span, message, format!("pipeline `{}` has it", other.name.value));
        }
        None => {
            let all: Vec<String> = pipelines.rows.iter().flat_map(tasks).collect();
            unknown("task", task, &all.iter().map(String::as_str).collect::<Vec<_>>(), sink);
        }
    }
}

fn dims(raw: &raw::Model, sink: &mut Sink) -> BTreeMap<String, u64> {
    let mut dims = BTreeMap::new();
    for (name, size) in raw.dims.value().into_iter().flat_map(|rows| &rows.0) {
        if let Some(size) = size.as_ref().filter(|size| size.value == 0) {
            sink.error(size.span, format!("dim `{}` must be at least 1", name.value));
        }
        // A size that was reported as wrong still declares its name.
        dims.insert(name.value.clone(), size.as_ref().map_or(1, |size| size.value));
    }
    dims
}

fn inputs(
    row: &Row<'_, raw::Model>,
    dims: &mut BTreeMap<String, u64>,
    sink: &mut Sink,
) -> IndexMap<String, crate::spec::Input> {
    let raw = row.value;
    let declared = dims.clone();
    let from_file = !raw.inputs_from.is_absent();
    if let (true, Some(given)) = (from_file, span(&raw.inputs)) {
        sink.error_hint(given, "`inputs_from` replaces `inputs`", "keep one of the two");
    }
    let empty = raw.inputs.value().is_some_and(|rows| rows.0.is_empty());
    if !from_file && (raw.inputs.is_absent() || empty) {
        let hint = if raw.class.is_absent() { "add `inputs` or `inputs_from`" } else { "add `inputs`" };
        sink.error_hint(row.name.span, format!("model `{}` has no inputs", row.name.value), hint);
    }
    let no_text = match (raw.class.is_absent(), raw.weights.value()) {
        (true, _) => Some("a ready file has none"),
        (false, None | Some(RawWeights::Seeded)) => Some("seeded weights have none"),
        _ => None,
    };
    let mut inputs = IndexMap::new();
    for (name, value) in raw.inputs.value().into_iter().flat_map(|rows| &rows.0) {
        if let Some(value) = value
            && let Some(input) = inputs::input(name, &value.value, dims, no_text, sink)
        {
            inputs.insert(name.value.clone(), input);
        }
    }
    unused_dims(raw, &declared, sink);
    inputs
}

/// A dim that no shape uses is a slip: most often the shape holds a number where the name was meant.
fn unused_dims(raw: &raw::Model, declared: &BTreeMap<String, u64>, sink: &mut Sink) {
    let Some(inputs) = raw.inputs.value() else { return };
    let sizes = inputs.0.iter().filter_map(|(_, input)| input.as_ref()?.value.shape.value()).flatten();
    let used: Vec<&str> = sizes
        .filter_map(|size| match &size.value {
            raw::Size::Named(name) => Some(name.as_str()),
            raw::Size::Fixed(_) => None,
        })
        .collect();
    for (name, _) in raw.dims.value().into_iter().flat_map(|rows| &rows.0) {
        let usual = DEFAULT_DIMS.iter().any(|(usual, _)| *usual == name.value);
        if !usual && declared.contains_key(&name.value) && !used.contains(&name.value.as_str()) {
            let hint = "use its name in a shape, or remove it";
            sink.error_hint(name.span, format!("no input's shape uses the dim `{}`", name.value), hint);
        }
    }
}

fn export(raw: &raw::Model, sink: &mut Sink) -> Export {
    let given = raw.export.value();
    let routes = given.and_then(|export| export.routes.given());
    if let Some(routes) = routes {
        super::not_empty(&given.expect("BUG: routes without export").routes, "routes", sink);
        for (index, route) in routes.value.iter().enumerate() {
            if routes.value[..index].iter().any(|before| before.value == route.value) {
                sink.error(route.span, format!("route `{}` is listed twice", route.value.word()));
            }
        }
    }
    if let Some(opset) = given.and_then(|export| export.opset.given()).filter(|at| !OPSETS.contains(&at.value)) {
        let message = format!("opset {} is none that is known", opset.value);
        sink.error_hint(opset.span, message, format!("from {} to {}", OPSETS.start(), OPSETS.end()));
    }
    Export {
        routes: match routes {
            Some(routes) => routes.value.iter().map(|route| route.value).collect(),
            None => DEFAULT_ROUTES.to_vec(),
        },
        opset: given.and_then(|export| export.opset.value()).copied().unwrap_or(DEFAULT_OPSET),
    }
}

/// A model's tolerance holds at every precision, so there is no general value that could fill a gap.
fn own_tolerance(at: &At<raw::Tolerance>, sink: &mut Sink) -> Option<Tolerance> {
    let raw = &at.value;
    let missing: Vec<&str> = [("max_abs", &raw.max_abs), ("mae", &raw.mae), ("cosine", &raw.cosine)]
        .into_iter()
        .filter_map(|(key, field)| field.is_absent().then_some(key))
        .collect();
    if !missing.is_empty() {
        sink.error(
            at.span,
            format!("a model's `tolerance` needs all three figures, and lacks `{}`", missing.join("`, `")),
        );
        return None;
    }
    Some(targets::tolerance(raw, Tolerance { max_abs: 0.0, mae: 0.0, cosine: 1.0 }, sink))
}
