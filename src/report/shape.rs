//! The shapes that a report is made of. Sections make them, once for all pages; each page shows each shape in its one way,
//! and knows nothing else. Every figure is text by now.
//!
//! A case is named by its position in the document; exclusions are counted on after the cases ([`View::place`]).
//!
//! [`View::place`]: super::view::View::place

use serde::Serialize;

use super::cause::Cause;
use super::chart::Chart;
use super::format::{glyph, kind_of};
use super::sections::matrix::Matrix;

#[derive(Serialize)]
#[serde(tag = "shape", content = "body", rename_all = "lowercase")]
pub(super) enum Shape<'a> {
    Matrix(Matrix<'a>),
    /// What a reader must be told.
    List(Vec<Item<'a>>),
    /// Figures to look up.
    Tables(Vec<Table>),
    Charts(Vec<Chart>),
}

/// One thing to read, however many cases it is about.
#[derive(Serialize)]
pub(super) struct Item<'a> {
    /// As [`kind`](super::format::kind) has it, or empty.
    pub(super) kind: &'static str,
    pub(super) glyph: &'static str,
    pub(super) label: &'a str,
    /// Whom it is about, where that is not told by the names of the cases.
    pub(super) whose: Option<String>,
    pub(super) cases: Vec<usize>,
    pub(super) stage: Option<&'a str>,
    /// The reason, and what else is to be said.
    pub(super) lines: Vec<String>,
    pub(super) repro: Option<&'a str>,
}

impl<'a> Item<'a> {
    pub(super) fn of(cause: &Cause<'a>) -> Self {
        Self {
            kind: kind_of(cause.first()),
            glyph: glyph(cause.status),
            label: cause.status.label(),
            whose: None,
            cases: cause.cases.iter().map(|(at, _)| *at).collect(),
            stage: cause.stage,
            lines: vec![cause.told()],
            repro: cause.repro(),
        }
    }

    /// What is no state of a case.
    pub(super) fn about(label: &'a str, whose: String, line: String) -> Self {
        let (cases, lines) = (Vec::new(), vec![line]);
        Self { kind: "", glyph: "", label, whose: Some(whose), cases, stage: None, lines, repro: None }
    }
}

#[derive(Serialize)]
pub(super) struct Table {
    /// Empty, if the section's title is enough. One with a title is folded where a page can do that.
    pub(super) title: String,
    pub(super) columns: &'static [&'static str],
    pub(super) rows: Vec<Vec<Cell>>,
}

#[derive(Default, Serialize)]
pub(super) struct Cell {
    pub(super) text: String,
    /// Whose the figure is, or what is odd about it.
    pub(super) aside: Option<String>,
    pub(super) label: Option<&'static str>,
    /// Where its details are.
    pub(super) case: Option<usize>,
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self { text: text.into(), ..Self::default() }
    }
}

impl Cell {
    pub(super) fn with(text: impl Into<String>, aside: impl Into<String>) -> Self {
        Self { text: text.into(), aside: Some(aside.into()), ..Self::default() }
    }
}
