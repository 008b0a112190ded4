//! What conversions made: how large it is, and how long it took.

use std::collections::BTreeMap;

use super::{Cell, Table, View};
use crate::base::figures::bytes;
use crate::report::Converted;
use crate::report::format::seconds;
use crate::report::stats::{median_of, quantile, sorted};

/// So many of the largest and of the slowest.
const MOST: usize = 20;

/// A step, what it made, and how long it took, s.
type Made<'a> = (&'a str, &'a Converted, f64);

pub(super) fn conversions(view: &View<'_>) -> Vec<Table> {
    let steps = steps(view);
    let mut kinds: BTreeMap<String, Vec<&Made<'_>>> = BTreeMap::new();
    for made in &steps {
        kinds.entry(kind(made.0)).or_default().push(made);
    }
    let of_kinds = kinds.iter().map(|(kind, made)| of_kind(kind, made)).collect();
    let top = |title: &str, weight: fn(&Made<'_>) -> f64| {
        let mut sorted: Vec<&Made<'_>> = steps.iter().collect();
        sorted.sort_by(|one, other| weight(other).total_cmp(&weight(one)));
        let rows = sorted.iter().take(MOST).map(|made| row(made)).collect();
        Table { title: title.to_owned(), columns: &["conversion", "size", "of its source", "took"], rows }
    };
    let columns = &["made", "conversions", "least", "median", "most", "of its source", "took, median", "longest"];
    vec![
        Table { title: String::new(), columns, rows: of_kinds },
        top("The largest", |(_, made, _)| made.bytes as f64),
        top("The slowest", |(.., seconds)| *seconds),
    ]
}

/// Each once, however many cases use it.
fn steps<'a>(view: &View<'a>) -> Vec<Made<'a>> {
    let mut found: BTreeMap<&str, Made<'_>> = BTreeMap::new();
    for case in &view.doc.cases {
        for (step, converted) in &case.converted {
            let Some(seconds) = case.took.get(step) else { continue };
            found.insert(step, (step, converted, *seconds));
        }
    }
    found.into_values().collect()
}

/// `convert:bert:onnx-int8` makes `onnx-int8`.
fn kind(step: &str) -> String {
    step.splitn(3, ':').nth(2).unwrap_or(step).to_owned()
}

fn of_kind(kind: &str, made: &[&Made<'_>]) -> Vec<Cell> {
    let sizes = sorted(made.iter().map(|(_, made, _)| made.bytes as f64));
    let times = sorted(made.iter().map(|(.., seconds)| *seconds));
    let middle = |values: &[f64]| quantile(values, 0.5);
    let last = |values: &[f64]| values[values.len() - 1];
    let size = |value: f64| Cell::from(bytes(value as u64));
    vec![
        kind.into(),
        made.len().to_string().into(),
        size(sizes[0]),
        size(middle(&sizes)),
        size(last(&sizes)),
        Cell::or_dash(median_of(made.iter().filter_map(|(_, made, _)| share(made))).map(percent)),
        seconds(middle(&times)).into(),
        seconds(last(&times)).into(),
    ]
}

fn row((step, made, took): &Made<'_>) -> Vec<Cell> {
    let share = Cell::or_dash(share(made).map(percent));
    let name = step.strip_prefix("convert:").unwrap_or(step);
    vec![name.into(), bytes(made.bytes).into(), share, seconds(*took).into()]
}

fn share(made: &Converted) -> Option<f64> {
    made.from_bytes.filter(|from| *from > 0).map(|from| made.bytes as f64 / from as f64)
}

fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}
