//! `index.html`: one page that needs nothing else, from `templates/report.html.j2`.
//!
//! Everything is in the markup, so the page works without scripts; the script adds filters, a panel and a copy button.
//! The document itself is embedded as JSON, so the page is also the data; where that would be megabytes, the page refers
//! to the file beside it.

mod page;

use serde_json::Value;

use page::*;

use super::cause::Cause;
use super::chart::{charts, sparkline};
use super::format::{cosine, day, error, glyph, has_figure, ms, one_line, remark, seconds, tokens, word};
use super::place::{self, Place};
use super::view::{Cell, View, case_name, case_versions};
use super::{CaseResult, Metrics, ReportDoc};
use crate::base::figures::{bytes, counted};
use crate::device::DeviceKind;
use crate::matrix::HalfChoice;
use crate::record::{Numerics, Outcome};
use crate::template::{self, TemplateError};

/// A matrix of more rows comes after what failed.
const LONG: usize = 100;
/// The document of so many cases is embedded.
const EMBEDDED: usize = 1000;

pub fn render(doc: &ReportDoc) -> Result<String, TemplateError> {
    let view = View::new(doc);
    template::render("report.html.j2", Page::of(&view))
}

/// Class of a status in the style sheet, and value of the filter.
fn kind(status: Outcome) -> &'static str {
    match status {
        Outcome::Pass => "pass",
        Outcome::PassFallback => "fallback",
        Outcome::Flaky => "flaky",
        Outcome::Indecisive => "indecisive",
        Outcome::Xfail => "xfail",
        Outcome::Mock => "mock",
        Outcome::SkipUnavailable => "unavailable",
        Outcome::SkipUnsupported => "unsupported",
        Outcome::Incomplete => "incomplete",
        _ => "fail",
    }
}

/// The same of a case: an unexpected success that fails no run is no failure.
fn kind_of(case: &CaseResult) -> &'static str {
    if case.status == Outcome::Xpass && !case.is_failure() { "flaky" } else { kind(case.status) }
}

impl<'a> Page<'a> {
    fn of(view: &View<'a>) -> Self {
        let doc = view.doc;
        let causes = |pick: fn(&CaseResult) -> bool| view.causes(pick).into_iter().map(Reason::of).collect();
        let s = &doc.summary;
        let mut targets: Vec<&str> = view.variants.iter().map(|variant| variant.target).collect();
        targets.dedup();
        let unavailable: Vec<bool> = (0..view.variants.len()).map(|column| view.column_unavailable(column)).collect();
        Self {
            spec: &doc.spec,
            scope: doc.scope.as_deref(),
            orch: &doc.orch,
            host: host(doc),
            steps: format!(
                "{}: {} executed, {} up to date{}, {}",
                counted(s.steps, "step"),
                s.executed,
                s.hits,
                if s.failed_steps > 0 { format!(", {} failed", s.failed_steps) } else { String::new() },
                seconds(s.seconds)
            ),
            earlier: view.earlier(),
            chips: chips(doc),
            targets,
            columns: view
                .variants
                .iter()
                .zip(&unavailable)
                .map(|(v, &unavailable)| Column { target: v.target, precision: v.precision, unavailable })
                .collect(),
            rows: rows(view, &unavailable),
            stand_ins: doc.cases.iter().any(|case| view.stand_in(case).is_some()),
            failures: causes(CaseResult::is_failure),
            notable: causes(|case| case.note().is_some()),
            flaky_steps: flaky_steps(doc),
            incomplete: causes(|case| case.status == Outcome::Incomplete),
            unsupported: causes(|case| case.status == Outcome::SkipUnsupported),
            unavailable: view.unavailable().into_iter().map(Group::unavailable).collect(),
            exclusions: exclusions(view),
            backends: backends(doc),
            charts: charts(view),
            performance: performance(view),
            worst: worst(view),
            versions: view
                .versions()
                .into_iter()
                .map(|(name, values)| (name, values.into_iter().collect::<Vec<_>>().join(", ")))
                .collect(),
            details: doc.cases.iter().map(|case| detail(view, case)).collect(),
            long: view.rows.len() > LONG,
            data: (doc.cases.len() <= EMBEDDED).then(|| template::script_json(doc)),
        }
    }
}

fn host(doc: &ReportDoc) -> String {
    let host = &doc.host;
    let cores = counted(host.cores, "core");
    format!("{} · {} · {} · {cores} · {}", host.name, host.os, host.cpu, bytes(host.memory_bytes))
}

fn chips(doc: &ReportDoc) -> Vec<Chip> {
    let s = &doc.summary;
    let chip = |status: Outcome, word, count| Chip { kind: kind(status), glyph: glyph(status), word, count };
    let chips = vec![
        chip(Outcome::Pass, "passed", s.passed),
        chip(Outcome::PassFallback, "on a fallback", s.fallbacks),
        chip(Outcome::Flaky, "flaky", s.flaky),
        chip(Outcome::Indecisive, "indecisive", s.indecisive),
        chip(Outcome::Xfail, "failed as expected", s.xfailed),
        chip(Outcome::Fail, "failed", s.failed),
        chip(Outcome::Mock, "mocked", s.mocked),
        chip(Outcome::Incomplete, "incomplete", s.incomplete),
        chip(Outcome::SkipUnavailable, "unavailable", s.unavailable),
        chip(Outcome::SkipUnsupported, "unsupported", s.unsupported),
        Chip { kind: "excluded", glyph: "·", word: "excluded", count: s.excluded },
    ];
    chips.into_iter().filter(|chip| chip.count > 0 || matches!(chip.kind, "pass" | "fail")).collect()
}

fn flaky_steps(doc: &ReportDoc) -> Vec<(&str, String)> {
    let told = |flaky: &'_ super::FlakyStep| one_line(flaky.reason.as_deref().unwrap_or_default());
    doc.flaky_steps.iter().map(|flaky| (flaky.step.as_str(), told(flaky))).collect()
}

fn rows<'a>(view: &View<'a>, unavailable: &[bool]) -> Vec<Row<'a>> {
    let row = |(row, cells): (&place::Row<'a>, &Vec<Cell<'a>>)| {
        let model = row.name();
        let case = cells.iter().find_map(|cell| if let Cell::Case(_, case) = cell { Some(*case) } else { None });
        let cells = cells.iter().enumerate().map(|(at, cell)| {
            let target = view.variants[at].target;
            square(view, target, *cell, unavailable[at])
        });
        let about = case.map(|case| {
            let own = !row.sizes.is_empty();
            let sizes = case.dims.iter().filter(|_| own).map(|(name, size)| format!(" · {name} {size}"));
            format!("{} · {}{}", case.family, case.task, sizes.collect::<String>())
        });
        Row { cells: cells.collect(), model, about: about.unwrap_or_default() }
    };
    view.rows.iter().zip(&view.cells).map(row).collect()
}

fn square<'a>(view: &View<'a>, target: &'a str, cell: Cell<'a>, narrow: bool) -> Square<'a> {
    let empty = Square {
        target,
        kind: "none",
        glyph: "",
        text: String::new(),
        label: None,
        title: "not asked for by the spec".to_owned(),
        case: None,
        narrow,
    };
    match cell {
        Cell::None => empty,
        Cell::Excluded(excluded) => Square {
            kind: "excluded",
            glyph: "·",
            text: "excluded".to_owned(),
            title: format!("{}: excluded: {}", Place::from(excluded).name(), excluded.reason),
            ..empty
        },
        Cell::Case(at, case) => {
            let passed = case.metrics.as_ref().filter(|_| has_figure(case.status));
            let reason = case.reason.as_deref().map(|reason| format!(": {}", one_line(reason))).unwrap_or_default();
            Square {
                kind: kind_of(case),
                glyph: glyph(case.status),
                text: passed.map_or_else(|| word(case.status).to_owned(), |metrics| ms(metrics.median_ms)),
                label: view.label(case).or_else(|| remark(case.status)).filter(|_| passed.is_some()),
                title: format!("{}: {}{reason}", case_name(case), word(case.status)),
                case: Some(at),
                ..empty
            }
        }
    }
}

impl<'a> Reason<'a> {
    /// So many cases are named before the rest is folded away.
    const SHOWN: usize = 8;

    fn of(cause: Cause<'a>) -> Self {
        let mut cases: Vec<usize> = cause.cases.iter().map(|(at, _)| *at).collect();
        let first = cause.first();
        Self {
            kind: kind_of(first),
            glyph: glyph(cause.status),
            status: word(cause.status),
            stage: cause.stage,
            reason: cause.told(),
            repro: cause.repro(),
            count: cases.len(),
            more: if cases.len() > Self::SHOWN + 1 { cases.split_off(Self::SHOWN) } else { Vec::new() },
            cases,
        }
    }
}

impl Group {
    fn unavailable(group: super::view::Unavailable<'_>) -> Self {
        Self {
            name: group.backend.to_owned(),
            places: group.variants.iter().map(|variant| variant.name()).collect::<Vec<_>>().join(", "),
            count: counted(group.cases.len(), "case"),
            reason: group.reason,
            remedy: group.remedy.map(one_line),
        }
    }
}

fn exclusions(view: &View<'_>) -> Vec<Group> {
    let groups = view.exclusions().into_iter().map(|(reason, excluded)| {
        let places = excluded.iter().map(|excluded| Place::from(*excluded).name());
        Group {
            name: String::new(),
            places: places.collect::<Vec<_>>().join(", "),
            count: counted(excluded.len(), "case"),
            reason: one_line(reason),
            remedy: None,
        }
    });
    groups.collect()
}

fn backends(doc: &ReportDoc) -> Vec<Backend<'_>> {
    let label = |kind| match kind {
        DeviceKind::Hardware => None,
        DeviceKind::Emulator => Some("emulated"),
        DeviceKind::Software => Some("software"),
    };
    let there = doc.backends.iter().filter(|backend| backend.available);
    there
        .map(|backend| Backend {
            name: &backend.name,
            devices: backend.devices.iter().map(|d| (d.id.as_str(), d.name.as_str(), label(d.kind))).collect(),
        })
        .collect()
}

fn performance(view: &View<'_>) -> Vec<Performance> {
    let mut tables = Vec::new();
    for (column, variant) in view.variants.iter().enumerate() {
        let cases: Vec<(usize, &CaseResult)> = view
            .column(column)
            .filter_map(|cell| if let Cell::Case(at, case) = cell { Some((at, case)) } else { None })
            .filter(|(_, case)| matches!(case.status, Outcome::Pass | Outcome::Flaky) && case.metrics.is_some())
            .collect();
        if let Some((_, first)) = cases.first() {
            let label = view.label(first);
            tables.push(Performance { name: variant.name(), label, cases: cases.iter().map(|(at, _)| *at).collect() });
        }
    }
    tables
}

fn worst<'a>(view: &View<'a>) -> Vec<Worst<'a>> {
    let rows = view.worst().into_iter().map(|row| Worst {
        name: row.variant.name(),
        compared: row.cases,
        outside: row.failed,
        max_abs: (error(row.max_abs.0), row.max_abs.1),
        mae: (error(row.mae.0), row.mae.1),
        cosine: (cosine(row.cosine.0), row.cosine.1),
        tokens: row.tokens.0.map(|share| (format!("tokens {}", tokens(share)), row.tokens.1)),
    });
    rows.collect()
}

fn detail<'a>(view: &View<'a>, case: &'a CaseResult) -> Detail<'a> {
    let facts = case.facts.iter().filter(|(name, _)| *name != "versions");
    Detail {
        name: case_name(case),
        model: Place::from(case).row.name(),
        kind: kind_of(case),
        glyph: glyph(case.status),
        status: word(case.status),
        stage: case.stage.as_deref().filter(|_| case.status != Outcome::Pass),
        reason: case.note().or_else(|| case.reason.clone()),
        repro: case.repro.as_deref(),
        about: format!("{} · {} · pipeline {}", case.family, case.task, case.pipeline),
        chosen: case.chosen.as_deref(),
        half: case.half.as_ref().map(HalfChoice::told),
        requested: &case.requested_device,
        actual: case.actual_device.as_deref(),
        label: view.label(case),
        cast_to_fp32: case.cast_to_fp32(),
        reduced_range: case.reduced_range(),
        measured: measured(case),
        metrics: case.metrics.as_ref().map(figures),
        numerics: case.numerics.as_ref().filter(|numerics| !numerics.tensors.is_empty()).map(compared),
        placement: case.placement.iter().map(|(place, count)| format!("{place}: {count}")).collect(),
        versions: case_versions(case).map(|(name, version)| format!("{name} {version}")).collect(),
        facts: facts.map(|(name, value)| (name.as_str(), fact(value))).filter(|(_, told)| !told.is_empty()).collect(),
        steps: &case.steps,
    }
}

fn measured(case: &CaseResult) -> Option<String> {
    let when = case.measured.as_deref();
    match case.cached {
        true => Some(format!("{} in an earlier run", when.map_or("at an unknown time", day))),
        false => when.map(|when| format!("{} in this run", day(when))),
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
            let told = fields.iter().filter(|(name, value)| *name != "versions" && !value.is_null());
            let told = told.map(|(name, value)| match (name.strip_suffix("_bytes").zip(value.as_u64()), fact(value)) {
                (Some((name, count)), _) => format!("{name} {}", bytes(count)),
                (None, told) if told.is_empty() => format!("{name} none"),
                (None, told) if value.is_object() || told.contains("; ") => format!("{name} ({told})"),
                (None, told) => format!("{name} {told}"),
            });
            told.collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}

fn figures(m: &Metrics) -> Figures<'_> {
    let tails = [("p90", m.p90_ms), ("p95", m.p95_ms), ("p99", m.p99_ms)];
    Figures {
        median: ms(m.median_ms),
        interval: m.ci_low_ms.zip(m.ci_high_ms).map(|(low, high)| format!("{} – {}", ms(low), ms(high))),
        range: (m.samples > 1).then(|| format!("{} – {}", ms(m.min_ms), ms(m.max_ms))),
        tails: tails.into_iter().filter_map(|(name, value)| Some((name, ms(value?)))).collect(),
        first: ms(m.first_ms),
        load: ms(m.load_ms),
        rss: m.peak_rss_bytes.map(bytes),
        vram: m.peak_device_bytes.map(bytes),
        samples: format!("{} after {} of warm-up", counted(m.samples, "sample"), m.warmup),
        sync: &m.sync,
        noisy: m.noisy,
        sparkline: sparkline(m),
    }
}

fn compared(numerics: &Numerics) -> Compared<'_> {
    let tensors = numerics.tensors.iter().map(|(name, t)| {
        let shape = t.shape.iter().map(u64::to_string).collect::<Vec<_>>().join("×");
        let row = t.row_cosine.map_or_else(|| "–".to_owned(), |rows| cosine(Some(rows.worst)));
        let snr = t.snr_db.map_or_else(|| "–".to_owned(), |snr| format!("{snr:.0} dB"));
        let equal = t.tokens.zip(t.row_tokens).map_or_else(
            || "–".to_owned(),
            |(all, rows)| format!("{}, {} in the worst row", tokens(all), tokens(rows.worst)),
        );
        [name.clone(), t.dtype.clone(), shape, error(t.max_abs), error(t.mae), cosine(t.cosine), row, snr, equal]
    });
    let (reference, passed, tensors) = (&numerics.reference, numerics.passed, tensors.collect());
    Compared { reference, passed, verdict: super::verdict::lines(numerics), tensors }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_told_in_words() {
        let facts = serde_json::json!({
            "versions": {"torch": "2"}, "seconds": {"build": 0.1259, "reference": 0.04}, "threads": 1, "options": {},
            "peak_rss_bytes": 465_387_520, "shape": [1, 16], "half": null, "attempts": [
                {"route": "dynamo", "ok": false, "error": "no"}, {"route": "legacy", "ok": true, "max_abs": 5.2e-7},
            ],
        });
        let told = "seconds (build 0.126, reference 0.040), threads 1, options none, peak_rss 444 MiB, shape [1,16], \
                    attempts (route dynamo, ok false, error no; route legacy, ok true, max_abs 5.2e-7)";
        assert_eq!(fact(&facts), told);
        assert_eq!(fact(&serde_json::json!({"versions": {}})), "");
    }
}
