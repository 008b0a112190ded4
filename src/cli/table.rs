//! Rows as people read them in a terminal: in columns, figures to the right.

use std::fmt::Write as _;

use crate::base::text::{padding, shown};
use crate::cli::printer::{BOLD, DIM};

/// A table with a head. What is not there is shown as `-`.
pub(super) fn table(columns: &[&str], rows: &[Vec<Option<String>>]) -> String {
    let cell = |cell: &Option<String>| {
        cell.as_deref()
            .map_or_else(|| "-".to_owned(), |text| shown(&text.replace('\n', " ")))
    };
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|row| row.iter().map(cell).collect())
        .collect();
    let width = |at: usize| {
        let cells = rows.iter().map(|row| row[at].chars().count());
        cells
            .chain([columns[at].chars().count()])
            .max()
            .unwrap_or_default()
    };
    let is_figure = |text: &String| {
        text == "-" || text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c))
    };
    let layout: Vec<(usize, bool)> = (0..columns.len())
        .map(|at| {
            (
                width(at),
                !rows.is_empty() && rows.iter().all(|row| is_figure(&row[at])),
            )
        })
        .collect();
    let line = |cells: &[String]| {
        let padded = cells
            .iter()
            .zip(&layout)
            .map(|(cell, (width, right))| match right {
                true => padding(cell, *width) + cell,
                false => cell.clone() + &padding(cell, *width),
            });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let head: Vec<String> = columns.iter().map(|name| shown(name)).collect();
    let mut text = format!("{BOLD}{}{BOLD:#}\n", line(&head));
    for row in &rows {
        let _ = writeln!(text, "{}", line(row));
    }
    if rows.is_empty() {
        let _ = writeln!(text, "{DIM}no rows{DIM:#}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_may_be_wider_than_a_format_string_can_say() {
        let wide = "x".repeat(70_000);
        let rows = [vec![Some(wide.clone())], vec![Some("y".to_owned())]];
        assert!(table(&["name"], &rows).contains(&wide));
    }

    #[test]
    fn figures_stand_to_the_right_and_what_is_missing_is_shown() {
        let text = |text: &str| Some(text.to_owned());
        let rows = [vec![text("bert"), text("1.5")], vec![text("a\nb"), None]];
        let shown = table(&["model", "ms"], &rows);
        let plain = anstream::adapter::strip_str(&shown).to_string();
        assert_eq!(plain, "model   ms\nbert   1.5\na b      -\n");
        assert!(
            anstream::adapter::strip_str(&table(&["x"], &[]))
                .to_string()
                .contains("no rows")
        );
    }
}
