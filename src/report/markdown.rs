//! `matrix.md`, also the step summary of a CI run: the matrix with numbered notes, then what each number means.
//!
//! The notes are the tables below the matrix: each table's `#` is the number that its cells carry. Cases with one cause share
//! one, and a line.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::cause::{Cause, named};
use super::format::{cosine, day, error, glyph, has_figure, ms, one_line, remark, tokens, word};
use super::place::Place;
use super::text::{Styles, summary_line};
use super::view::{Cell, View, case_name};
use super::{CaseResult, ReportDoc};
use crate::base::figures::{bytes, counted};
use crate::record::Outcome;

/// So many cases of a cause are named.
const NAMES: usize = 8;

pub fn render(doc: &ReportDoc) -> String {
    let view = View::new(doc);
    let mut notes = Notes::default();
    let mut below = String::new();
    failures(&mut below, &view, &mut notes);
    notable(&mut below, &view, &mut notes);
    skipped(&mut below, &view, &mut notes);
    exclusions(&mut below, &view, &mut notes);
    chosen(&mut below, doc);
    halves(&mut below, &view);
    performance(&mut below, &view);
    numerics(&mut below, &view);
    versions(&mut below, &view);

    let mut out = format!("# orch: {}\n\n", text(&doc.spec));
    let _ = writeln!(
        out,
        "**{}\n",
        summary_line(&doc.summary, &Styles::plain()).replacen("   ", "** · ", 1).replace("   ", " · ")
    );
    if let Some(scope) = &doc.scope {
        let _ = writeln!(out, "Not the whole spec: {}.\n", text(scope));
    }
    let host = &doc.host;
    let memory = bytes(host.memory_bytes);
    let _ = writeln!(
        out,
        "Host {}: {}, {}, {}, {memory}. orch {}.\n",
        code(&host.name),
        text(&host.os),
        text(&host.cpu),
        counted(host.cores, "core"),
        text(&doc.orch)
    );
    matrix(&mut out, &view, &notes);
    if let Some(earlier) = view.earlier() {
        let _ = writeln!(out, "\n{earlier}.");
    }
    out.push_str(&below);
    out
}

/// Numbers of reasons, and which number each cell carries.
#[derive(Default)]
struct Notes<'a> {
    last: usize,
    cases: HashMap<usize, usize>,
    excluded: HashMap<&'a str, usize>,
}

impl Notes<'_> {
    fn next(&mut self) -> usize {
        self.last += 1;
        self.last
    }

    /// The number of a cause, which all its cases carry.
    fn number(&mut self, cause: &Cause<'_>) -> usize {
        let number = self.next();
        self.cases.extend(cause.cases.iter().map(|(at, _)| (*at, number)));
        number
    }
}

fn matrix(out: &mut String, view: &View<'_>, notes: &Notes<'_>) {
    if view.rows.is_empty() {
        out.push_str("No cases.\n");
        return;
    }
    let header: Vec<String> = view.variants.iter().map(|variant| text(&variant.name())).collect();
    let _ = writeln!(out, "| model | {} |\n|---|{}", header.join(" | "), "---|".repeat(header.len()));
    for (row, cells) in view.rows.iter().zip(&view.cells) {
        let cells: Vec<String> = cells.iter().map(|&cell| cell_text(view, cell, notes)).collect();
        let _ = writeln!(out, "| {} | {} |", text(&row.name()), cells.join(" | "));
    }
    if view.doc.cases.iter().any(|case| case.status == Outcome::Pass && view.stand_in(case).is_some()) {
        out.push_str(
            "\n*emulated*, *software*: a stand-in for the hardware ran it; its latency says nothing of the hardware's.\n",
        );
    }
    for (label, rows) in [("cast to fp32", view.cast_to_fp32()), ("reduced range", view.reduced_range())] {
        for (target, _, why) in rows {
            let _ = writeln!(out, "\n*{label}*, {}: for instance: {}.", text(target), text(why));
        }
    }
}

fn cell_text(view: &View<'_>, cell: Cell<'_>, notes: &Notes<'_>) -> String {
    let sup = |number: Option<&usize>| number.map(|n| format!(" <sup>{n}</sup>")).unwrap_or_default();
    match cell {
        Cell::None => String::new(),
        Cell::Excluded(excluded) => format!("· excluded{}", sup(notes.excluded.get(excluded.reason.as_str()))),
        Cell::Case(at, case) => {
            let what = match (&case.metrics, case.status) {
                (Some(metrics), status) if has_figure(status) => {
                    let remark = remark(status).map(|remark| format!(" *{remark}*")).unwrap_or_default();
                    format!("{}{}{remark}", ms(metrics.median_ms), label(view, case))
                }
                (_, status) => word(status).to_owned(),
            };
            format!("{} {what}{}", glyph(case.status), sup(notes.cases.get(&at)))
        }
    }
}

fn label(view: &View<'_>, case: &CaseResult) -> String {
    view.label(case).map(|label| format!(" *{label}*")).unwrap_or_default()
}

fn failures<'a>(out: &mut String, view: &View<'a>, notes: &mut Notes<'a>) {
    let failed = view.causes(CaseResult::is_failure);
    if failed.is_empty() {
        return;
    }
    out.push_str("\n## Failures\n\n| # | cases | status | stage | reason | repro |\n|---|---|---|---|---|---|\n");
    for cause in failed {
        let _ = writeln!(
            out,
            "| {} | {} | {} {} | {} | {} | {} |",
            notes.number(&cause),
            whose(&cause),
            glyph(cause.status),
            text(cause.status.label()),
            text(cause.stage.unwrap_or_default()),
            text(&cause.told()),
            cause.repro().map(code).unwrap_or_default()
        );
    }
}

/// Which cases a cause has; the matrix tells the rest by its number.
fn whose(cause: &Cause<'_>) -> String {
    match cause.cases.len() {
        1 => text(&cause.names(1)),
        count => format!("{count}: {}", text(&cause.names(NAMES))),
    }
}

fn notable<'a>(out: &mut String, view: &View<'a>, notes: &mut Notes<'a>) {
    let causes = view.causes(|case| case.note().is_some());
    if !causes.is_empty() || !view.doc.flaky_steps.is_empty() {
        out.push_str("\n## Neither passed nor failed\n\n| # | cases | status | why |\n|---|---|---|---|\n");
    }
    for cause in causes {
        let number = notes.number(&cause);
        let (sign, label) = (glyph(cause.status), text(cause.status.label()));
        let _ = writeln!(out, "| {number} | {} | {sign} {label} | {} |", whose(&cause), text(&cause.told()));
    }
    for flaky in &view.doc.flaky_steps {
        let (step, why) = (text(&flaky.step), text(flaky.reason.as_deref().unwrap_or_default()));
        let _ = writeln!(out, "| | {step} | {} FLAKY | {why} |", glyph(Outcome::Flaky));
    }
}

fn skipped<'a>(out: &mut String, view: &View<'a>, notes: &mut Notes<'a>) {
    let groups = view.unavailable();
    if !groups.is_empty() {
        out.push_str(
            "\n## Unavailable\n\n| # | backend | targets | cases | reason | remedy |\n|---|---|---|---|---|---|\n",
        );
    }
    for group in groups {
        let number = notes.next();
        notes.cases.extend(group.cases.iter().map(|&at| (at, number)));
        let variants: Vec<String> = group.variants.iter().map(|variant| text(&variant.name())).collect();
        let _ = writeln!(
            out,
            "| {number} | {} | {} | {} | {} | {} |",
            text(group.backend),
            variants.join(", "),
            group.cases.len(),
            text(&group.reason),
            text(group.remedy.unwrap_or("—"))
        );
    }
    let rest = view.causes(|case| matches!(case.status, Outcome::SkipUnsupported | Outcome::Incomplete));
    if !rest.is_empty() {
        out.push_str("\n## Unsupported and incomplete\n\n| # | cases | status | reason |\n|---|---|---|---|\n");
    }
    for cause in rest {
        let number = notes.number(&cause);
        let (sign, word) = (glyph(cause.status), word(cause.status));
        let _ = writeln!(out, "| {number} | {} | {sign} {word} | {} |", whose(&cause), text(&cause.told()));
    }
}

fn exclusions<'a>(out: &mut String, view: &View<'a>, notes: &mut Notes<'a>) {
    let groups = view.exclusions();
    if !groups.is_empty() {
        out.push_str("\n## Excluded by the spec\n\n| # | cases | reason |\n|---|---|---|\n");
    }
    for (reason, excluded) in groups {
        let number = notes.next();
        notes.excluded.insert(reason, number);
        let names = named(excluded.iter().map(|excluded| Place::from(*excluded)), NAMES);
        let count = if excluded.len() == 1 { String::new() } else { format!("{}: ", excluded.len()) };
        let _ = writeln!(out, "| {number} | {count}{} | {} |", text(&names), text(reason));
    }
}

fn performance(out: &mut String, view: &View<'_>) {
    let mut titled = false;
    for (at, variant) in view.variants.iter().enumerate() {
        let mut rows = String::new();
        for cell in view.column(at) {
            let Cell::Case(_, case) = cell else { continue };
            // A fallback's figures are in the column of the target that ran it, or of no target that was asked for.
            if matches!(case.status, Outcome::Pass | Outcome::Flaky) {
                performance_row(&mut rows, view, case);
            }
        }
        if rows.is_empty() {
            continue;
        }
        if !titled {
            out.push_str("\n## Performance\n");
            titled = true;
        }
        let _ = writeln!(
            out,
            "\n### {}\n\n| model | median | 95 % interval | first | load | peak RSS | measured |\n|---|--:|---|--:|--:|--:|---|\n{}",
            text(&variant.name()),
            rows.trim_end()
        );
    }
}

fn performance_row(out: &mut String, view: &View<'_>, case: &CaseResult) {
    let Some(m) = &case.metrics else { return };
    let interval = match (m.ci_low_ms, m.ci_high_ms) {
        (Some(low), Some(high)) => format!("{} – {}", ms(low), ms(high)),
        _ => counted(m.samples, "sample"),
    };
    let noisy = if m.noisy { " (noisy)" } else { "" };
    let measured = match (&case.measured, case.cached) {
        (Some(time), true) => format!("{}, earlier", day(time)),
        (None, true) => "earlier".to_owned(),
        (Some(time), false) => format!("{}, this run", day(time)),
        (None, false) => "this run".to_owned(),
    };
    let _ = writeln!(
        out,
        "| {} | {}{} | {interval}{noisy} | {} | {} | {} | {measured} |",
        text(&Place::from(case).row.name()),
        ms(m.median_ms),
        label(view, case),
        ms(m.first_ms),
        ms(m.load_ms),
        m.peak_rss_bytes.map(bytes).unwrap_or_default()
    );
}

fn numerics(out: &mut String, view: &View<'_>) {
    let worst = view.worst();
    if worst.is_empty() {
        return;
    }
    out.push_str("\n## Numerics: the worst of each target\n\n");
    out.push_str(
        "| target | compared | outside | no control | asked | farthest value | max abs | mean abs | cosine |\n",
    );
    out.push_str("|---|--:|--:|--:|---|---|---|---|---|\n");
    for row in worst {
        let asked: Vec<_> = row.asked.iter().map(|asked| text(asked)).collect();
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} ({}) | {} ({}) | {} ({}) | {} ({}){} |",
            text(&row.variant.name()),
            row.cases,
            row.failed,
            row.no_control,
            asked.join("; "),
            super::verdict::bound(row.met.0),
            text(row.met.1),
            error(row.max_abs.0),
            text(row.max_abs.1),
            error(row.mae.0),
            text(row.mae.1),
            cosine(row.cosine.0),
            text(row.cosine.1),
            row.tokens
                .0
                .map(|share| format!("; tokens {} ({})", tokens(share), text(row.tokens.1)))
                .unwrap_or_default()
        );
    }
}

/// Why orch chose targets, if it was asked to.
fn chosen(out: &mut String, doc: &ReportDoc) {
    let mut cases = doc.cases.iter().filter_map(|case| Some((case, case.chosen.as_deref()?))).peekable();
    if cases.peek().is_some() {
        out.push_str("\n## Chosen targets\n\n| case | chosen as |\n|---|---|\n");
    }
    for (case, why) in cases {
        let _ = writeln!(out, "| {} | {} |", text(&case_name(case)), text(why));
    }
}

/// What targets with `half` came to.
fn halves(out: &mut String, view: &View<'_>) {
    for (at, (target, half, cases)) in view.halves().into_iter().enumerate() {
        if at == 0 {
            out.push_str("\n## Half precision\n\n| target | cases | asked | got | why |\n|---|---|---|---|---|\n");
        }
        let (asked, got) = (half.asked.word(), half.got.word());
        let _ = writeln!(out, "| {} | {cases} | {asked} | {got} | {} |", text(target), text(&half.why));
    }
}

fn versions(out: &mut String, view: &View<'_>) {
    let versions = view.versions();
    if versions.is_empty() {
        return;
    }
    out.push_str("\n## Versions\n\n| package | version |\n|---|---|\n");
    for (name, values) in versions {
        let values: Vec<String> = values.iter().map(|value| text(value)).collect();
        let _ = writeln!(out, "| {} | {} |", text(name), values.join(", "));
    }
}

/// Text that stays text inside a table: one line, no markup of Markdown or HTML.
fn text(raw: &str) -> String {
    let mut safe = String::with_capacity(raw.len());
    for c in one_line(raw).chars() {
        match c {
            '<' => safe.push_str("&lt;"),
            '&' => safe.push_str("&amp;"),
            '|' | '`' | '*' | '_' | '[' | ']' | '\\' | '~' => safe.extend(['\\', c]),
            c => safe.push(c),
        }
    }
    safe
}

/// A code span, fenced by more backticks than the text holds in a row. Tables split at `|` even inside code.
fn code(raw: &str) -> String {
    let line = one_line(raw).replace('|', "\\|");
    let longest = line.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    if longest == 0 { format!("{fence}{line}{fence}") } else { format!("{fence} {line} {fence}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_no_markup() {
        assert_eq!(text("a|b\n<img> *x* [y] `z` & \\"), "a\\|b &lt;img> \\*x\\* \\[y\\] \\`z\\` &amp; \\\\");
        assert_eq!(code("orch | cat"), "`orch \\| cat`");
        assert_eq!(code("echo `date`"), "`` echo `date` ``");
    }
}
