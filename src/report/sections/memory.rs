//! Who takes how much memory: by column, each model across columns, and the cases that take most.

use super::{CaseResult, Cell, Make, Outcome, Place, Section, Table, View};
use crate::base::figures::bytes;
use crate::report::view;

pub(super) const SECTION: Section = Section {
    id: "memory",
    title: "Memory",
    hint: "Peak resident memory of the process that ran a case, its runtime included.",
    make: Make::Tables(memory),
};

const MOST: usize = 20;

fn memory(view: &View<'_>) -> Vec<Table> {
    let mut cases: Vec<(u64, usize, &CaseResult)> = view
        .cases(|case| case.status == Outcome::Pass)
        .into_iter()
        .filter_map(|(at, case)| Some((peak(case)?, at, case)))
        .collect();
    cases.sort_by_key(|(peak, ..)| std::cmp::Reverse(*peak));
    let row = |(peak, at, case): &(u64, usize, &CaseResult)| {
        vec![Cell { case: Some(*at), ..Place::from(*case).name().into() }, bytes(*peak).into()]
    };
    let top = cases.iter().take(MOST).map(row).collect();
    let by_column = (0..view.variants.len()).filter_map(|at| {
        let mut peaks: Vec<u64> = view.column(at).filter_map(|cell| peak(cell.case()?.1)).collect();
        peaks.sort_unstable();
        let [least, .., most] = peaks[..] else { return None };
        let figures = [least, peaks[peaks.len() / 2], most].map(|peak| Cell::from(bytes(peak)));
        Some([view.variants[at].name().into()].into_iter().chain(figures).collect())
    });
    let across = view.rows.iter().zip(&view.cells).filter_map(|(row, cells)| across(view, row.name(), cells));
    let columns = &["model", "least", "most", "times as much"];
    vec![
        Table { title: "By column".into(), columns: &["column", "least", "median", "most"], rows: by_column.collect() },
        Table { title: "Each model across columns".into(), columns, rows: across.collect() },
        Table { title: "The cases that take most".into(), columns: &["case", "peak"], rows: top },
    ]
}

/// A model where it takes least and where it takes most; None with less than two right results on hardware.
fn across(view: &View<'_>, model: String, cells: &[view::Cell<'_>]) -> Option<Vec<Cell>> {
    let right = cells.iter().enumerate().filter_map(|(column, cell)| Some((column, cell.case()?)));
    let right = right.filter(|(_, (_, case))| view.comparable(case));
    let mut peaks: Vec<(u64, usize, usize)> =
        right.filter_map(|(column, (at, case))| Some((peak(case)?, column, at))).collect();
    peaks.sort_unstable();
    let [least, .., most] = peaks[..] else { return None };
    let cell = |(peak, column, at): (u64, usize, usize)| Cell {
        case: Some(at),
        ..Cell::with(bytes(peak), view.variants[column].name())
    };
    let times = most.0 as f64 / least.0.max(1) as f64;
    Some(vec![model.into(), cell(least), cell(most), format!("{times:.1}").into()])
}

fn peak(case: &CaseResult) -> Option<u64> {
    case.metrics.as_ref()?.peak_rss_bytes
}
