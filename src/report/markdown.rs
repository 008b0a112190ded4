//! `matrix.md`, also the step summary of a CI run: the matrix with numbered notes, then what each number means.
//!
//! The notes are the lists below the matrix: each item's `#` is the number that its cells carry.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::format::one_line;
use super::quiet::MARK;
use super::sections::{self, Made};
use super::shape::{Cell, Item, Matrix, Shape, Square, Table};
use super::text::{Styles, summary_line};
use super::view::View;
use super::{ReportDoc, answer, head};

/// So many cases of a cause are named.
const NAMES: usize = 8;

pub fn render(doc: &ReportDoc) -> String {
    of(doc, |_| true)
}

/// Renders these sections only, by the anchors that they have on the HTML page.
pub fn render_only(doc: &ReportDoc, sections: &[String]) -> String {
    of(doc, |id| sections.iter().any(|section| section == id))
}

fn of(doc: &ReportDoc, is_shown: impl Fn(&str) -> bool) -> String {
    let view = View::new(doc);
    let mut sections = sections::made(&view, true);
    sections.retain(|made| is_shown(made.id));
    let items = sections.iter().filter_map(|made| {
        if let Shape::List(items) = &made.shape {
            Some(items)
        } else {
            None
        }
    });
    let numbers = numbers(items.flatten());
    let mut out = format!("# orch: {}\n\n", text(&doc.spec));
    let summary = summary_line(&doc.summary, &Styles::plain())
        .replacen("   ", "** · ", 1)
        .replace("   ", " · ");
    let _ = writeln!(out, "**{summary}\n");
    for sentence in answer::sentences(&view) {
        let _ = writeln!(out, "{}\n", text(&sentence));
    }
    if let Some(scope) = &doc.scope {
        let _ = writeln!(out, "Not the whole spec: {}.\n", text(scope));
    }
    let _ = writeln!(out, "Host {}.", text(&head::machine(doc)));
    for line in head::run(doc).into_iter().chain(head::all_weights(doc)) {
        let _ = writeln!(out, "\n{}.", text(&line));
    }
    for section in &sections {
        match &section.shape {
            Shape::Matrix(shape) => matrix(&mut out, shape, &numbers),
            Shape::List(items) => {
                title(&mut out, section);
                list(&mut out, &view, items, &numbers);
            }
            Shape::Tables(tables) => {
                title(&mut out, section);
                tables.iter().for_each(|shape| table(&mut out, shape));
            }
            // Its figures stand in tables too.
            Shape::Charts(_) => {}
        }
    }
    out
}

fn title(out: &mut String, section: &Made<'_>) {
    let _ = writeln!(out, "\n## {}", section.title);
    if !section.hint.is_empty() {
        let _ = writeln!(out, "\n{}", section.hint);
    }
}

/// The number of each case's item.
fn numbers<'i>(items: impl Iterator<Item = &'i Item<'i>>) -> HashMap<usize, usize> {
    let items = items.filter(|item| is_numbered(item)).zip(1..);
    items
        .flat_map(|(item, number)| item.cases.iter().map(move |at| (*at, number)))
        .collect()
}

/// What is a state of cases: their cells name it.
fn is_numbered(item: &Item<'_>) -> bool {
    !item.cases.is_empty() && !item.glyph.is_empty()
}

fn matrix(out: &mut String, matrix: &Matrix<'_>, numbers: &HashMap<usize, usize>) {
    if matrix.rows.is_empty() {
        out.push_str("\nNo cases.\n");
        return;
    }
    let columns: Vec<String> = matrix
        .columns
        .iter()
        .map(|column| text(&column.name))
        .collect();
    let is_sized = matrix.rows.iter().any(|row| row.parameters.is_some());
    let (title, rule) = if is_sized {
        (" parameters |", "--:|")
    } else {
        ("", "")
    };
    let rules = "---|".repeat(columns.len());
    let _ = writeln!(
        out,
        "\n| model |{title} {} |\n|---|{rule}{rules}",
        columns.join(" | ")
    );
    for row in &matrix.rows {
        let size = if is_sized {
            format!(" {} |", row.parameters.as_deref().unwrap_or("–"))
        } else {
            String::new()
        };
        let cells: Vec<String> = row
            .cells
            .iter()
            .map(|cell| square(cell.as_ref(), numbers))
            .collect();
        let _ = writeln!(out, "| {} |{size} {} |", text(&row.name), cells.join(" | "));
    }
    if let Some(statistic) = &matrix.statistic {
        let _ = writeln!(out, "\n{statistic}");
    }
    if let Some(legend) = matrix.legend {
        let _ = writeln!(out, "\n{legend}");
    }
    for line in [&matrix.not_quiet, &matrix.earlier, &matrix.machines]
        .into_iter()
        .flatten()
    {
        let _ = writeln!(out, "\n{}.", line.replace(MARK, "\\~"));
    }
}

fn square(square: Option<&Square<'_>>, numbers: &HashMap<usize, usize>) -> String {
    let Some(square) = square else {
        return String::new();
    };
    let labels: String = square
        .labels
        .iter()
        .map(|label| format!(" *{label}*"))
        .collect();
    let number = numbers
        .get(&square.at)
        .map(|number| format!(" <sup>{number}</sup>"))
        .unwrap_or_default();
    let shown = text(square.figure.as_deref().unwrap_or(square.word));
    format!("{} {shown}{labels}{number}", square.glyph)
}

fn list(out: &mut String, view: &View<'_>, items: &[Item<'_>], numbers: &HashMap<usize, usize>) {
    let is_repeatable = items.iter().any(|item| item.repro.is_some());
    let (title, rule) = if is_repeatable {
        (" repro |", "---|")
    } else {
        ("", "")
    };
    let _ = writeln!(
        out,
        "\n| # | cases | status | why |{title}\n|---|---|---|---|{rule}"
    );
    for item in items {
        let first = item.cases.first().filter(|_| is_numbered(item));
        let number = first
            .map(|at| format!("{} ", numbers[at]))
            .unwrap_or_default();
        let stage = item
            .stage
            .map(|stage| format!(" at {}", text(stage)))
            .unwrap_or_default();
        let lines: Vec<String> = item.lines.iter().map(|line| text(line)).collect();
        let mark = text(&item.mark());
        let why = lines.join("<br>");
        let _ = write!(
            out,
            "| {number}| {}{stage} | {mark} | {why} |",
            whose(view, item)
        );
        if is_repeatable {
            let _ = write!(out, " {} |", item.repro.map(code).unwrap_or_default());
        }
        out.push('\n');
    }
}

/// The cases it is about; the matrix identifies the rest by its number.
fn whose(view: &View<'_>, item: &Item<'_>) -> String {
    match (&item.whose, item.cases.len()) {
        (Some(whose), _) => text(whose),
        (None, 1) => text(&view.names(&item.cases, 1)),
        (None, count) => format!("{count}: {}", text(&view.names(&item.cases, NAMES))),
    }
}

fn table(out: &mut String, table: &Table) {
    if !table.title.is_empty() {
        let _ = writeln!(out, "\n### {}", text(&table.title));
    }
    // Figures stand to the right.
    let is_figure = |cell: &Cell| {
        cell.text
            .starts_with(|c: char| c.is_ascii_digit() || "–✗~".contains(c))
    };
    let rule = |at: usize| {
        if table.rows.iter().all(|row| is_figure(&row[at])) {
            "--:|"
        } else {
            "---|"
        }
    };
    let rules: String = (0..table.columns.len()).map(rule).collect();
    let _ = writeln!(out, "\n| {} |\n|{rules}", table.columns.join(" | "));
    for row in &table.rows {
        let _ = writeln!(
            out,
            "| {} |",
            row.iter().map(cell).collect::<Vec<_>>().join(" | ")
        );
    }
}

fn cell(cell: &Cell) -> String {
    let label = cell
        .label
        .map(|label| format!(" *{label}*"))
        .unwrap_or_default();
    let aside = cell
        .aside
        .as_ref()
        .map(|aside| format!(" ({})", text(aside)))
        .unwrap_or_default();
    format!("{}{label}{aside}", text(&cell.text))
}

/// Text that stays text inside a table: one line, no markup of Markdown or HTML.
pub(super) fn text(raw: &str) -> String {
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
    if longest == 0 {
        format!("{fence}{line}{fence}")
    } else {
        format!("{fence} {line} {fence}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_no_markup() {
        assert_eq!(
            text("a|b\n<img> *x* [y] `z` & \\"),
            "a\\|b &lt;img> \\*x\\* \\[y\\] \\`z\\` &amp; \\\\"
        );
        assert_eq!(code("orch | cat"), "`orch \\| cat`");
        assert_eq!(code("echo `date`"), "`` echo `date` ``");
    }
}
