//! A model's medians side by side: of right results, on hardware.

use super::{CaseResult, Chart, View, counted};
use crate::report::Metrics;
use crate::report::view::Cell;

pub(super) fn latency(view: &View<'_>) -> Vec<Chart> {
    view.rows.iter().zip(&view.cells).filter_map(|(row, cells)| chart(view, row.name(), cells)).collect()
}

/// None with less than two comparable results: one bar alone compares nothing.
fn chart(view: &View<'_>, model: String, row: &[Cell<'_>]) -> Option<Chart> {
    let (mut shown, mut left_out): (Vec<(usize, &CaseResult, &Metrics)>, usize) = (Vec::new(), 0);
    for (at, case) in row.iter().filter_map(|cell| cell.case()) {
        match &case.metrics {
            Some(metrics) if view.median(case).is_some() => shown.push((at, case, metrics)),
            Some(_) if view.stand_in(case).is_some() => left_out += 1,
            _ => {}
        }
    }
    let left_out = (left_out > 0).then(|| format!("{} left out", counted(left_out, "emulated or software result")));
    (shown.len() > 1).then(|| Chart::of(model, &shown, left_out))
}
