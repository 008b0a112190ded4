//! Figures of every passed run, by target.

use super::Section;
use crate::base::figures::{bytes, counted};
use crate::record::Outcome;
use crate::report::CaseResult;
use crate::report::format::{measured, ms, span};
use crate::report::place::Place;
use crate::report::shape::{
    Align::{Left, Right},
    Cell, Column, Shape, Table,
};
use crate::report::view::View;

pub(super) const SECTION: Section =
    Section { id: "performance", title: "Performance", hint: "", is_brief: false, make: performance };

const COLUMNS: &[Column] = &[
    ("model", Left),
    ("median", Right),
    ("95 % interval", Left),
    ("first", Right),
    ("load", Right),
    ("peak RSS", Right),
    ("measured", Left),
];

fn performance<'a>(view: &View<'a>) -> Shape<'a> {
    let table = |(column, variant): (usize, &crate::report::place::Variant<'a>)| {
        // A fallback's figures are in the column of the target that ran it, or of no target that was asked for.
        let is_own = |case: &CaseResult| matches!(case.status, Outcome::Pass | Outcome::Flaky);
        let cases = view.column(column).filter_map(|cell| cell.case()).filter(|(_, case)| is_own(case));
        let (labels, rows): (Vec<_>, Vec<_>) = cases.filter_map(|(at, case)| row(view, at, case)).unzip();
        labels.first().map(|&label| Table { title: variant.name(), label, ..Table::new(COLUMNS, rows) })
    };
    Shape::Tables(view.variants.iter().enumerate().filter_map(table).collect())
}

fn row(view: &View<'_>, at: usize, case: &CaseResult) -> Option<(Option<&'static str>, Vec<Cell>)> {
    let m = case.metrics.as_ref()?;
    let interval = span(m.ci_low_ms, m.ci_high_ms).unwrap_or_else(|| counted(m.samples, "sample"));
    let label = view.label(case);
    let cells = vec![
        Cell { case: Some(at), ..Place::from(case).row.name().into() },
        Cell { label, ..ms(m.median_ms).into() },
        Cell { aside: m.noisy.then(|| "noisy".to_owned()), ..interval.into() },
        ms(m.first_ms).into(),
        ms(m.load_ms).into(),
        m.peak_rss_bytes.map_or_else(|| "not known".to_owned(), bytes).into(),
        measured(case).unwrap_or_else(|| "not known".to_owned()).into(),
    ];
    Some((label, cells))
}
