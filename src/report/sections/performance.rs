//! Figures of every passed run, by target.

use super::{CaseResult, Cell, Make, Outcome, Place, Section, Table, View, counted};
use crate::base::figures::bytes;
use crate::report::format::{measured, ms, span};

pub(super) const SECTION: Section =
    Section { id: "performance", title: "Performance", hint: "", make: Make::Tables(performance) };

fn performance(view: &View<'_>) -> Vec<Table> {
    // A fallback's figures are in the column of the target that ran it, or of no target that was asked for.
    let is_own = |case: &CaseResult| matches!(case.status, Outcome::Pass | Outcome::Flaky);
    let table = |(column, variant): (usize, &crate::report::place::Variant<'_>)| {
        let cases = view.column(column).filter_map(|cell| cell.case()).filter(|(_, case)| is_own(case));
        let rows = cases.filter_map(|(at, case)| row(view, at, case)).collect();
        let columns = &["model", "median", "95 % interval", "first", "load", "peak RSS", "measured"];
        Table { title: variant.name(), columns, rows }
    };
    view.variants.iter().enumerate().map(table).collect()
}

fn row(view: &View<'_>, at: usize, case: &CaseResult) -> Option<Vec<Cell>> {
    let m = case.metrics.as_ref()?;
    let interval = span(m.ci_low_ms, m.ci_high_ms).unwrap_or_else(|| counted(m.samples, "sample"));
    let not_known = || "not known".to_owned();
    Some(vec![
        Cell { case: Some(at), ..Place::from(case).row.name().into() },
        Cell { label: view.label(case), ..ms(m.median_ms).into() },
        Cell { aside: m.noisy.then(|| "noisy".to_owned()), ..interval.into() },
        ms(m.first_ms).into(),
        ms(m.load_ms).into(),
        m.peak_rss_bytes.map_or_else(not_known, bytes).into(),
        measured(case).unwrap_or_else(not_known).into(),
    ])
}
