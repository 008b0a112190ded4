//! What the steps took, by their kind: where a run of many models spends its time.

use std::collections::{BTreeMap, BTreeSet};

use super::{Cell, Table, View};
use crate::report::format::seconds;

/// Fewer steps are no statistic.
const LEAST: usize = 50;

pub(super) fn time(view: &View<'_>) -> Vec<Table> {
    // A step of several cases took its time once.
    let steps: BTreeMap<&str, f64> = view
        .doc
        .cases
        .iter()
        .flat_map(|case| &case.took)
        .map(|(step, seconds)| (step.as_str(), *seconds))
        .collect();
    if steps.len() < LEAST {
        return Vec::new();
    }
    let mut of: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
    for (at, case) in view.doc.cases.iter().enumerate() {
        for step in case.took.keys() {
            of.entry(kind(step)).or_default().insert(at);
        }
    }
    let models = view
        .doc
        .cases
        .iter()
        .map(|case| case.model.as_str())
        .collect::<BTreeSet<_>>()
        .len();
    let mut kinds: BTreeMap<String, Vec<(f64, &str)>> = BTreeMap::new();
    for (step, seconds) in steps {
        kinds.entry(kind(step)).or_default().push((seconds, step));
    }
    let mut rows: Vec<(f64, Vec<Cell>)> = kinds
        .into_iter()
        .map(|(kind, steps)| row(&kind, &of[&kind], &steps, models))
        .collect();
    rows.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    let all: f64 = rows.iter().map(|(sum, _)| sum).sum();
    let of_all = Cell::of_cases("all", of.into_values().flatten().collect::<BTreeSet<_>>());
    rows.push((
        0.0,
        vec![
            of_all,
            "".into(),
            seconds(all).into(),
            per_model(all, models),
            "".into(),
        ],
    ));
    let columns = &["step", "executed", "in all", "a model", "longest"];
    vec![Table {
        title: String::new(),
        columns,
        rows: rows.into_iter().map(|(_, row)| row).collect(),
    }]
}

fn row(kind: &str, of: &BTreeSet<usize>, steps: &[(f64, &str)], models: usize) -> (f64, Vec<Cell>) {
    let sum: f64 = steps.iter().map(|(seconds, _)| seconds).sum();
    let (longest, whose) = steps
        .iter()
        .copied()
        .max_by(|one, other| one.0.total_cmp(&other.0))
        .unwrap_or_default();
    let cells = vec![
        Cell::of_cases(kind, of.iter().copied()),
        steps.len().to_string().into(),
        seconds(sum).into(),
        per_model(sum, models),
        Cell::with(seconds(longest), whose),
    ];
    (sum, cells)
}

fn per_model(sum: f64, models: usize) -> Cell {
    format!("{:.2} s", sum / models as f64).into()
}

/// A step's name without the model's: `convert:bert:onnx` is a `convert onnx`.
fn kind(step: &str) -> String {
    let mut words = step.split(':');
    let stage = words.next().unwrap_or_default();
    words
        .nth(1)
        .map_or_else(|| stage.to_owned(), |what| format!("{stage} {what}"))
}
