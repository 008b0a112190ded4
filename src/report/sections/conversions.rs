//! What conversions made: how large it is, and how long it took.

use std::collections::BTreeMap;

use super::{Cell, Table, View};
use crate::base::figures::bytes;
use crate::report::Converted;
use crate::report::format::seconds;
use crate::report::stats::{median_of, quantile, sorted};

/// So many of the largest and of the slowest.
const MOST: usize = 20;

struct Made<'a> {
    step: &'a str,
    what: &'a Converted,
    seconds: f64,
    /// Those of them that rest on it.
    cases: Vec<usize>,
}

pub(super) fn conversions(view: &View<'_>) -> Vec<Table> {
    let steps = steps(view);
    let mut kinds: BTreeMap<String, Vec<&Made<'_>>> = BTreeMap::new();
    for made in &steps {
        kinds.entry(kind(made.step)).or_default().push(made);
    }
    let of_kinds = kinds
        .iter()
        .map(|(kind, made)| of_kind(kind, made))
        .collect();
    let top = |title: &str, weight: fn(&Made<'_>) -> f64| {
        let mut sorted: Vec<&Made<'_>> = steps.iter().collect();
        sorted.sort_by(|one, other| weight(other).total_cmp(&weight(one)));
        let rows = sorted.iter().take(MOST).map(|made| row(made)).collect();
        Table {
            title: title.to_owned(),
            columns: &["conversion", "size", "of its source", "took"],
            rows,
        }
    };
    let columns = &[
        "made",
        "conversions",
        "least",
        "median",
        "most",
        "of its source",
        "took, median",
        "longest",
    ];
    vec![
        Table {
            title: String::new(),
            columns,
            rows: of_kinds,
        },
        top("The largest", |made| made.what.bytes as f64),
        top("The slowest", |made| made.seconds),
    ]
}

/// Each once, however many cases use it.
fn steps<'a>(view: &View<'a>) -> Vec<Made<'a>> {
    let mut found: BTreeMap<&str, Made<'_>> = BTreeMap::new();
    for (at, case) in view.doc.cases.iter().enumerate() {
        for (step, what) in &case.converted {
            let Some(&seconds) = case.took.get(step) else {
                continue;
            };
            found
                .entry(step)
                .or_insert(Made {
                    step,
                    what,
                    seconds,
                    cases: Vec::new(),
                })
                .cases
                .push(at);
        }
    }
    found.into_values().collect()
}

/// `convert:bert:onnx-int8` makes `onnx-int8`.
fn kind(step: &str) -> String {
    step.splitn(3, ':').nth(2).unwrap_or(step).to_owned()
}

fn of_kind(kind: &str, made: &[&Made<'_>]) -> Vec<Cell> {
    let sizes = sorted(made.iter().map(|made| made.what.bytes as f64));
    let times = sorted(made.iter().map(|made| made.seconds));
    let middle = |values: &[f64]| quantile(values, 0.5);
    let last = |values: &[f64]| values[values.len() - 1];
    let size = |value: f64| Cell::from(bytes(value as u64));
    vec![
        Cell::of_cases(
            kind,
            made.iter().flat_map(|made| made.cases.iter().copied()),
        ),
        made.len().to_string().into(),
        size(sizes[0]),
        size(middle(&sizes)),
        size(last(&sizes)),
        Cell::or_dash(median_of(made.iter().filter_map(|made| share(made.what))).map(percent)),
        seconds(middle(&times)).into(),
        seconds(last(&times)).into(),
    ]
}

fn row(made: &Made<'_>) -> Vec<Cell> {
    let share = Cell::or_dash(share(made.what).map(percent));
    let name = made.step.strip_prefix("convert:").unwrap_or(made.step);
    let name = Cell::of_cases(name, made.cases.iter().copied());
    vec![
        name,
        bytes(made.what.bytes).into(),
        share,
        seconds(made.seconds).into(),
    ]
}

fn share(made: &Converted) -> Option<f64> {
    made.from_bytes
        .filter(|from| *from > 0)
        .map(|from| made.bytes as f64 / from as f64)
}

fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    fn texts(row: &[Cell]) -> Vec<&str> {
        row.iter().map(|cell| &*cell.text).collect()
    }

    #[test]
    fn each_conversion_is_counted_once_whoever_rests_on_it() {
        let doc = fixture();
        let [kinds, largest, slowest] = conversions(&View::new(&doc)).try_into().ok().unwrap();
        let onnx = [
            "onnx", "2", "352 KiB", "397 KiB", "442 KiB", "103 %", "4.6 s", "5.0 s",
        ];
        assert_eq!(texts(&kinds.rows[0]), onnx);
        let of = |row: &[Cell]| {
            row[0]
                .of
                .iter()
                .map(|at| &*doc.cases[*at].case)
                .collect::<Vec<_>>()
        };
        let both = [
            "bert:cpu-fp32",
            "bert:webgpu-fp32",
            "gpt2:cpu-fp32",
            "gpt2:webgpu-fp32",
        ];
        assert_eq!(of(&kinds.rows[0]), both);
        let int8 = [
            "openvino-int8",
            "1",
            "160 KiB",
            "160 KiB",
            "160 KiB",
            "47 %",
            "31 s",
            "31 s",
        ];
        assert_eq!(texts(&kinds.rows[3]), int8);
        assert_eq!(kinds.rows.len(), 6);
        assert_eq!(
            texts(&largest.rows[0]),
            ["gpt2:openvino-fp32", "492 KiB", "115 %", "7.7 s"]
        );
        assert_eq!(
            texts(&slowest.rows[0]),
            ["bert:openvino-int8", "160 KiB", "47 %", "31 s"]
        );
        assert_eq!((largest.rows.len(), slowest.rows.len()), (10, 10));
    }
}
