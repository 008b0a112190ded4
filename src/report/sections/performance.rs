//! Figures of every passed run, by target.

use super::{CaseResult, Cell, Outcome, Place, Table, View, counted};
use crate::base::figures::bytes;
use crate::report::Machine;
use crate::report::format::{measured, ms, span};
use crate::report::place::Variant;

pub(super) fn performance(view: &View<'_>) -> Vec<Table> {
    // A fallback's figures are in the column of the target that ran it, or of no target that the spec names.
    let is_own = |case: &CaseResult| matches!(case.status, Outcome::Pass | Outcome::Flaky);
    let table = |(column, variant): (usize, &Variant<'_>)| {
        let cases = view
            .column(column)
            .filter_map(|cell| cell.case())
            .filter(|(_, case)| is_own(case));
        let rows = cases.filter_map(|(at, case)| row(view, at, case)).collect();
        let columns = &[
            "model", "median", "rounds", "first", "load", "peak RSS", "measured",
        ];
        Table {
            title: variant.name(),
            columns,
            rows,
        }
    };
    view.variants.iter().enumerate().map(table).collect()
}

fn row(view: &View<'_>, at: usize, case: &CaseResult) -> Option<Vec<Cell>> {
    let m = case.metrics.as_ref()?;
    let rounds = counted(m.rounds.len().max(1), "round");
    let spread = span(m.median_low_ms, m.median_high_ms)
        .map(|span| format!("{span} in {rounds}"))
        .unwrap_or(rounds);
    let not_known = || "not known".to_owned();
    Some(vec![
        Cell {
            case: Some(at),
            ..Place::from(case).row.name().into()
        },
        Cell {
            label: view.label(case),
            ..m.latency().into()
        },
        Cell {
            aside: m.why_not_quiet(),
            ..spread.into()
        },
        ms(m.first_ms).into(),
        ms(m.load_ms).into(),
        m.peak_rss_bytes.map_or_else(not_known, bytes).into(),
        Cell {
            aside: view
                .letter(case)
                .map(|_| Machine::of(view.doc, case).description()),
            ..measured(case).unwrap_or_else(not_known).into()
        },
    ])
}
