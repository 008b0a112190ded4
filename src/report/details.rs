//! All of one case, as headings, pairs of words and tables.

use serde::Serialize;
use serde_json::{Value, json};

use super::format::{cosine, error, glyph, kind_of, measured, ms, span, tokens, word};
use super::head;
use super::shape::{Cell, Table};
use super::stats::thinned;
use super::trend;
use super::verdict;
use super::view::{View, case_name, case_versions};
use super::{CaseResult, Machine, Metrics, ReportDoc, Round};
use crate::base::figures::{bytes, counted};
use crate::matrix::HalfChoice;
use crate::record::{Numerics, Outcome};

#[derive(Default, Serialize)]
pub(super) struct Part<'a> {
    pub(super) title: &'static str,
    /// The note beside the title.
    pub(super) note: Option<String>,
    pub(super) label: Option<&'static str>,
    pub(super) samples: Option<Samples>,
    pub(super) table: Option<Table>,
    pub(super) facts: Vec<(&'a str, String)>,
}

/// The samples in the order in which they were taken, ms.
#[derive(Serialize)]
pub(super) struct Samples {
    pub(super) values: Vec<f64>,
    pub(super) median: f64,
    /// What they are of: `samples`, `executions`, `tokens`.
    pub(super) what: &'static str,
    /// How many there were: of many only the extremes of groups are left.
    pub(super) of: usize,
}

impl Samples {
    /// None below three: there is no trend to see.
    pub(super) fn new(samples_ms: &[f64], median: f64, what: &'static str) -> Option<Self> {
        let values = thinned(samples_ms);
        (values.len() >= 3).then_some(Self {
            values,
            median,
            what,
            of: samples_ms.len(),
        })
    }
}

/// What a failed step printed may name paths of its machine: `with_log` says whether it is shown.
pub(super) fn detail(view: &View<'_>, case: &CaseResult, with_log: bool) -> Value {
    let label = view.label(case);
    let numerics = case
        .numerics
        .as_ref()
        .filter(|numerics| !numerics.tensors.is_empty());
    let log = case
        .log
        .as_ref()
        .filter(|_| with_log)
        .map(|log| vec![("printed last", log.clone())]);
    let parts = [
        case.metrics.as_ref().map(|metrics| latency(metrics, label)),
        case.metrics
            .as_ref()
            .and_then(|metrics| Some(metrics.decoding.as_ref()?.part(label))),
        view.trend(case)
            .and_then(trend::part)
            .map(|part| Part { label, ..part }),
        numerics.map(compared),
        log.map(|facts| Part {
            title: "Log",
            facts,
            ..Part::default()
        }),
        Some(run(view.doc, case, label)),
    ];
    let about = [
        case.family.clone(),
        case.task.clone(),
        format!("pipeline {}", case.pipeline),
    ];
    json!({
        "id": case.case,
        "name": case_name(case),
        "kind": kind_of(case),
        "glyph": glyph(case.status),
        "word": word(case.status),
        "stage": case.stage.as_ref().filter(|_| case.status != Outcome::Pass),
        "about": about.into_iter().chain(head::model(case.parameters, case.weights)).collect::<Vec<_>>().join(" · "),
        "reason": case.note().or_else(|| case.reason.clone()),
        "repro": case.repro,
        "parts": parts.into_iter().flatten().collect::<Vec<_>>(),
    })
}

/// What there is something to say of.
pub(super) fn known<'a>(
    pairs: impl IntoIterator<Item = (&'a str, Option<String>)>,
) -> Vec<(&'a str, String)> {
    pairs
        .into_iter()
        .filter_map(|(name, text)| Some((name, text.filter(|text| !text.is_empty())?)))
        .collect()
}

fn latency<'a>(m: &Metrics, label: Option<&'static str>) -> Part<'a> {
    let facts = known([
        ("median", Some(m.latency())),
        ("not quiet", m.why_not_quiet()),
        (
            "medians of the rounds",
            span(m.median_low_ms, m.median_high_ms),
        ),
        (
            "compared with other runs",
            m.statistic.map(|s| {
                let rounds = counted(m.rounds.len().max(1), "round");
                format!("{}, the lowest of {rounds}: {}", ms(s.ms), s.basis.word())
            }),
        ),
        (
            "throughput",
            m.per_second
                .map(|items| format!("{} a second", per_second(items))),
        ),
        (
            "range",
            span(Some(m.min_ms), Some(m.max_ms)).filter(|_| m.samples > 1),
        ),
        ("p90", m.p90_ms.map(ms)),
        ("p95", m.p95_ms.map(ms)),
        ("p99", m.p99_ms.map(ms)),
        ("first", Some(ms(m.first_ms))),
        ("load", Some(ms(m.load_ms))),
        ("peak RSS", m.peak_rss_bytes.map(bytes)),
        (
            "peak of the device's memory",
            m.peak_device_bytes.map(bytes),
        ),
        ("disturbed", Some(m.remarks.join("; "))),
        (
            "samples",
            Some(format!(
                "{} after {} of warm-up; {}",
                counted(m.samples, "sample"),
                m.warmup,
                m.sync
            )),
        ),
    ]);
    let several = m.rounds.len() > 1;
    let table = several.then(|| rounds(m));
    let note = (!several).then(|| "one process: how much processes differ is not known".to_owned());
    let samples = Samples::new(&m.samples_ms, m.median_ms, "samples");
    Part {
        title: "Latency",
        note,
        label,
        samples,
        table,
        facts,
    }
}

/// Each round with what is known of the machine during it.
fn rounds(m: &Metrics) -> Table {
    let row = |round: &Round| {
        let conditions = round.conditions.as_ref();
        let at = round
            .order
            .map(|order| format!("{} of all", order.place + 1));
        vec![
            Cell::with(
                round.round.to_string(),
                at.unwrap_or_else(|| "–".to_owned()),
            ),
            ms(round.load_ms).into(),
            ms(round.first_ms).into(),
            ms(round.median_ms).into(),
            ms(round.min_ms).into(),
            Cell::or_dash(round.cpu_p10_ms.map(ms)),
            Cell::or_dash(round.threads.map(|count| count.to_string())),
            Cell::or_dash(
                round
                    .use_of_cpu
                    .map(|used| used.involuntary_switches.to_string()),
            ),
            Cell::or_dash(conditions.map(|c| c.yardstick_ms.map(ms).join(", "))),
        ]
    };
    let columns = &[
        "round",
        "load",
        "first",
        "median",
        "least",
        "CPU p10",
        "threads",
        "switches",
        "yardstick before, after",
    ];
    Table {
        title: String::new(),
        columns,
        rows: m.rounds.iter().map(row).collect(),
    }
}

/// Three significant digits, and whole numbers above.
pub(super) fn per_second(items: f64) -> String {
    if items < 99.95 {
        format!("{items:.1}")
    } else {
        format!("{items:.0}")
    }
}

fn compared(numerics: &Numerics) -> Part<'_> {
    let tensors = numerics.tensors.iter().map(|(name, t)| {
        let shape = t
            .shape
            .iter()
            .map(u64::to_string)
            .collect::<Vec<_>>()
            .join("×");
        let equal = t.tokens.zip(t.row_tokens);
        let tokens_equal =
            |all: f64, worst: f64| format!("{}, {} in the worst row", tokens(all), tokens(worst));
        vec![
            Cell::with(name, format!("{} {shape}", t.dtype)),
            error(t.max_abs).into(),
            error(t.mae).into(),
            cosine(t.cosine).into(),
            Cell::or_dash(t.row_cosine.map(|rows| cosine(Some(rows.worst)))),
            Cell::or_dash(t.snr_db.map(|snr| format!("{snr:.0} dB"))),
            Cell::or_dash(equal.map(|(all, rows)| tokens_equal(all, rows.worst))),
        ]
    });
    let columns = &[
        "tensor",
        "max abs",
        "mean abs",
        "cosine",
        "worst row",
        "SNR",
        "tokens",
    ];
    let passed = if numerics.passed {
        "✓ within tolerance"
    } else {
        "✗ outside tolerance"
    };
    let note = Some(format!("against {}: {passed}", numerics.reference));
    let table = Some(Table {
        title: String::new(),
        columns,
        rows: tensors.collect(),
    });
    Part {
        title: "Numerics",
        note,
        table,
        facts: verdict::lines(numerics),
        ..Part::default()
    }
}

fn run<'a>(doc: &ReportDoc, case: &'a CaseResult, label: Option<&'static str>) -> Part<'a> {
    let requested = &case.requested_device;
    let device = match (&case.actual_device, label) {
        (Some(actual), Some(label)) => format!("{requested} → {actual}, {label}"),
        (Some(actual), None) => format!("{requested} → {actual}"),
        (None, _) => format!("{requested}: requested; nothing ran"),
    };
    let placement: Vec<_> = case
        .placement
        .iter()
        .map(|(place, count)| format!("{place}: {count}"))
        .collect();
    let versions: Vec<_> = case_versions(case)
        .map(|(name, version)| format!("{name} {version}"))
        .collect();
    let facts = case.facts.iter().filter(|(name, _)| *name != "versions");
    let pairs = [
        ("chosen as", case.chosen.clone()),
        ("precision", case.half.as_ref().map(HalfChoice::summary)),
        ("computed", case.cast_to_fp32().map(str::to_owned)),
        ("weights", case.reduced_range().map(str::to_owned)),
        ("export route", case.other_export_route()),
        ("export helped by", case.export_stand_ins()),
        ("graph rewritten", case.graph_rewrites()),
        ("device", Some(device)),
        ("placement", Some(placement.join(", "))),
        (
            if case.untimed { "checked" } else { "measured" },
            measured(case),
        ),
        (
            "times",
            case.untimed
                .then(|| "none: one inference, judged and not timed".to_owned()),
        ),
        (
            "machine",
            case.cpu
                .as_ref()
                .map(|_| Machine::of(doc, case).description())
                .or_else(|| case.host.clone()),
        ),
        ("versions", Some(versions.join(", "))),
    ];
    let facts = facts.map(|(name, value)| (name.as_str(), Some(fact(value))));
    let facts = known(
        pairs
            .into_iter()
            .chain(facts)
            .chain([("steps", Some(case.steps.join("\n")))]),
    );
    Part {
        title: "Run",
        facts,
        ..Part::default()
    }
}

/// A fact as a person reads it. The versions in it stand in a row of their own; what is not there is left out.
fn fact(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => match number.as_f64().unwrap_or_default() {
            small if small != 0.0 && small.abs() < 1e-3 => format!("{small:.1e}"),
            value => format!("{value:.3}"),
        },
        Value::Array(values) if values.iter().any(Value::is_object) => {
            values.iter().map(fact).collect::<Vec<_>>().join("; ")
        }
        Value::Object(fields) => {
            let fields = fields
                .iter()
                .filter(|(name, value)| *name != "versions" && !value.is_null());
            let facts = fields.map(|(name, value)| {
                match (name.strip_suffix("_bytes").zip(value.as_u64()), fact(value)) {
                    (Some((name, count)), _) => format!("{name} {}", bytes(count)),
                    (None, text) if text.is_empty() => format!("{name} none"),
                    (None, text) if value.is_object() || text.contains("; ") => {
                        format!("{name} ({text})")
                    }
                    (None, text) => format!("{name} {text}"),
                }
            });
            facts.collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_shown_in_words() {
        let facts = json!({
            "versions": {"torch": "2"}, "seconds": {"build": 0.1259, "reference": 0.04}, "threads": 1, "options": {},
            "peak_rss_bytes": 465_387_520, "shape": [1, 16], "half": null, "attempts": [
                {"route": "dynamo", "ok": false, "error": "no"}, {"route": "legacy", "ok": true, "max_abs": 5.2e-7},
            ],
        });
        let expected = "seconds (build 0.126, reference 0.040), threads 1, options none, peak_rss 444 MiB, shape [1,16], \
                    attempts (route dynamo, ok false, error no; route legacy, ok true, max_abs 5.2e-7)";
        assert_eq!(fact(&facts), expected);
        assert_eq!(fact(&json!({"versions": {}})), "");
    }
}
