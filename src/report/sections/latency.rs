//! A model's medians side by side: of right results, on hardware.

use serde_json::{Value, json};

use super::{CaseResult, Place, View, counted};
use crate::report::Metrics;
use crate::report::format::span;
use crate::report::view::Cell;

pub(super) fn latency(view: &View<'_>) -> Vec<Value> {
    view.rows
        .iter()
        .zip(&view.cells)
        .filter_map(|(row, cells)| chart(view, row.name(), cells))
        .collect()
}

/// None with less than two comparable results: one bar alone compares nothing.
fn chart(view: &View<'_>, model: String, row: &[Cell<'_>]) -> Option<Value> {
    let mut shown: Vec<(usize, &CaseResult, &Metrics)> = Vec::new();
    let mut left_out: usize = 0;
    for (at, case) in row.iter().filter_map(|cell| cell.case()) {
        match &case.metrics {
            Some(metrics) if view.median(case).is_some() => shown.push((at, case, metrics)),
            Some(_) if view.stand_in(case).is_some() => left_out += 1,
            _ => {}
        }
    }
    let left_out = (left_out > 0).then(|| {
        format!(
            "{} left out",
            counted(left_out, "emulated or software result")
        )
    });
    let bar = |(at, case, m): (usize, &CaseResult, &Metrics)| {
        let letter = view.letter(case).map(|letter| format!(" {letter}"));
        let name = Place::from(case).variant.name() + &letter.unwrap_or_default();
        let spread = span(m.median_low_ms, m.median_high_ms);
        json!({"case": at, "name": name, "text": m.latency(), "doubt": m.why_not_quiet(), "spread": spread})
    };
    (shown.len() > 1).then(|| {
        let bars: Vec<_> = shown.into_iter().map(bar).collect();
        json!({"model": model, "bars": bars, "left_out": left_out})
    })
}
