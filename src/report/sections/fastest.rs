//! For each family the column that infers fastest, beside the CPU.

use indexmap::IndexMap;

use super::{CaseResult, Cell, Make, Outcome, Section, Table, View};
use crate::base::figures::counted;
use crate::device::backends::CPU;
use crate::report::view;

pub(super) const SECTION: Section = Section {
    id: "fastest",
    title: "Fastest for each family",
    hint: "Speed-up: how many times shorter the median is than the one of the column named beside it, as the geometric mean \
           over the family's models that passed on both. Single runs differ by up to 15 % from one process to the next, so less \
           than that is called even. Right: of the cases that were asked of that column.",
    make: Make::Tables(fastest),
};

/// What two processes of one build may differ by.
const EVEN: f64 = 1.15;

/// A family on one column.
#[derive(Default)]
struct Column {
    /// One for each model.
    speedups: Vec<f64>,
    right: usize,
    asked: usize,
}

impl Column {
    fn mean(&self) -> f64 {
        (self.speedups.iter().map(|ratio| ratio.ln()).sum::<f64>() / self.speedups.len() as f64).exp()
    }
}

fn fastest(view: &View<'_>) -> Vec<Table> {
    let is_base = |at: &usize| view.column(*at).any(|cell| cell.case().is_some_and(|(_, case)| is_base(view, case)));
    let Some(base) = (0..view.variants.len()).find(is_base) else { return Vec::new() };
    let mut families: IndexMap<&str, IndexMap<usize, Column>> = IndexMap::new();
    for row in &view.cells {
        let beside = row[base].case().and_then(|(_, case)| median(view, case));
        for (at, case) in row.iter().enumerate().filter_map(|(at, cell)| Some((at, cell.case()?.1))) {
            let column = families.entry(&case.family).or_default().entry(at).or_default();
            column.asked += usize::from(case.status != Outcome::SkipUnavailable);
            column.right += usize::from(case.status == Outcome::Pass);
            column.speedups.extend(beside.zip(median(view, case)).map(|(beside, own)| beside / own));
        }
    }
    let rows = families.iter().filter_map(|(family, columns)| row(view, base, family, columns)).collect();
    let columns = &["family", "fastest", "speed-up", "of single models", "right", "beside"];
    vec![Table { title: String::new(), columns, rows }]
}

/// None where nothing can be compared.
fn row(view: &View<'_>, base: usize, family: &str, columns: &IndexMap<usize, Column>) -> Option<Vec<Cell>> {
    let others = columns.iter().filter(|(at, column)| **at != base && !column.speedups.is_empty());
    let (at, column) = others.max_by(|(_, one), (_, other)| one.mean().total_cmp(&other.mean()))?;
    let beside = view.variants[base].name();
    let mean = column.mean();
    let (least, most) = column
        .speedups
        .iter()
        .fold((f64::INFINITY, 0.0_f64), |(least, most), ratio| (least.min(*ratio), most.max(*ratio)));
    let (name, verdict) = match mean {
        mean if mean > EVEN => (view.variants[*at].name(), None),
        mean if mean * EVEN >= 1.0 => (view.variants[*at].name(), Some("even".to_owned())),
        _ => (beside.clone(), Some(format!("the next is {}", view.variants[*at].name()))),
    };
    Some(vec![
        family.into(),
        Cell { aside: verdict, ..name.into() },
        format!("{mean:.2}×").into(),
        Cell::with(format!("{least:.2}× to {most:.2}×"), counted(column.speedups.len(), "model")),
        format!("{} of {}", column.right, column.asked).into(),
        beside.into(),
    ])
}

/// A median that may stand beside others.
fn median(view: &View<'_>, case: &CaseResult) -> Option<f64> {
    let metrics = case.metrics.as_ref().filter(|_| view.comparable(case))?;
    (metrics.median_ms > 0.0).then_some(metrics.median_ms)
}

/// The CPU at full precision, by what comes first in the spec.
fn is_base(view: &view::View<'_>, case: &CaseResult) -> bool {
    case.backend == CPU.name && case.precision == "fp32" && median(view, case).is_some()
}
