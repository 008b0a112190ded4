//! Who takes how much memory: by column, each model across columns, and the cases that take most.

use super::{CaseResult, Cell, Outcome, Table, View};
use crate::base::figures::bytes;
use crate::report::stats::{quantile, sorted};
use crate::report::view;

const MOST: usize = 20;
const BY_COLUMN: &[&str] = &["column", "least", "median", "most", "most on the device"];

pub(super) fn memory(view: &View<'_>) -> Vec<Table> {
    let passed = view.cases(|case| case.status == Outcome::Pass).into_iter();
    let mut cases: Vec<_> = passed
        .filter_map(|(at, case)| Some((case.peak_rss()?, at, case)))
        .collect();
    cases.sort_by_key(|(peak, ..)| std::cmp::Reverse(*peak));
    let row = |(peak, at, case): &(u64, usize, &CaseResult)| {
        let device = Cell::sum(Cell::or_dash(on_device(case).map(bytes)), "each device");
        vec![
            Cell::sum(Cell::of_case(*at, case), "most memory"),
            Cell::sum(bytes(*peak), "each memory"),
            device,
        ]
    };
    let top = cases.iter().take(MOST).map(row).collect();
    let by_column = view
        .variants
        .iter()
        .enumerate()
        .filter_map(|(column, variant)| {
            let measured = view.column(column).filter_map(|cell| cell.case());
            let measured: Vec<_> = measured
                .filter_map(|(at, case)| Some((at, case, case.peak_rss()? as f64)))
                .collect();
            let peaks = sorted(measured.iter().map(|(.., peak)| *peak));
            let [least, .., most] = peaks[..] else {
                return None;
            };
            let figures = [
                (least, "least memory"),
                (quantile(&peaks, 0.5), "median memory"),
                (most, "most memory"),
            ];
            let figures = figures.map(|(peak, sum)| Cell::sum(bytes(peak as u64), sum));
            let device = measured
                .iter()
                .filter_map(|(_, case, _)| on_device(case))
                .max();
            let device = Cell::sum(Cell::or_dash(device.map(bytes)), "most device");
            let column = Cell::of_cases(variant.name(), measured.iter().map(|(at, ..)| *at));
            Some(
                [column]
                    .into_iter()
                    .chain(figures)
                    .chain([device])
                    .collect(),
            )
        });
    let across = view
        .rows
        .iter()
        .zip(&view.cells)
        .filter_map(|(row, cells)| across(view, row.name(), cells));
    let columns = &["model", "least", "most", "times as much"];
    vec![
        Table {
            title: "By column".into(),
            columns: BY_COLUMN,
            rows: by_column.collect(),
        },
        Table {
            title: "Each model across columns".into(),
            columns,
            rows: across.collect(),
        },
        Table {
            title: "The cases that take most".into(),
            columns: &["case", "peak", "on the device"],
            rows: top,
        },
    ]
}

/// A model where it takes least and where it takes most, on the machine that measured its first right result; None with
/// less than two of them on hardware.
fn across(view: &View<'_>, model: String, cells: &[view::Cell<'_>]) -> Option<Vec<Cell>> {
    let right = cells
        .iter()
        .enumerate()
        .filter_map(|(column, cell)| Some((column, cell.case()?)));
    let right: Vec<_> = right
        .filter(|(_, (_, case))| view.comparable(case))
        .collect();
    let (_, (_, first)) = *right.first()?;
    let right = right
        .into_iter()
        .filter(|(_, (_, case))| view.on_one_machine(first, case));
    let mut peaks: Vec<(u64, usize, usize)> = right
        .filter_map(|(column, (at, case))| Some((case.peak_rss()?, column, at)))
        .collect();
    peaks.sort_unstable();
    let [least, .., most] = peaks[..] else {
        return None;
    };
    let cell = |(peak, column, at): (u64, usize, usize), sum| Cell {
        case: Some(at),
        sum: Some(sum),
        ..Cell::with(bytes(peak), view.variants[column].name())
    };
    let times = Cell::sum(
        format!("{:.1}", most.0 as f64 / least.0.max(1) as f64),
        "times memory",
    );
    let model = Cell::of_cases(model, peaks.iter().map(|(.., at)| *at));
    Some(vec![
        model,
        cell(least, "least memory"),
        cell(most, "most memory"),
        times,
    ])
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
    fn a_device_s_own_memory_is_shown_beside_the_process_s() {
        let mut doc = fixture();
        doc.cases
            .retain(|case| case.target == "cpu" && case.metrics.is_some());
        for (at, bytes) in [3 << 20, 5 << 20].into_iter().enumerate() {
            doc.cases[at].metrics.as_mut().unwrap().peak_device_bytes = Some(bytes);
        }
        let tables = memory(&View::new(&doc));
        let name = case_name(&doc.cases[1]);
        let texts = |row: &[Cell]| row.iter().map(|cell| cell.text.clone()).collect::<Vec<_>>();
        assert_eq!(texts(&tables[0].rows[0]).last().unwrap(), "5.0 MiB");
        let top: Vec<_> = tables[2].rows.iter().map(|row| texts(row)).collect();
        assert!(
            top.iter().any(|row| row[0] == name && row[2] == "5.0 MiB"),
            "{top:?}"
        );
        assert!(top.iter().any(|row| row[2] == "–"), "{top:?}");
    }
}
