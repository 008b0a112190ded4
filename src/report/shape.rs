//! The shapes that a report is made of. Sections make them, once for all pages; each page shows each shape in its one way,
//! and knows nothing else. Every figure is text by now.
//!
//! A case is named by its position in the document; exclusions are counted on after the cases ([`View::place`]).
//!
//! [`View::place`]: super::view::View::place

use serde::Serialize;
use serde_json::Value;

use super::CaseResult;
use super::cause::Cause;
use super::format::{glyph, kind_of};
use super::place::Place;

#[derive(Serialize)]
#[serde(tag = "shape", content = "body", rename_all = "lowercase")]
pub(super) enum Shape<'a> {
    Matrix(Matrix<'a>),
    /// What a reader must see.
    List(Vec<Item<'a>>),
    /// Figures to look up.
    Tables(Vec<Table>),
    /// What a script draws: of each model the medians at one size side by side.
    Charts(Vec<Value>),
}

#[derive(Serialize)]
pub(super) struct Matrix<'a> {
    pub(super) columns: Vec<Column<'a>>,
    pub(super) rows: Vec<Row<'a>>,
    /// What its figures are, if it has any.
    pub(super) statistic: Option<String>,
    /// How many figures are not quiet, and what to do.
    pub(super) not_quiet: Option<String>,
    /// How many figures come from earlier runs, and from which days.
    pub(super) earlier: Option<String>,
    /// The machines on which they were measured, where it was not the one that wrote the report.
    pub(super) machines: Option<String>,
    /// What some of its labels mean.
    pub(super) legend: Option<&'static str>,
}

#[derive(Serialize)]
pub(super) struct Column<'a> {
    pub(super) at: usize,
    pub(super) name: String,
    pub(super) target: &'a str,
    pub(super) precision: &'a str,
    /// Nothing is there of what it asks for.
    pub(super) unavailable: bool,
    /// What all of its results have in common instead of figures: `untimed, emulated`.
    pub(super) untimed: Option<String>,
}

#[derive(Serialize)]
pub(super) struct Row<'a> {
    pub(super) name: String,
    pub(super) about: String,
    /// How many its model has: `83.9 k`.
    pub(super) parameters: Option<String>,
    /// None: the spec does not ask for this pair.
    pub(super) cells: Vec<Option<Square<'a>>>,
}

#[derive(Serialize)]
pub(super) struct Square<'a> {
    pub(super) at: usize,
    pub(super) kind: &'static str,
    pub(super) glyph: &'static str,
    /// The place of its state among all.
    #[serde(skip)]
    pub(super) order: usize,
    /// Its state.
    pub(super) word: &'static str,
    /// Its median, or that it is right and untimed; None of a case that shows its state instead.
    pub(super) figure: Option<String>,
    /// The remark beside the figure.
    pub(super) labels: Vec<&'static str>,
    pub(super) reason: Option<&'a str>,
}

/// One thing to read, however many cases it is about.
#[derive(Serialize)]
pub(super) struct Item<'a> {
    /// The kind as [`kind`](super::format::kind) has it, or empty.
    pub(super) kind: &'static str,
    pub(super) glyph: &'static str,
    pub(super) label: &'a str,
    /// Whom it is about, where the names of the cases do not show it.
    pub(super) whose: Option<String>,
    pub(super) cases: Vec<usize>,
    pub(super) stage: Option<&'a str>,
    /// The reason, and other remarks.
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
            lines: vec![cause.message()],
            repro: cause.repro(),
        }
    }

    /// `✗ FAIL`
    pub(super) fn mark(&self) -> String {
        if self.glyph.is_empty() {
            self.label.to_owned()
        } else {
            format!("{} {}", self.glyph, self.label)
        }
    }

    /// What is no state of a case.
    pub(super) fn about(label: &'a str, whose: String, line: String) -> Self {
        let cases = Vec::new();
        let lines = vec![line];
        Self {
            kind: "",
            glyph: "",
            label,
            whose: Some(whose),
            cases,
            stage: None,
            lines,
            repro: None,
        }
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
    /// The owner of the figure, or what is odd about it.
    pub(super) aside: Option<String>,
    pub(super) label: Option<&'static str>,
    /// The number of the case whose details are shown.
    pub(super) case: Option<usize>,
    /// The first cell's cases that the row is of, where they are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) of: Vec<usize>,
    /// How a page makes it anew of those of them that a reader chose: of which figure of theirs, `median latency`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) sum: Option<&'static str>,
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }
}

impl Cell {
    /// The name of a case, which leads to its details.
    pub(super) fn of_case(at: usize, case: &CaseResult) -> Self {
        Self {
            case: Some(at),
            ..Place::from(case).name().into()
        }
    }

    /// The first of a row.
    pub(super) fn of_cases(
        text: impl Into<String>,
        cases: impl IntoIterator<Item = usize>,
    ) -> Self {
        Self {
            of: cases.into_iter().collect(),
            ..Self::from(text)
        }
    }

    pub(super) fn sum(cell: impl Into<Self>, sum: &'static str) -> Self {
        Self {
            sum: Some(sum),
            ..cell.into()
        }
    }

    pub(super) fn or_dash(text: Option<impl Into<Self>>) -> Self {
        text.map_or_else(|| "–".into(), Into::into)
    }

    pub(super) fn with(text: impl Into<String>, aside: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            aside: Some(aside.into()),
            ..Self::default()
        }
    }
}
