//! Recipes of input tensors: sizes resolve, exactly one fill, and values that the dtype can hold.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::spec::error::{Sink, Span};
use crate::spec::raw;
use crate::spec::shape::{At, Field, List};
use crate::spec::values::{Scalar, Size};
use crate::spec::{Dim, Element, Fill, Input};

/// Sizes that need no declaration.
pub(super) const DEFAULT_DIMS: [(&str, u64); 2] = [("batch", 1), ("seq", 16)];

/// Beyond this an input is a mistake, not a test.
const MOST_ELEMENTS: u64 = 1 << 32;

/// Checks one input; adds the default dims it uses to `dims`.
pub(super) fn input(
    name: &At<String>,
    raw: &raw::Input,
    dims: &mut BTreeMap<String, u64>,
    folder: &Path,
    no_processor: Option<&str>,
    sink: &mut Sink,
) -> Option<Input> {
    let shape = raw.shape.given().and_then(|at| shape(at, dims, sink));
    let elements = shape.as_ref().and_then(|shape| {
        let span = raw.shape.given()?.span;
        elements(shape, dims, span, sink)
    });
    processed(raw, no_processor, sink);
    let fill = fill(name, raw, folder, sink);
    let dtype = *raw.dtype.value()?;
    let shape = shape?;
    let (fill, span) = fill?;
    let whole = raw.data.value().is_some_and(|list| list.whole);
    if let (Fill::Data(values), Some(elements), true) = (&fill, elements, whole)
        && values.len() as u64 != elements
    {
        let message = format!(
            "`data` has {} values, the shape holds {elements}",
            values.len()
        );
        sink.error(span, message);
    }
    if let Err(message) = fits(&name.value, dtype, &fill, &shape, dims) {
        sink.error(span, message);
    }
    Some(Input { dtype, shape, fill })
}

fn shape(
    sizes: &At<List<Size>>,
    dims: &mut BTreeMap<String, u64>,
    sink: &mut Sink,
) -> Option<Vec<Dim>> {
    let mut dim = |size: &At<Size>| {
        let name = match &size.value {
            Size::Fixed(value) => return Some(Dim::Fixed(*value)),
            Size::Named(name) => name,
        };
        if let Some((_, value)) = DEFAULT_DIMS.iter().find(|(known, _)| known == name) {
            dims.entry(name.clone()).or_insert(*value);
        }
        if dims.contains_key(name) {
            return Some(Dim::Named(name.clone()));
        }
        let known = dims
            .keys()
            .map(String::as_str)
            .chain(DEFAULT_DIMS.iter().map(|(name, _)| *name));
        super::unknown(
            "dim",
            &At {
                value: name.clone(),
                span: size.span,
            },
            &known.collect::<Vec<_>>(),
            sink,
        );
        None
    };
    // Each is looked at, whatever the others are.
    let shape: Vec<_> = sizes.value.items.iter().map(&mut dim).collect();
    shape
        .into_iter()
        .collect::<Option<_>>()
        .filter(|_| sizes.value.whole)
}

fn elements(
    shape: &[Dim],
    dims: &BTreeMap<String, u64>,
    span: Span,
    sink: &mut Sink,
) -> Option<u64> {
    let sizes = shape.iter().map(|dim| match dim {
        Dim::Fixed(size) => *size,
        Dim::Named(name) => dims[name],
    });
    let count = sizes
        .into_iter()
        .try_fold(1u64, u64::checked_mul)
        .filter(|count| *count <= MOST_ELEMENTS);
    if count.is_none() {
        sink.error(
            span,
            format!("this shape holds more than {MOST_ELEMENTS} elements"),
        );
    }
    count
}

/// The one fill that is given, and its place.
fn fill(
    name: &At<String>,
    raw: &raw::Input,
    folder: &Path,
    sink: &mut Sink,
) -> Option<(Fill, Span)> {
    let written = raw.written().into_iter().map(|(key, _)| key);
    let given: Vec<&str> = written
        .filter(|key| !["dtype", "shape"].contains(key))
        .collect();
    for (key, list) in [("picture", &raw.picture), ("sound", &raw.sound)] {
        super::not_empty(list, key, sink);
    }
    match given[..] {
        [_] => {}
        [] => {
            let hint = "add one of `randint`, `normal`, `uniform`, `value`, `arange`, `data`, `text`, `picture`, `sound`";
            sink.error_hint(
                name.span,
                format!("input `{}` has no fill", name.value),
                hint,
            );
            return None;
        }
        _ => {
            let message = format!(
                "input `{}` has {} fills: `{}`",
                name.value,
                given.len(),
                given.join("`, `")
            );
            sink.error_hint(name.span, message, "keep one");
            return None;
        }
    }
    if let Some(arange) = raw.arange.given().filter(|at| !at.value) {
        sink.error_hint(
            arange.span,
            "`arange` can only be `true`",
            "remove it to choose another fill",
        );
    }
    let numbers =
        |values: &List<Scalar>| Fill::Data(values.items.iter().map(|at| at.value.0).collect());
    let strings = |values: &List<String>| {
        Fill::Text(values.items.iter().map(|at| at.value.clone()).collect())
    };
    one(&raw.randint, |pair| Fill::Randint(pair.0, pair.1))
        .or(one(&raw.normal, |pair| Fill::Normal(pair.0, pair.1)))
        .or(one(&raw.uniform, |pair| Fill::Uniform(pair.0, pair.1)))
        .or(one(&raw.value, |value| Fill::Value(value.0)))
        .or(one(&raw.arange, |_| Fill::Arange))
        .or(one(&raw.data, numbers))
        .or(one(&raw.text, strings))
        .or(one(&raw.picture, |list| {
            Fill::Picture(files(list, &PICTURES, folder, sink))
        }))
        .or(one(&raw.sound, |list| {
            Fill::Sound(files(list, &SOUNDS, folder, sink))
        }))
}

/// The fills that take what comes with the weights: what that is, and by what else such an input can be filled.
fn of_processors(
    raw: &raw::Input,
) -> [(
    &'static str,
    &Field<List<String>>,
    &'static str,
    &'static str,
); 3] {
    [
        ("text", &raw.text, "tokenizer", "use `randint` or `data`"),
        (
            "picture",
            &raw.picture,
            "image processor",
            "use `normal` or `data`",
        ),
        (
            "sound",
            &raw.sound,
            "feature extractor",
            "use `normal` or `data`",
        ),
    ]
}

pub(super) fn is_processed(raw: &raw::Input) -> bool {
    of_processors(raw)
        .iter()
        .any(|(_, field, ..)| !field.is_absent())
}

fn processed(raw: &raw::Input, no_processor: Option<&str>, sink: &mut Sink) {
    for (key, field, processor, hint) in of_processors(raw) {
        if let (Some(given), Some(why)) = (field.given(), no_processor) {
            sink.error_hint(
                given.span,
                format!("`{key}` needs the model's {processor}: {why}"),
                hint,
            );
        }
    }
}

/// What files of a kind are called, and how they are named.
struct Files {
    what: &'static str,
    endings: &'static [&'static str],
    named: &'static str,
}

const PICTURES: Files = Files {
    what: "picture",
    endings: &["png", "jpg", "jpeg"],
    named: "orch reads files named `*.png`, `*.jpg` or `*.jpeg`",
};
const SOUNDS: Files = Files {
    what: "sound",
    endings: &["wav"],
    named: "orch reads files named `*.wav`, of 16-bit PCM: `ffmpeg -i FILE -c:a pcm_s16le sound.wav`",
};

/// A file that is not there is reported now: the run would find it out when all is installed and other steps have run.
fn files(list: &List<String>, kind: &Files, folder: &Path, sink: &mut Sink) -> Vec<PathBuf> {
    let mut file = |at: &At<String>| {
        let path = super::absolute(folder, &at.value);
        let ending = path.extension().unwrap_or_default();
        if !kind
            .endings
            .iter()
            .any(|known| ending.eq_ignore_ascii_case(known))
        {
            sink.error_hint(
                at.span,
                format!("`{}` is not named as a {}", at.value, kind.what),
                kind.named,
            );
        } else if !path.is_file() {
            let hint = "paths start from the folder of the spec file that names them";
            sink.error_hint(at.span, format!("there is no file `{}`", at.value), hint);
            sink.absent.push(path.clone());
        }
        path
    };
    list.items.iter().map(&mut file).collect()
}

fn one<T>(field: &Field<T>, make: impl FnOnce(&T) -> Fill) -> Option<(Fill, Span)> {
    field.given().map(|at| (make(&at.value), at.span))
}

/// Inputs of fractions: of others, such as masks, the processor itself tells.
const FRACTIONS: &[&str] = &["pixel_values", "input_values", "input_features"];

/// Whether the fill makes values that the dtype can hold.
fn fits(
    name: &str,
    dtype: Element,
    fill: &Fill,
    shape: &[Dim],
    dims: &BTreeMap<String, u64>,
) -> Result<(), String> {
    let word = dtype.word();
    let range = dtype.range();
    match fill {
        Fill::Randint(low, high) if low >= high => Err(format!(
            "`randint` needs low < high (high is exclusive), found [{low}, {high}]"
        )),
        Fill::Randint(low, high) => match range {
            Some((least, most)) if i128::from(*low) < least || i128::from(*high) - 1 > most => {
                Err(format!(
                    "`randint: [{low}, {high}]` makes values that {word} cannot hold ({least} to {most})"
                ))
            }
            Some(_) => Ok(()),
            None => holds(dtype, *low as f64).and(holds(dtype, *high as f64)),
        },
        Fill::Normal(..) | Fill::Uniform(..) if range.is_some() => Err(format!(
            "{word} cannot hold random fractions; use `randint`"
        )),
        Fill::Normal(_, deviation) if *deviation < 0.0 => Err(format!(
            "the standard deviation must not be below 0, found {deviation}"
        )),
        Fill::Uniform(low, high) if low >= high => {
            Err(format!("`uniform` needs low < high, found [{low}, {high}]"))
        }
        Fill::Uniform(low, high) => holds(dtype, *low).and(holds(dtype, *high)),
        Fill::Value(value) => holds(dtype, *value),
        Fill::Data(values) => values.iter().try_for_each(|value| holds(dtype, *value)),
        Fill::Arange => match shape.last() {
            Some(Dim::Fixed(size)) => holds(dtype, size.saturating_sub(1) as f64),
            Some(Dim::Named(name)) => holds(dtype, dims[name].saturating_sub(1) as f64),
            None => Err("`arange` needs a last axis, and the shape is empty".to_owned()),
        },
        Fill::Text(rows) if !matches!(dtype, Element::Int64 | Element::Int32) => Err(format!(
            "`text` makes token ids, and {word} cannot hold them; use int64 ({} rows)",
            rows.len()
        )),
        Fill::Picture(_) | Fill::Sound(_) if dtype == Element::Bfloat16 => {
            Err("a processor makes no bfloat16; use float32".to_owned())
        }
        Fill::Picture(_) | Fill::Sound(_) if range.is_some() && FRACTIONS.contains(&name) => Err(
            format!("`{name}` has fractions, and {word} cannot hold them; use float32"),
        ),
        _ => Ok(()),
    }
}

fn holds(dtype: Element, value: f64) -> Result<(), String> {
    let word = dtype.word();
    match dtype.range() {
        Some(_) if value.fract() != 0.0 => Err(format!("{word} cannot hold the fraction {value}")),
        Some((least, most)) if value < least as f64 || value > most as f64 => Err(format!(
            "{word} cannot hold {value} (only {least} to {most})"
        )),
        None if value.abs() > dtype.largest() => Err(format!(
            "{word} cannot hold {value} (at most {})",
            dtype.largest()
        )),
        _ => Ok(()),
    }
}
