//! Targets, tolerances, and how runs are measured.

use std::collections::{BTreeMap, BTreeSet};

use indexmap::IndexMap;

use super::{Row, Section, at_least_one, not_empty, texts};
use crate::catalogue::RUNTIMES;
use crate::spec::error::{Sink, Span};
use crate::spec::measure::Timed;
use crate::spec::raw;
use crate::spec::shape::{self, At, Field, Rows};
use crate::spec::{Half, Measure, Precision, ROUNDS, Target, Timing, Tolerance};

/// So many samples that a round has a 90th percentile (`report/stats.rs`).
pub(super) const DEFAULT_MEASURE: Measure = Measure {
    timing: Timing::Hardware,
    warmup: 3,
    samples: 30,
    rounds: 1,
    remeasure_seconds: 10,
    max_seconds: 10.0,
    timeout_seconds: 600,
};

pub(super) type Tolerances = BTreeMap<Precision, Tolerance>;

/// The general tolerances of all files, over the defaults.
pub(super) fn tolerances<'a>(
    fields: impl Iterator<Item = &'a Field<Rows<raw::Tolerance>>>,
    sink: &mut Sink,
) -> Tolerances {
    let mut first: BTreeMap<Precision, Span> = BTreeMap::new();
    let mut tolerances: Tolerances = Precision::ALL
        .map(|precision| (precision, Tolerance::usual(precision)))
        .into();
    for rows in fields.filter_map(Field::value) {
        for (precision, given, span) in per_precision(rows, sink) {
            if let Some(before) = first.insert(precision, span) {
                let before = sink.loc(before);
                sink.error(
                    span,
                    format!(
                        "the tolerance of `{}` is already given at {before}",
                        precision.word()
                    ),
                );
            }
            let tolerance = tolerance(given, tolerances[&precision], sink);
            tolerances.insert(precision, tolerance);
        }
    }
    tolerances
}

/// The tolerances of one row, each over the general one.
pub(super) fn own_tolerances(
    rows: &Field<Rows<raw::Tolerance>>,
    general: &Tolerances,
    sink: &mut Sink,
) -> Tolerances {
    let given = rows
        .value()
        .map(|rows| per_precision(rows, sink))
        .unwrap_or_default();
    given
        .into_iter()
        .map(|(precision, given, _)| (precision, tolerance(given, general[&precision], sink)))
        .collect()
}

fn per_precision<'a>(
    rows: &'a Rows<raw::Tolerance>,
    sink: &mut Sink,
) -> Vec<(Precision, &'a raw::Tolerance, Span)> {
    let mut found = Vec::new();
    for (name, row) in &rows.0 {
        let precision = shape::word(&name.value, "precision", Precision::WORDS, name.span, sink);
        if let (Some(precision), Some(row)) = (precision, row) {
            found.push((precision, &row.value, name.span));
        }
    }
    found
}

/// What is given over `base`.
pub(super) fn tolerance(given: &raw::Tolerance, base: Tolerance, sink: &mut Sink) -> Tolerance {
    let raw::Tolerance {
        atol,
        rtol,
        budget,
        cosine,
        snr,
        tokens,
    } = given;
    for (key, field) in [("atol", atol), ("rtol", rtol), ("budget", budget)] {
        field.must(
            sink,
            |value| *value >= 0.0,
            |value| format!("`{key}` must not be below 0, found {value}"),
        );
    }
    let a_share =
        |value: &f64| format!("`budget` is a share of the values, at most 1, found {value}");
    budget.must(sink, |value| *value <= 1.0, a_share);
    let between = |value: &f64| format!("`cosine` must be between -1 and 1, found {value}");
    cosine.must(sink, |value| (-1.0..=1.0).contains(value), between);
    let of_places = |value: &f64| {
        format!("`tokens` is a share of equal places, between 0 and 1, found {value}")
    };
    tokens.must(sink, |value| (0.0..=1.0).contains(value), of_places);
    Tolerance {
        atol: atol.or(base.atol),
        rtol: rtol.or(base.rtol),
        budget: budget.or(base.budget),
        cosine: cosine.or(base.cosine),
        snr: snr.or(base.snr),
        tokens: tokens.or(base.tokens),
    }
}

/// What is given for all runs.
pub(super) fn general_measure(given: &Timed, sink: &mut Sink) -> Measure {
    match given {
        Timed::None => Measure {
            timing: Timing::None,
            ..DEFAULT_MEASURE
        },
        Timed::By(given) => measure(given, DEFAULT_MEASURE, sink),
    }
}

/// What a target says over the general.
fn own_measure(given: &Timed, general: Measure, sink: &mut Sink) -> Measure {
    let given = match given {
        Timed::None => {
            return Measure {
                timing: Timing::None,
                ..general
            };
        }
        Timed::By(given) => given,
    };
    // Limits of time alone do not ask for times.
    let asks = given
        .written()
        .iter()
        .any(|(key, _)| !["timeout_seconds", "remeasure_seconds"].contains(key));
    let own = measure(given, general, sink);
    if asks {
        Measure {
            timing: Timing::All,
            ..own
        }
    } else {
        own
    }
}

/// What is given over `base`.
fn measure(given: &raw::Measure, base: Measure, sink: &mut Sink) -> Measure {
    let raw::Measure {
        warmup,
        samples,
        rounds,
        remeasure_seconds,
        max_seconds,
        timeout_seconds,
    } = given;
    let none = |_: &u32| {
        "`samples` must be at least 1: a run without a sample measures nothing".to_owned()
    };
    samples.must(sink, |count| *count > 0, none);
    let least = ROUNDS.start();
    let most = ROUNDS.end();
    let beyond = |count: &u32| format!("`rounds` must be {least} to {most}, found {count}");
    rounds.must(sink, |count| ROUNDS.contains(count), beyond);
    max_seconds.must(
        sink,
        |time| *time > 0.0,
        |time| format!("`max_seconds` must be above 0, found {time}"),
    );
    at_least_one(timeout_seconds, "timeout_seconds", sink);
    Measure {
        timing: base.timing,
        warmup: warmup.or(base.warmup),
        samples: samples.or(base.samples),
        rounds: rounds.or(base.rounds),
        remeasure_seconds: remeasure_seconds.or(base.remeasure_seconds),
        max_seconds: max_seconds.or(base.max_seconds),
        timeout_seconds: timeout_seconds.or(base.timeout_seconds),
    }
}

pub(super) fn targets(
    section: &Section<'_, raw::Target>,
    tolerances: &Tolerances,
    measure: Measure,
    sink: &mut Sink,
) -> IndexMap<String, Target> {
    let mut targets = IndexMap::new();
    for row in &section.rows {
        fallback(row, &section.names, sink);
        names(row.value, sink);
        properties(row.value, sink);
        pair(row.value, sink);
        if let Some(target) = target(row, tolerances, measure, sink) {
            targets.insert(row.name.value.clone(), target);
        }
    }
    targets
}

fn names(raw: &raw::Target, sink: &mut Sink) {
    raw.tags
        .items()
        .iter()
        .for_each(|name| super::plain_name(name, "tag", sink));
    raw.device
        .given()
        .into_iter()
        .for_each(|name| super::plain_name(name, "device", sink));
    let options = raw.options.rows().iter();
    options.for_each(|(name, _)| super::plain_name(name, "option", sink));
}

/// Empty, a property would be required of nobody, and its target run anywhere.
fn properties(raw: &raw::Target, sink: &mut Sink) {
    let asks = |half: &&At<Half>| half.value != Half::Never && !raw.properties.is_absent();
    if let Some(half) = raw.half.given().filter(asks) {
        let hint = "list `precisions` instead: `half` asks the device of this machine, and `properties` names another";
        sink.error_hint(
            half.span,
            "`half` cannot decide for a target with `properties`".to_owned(),
            hint,
        );
    }
    for (name, value) in raw.properties.rows() {
        if name.value.is_empty() {
            sink.error(name.span, "a property needs a name");
        }
        if let Some(at) = value.as_ref().filter(|at| at.value.is_empty()) {
            sink.error(
                at.span,
                format!("the property `{}` needs a value", name.value),
            );
        }
    }
}

/// A target cannot be its own fallback.
fn fallback(row: &Row<'_, raw::Target>, names: &[&str], sink: &mut Sink) {
    let mut before: Vec<&str> = Vec::new();
    for name in row.value.fallback.items() {
        if name.value == row.name.value {
            sink.error(
                name.span,
                format!("`{}` cannot be its own fallback", name.value),
            );
        } else if before.contains(&name.value.as_str()) {
            sink.error(name.span, format!("`{}` is listed twice", name.value));
        } else if !names.contains(&name.value.as_str()) {
            super::unknown("target", name, names, sink);
        }
        before.push(&name.value);
    }
}

/// What a runtime runs on, and loads there.
fn pair(raw: &raw::Target, sink: &mut Sink) {
    let (Some(runtime), Some(backend)) = (raw.runtime.given(), raw.backend.given()) else {
        return;
    };
    let runs = runtime.value.name;
    let Some(pair) = runtime.value.on(backend.value) else {
        let known = listed(runtime.value.pairs.iter().map(|pair| pair.backend.name));
        let message = format!(
            "the runtime `{runs}` has no backend `{}`",
            backend.value.name
        );
        sink.error_hint(backend.span, message, format!("it runs on {known}"));
        return;
    };
    let Some(artefact) = raw.artefact.given() else {
        return;
    };
    if !pair.loads.contains(&artefact.value) {
        let wanted = artefact.value;
        let known = listed(pair.loads.iter().map(|artefact| artefact.name));
        let others = listed(
            RUNTIMES
                .iter()
                .filter(|other| other.loads(wanted))
                .map(|other| other.name),
        );
        let message = format!(
            "the runtime `{runs}` does not load `{}` on `{}`",
            wanted.name, backend.value.name
        );
        sink.error_hint(
            artefact.span,
            message,
            format!("it loads {known}; `{}` is loaded by {others}", wanted.name),
        );
    }
}

fn listed(names: impl Iterator<Item = &'static str>) -> String {
    names
        .map(|name| format!("`{name}`"))
        .collect::<Vec<_>>()
        .join(", ")
}

/// Those that are listed, or those that `half` may come to; empty if neither could be read.
fn precisions(row: &Row<'_, raw::Target>, sink: &mut Sink) -> Vec<Precision> {
    let raw = row.value;
    if raw.precisions.is_absent() && raw.half.is_absent() {
        let hint = "list them, e.g. `precisions: [fp32]`, or let the device decide: `half: auto`";
        sink.error_hint(
            row.name.span,
            format!("`{}` lacks `precisions`", row.name.value),
            hint,
        );
    }
    if let (Some(half), false) = (raw.half.given(), raw.precisions.is_absent()) {
        let hint = "remove one of them: `half` alone decides the precisions";
        sink.error_hint(
            half.span,
            format!("`{}` has both `half` and `precisions`", row.name.value),
            hint,
        );
    }
    not_empty(&raw.precisions, "precisions", sink);
    super::repeated(
        raw.precisions.items(),
        |precision| format!("`{}`", precision.word()),
        sink,
    );
    match raw.half.value() {
        Some(half) if raw.precisions.is_absent() => half.precisions().to_vec(),
        _ => raw
            .precisions
            .items()
            .iter()
            .map(|precision| precision.value)
            .collect(),
    }
}

/// It stands where it changes something.
fn int8_range(raw: &raw::Target, precisions: &[Precision], sink: &mut Sink) {
    let (Some(range), Some(artefact)) = (raw.int8_range.given(), raw.artefact.given()) else {
        return;
    };
    let ranged = artefact.value.ranged;
    if ranged.is_empty()
        || (!precisions.is_empty() && !precisions.iter().any(|asked| ranged.contains(asked)))
    {
        let hint = "take it out, or give the target `artefact: onnx` and `int8` or `int8-static` among its precisions, or \
            `artefact: openvino` and `int8-static`";
        let message = "`int8_range` is of int8 weights that are multiplied as such, which this target does not run";
        sink.error_hint(range.span, message.to_owned(), hint);
    }
}

fn target(
    row: &Row<'_, raw::Target>,
    general: &Tolerances,
    measure: Measure,
    sink: &mut Sink,
) -> Option<Target> {
    let raw = row.value;
    if row.name.value == "auto" {
        let hint = "give it another name: `-t auto` lets orch choose one of the targets";
        sink.error_hint(
            row.name.span,
            "a target cannot be called `auto`".to_owned(),
            hint,
        );
    }
    let precisions = precisions(row, sink);
    let mut tolerances = Tolerances::new();
    for (precision, given, span) in raw
        .tolerances
        .value()
        .map(|rows| per_precision(rows, sink))
        .unwrap_or_default()
    {
        if !precisions.is_empty() && !precisions.contains(&precision) {
            let known: BTreeSet<_> = precisions
                .iter()
                .map(|known| format!("`{}`", known.word()))
                .collect();
            let known = known.into_iter().collect::<Vec<_>>().join(", ");
            let message = format!(
                "`{}` is not among this target's precisions ({known})",
                precision.word()
            );
            sink.error(span, message);
        }
        tolerances.insert(precision, tolerance(given, general[&precision], sink));
    }
    int8_range(raw, &precisions, sink);
    let own_measure = raw
        .measure
        .value()
        .map(|given| own_measure(given, measure, sink));
    let options = raw.options.rows().iter();
    let options = options
        .filter_map(|(name, value)| Some((name.value.clone(), value.as_ref()?.value.0.clone())));
    let properties = raw.properties.rows().iter();
    let properties = properties
        .filter_map(|(name, value)| Some((name.value.clone(), value.as_ref()?.value.clone())));
    let backend = *raw.backend.value()?;
    Some(Target {
        name: row.name.value.clone(),
        row: row.name.value.clone(),
        toolchain: None,
        runtime: raw.runtime.value()?,
        device: raw
            .device
            .cloned()
            .unwrap_or_else(|| backend.name.to_owned()),
        backend,
        artefact: raw.artefact.value()?,
        precisions,
        half: raw.half.cloned(),
        options: options.collect(),
        properties: properties.collect(),
        int8_range: raw.int8_range.cloned().unwrap_or_default(),
        tolerances,
        measure: own_measure,
        tags: texts(&raw.tags),
        retries: raw.retries.cloned(),
        halve_batch: raw.halve_batch.cloned(),
        fallback: raw.fallback.given().map(|_| texts(&raw.fallback)),
    })
}
