//! The matrix on the console: in blocks of columns that fit beside each other; or, where it fills no screen, its counts.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;

use anstyle::Style;

use super::{Styles, WIDTH, width};
use crate::base::figures::counted;
use crate::record::Outcome;
use crate::report::CaseResult;
use crate::report::format::{glyph, has_figure, ms, remark, word};
use crate::report::names::distinct;
use crate::report::view::{Cell, View};

/// Longer model names are cut, where they can still be told apart: the reports hold them in full.
const NAME: usize = 28;
/// A longer matrix is counted.
const LINES: usize = 80;

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
pub(super) fn matrix(out: &mut String, view: &View<'_>, styles: &Styles) {
    let shown: Vec<usize> = (0..view.variants.len()).filter(|&at| !view.column_unavailable(at)).collect();
    let names = distinct(view.rows.iter().map(|row| row.name()).collect(), NAME);
    let first = names.iter().map(|name| width(name)).max().unwrap_or(0);
    let columns: Vec<(String, Vec<(String, Style)>)> = shown
        .iter()
        .map(|&at| (view.variants[at].name(), view.column(at).map(|cell| cell_text(view, cell, styles)).collect()))
        .collect();
    let widths: Vec<usize> = columns
        .iter()
        .map(|(name, cells)| cells.iter().map(|(text, _)| width(text)).chain([width(name)]).max().unwrap_or(0))
        .collect();
    let blocks = blocks(&widths, first);
    if blocks.len() * (names.len() + 2) > LINES {
        counts(out, view, styles);
        return;
    }
    for block in blocks {
        if block.start > 0 {
            out.push('\n');
        }
        let heading = styles.heading;
        let header = block.clone().map(|at| (columns[at].0.as_str(), heading, widths[at]));
        line(out, ("", first), header);
        for (row, name) in names.iter().enumerate() {
            let cells = block.clone().map(|at| (columns[at].1[row].0.as_str(), columns[at].1[row].1, widths[at]));
            line(out, (name, first), cells);
        }
    }
}

/// The columns that stand beside each other, after a first column of names.
fn blocks(widths: &[usize], first: usize) -> Vec<Range<usize>> {
    let mut blocks = Vec::new();
    let mut from = 0;
    while from < widths.len() {
        let mut until = from + 1;
        let mut used = first + 2 + widths[from];
        while until < widths.len() && used + 2 + widths[until] <= WIDTH {
            used += 2 + widths[until];
            until += 1;
        }
        blocks.push(from..until);
        from = until;
    }
    blocks
}

/// In place of a matrix that is too long: of each column, how many cases came to what.
fn counts(out: &mut String, view: &View<'_>, styles: &Styles) {
    let excluded = (usize::MAX, "· excluded".to_owned(), styles.skip);
    let state = |cell: Cell<'_>| match cell {
        Cell::None => None,
        Cell::Excluded(_) => Some(excluded.clone()),
        Cell::Case(_, case) => {
            let order = Outcome::ALL.iter().position(|status| *status == case.status).unwrap_or_default();
            Some((order, format!("{} {}", glyph(case.status), word(case.status)), styles.of(case.status)))
        }
    };
    let counted_in = |at: usize| {
        let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
        for (order, ..) in view.column(at).filter_map(state) {
            *counts.entry(order).or_default() += 1;
        }
        counts
    };
    let cells = view.cells.iter().flatten().copied().filter_map(state);
    let states: BTreeMap<usize, (String, Style)> = cells.map(|(order, name, style)| (order, (name, style))).collect();
    let names: Vec<String> = view.variants.iter().map(|variant| variant.name()).collect();
    let first = names.iter().map(|name| width(name)).max().unwrap_or(0);
    let columns: Vec<BTreeMap<usize, usize>> = (0..names.len()).map(counted_in).collect();
    let widths: Vec<usize> = states.values().map(|(name, _)| width(name).max(7)).collect();
    for block in blocks(&widths, first) {
        if block.start > 0 {
            out.push('\n');
        }
        let shown = || states.iter().zip(&widths).skip(block.start).take(block.len());
        line(out, ("", first), shown().map(|((_, (name, _)), width)| (name.as_str(), styles.heading, *width)));
        for (name, counts) in names.iter().zip(&columns) {
            let cells = shown().map(|((order, (_, style)), width)| {
                let text = counts.get(order).map(usize::to_string).unwrap_or_default();
                (text, *style, *width)
            });
            let cells: Vec<_> = cells.collect();
            line(out, (name, first), cells.iter().map(|(text, style, width)| (text.as_str(), *style, *width)));
        }
    }
    let (rows, dim) = (counted(view.rows.len(), "row"), styles.skip);
    let _ = writeln!(
        out,
        "\n{dim}the matrix has {rows}: it is in the report's index.html and matrix.md (`orch report --format html`){dim:#}"
    );
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
