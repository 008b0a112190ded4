//! The console summary: a matrix within 100 columns, then what failed and what is not there, then one line of counts.
//!
//! Colour is the caller's: with [`Styles::plain`] the text holds no escape sequence.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};

use super::format::{counted, glyph, has_figure, ms, one_line, remark, seconds, word};
use super::view::{Cell, View, case_name};
use super::{CaseResult, ReportDoc};
use crate::record::Outcome;

const WIDTH: usize = 100;
/// Longer model names are cut: the reports hold them in full.
const NAME: usize = 28;

/// How to mark each kind of text.
#[derive(Debug, Clone, Copy, Default)]
pub struct Styles {
    pub pass: Style,
    pub fail: Style,
    pub skip: Style,
    pub incomplete: Style,
    pub heading: Style,
}

impl Styles {
    pub fn plain() -> Self {
        Self::default()
    }

    pub fn colored() -> Self {
        Self {
            pass: AnsiColor::Green.on_default(),
            fail: AnsiColor::Red.on_default().bold(),
            skip: Style::new().dimmed(),
            incomplete: AnsiColor::Yellow.on_default(),
            heading: Style::new().bold(),
        }
    }

    fn of(&self, status: Outcome) -> Style {
        match status {
            Outcome::Pass => self.pass,
            Outcome::Incomplete | Outcome::Flaky | Outcome::Indecisive | Outcome::PassFallback | Outcome::Mock => {
                self.incomplete
            }
            status if status.is_failure() || status == Outcome::Xpass => self.fail,
            _ => self.skip,
        }
    }
}

/// The whole summary, ending in a newline.
pub fn render(doc: &ReportDoc, styles: &Styles) -> String {
    let view = View::new(doc);
    let mut out = String::new();
    matrix(&mut out, &view, styles);
    if let Some(earlier) = view.earlier() {
        let dim = styles.skip;
        let _ = writeln!(out, "\n{dim}{earlier}{dim:#}");
    }
    failures(&mut out, &view, styles);
    notable(&mut out, &view, styles);
    halves(&mut out, &view, styles);
    for (label, rows) in [("cast to fp32", view.cast_to_fp32()), ("reduced range", view.reduced_range())] {
        said(&mut out, label, &rows, styles);
    }
    skipped(&mut out, &view, styles);
    if !out.is_empty() {
        out.push('\n');
    }
    if let Some(scope) = &doc.scope {
        let _ = writeln!(out, "{}{scope}: not the whole spec{:#}", styles.heading, styles.heading);
    }
    out.push_str(&summary_line(doc, styles));
    out.push('\n');
    out
}

/// `45 passed · 2 failed · 75 unavailable   112 steps: 0 executed, 112 up to date   0.4 s`
pub fn summary_line(doc: &ReportDoc, styles: &Styles) -> String {
    let s = &doc.summary;
    let mut counts = Vec::new();
    let mut count = |count: u32, noun: &str, style: Style, always: bool| {
        if count > 0 || always {
            let style = if count > 0 { style } else { Style::new() };
            counts.push(format!("{style}{count} {noun}{style:#}"));
        }
    };
    count(s.passed, "passed", styles.pass, true);
    count(s.fallbacks, "on a fallback", styles.incomplete, false);
    count(s.flaky, "flaky", styles.incomplete, false);
    count(s.xfailed, "failed as expected", styles.skip, false);
    count(s.xpassed, "passed unexpectedly", styles.fail, false);
    count(s.failed, "failed", styles.fail, true);
    count(s.incomplete, "incomplete", styles.incomplete, false);
    count(s.mocked, "mocked", styles.incomplete, false);
    count(s.unavailable, "unavailable", styles.skip, false);
    count(s.unsupported, "unsupported", styles.skip, false);
    count(s.excluded, "excluded", styles.skip, false);
    // A run of chosen steps or of commands has no cases to count.
    let counts = if doc.cases.is_empty() { String::new() } else { counts.join(" · ") + "   " };
    let fetched = if s.fetched > 0 { format!(" ({} from the remote)", s.fetched) } else { String::new() };
    let failed = match s.failed_steps {
        0 => String::new(),
        some => format!(", {}{some} failed{:#}", styles.fail, styles.fail),
    };
    let before = match s.failed_before {
        0 => String::new(),
        some => format!(", {some} failed before (`--rerun failed` executes them)"),
    };
    format!(
        "{counts}{}: {} executed, {} up to date{fetched}{before}{failed}   {}",
        counted(s.steps as usize, "step"),
        s.executed,
        s.hits,
        seconds(s.seconds)
    )
}

/// Text of a cell, and how to mark it.
fn cell_text(view: &View<'_>, cell: Cell<'_>, styles: &Styles) -> (String, Style) {
    match cell {
        Cell::None => (String::new(), Style::new()),
        Cell::Excluded(_) => ("· excluded".to_owned(), styles.skip),
        Cell::Case(_, case) => {
            let style = styles.of(case.status);
            (format!("{} {}", glyph(case.status), figure(view, case)), style)
        }
    }
}

fn figure(view: &View<'_>, case: &CaseResult) -> String {
    match &case.metrics {
        Some(metrics) if has_figure(case.status) => {
            let label = match view.label(case) {
                Some("emulated") => " emul.",
                Some("cast to fp32") => " casts",
                Some("reduced range") => " reduced",
                Some(_) => " softw.",
                None => "",
            };
            let remark = remark(case.status).map(|remark| format!(" {remark}")).unwrap_or_default();
            format!("{}{label}{remark}", ms(metrics.median_ms))
        }
        _ => word(case.status).to_owned(),
    }
}

/// Columns in which nothing is available are left out here: `skipped` gives each backend one line.
fn matrix(out: &mut String, view: &View<'_>, styles: &Styles) {
    let shown: Vec<usize> = (0..view.variants.len()).filter(|&at| !view.column_unavailable(at)).collect();
    let names: Vec<String> = view.models.iter().map(|name| cut(name, NAME)).collect();
    let first = names.iter().map(|name| width(name)).max().unwrap_or(0);
    let columns: Vec<(String, Vec<(String, Style)>)> = shown
        .iter()
        .map(|&at| (view.variants[at].name(), view.column(at).map(|cell| cell_text(view, cell, styles)).collect()))
        .collect();
    let widths: Vec<usize> = columns
        .iter()
        .map(|(name, cells)| cells.iter().map(|(text, _)| width(text)).chain([width(name)]).max().unwrap_or(0))
        .collect();
    let mut from = 0;
    while from < columns.len() {
        let mut until = from + 1;
        let mut used = first + 2 + widths[from];
        while until < columns.len() && used + 2 + widths[until] <= WIDTH {
            used += 2 + widths[until];
            until += 1;
        }
        if from > 0 {
            out.push('\n');
        }
        let heading = styles.heading;
        let header = (from..until).map(|at| (columns[at].0.as_str(), heading, widths[at]));
        line(out, ("", first), header);
        for (row, name) in names.iter().enumerate() {
            line(
                out,
                (name, first),
                (from..until).map(|at| (columns[at].1[row].0.as_str(), columns[at].1[row].1, widths[at])),
            );
        }
        from = until;
    }
}

/// Pads outside the style, and never at the end of the line.
fn line<'t>(out: &mut String, (name, first): (&str, usize), cells: impl Iterator<Item = (&'t str, Style, usize)>) {
    out.push_str(name);
    let mut gap = first - width(name);
    for (text, style, column) in cells {
        gap += 2;
        if !text.is_empty() {
            let _ = write!(out, "{:gap$}{style}{text}{style:#}", "");
            gap = 0;
        }
        gap += column - width(text);
    }
    out.push('\n');
}

fn failures(out: &mut String, view: &View<'_>, styles: &Styles) {
    for (_, case) in view.cases(|case| case.is_failure() || case.status == Outcome::Incomplete) {
        let style = styles.of(case.status);
        let stage = case.stage.as_deref().map(|stage| format!(" at {stage}")).unwrap_or_default();
        let sign = glyph(case.status);
        let since = case.known_since.as_deref().map(super::format::day);
        let since = since.map(|day| format!(" (known since {day})")).unwrap_or_default();
        let _ = writeln!(out, "\n{style}{sign} {}{style:#} {}{stage}{since}", case.status.label(), case_name(case));
        if let Some(reason) = &case.reason {
            wrapped(out, "  ", &one_line(reason));
        }
        if !case.attempts.is_empty() {
            wrapped(out, "  ", &format!("after {} before it", counted(case.attempts.len(), "failed attempt")));
        }
        // Never wrapped: it is there to be copied.
        if let Some(repro) = &case.repro {
            let _ = writeln!(out, "  repro: {repro}");
        }
    }
}

/// What is no failure and no plain success either.
fn notable(out: &mut String, view: &View<'_>, styles: &Styles) {
    for (at, (_, case)) in view.cases(|case| case.note().is_some()).into_iter().enumerate() {
        if at == 0 {
            out.push('\n');
        }
        let (style, sign) = (styles.of(case.status), glyph(case.status));
        let _ = writeln!(out, "{style}{sign} {}{style:#} {}", case.status.label(), case_name(case));
        wrapped(out, "  ", &one_line(&case.note().unwrap_or_default()));
    }
    for (at, flaky) in view.doc.flaky_steps.iter().enumerate() {
        if at == 0 {
            out.push('\n');
        }
        let (style, sign) = (styles.of(Outcome::Flaky), glyph(Outcome::Flaky));
        let _ = writeln!(out, "{style}{sign} FLAKY{style:#} {}", flaky.step);
        let date = flaky.executed.as_deref().filter(|_| flaky.cached);
        let date = date.map(|time| format!(" (executed {})", super::format::day(time))).unwrap_or_default();
        wrapped(out, "  ", &format!("{}{date}", one_line(flaky.reason.as_deref().unwrap_or_default())));
    }
}

/// What targets with `half` came to.
fn halves(out: &mut String, view: &View<'_>, styles: &Styles) {
    let dim = styles.skip;
    for (at, (target, half, cases)) in view.halves().into_iter().enumerate() {
        if at == 0 {
            out.push('\n');
        }
        let cases = counted(cases, "case");
        let _ = writeln!(out, "{dim}half{dim:#} {target} ({cases})");
        wrapped(out, "  ", &one_line(&half.told()));
    }
}

/// What a label in the cells of targets means.
fn said(out: &mut String, label: &str, rows: &[(&str, usize, &str)], styles: &Styles) {
    let dim = styles.skip;
    for (target, cases, why) in rows {
        let _ = writeln!(out, "\n{dim}{label}{dim:#} {target} ({})", counted(*cases, "case"));
        wrapped(out, "  ", &one_line(&format!("for instance: {why}")));
    }
}

fn skipped(out: &mut String, view: &View<'_>, styles: &Styles) {
    let dim = styles.skip;
    for group in view.unavailable() {
        let variants: Vec<String> = group.variants.iter().map(|variant| variant.name()).collect();
        let cases = counted(group.cases.len(), "case");
        let sign = glyph(Outcome::SkipUnavailable);
        let _ = writeln!(out, "\n{dim}{sign} {}{dim:#} unavailable: {} ({cases})", group.backend, variants.join(", "));
        wrapped(out, "  ", &group.reason);
        if let Some(remedy) = group.remedy {
            wrapped(out, "  ", &format!("remedy: {}", one_line(remedy)));
        }
    }
    let unsupported = view.cases(|case| case.status == Outcome::SkipUnsupported);
    if !unsupported.is_empty() {
        out.push('\n');
    }
    for (_, case) in unsupported {
        let _ = writeln!(out, "{dim}{} unsupported{dim:#} {}", glyph(case.status), case_name(case));
        wrapped(out, "  ", &one_line(case.reason.as_deref().unwrap_or("no reason was recorded")));
    }
    let exclusions = view.exclusions();
    if !exclusions.is_empty() {
        out.push('\n');
    }
    for (reason, excluded) in exclusions {
        let places: Vec<String> =
            excluded.iter().take(4).map(|e| format!("{} on {}-{}", e.model, e.target, e.precision)).collect();
        let more = excluded.len().saturating_sub(places.len());
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let _ = writeln!(out, "{dim}· excluded{dim:#} {}{more}", places.join(", "));
        wrapped(out, "  ", &one_line(reason));
    }
}

fn wrapped(out: &mut String, indent: &str, text: &str) {
    let mut used = 0;
    for word in text.split(' ') {
        if used > 0 && used + 1 + width(word) > WIDTH {
            out.push('\n');
            used = 0;
        }
        out.push_str(if used == 0 { indent } else { " " });
        used += width(word) + if used == 0 { width(indent) } else { 1 };
        out.push_str(word);
    }
    out.push('\n');
}

fn width(text: &str) -> usize {
    text.chars().count()
}

fn cut(text: &str, most: usize) -> String {
    if width(text) <= most { text.to_owned() } else { text.chars().take(most - 1).chain(['…']).collect() }
}
