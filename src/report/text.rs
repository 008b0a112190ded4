//! The console summary: a matrix within 100 columns, then what failed and what is not there, then one line of counts.
//!
//! A matrix that fills no screen is left to the other pages: here are its counts. What failed stands by cause. Of many
//! causes the gravest are told in full, the next in a line each, and the others are counted, so that no run of thousands
//! of cases says thousands of lines.
//!
//! Colour is the caller's: with [`Styles::plain`] the text holds no escape sequence.

mod matrix;

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};

use super::cause::{Cause, MANY, named};
use super::format::{glyph, one_line, seconds};
use super::names::end_cut;
use super::place::Place;
use super::view::{View, case_name};
use super::{CaseResult, ReportDoc, Summary};
use crate::base::figures::counted;
use crate::record::Outcome;

const WIDTH: usize = 100;
/// Of many causes so many are told in full,
const GRAVEST: usize = 3;
/// and so many in a line each.
const LINES: usize = 10;
/// So many cases of a cause are named.
const NAMES: usize = 4;

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
    [body(doc, styles), summary_line(&doc.summary, styles), "\n".to_owned()].concat()
}

/// All but the last line.
pub fn body(doc: &ReportDoc, styles: &Styles) -> String {
    let view = View::new(doc);
    let mut out = String::new();
    matrix::matrix(&mut out, &view, styles);
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
    looser(&mut out, &view, styles);
    skipped(&mut out, &view, styles);
    if !out.is_empty() {
        out.push('\n');
    }
    if let Some(scope) = &doc.scope {
        let _ = writeln!(out, "{}{scope}: not the whole spec{:#}", styles.heading, styles.heading);
    }
    out
}

/// `45 passed · 2 failed · 75 unavailable   112 steps: 0 executed, 112 up to date   0.4 s`
pub fn summary_line(s: &Summary, styles: &Styles) -> String {
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
    count(s.indecisive, "indecisive", styles.incomplete, false);
    count(s.xfailed, "failed as expected", styles.skip, false);
    count(s.xpassed, "passed unexpectedly", styles.fail, false);
    count(s.failed, "failed", styles.fail, true);
    count(s.incomplete, "incomplete", styles.incomplete, false);
    count(s.mocked, "mocked", styles.incomplete, false);
    count(s.unavailable, "unavailable", styles.skip, false);
    count(s.unsupported, "unsupported", styles.skip, false);
    count(s.excluded, "excluded", styles.skip, false);
    // A run of chosen steps or of commands has no cases to count.
    let counts = if s.cases == 0 { String::new() } else { counts.join(" · ") + "   " };
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
        counted(s.steps, "step"),
        s.executed,
        s.hits,
        seconds(s.seconds)
    )
}

fn failures(out: &mut String, view: &View<'_>, styles: &Styles) {
    let (causes, rest) = gravest(view.causes(CaseResult::is_failure));
    for cause in &causes {
        out.push('\n');
        heading(out, cause, styles, (cause.status.label(), cause.stage));
        wrapped(out, "  ", &cause.told());
        if let Some(since) = &cause.first().known_since {
            let _ = writeln!(out, "  known since {}", super::format::day(since));
        }
        let attempts = cause.first().attempts.len();
        if attempts > 0 {
            wrapped(out, "  ", &format!("after {} before it", counted(attempts, "failed attempt")));
        }
        // Never wrapped: it is there to be copied.
        if let Some(repro) = cause.repro() {
            let _ = writeln!(out, "  repro: {repro}");
        }
    }
    in_lines(out, &rest, LINES, styles);
    in_lines(out, &view.causes(|case| case.status == Outcome::Incomplete), NAMES, styles);
}

/// Those that are told in full, and the others.
fn gravest(mut causes: Vec<Cause<'_>>) -> (Vec<Cause<'_>>, Vec<Cause<'_>>) {
    let rest = if causes.len() > MANY { causes.split_off(GRAVEST) } else { Vec::new() };
    (causes, rest)
}

/// A line for each of so many causes, and how many more there are.
fn in_lines(out: &mut String, causes: &[Cause<'_>], most: usize, styles: &Styles) {
    if !causes.is_empty() {
        out.push('\n');
    }
    for cause in causes.iter().take(most) {
        let (style, sign) = (styles.of(cause.status), glyph(cause.status));
        let whose = match cause.cases.len() {
            1 => case_name(cause.first()),
            count => format!("{count} cases"),
        };
        let stage = cause.stage.map(|stage| format!(" at {stage}")).unwrap_or_default();
        let label = cause.status.label();
        let rest = end_cut(&format!(" {whose}{stage}: {}", cause.reason), WIDTH - width(sign) - 1 - width(label));
        let _ = writeln!(out, "{style}{sign} {label}{style:#}{rest}");
    }
    more_than(out, causes, most, styles);
}

/// `✗ FAIL bert on cpu-fp32 at convert`; or `✗ FAIL 39 cases at convert`, and below it which.
fn heading(out: &mut String, cause: &Cause<'_>, styles: &Styles, (label, stage): (&str, Option<&str>)) {
    let (style, sign) = (styles.of(cause.status), glyph(cause.status));
    let stage = stage.map(|stage| format!(" at {stage}")).unwrap_or_default();
    if let [(_, case)] = &cause.cases[..] {
        let _ = writeln!(out, "{style}{sign} {label}{style:#} {}{stage}", case_name(case));
        return;
    }
    let _ = writeln!(out, "{style}{sign} {label}{style:#} {} cases{stage}", cause.cases.len());
    wrapped(out, "  ", &cause.names(NAMES));
}

/// How many causes are left out, and of how many cases.
fn more_than(out: &mut String, causes: &[Cause<'_>], told: usize, styles: &Styles) {
    let left: Vec<_> = causes.iter().skip(told).collect();
    let Some(cause) = left.first() else { return };
    let (style, sign) = (styles.of(cause.status), glyph(cause.status));
    let cases = counted(left.iter().map(|cause| cause.cases.len()).sum::<usize>(), "case");
    let causes = counted(left.len(), "cause");
    let _ = writeln!(out, "\n{style}{sign}{style:#} and {cases} of {causes} more: the report's pages tell all of them");
}

/// What is no failure and no plain success either.
fn notable(out: &mut String, view: &View<'_>, styles: &Styles) {
    let (causes, rest) = gravest(view.causes(|case| case.note().is_some()));
    for (at, cause) in causes.iter().enumerate() {
        if at == 0 {
            out.push('\n');
        }
        heading(out, cause, styles, (cause.status.label(), None));
        wrapped(out, "  ", &cause.told());
    }
    in_lines(out, &rest, LINES, styles);
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

/// Tolerances that let through what orch's own would not.
fn looser(out: &mut String, view: &View<'_>, styles: &Styles) {
    let cases = view.cases(|case| case.is_judged_loosely());
    if let Some((_, first)) = cases.first() {
        let mark = styles.incomplete;
        let _ = writeln!(out, "\n{mark}loose tolerance{mark:#} {}", counted(cases.len(), "case"));
        let numerics = first.numerics.as_ref().expect("BUG: it was judged");
        let asked = super::verdict::asked(numerics);
        let bounds = numerics.looser.join(", ");
        wrapped(out, "  ", &format!("looser than orch's own in {bounds}; for instance {}: {asked}", case_name(first)));
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
    let (unsupported, rest) = gravest(view.causes(|case| case.status == Outcome::SkipUnsupported));
    if !unsupported.is_empty() {
        out.push('\n');
    }
    for cause in &unsupported {
        heading(out, cause, styles, ("unsupported", None));
        wrapped(out, "  ", &cause.told());
    }
    in_lines(out, &rest, LINES, styles);
    let exclusions = view.exclusions();
    if !exclusions.is_empty() {
        out.push('\n');
    }
    let left = exclusions.len().saturating_sub(MANY);
    for (reason, excluded) in exclusions.into_iter().take(MANY) {
        let places = named(excluded.iter().map(|excluded| Place::from(*excluded)), NAMES);
        if excluded.len() == 1 {
            let _ = writeln!(out, "{dim}· excluded{dim:#} {places}");
        } else {
            let _ = writeln!(out, "{dim}· excluded{dim:#} {} cases", excluded.len());
            wrapped(out, "  ", &places);
        }
        wrapped(out, "  ", &one_line(reason));
    }
    if left > 0 {
        let _ = writeln!(out, "\n{dim}·{dim:#} and {} more: the report tells all of them", counted(left, "exclusion"));
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
