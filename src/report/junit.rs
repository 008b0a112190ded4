//! `junit.xml`: a test suite per target, precision and size, a test case per model.
//!
//! Unavailable, unsupported, excluded and mocked cases, and those that fail as expected, are skipped tests with their
//! reason; a case that passes unexpectedly is a failure; a flaky one and one that ran on a fallback passed, and their
//! properties say how. What was interrupted is an error, so that no reader takes an unfinished run for a green one.

use std::fmt::Write as _;

use indexmap::IndexMap;

use super::format::{glyph, one_line};
use super::place::Place;
use super::view::{Cell, View};
use super::{CaseResult, ReportDoc};
use crate::base::text::is_unseen;
use crate::matrix::HalfChoice;
use crate::record::Outcome;

pub fn render(doc: &ReportDoc) -> String {
    let view = View::new(doc);
    let suites = by_variant(&view);
    let scope = doc
        .scope
        .as_ref()
        .map(|scope| format!(" ({scope})"))
        .unwrap_or_default();
    let name = attribute(&format!("orch {}{scope}", doc.spec));
    let all: Vec<Cell<'_>> = suites.values().flatten().copied().collect();
    let [tests, failures, errors, _, time] = totals(&all);
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"{name}\" {tests} {failures} {errors} {time}>\n"
    );
    for (name, cells) in &suites {
        let name = attribute(name);
        let _ = writeln!(
            out,
            "  <testsuite name=\"{name}\" {}>",
            totals(cells).join(" ")
        );
        for cell in cells {
            test(&mut out, &view, cell, &name);
        }
        out.push_str("  </testsuite>\n");
    }
    out + "</testsuites>\n"
}

/// The cells of each target at each precision and size: `cpu-fp32-b4`.
fn by_variant<'a>(view: &View<'a>) -> IndexMap<String, Vec<Cell<'a>>> {
    let mut suites: IndexMap<String, Vec<Cell<'a>>> = IndexMap::new();
    for (at, variant) in view.variants.iter().enumerate() {
        for (row, cell) in view.rows.iter().zip(view.column(at)) {
            if !matches!(cell, Cell::None) {
                let place = Place {
                    row: *row,
                    variant: *variant,
                };
                suites.entry(place.variant_name()).or_default().push(cell);
            }
        }
    }
    suites
}

/// The element that says how it ended; a success has none.
fn element(cell: &Cell<'_>) -> Option<&'static str> {
    let Some((_, case)) = cell.case() else {
        return Some("skipped");
    };
    match case.status {
        _ if case.is_failure() => Some("failure"),
        Outcome::Incomplete => Some("error"),
        Outcome::Pass | Outcome::Flaky | Outcome::PassFallback | Outcome::Xpass => None,
        // A state that nobody thought of here must not look like a success.
        _ => Some("skipped"),
    }
}

/// The time of the measured run: load, first inference and samples.
fn seconds(cell: &Cell<'_>) -> f64 {
    let metrics = cell.case().and_then(|(_, case)| case.metrics.as_ref());
    metrics.map_or(0.0, |m| {
        (m.load_ms + m.first_ms + m.samples_ms.iter().sum::<f64>()) / 1000.0
    })
}

/// The totals as attributes: tests, failures, errors, skipped, time.
fn totals(cells: &[Cell<'_>]) -> [String; 5] {
    let count = |name: &str, wanted| {
        format!(
            "{name}=\"{}\"",
            cells
                .iter()
                .filter(|cell| element(cell) == Some(wanted))
                .count()
        )
    };
    let [failures, errors] = [count("failures", "failure"), count("errors", "error")];
    // The sum of none is -0.
    let time = format!(
        "time=\"{:.3}\"",
        0.0 + cells.iter().map(seconds).sum::<f64>()
    );
    [
        format!("tests=\"{}\"", cells.len()),
        failures,
        errors,
        count("skipped", "skipped"),
        time,
    ]
}

fn test(out: &mut String, view: &View<'_>, cell: &Cell<'_>, class: &str) {
    let (model, message) = match cell {
        Cell::None => return,
        Cell::Excluded(_, excluded) => (&excluded.model, format!("excluded: {}", excluded.reason)),
        Cell::Case(_, case) => (
            &case.model,
            format!(
                "{}: {}",
                case.status.label(),
                case.note().unwrap_or_else(|| reason(case))
            ),
        ),
    };
    let model = attribute(model);
    let _ = writeln!(
        out,
        "    <testcase name=\"{model}\" classname=\"{class}\" time=\"{:.3}\">",
        seconds(cell)
    );
    match (element(cell), cell.case()) {
        (None, _) => {}
        (Some(element @ ("failure" | "error")), Some((_, case))) => problem(out, element, case),
        (Some(element), _) => {
            let _ = writeln!(
                out,
                "      <{element} message=\"{}\"/>",
                attribute(&message)
            );
        }
    }
    if let Some((_, case)) = cell.case() {
        facts(out, view, case);
    }
    out.push_str("    </testcase>\n");
}

fn reason(case: &CaseResult) -> String {
    case.reason
        .clone()
        .unwrap_or_else(|| "no reason was recorded".to_owned())
}

/// `name: value`, a line each. The schema has properties for suites only.
fn facts(out: &mut String, view: &View<'_>, case: &CaseResult) {
    let rows = [
        ("actual_device", case.actual_device.clone()),
        ("stand_in", view.stand_in(case).map(str::to_owned)),
        ("cast_to_fp32", case.cast_to_fp32().map(str::to_owned)),
        ("reduced_range", case.reduced_range().map(str::to_owned)),
        ("export_stand_ins", case.export_stand_ins()),
        ("half", case.half.as_ref().map(HalfChoice::summary)),
        ("untimed", case.untimed.then(|| "true".to_owned())),
        (
            "median_ms",
            case.metrics
                .as_ref()
                .map(|metrics| metrics.median_ms.to_string()),
        ),
    ];
    let mut rows: Vec<_> = rows
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect();
    if let Some(numerics) = &case.numerics {
        rows.extend(super::verdict::lines(numerics));
    }
    if let Some(note) = case.note().filter(|_| case.status.is_well()) {
        rows.push(("status", case.status.label().to_owned()));
        rows.push(("note", note));
    }
    if let (true, Some(time)) = (case.cached, &case.measured) {
        rows.push((
            if case.untimed { "checked" } else { "measured" },
            time.clone(),
        ));
    }
    if rows.is_empty() {
        return;
    }
    let lines: Vec<_> = rows
        .iter()
        .map(|(name, value)| format!("{name}: {}", one_line(value)))
        .collect();
    let _ = writeln!(
        out,
        "      <system-out>{}</system-out>",
        escaped(&lines.join("\n"), false)
    );
}

fn problem(out: &mut String, element: &str, case: &CaseResult) {
    let kind = case.status.label();
    let reason = reason(case);
    let stage = case
        .stage
        .as_deref()
        .map(|stage| format!(" at {stage}"))
        .unwrap_or_default();
    let mut body = format!("{} {kind}{stage}: {reason}\n", glyph(case.status));
    if let Some(repro) = &case.repro {
        let _ = writeln!(body, "repro: {repro}");
    }
    let message = attribute(&reason);
    let body = escaped(&body, false);
    let _ = writeln!(
        out,
        "      <{element} type=\"{kind}\" message=\"{message}\">{body}</{element}>"
    );
}

fn attribute(text: &str) -> String {
    escaped(text, true)
}

/// XML 1.0 has no way to write most control characters, escaped or not; a tool's log can hold them.
fn escaped(text: &str, attribute: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' | '\r' if attribute => {
                let _ = write!(out, "&#{};", u32::from(c));
            }
            '\n' | '\t' => out.push(c),
            c if is_unseen(c) || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_replaced_and_markup_is_escaped() {
        assert_eq!(
            attribute("a\n<\"&\u{1b}>"),
            "a&#10;&lt;&quot;&amp;\u{fffd}&gt;"
        );
        assert_eq!(escaped("a\n\u{0}", false), "a\n\u{fffd}");
    }
}
