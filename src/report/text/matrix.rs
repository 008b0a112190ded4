//! The matrix on the console: in blocks of columns that fit beside each other; or, where it fills no screen, its counts.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;

use anstyle::Style;

use super::{Styles, sentence, width};
use crate::base::figures::counted;
use crate::report::names::distinct;
use crate::report::shape::{Matrix, Row, Square};

/// Longer model names are cut, where they are still distinct: the reports hold them in full.
const NAME: usize = 28;
/// The number of models up to which each is shown, whether anything is known of it or not.
const FEW: usize = 8;
/// A longer matrix is counted.
const LINES: usize = 80;

/// Text of a cell, and how to mark it.
fn cell(square: Option<&Square<'_>>, styles: &Styles) -> (String, Style) {
    let Some(square) = square else {
        return (String::new(), Style::new());
    };
    let mut text = format!(
        "{} {}",
        square.glyph,
        square.figure.as_deref().unwrap_or(square.word)
    );
    for label in &square.labels {
        text.push(' ');
        text.push_str(match *label {
            "emulated" => "emul.",
            "software" => "softw.",
            "cast to fp32" => "casts",
            "reduced range" => "reduced",
            "export helped" => "helped",
            label => label,
        });
    }
    (text, styles.of(square.kind))
}

/// Columns in which nothing is available are left out here: the section of the unavailable gives each backend one line.
pub(super) fn matrix(out: &mut String, matrix: &Matrix<'_>, styles: &Styles) {
    let (rows, unreached): (Vec<_>, Vec<_>) = matrix
        .rows
        .iter()
        .partition(|row| matrix.rows.len() <= FEW || is_reached(row));
    let names = distinct(rows.iter().map(|row| row.name.clone()).collect(), NAME);
    let shown = matrix
        .columns
        .iter()
        .enumerate()
        .filter(|(_, column)| !column.unavailable);
    let columns = shown.map(|(at, column)| {
        let cells = rows
            .iter()
            .map(|row| cell(row.cells[at].as_ref(), styles))
            .collect();
        Column {
            name: column.name.clone(),
            cells,
        }
    });
    let columns: Vec<Column> = columns.collect();
    if blocks(&columns, &names, styles.width).len() * (names.len() + 2) > LINES {
        counts(out, matrix, styles);
    } else if !rows.is_empty() {
        table(out, &names, &columns, styles);
    }
    if !unreached.is_empty() {
        let style = styles.incomplete;
        let _ = writeln!(
            out,
            "{style}of {} no case was finished{style:#}",
            counted(unreached.len(), "model")
        );
    }
}

/// Whether an interrupt left a model with more than cases that did not end.
fn is_reached(row: &Row<'_>) -> bool {
    let mut kinds = row.cells.iter().flatten().map(|square| square.kind);
    let is_cut = kinds.clone().any(|kind| kind == "incomplete");
    !is_cut || kinds.any(|kind| !["incomplete", "excluded", "unavailable"].contains(&kind))
}

/// Each text with its style.
struct Column {
    name: String,
    cells: Vec<(String, Style)>,
}

impl Column {
    fn width(&self) -> usize {
        self.cells
            .iter()
            .map(|(text, _)| width(text))
            .chain([width(&self.name)])
            .max()
            .unwrap_or(0)
    }
}

/// The columns that stand beside each other, after a first column of names.
fn blocks(columns: &[Column], names: &[String], line: usize) -> Vec<Range<usize>> {
    let first = longest(names);
    let mut blocks = Vec::<Range<usize>>::new();
    let mut used = 0;
    for (at, width) in columns.iter().map(Column::width).enumerate() {
        used += 2 + width;
        match blocks.last_mut() {
            Some(block) if used <= line => block.end = at + 1,
            _ => {
                blocks.push(at..at + 1);
                used = first + 2 + width;
            }
        }
    }
    blocks
}

fn longest(names: &[String]) -> usize {
    names.iter().map(|name| width(name)).max().unwrap_or(0)
}

fn table(out: &mut String, names: &[String], columns: &[Column], styles: &Styles) {
    let first = longest(names);
    let heading = styles.heading;
    for block in blocks(columns, names, styles.width) {
        if block.start > 0 {
            out.push('\n');
        }
        let shown: Vec<(&Column, usize)> = columns[block]
            .iter()
            .map(|column| (column, column.width()))
            .collect();
        line(
            out,
            ("", first),
            shown
                .iter()
                .map(|(column, width)| (&*column.name, heading, *width)),
        );
        for (row, name) in names.iter().enumerate() {
            let cells = shown
                .iter()
                .map(|(column, width)| (&*column.cells[row].0, column.cells[row].1, *width));
            line(out, (name, first), cells);
        }
    }
}

/// Writes what stands for a matrix that is too long: of each column, how many cases came to what.
fn counts(out: &mut String, matrix: &Matrix<'_>, styles: &Styles) {
    let names: Vec<String> = matrix
        .columns
        .iter()
        .map(|column| column.name.clone())
        .collect();
    let squares = || {
        matrix
            .rows
            .iter()
            .flat_map(|row| row.cells.iter().enumerate())
    };
    let mut states: BTreeMap<usize, (&Square<'_>, Vec<usize>)> = BTreeMap::new();
    for (at, square) in squares().filter_map(|(at, square)| Some((at, square.as_ref()?))) {
        states
            .entry(square.order)
            .or_insert_with(|| (square, vec![0; names.len()]))
            .1[at] += 1;
    }
    let columns = states.into_values().map(|(square, counts)| {
        let text = |count: usize| {
            if count > 0 {
                count.to_string()
            } else {
                String::new()
            }
        };
        let cells = counts
            .into_iter()
            .map(|count| (text(count), styles.of(square.kind)))
            .collect();
        Column {
            name: format!("{} {}", square.glyph, square.word),
            cells,
        }
    });
    let columns: Vec<Column> = columns.collect();
    table(out, &names, &columns, styles);
    let rows = counted(matrix.rows.len(), "row");
    let dim = styles.skip;
    let place = "it is in the report's index.html and matrix.md (`orch report --format html`)";
    out.extend([
        "\n",
        &sentence(&format!("the matrix has {rows}: {place}"), dim, styles),
    ]);
}

/// Pads outside the style, and never at the end of the line.
fn line<'t>(
    out: &mut String,
    (name, first): (&str, usize),
    cells: impl Iterator<Item = (&'t str, Style, usize)>,
) {
    out.push_str(name);
    let mut gap = first - width(name);
    for (text, style, column) in cells {
        gap += 2;
        if !text.is_empty() {
            out.push_str(&" ".repeat(gap));
            let _ = write!(out, "{style}{text}{style:#}");
            gap = 0;
        }
        gap += column - width(text);
    }
    out.push('\n');
}
