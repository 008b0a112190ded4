//! The source of a model: exactly one source, what that needs, and nothing that would have no effect with it.

use indexmap::IndexMap;

use super::{Row, Section, absolute, texts};
use crate::spec::classes;
use crate::spec::error::{Sink, Span};
use crate::spec::raw;
use crate::spec::shape::Field;
use crate::spec::values::Size;
use crate::spec::words::Weights as RawWeights;
use crate::spec::{Hub, ReadyFormat, Source, Weights};

/// Keys that say something about a ready file.
const OF_FILES: &[&str] = &["inputs_from", "expected", "external"];
/// Keys that say something about a class.
const OF_CLASSES: &[&str] = &[
    "weights",
    "hub",
    "path",
    "config",
    "trust_remote_code",
    "unused_weights",
    "missing_weights",
    "max_parameters",
    "export",
    "generate",
    "positions",
];

/// Keys that say something about a model of several.
const OF_COMPOSED: &[&str] = &["components"];
/// Keys of classes that a model of several has too.
const OF_BOTH: &[&str] = &["config"];

/// Exactly one of the five sources, and nothing that belongs to another.
/// `most` is the general `max_parameters`.
pub(super) fn source(
    row: &Row<'_, raw::Model>,
    most: Option<u64>,
    sink: &mut Sink,
) -> Option<Source> {
    let raw = row.value;
    let all = [
        ("class", &raw.class),
        ("onnx", &raw.onnx),
        ("openvino", &raw.openvino),
        ("torchscript", &raw.torchscript),
    ];
    let given: Vec<(&str, &Field<String>)> = all
        .into_iter()
        .filter(|(_, field)| !field.is_absent())
        .collect();
    let (key, field) = match (&given[..], raw.compose.is_absent()) {
        ([], false) => return composed(row, sink),
        ([one], true) => *one,
        ([], true) => {
            let message = format!("model `{}` has no source", row.name.value);
            let hint = "add one of `class`, `onnx`, `openvino`, `torchscript`, `compose`";
            sink.error_hint(row.name.span, message, hint);
            return None;
        }
        _ => {
            let more = Some("compose").filter(|_| !raw.compose.is_absent());
            let keys: Vec<_> = given.iter().map(|(key, _)| *key).chain(more).collect();
            let message = format!(
                "model `{}` has {} sources: `{}`",
                row.name.value,
                keys.len(),
                keys.join("`, `")
            );
            sink.error_hint(
                row.name.span,
                message,
                "keep one; add more models for the others",
            );
            return None;
        }
    };
    let format = match key {
        "class" => return class(row, most, sink),
        "onnx" => ReadyFormat::Onnx,
        "openvino" => ReadyFormat::Openvino,
        _ => ReadyFormat::Torchscript,
    };
    foreign(raw, OF_CLASSES, "a model made from `class`", key, sink);
    foreign(raw, OF_COMPOSED, "a model with `compose`", key, sink);
    if format != ReadyFormat::Onnx {
        foreign(raw, &["external"], "a model from an ONNX file", key, sink);
        if raw.expected.is_absent() {
            let hint = "only the runtime that is tested could compute what the file is to give; add `expected: outputs.npz`";
            sink.error_hint(
                row.name.span,
                format!("model `{}` lacks `expected`", row.name.value),
                hint,
            );
        }
    }
    let path = |field: &Field<String>| field.value().map(|path| absolute(row.folder, path));
    Some(Source::Ready {
        format,
        path: absolute(row.folder, field.value()?),
        external: texts(&raw.external),
        inputs_from: path(&raw.inputs_from),
        expected: path(&raw.expected),
    })
}

/// Whether the components play the parts, `components` says when all models are known.
fn composed(row: &Row<'_, raw::Model>, sink: &mut Sink) -> Option<Source> {
    let raw = row.value;
    foreign(raw, OF_FILES, "a model from a ready file", "compose", sink);
    let of_classes: Vec<_> = OF_CLASSES
        .iter()
        .copied()
        .filter(|key| !OF_BOTH.contains(key))
        .collect();
    foreign(
        raw,
        &of_classes,
        "a model made from `class`",
        "compose",
        sink,
    );
    let how = raw.compose.cloned()?;
    let given = raw.components.rows();
    let named = given
        .iter()
        .filter_map(|(part, model)| Some((part.value.clone(), model.as_ref()?.value.clone())));
    let components: IndexMap<_, _> = named.collect();
    let parts = how.parts();
    for (part, _) in given
        .iter()
        .filter(|(part, _)| !parts.contains(&part.value.as_str()))
    {
        super::unknown("component", part, parts, sink);
    }
    let missing: Vec<_> = parts
        .iter()
        .filter(|part| !components.contains_key(**part))
        .copied()
        .collect();
    if !missing.is_empty() && !raw.components.is_bad() {
        let message = format!(
            "model `{}` lacks the components `{}`",
            row.name.value,
            missing.join("`, `")
        );
        sink.error_hint(
            row.name.span,
            message,
            "name a model for each: `components: {unet: my-unet}`",
        );
    }
    let config = raw
        .config
        .value()
        .map_or_else(|| serde_json::json!({}), |config| config.0.clone());
    Some(Source::Composed {
        how,
        components,
        config,
    })
}

/// Components are models made from `class`, and have sizes of their own.
pub(super) fn components(section: &Section<'_, raw::Model>, sink: &mut Sink) {
    for row in &section.rows {
        for (_, model) in row.value.components.rows() {
            let Some(model) = model else { continue };
            if !section.names.contains(&model.value.as_str()) {
                super::unknown("model", model, &section.names, sink);
            } else if section
                .rows
                .iter()
                .any(|row| row.name.value == model.value && row.value.class.is_absent())
            {
                let message = format!("component `{}` is not made from `class`", model.value);
                sink.error_hint(
                    model.span,
                    message,
                    "orch converts each component from its class",
                );
            }
        }
        let inputs = row.value.inputs.rows();
        let inputs = inputs
            .iter()
            .filter_map(|(_, input)| input.as_ref())
            .filter(|_| !row.value.compose.is_absent());
        for size in inputs.flat_map(|input| input.value.shape.items()) {
            if let Size::Named(name) = &size.value {
                let message = format!("`{name}` cannot be a size of a model with `compose`");
                sink.error_hint(
                    size.span,
                    message,
                    "write the number: its components have sizes of their own",
                );
            }
        }
    }
}

/// The place of a field, if it can be used.
pub(super) fn span<T>(field: &Field<T>) -> Option<Span> {
    field.given().map(|at| at.span)
}

/// Keys that have no effect with this source are refused, and not ignored.
fn foreign(raw: &raw::Model, keys: &[&str], owner: &str, source: &str, sink: &mut Sink) {
    for (key, span) in raw
        .written()
        .into_iter()
        .filter(|(key, _)| keys.contains(key))
    {
        if let Some(span) = span {
            sink.error(
                span,
                format!("`{key}` belongs to {owner}; this one has `{source}`"),
            );
        }
    }
}

fn class(row: &Row<'_, raw::Model>, most: Option<u64>, sink: &mut Sink) -> Option<Source> {
    let raw = row.value;
    foreign(raw, OF_FILES, "a model from a ready file", "class", sink);
    foreign(raw, OF_COMPOSED, "a model with `compose`", "class", sink);
    let class = raw.class.given()?;
    let identifier = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if class.value.is_empty() || !class.value.chars().all(identifier) {
        let message = format!("`{}` is not the name of a Python class", class.value);
        sink.error_hint(
            class.span,
            message,
            "give the class alone, e.g. `BertForMaskedLM`",
        );
    } else if !classes::is_known(&class.value) {
        // Also with code of the checkpoint's own: that is loaded through one of transformers' `Auto` classes.
        let message = format!(
            "transformers {} has no model class `{}`",
            classes::version(),
            class.value
        );
        sink.error_hint(class.span, message, classes::hint(&class.value));
    }
    let hub = hub(raw, sink);
    let weights = match raw.weights.given() {
        None if !raw.weights.is_absent() => return None,
        None => RawWeights::Seeded,
        Some(at) => at.value,
    };
    if weights == RawWeights::Seeded && classes::chooses(&class.value) {
        let message = format!(
            "`{}` chooses a class from a checkpoint, and seeded weights have none",
            class.value
        );
        sink.error_hint(
            class.span,
            message,
            "write the class itself, e.g. `BertForMaskedLM`",
        );
    }
    weights_agree(row, weights, sink);
    super::at_least_one(&raw.max_parameters, "max_parameters", sink);
    Some(Source::Transformers {
        class: class.value.clone(),
        config: raw
            .config
            .value()
            .map_or_else(|| serde_json::json!({}), |config| config.0.clone()),
        weights: match weights {
            RawWeights::Seeded => Weights::Seeded,
            RawWeights::Hub => Weights::Hub,
            RawWeights::Path => Weights::Path(absolute(row.folder, raw.path.value()?)),
        },
        hub,
        trust_remote_code: raw.trust_remote_code.or(false),
        unused_weights: texts(&raw.unused_weights),
        missing_weights: texts(&raw.missing_weights),
        max_parameters: raw.max_parameters.cloned().or(most),
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
                sink.error_hint(
                    hub.span,
                    message,
                    format!("print it: git ls-remote https://huggingface.co/{id} HEAD"),
                );
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
            format!(
                "`path` has an effect with `weights: path` only; here they are `{}`",
                weights.word()
            ),
            "add `weights: path` or remove it",
        );
    }
    if let (true, Some(config)) = (weights != RawWeights::Seeded, span(&raw.config)) {
        let hint = "hub and path weights bring their own config";
        sink.error_hint(
            config,
            "`config` has an effect with seeded weights only",
            hint,
        );
    }
    for (key, names) in [
        ("unused_weights", &raw.unused_weights),
        ("missing_weights", &raw.missing_weights),
    ] {
        if let (true, Some(at)) = (weights == RawWeights::Seeded, span(names)) {
            sink.error_hint(
                at,
                format!("`{key}` has an effect with hub and path weights only"),
                "seeded weights are made for the class; remove it",
            );
        }
    }
    if let Some(trust) = raw
        .trust_remote_code
        .given()
        .filter(|at| at.value && weights == RawWeights::Seeded)
    {
        let hint = "seeded weights run only transformers' own code; remove it";
        sink.error_hint(
            trust.span,
            "`trust_remote_code` has an effect with hub and path weights only",
            hint,
        );
    }
}

fn hub(raw: &raw::Model, sink: &mut Sink) -> Option<Hub> {
    let hub = &raw.hub.given()?.value;
    if let Some(id) = hub.id.given() {
        let part = |part: &str| {
            !part.is_empty()
                && part
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
        };
        if id.value.split('/').count() > 2 || !id.value.split('/').all(part) {
            let message = format!("`{}` is not a Hub id", id.value);
            sink.error_hint(
                id.span,
                message,
                "it looks like `google-bert/bert-base-uncased`",
            );
        }
    }
    if let Some(revision) = hub.revision.given() {
        let hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
        if revision.value.len() != 40 || !revision.value.chars().all(hex) {
            let message = format!(
                "revision `{}` is not a commit: 40 hexadecimal digits, lower case",
                revision.value
            );
            let hint = "a branch or tag can move; print the commit: git ls-remote https://huggingface.co/<id>";
            sink.error_hint(revision.span, message, hint);
        }
    }
    Some(Hub {
        id: hub.id.value()?.clone(),
        revision: hub.revision.cloned(),
    })
}
