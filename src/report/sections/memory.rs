//! Who takes how much memory: by column, each model across columns, and the cases that take most.

use super::{CaseResult, Cell, Outcome, Table, View};
use crate::base::figures::bytes;
use crate::report::view;

const MOST: usize = 20;
const BY_COLUMN: &[&str] = &["column", "least", "median", "most", "most on the device"];

pub(super) fn memory(view: &View<'_>) -> Vec<Table> {
    let passed = view.cases(|case| case.status == Outcome::Pass).into_iter();
    let mut cases: Vec<_> = passed.filter_map(|(at, case)| Some((case.peak_rss()?, at, case))).collect();
    cases.sort_by_key(|(peak, ..)| std::cmp::Reverse(*peak));
    let row = |(peak, at, case): &(u64, usize, &CaseResult)| {
        let device = Cell::or_dash(on_device(case).map(bytes));
        vec![Cell::of_case(*at, case), bytes(*peak).into(), device]
    };
    let top = cases.iter().take(MOST).map(row).collect();
    let by_column = (0..view.variants.len()).filter_map(|at| {
        let mut peaks: Vec<u64> = view.column(at).filter_map(|cell| cell.case()?.1.peak_rss()).collect();
        peaks.sort_unstable();
        let [least, .., most] = peaks[..] else { return None };
        let figures = [least, peaks[peaks.len() / 2], most].map(|peak| Cell::from(bytes(peak)));
        let device = Cell::or_dash(view.column(at).filter_map(|cell| on_device(cell.case()?.1)).max().map(bytes));
        Some([view.variants[at].name().into()].into_iter().chain(figures).chain([device]).collect())
    });
    let across = view.rows.iter().zip(&view.cells).filter_map(|(row, cells)| across(view, row.name(), cells));
    let columns = &["model", "least", "most", "times as much"];
    vec![
        Table { title: "By column".into(), columns: BY_COLUMN, rows: by_column.collect() },
        Table { title: "Each model across columns".into(), columns, rows: across.collect() },
        Table { title: "The cases that take most".into(), columns: &["case", "peak", "on the device"], rows: top },
    ]
}

/// A model where it takes least and where it takes most; None with less than two right results on hardware.
fn across(view: &View<'_>, model: String, cells: &[view::Cell<'_>]) -> Option<Vec<Cell>> {
    let right = cells.iter().enumerate().filter_map(|(column, cell)| Some((column, cell.case()?)));
    let right = right.filter(|(_, (_, case))| view.comparable(case));
    let mut peaks: Vec<(u64, usize, usize)> =
        right.filter_map(|(column, (at, case))| Some((case.peak_rss()?, column, at))).collect();
    peaks.sort_unstable();
    let [least, .., most] = peaks[..] else { return None };
    let cell = |(peak, column, at): (u64, usize, usize)| Cell {
        case: Some(at),
        ..Cell::with(bytes(peak), view.variants[column].name())
    };
    let times = most.0 as f64 / least.0.max(1) as f64;
    Some(vec![model.into(), cell(least), cell(most), format!("{times:.1}").into()])
}

fn on_device(case: &CaseResult) -> Option<u64> {
    case.metrics.as_ref()?.peak_device_bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;
    use crate::report::view::case_name;

    #[test]
    fn a_device_s_own_memory_is_told_beside_the_process_s() {
        let mut doc = fixture();
        doc.cases.retain(|case| case.target == "cpu" && case.metrics.is_some());
        for (at, bytes) in [3 << 20, 5 << 20].into_iter().enumerate() {
            doc.cases[at].metrics.as_mut().unwrap().peak_device_bytes = Some(bytes);
        }
        let (tables, name) = (memory(&View::new(&doc)), case_name(&doc.cases[1]));
        let texts = |row: &[Cell]| row.iter().map(|cell| cell.text.clone()).collect::<Vec<_>>();
        assert_eq!(texts(&tables[0].rows[0]).last().unwrap(), "5.0 MiB");
        let top: Vec<_> = tables[2].rows.iter().map(|row| texts(row)).collect();
        assert!(top.iter().any(|row| row[0] == name && row[2] == "5.0 MiB"), "{top:?}");
        assert!(top.iter().any(|row| row[2] == "–"), "{top:?}");
    }
}
