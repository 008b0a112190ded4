//! For each family the column that infers fastest, beside the CPU.

use indexmap::IndexMap;

use super::guidance::is_faster;
use super::{CaseResult, Cell, Outcome, Table, View};
use crate::base::figures::counted;
use crate::device::backends::CPU;
use crate::report::stats::{geometric_mean, sorted};

/// A family on one column.
#[derive(Default)]
struct Column {
    /// One for each model, and whether rounds show which of the two is ahead: this one, the base.
    speedups: Vec<f64>,
    sure: [usize; 2],
    right: usize,
    asked: usize,
    cases: Vec<usize>,
}

pub(super) fn fastest(view: &View<'_>) -> Vec<Table> {
    let is_base = |at: &usize| {
        view.column(*at)
            .any(|cell| cell.case().is_some_and(|(_, case)| is_base(view, case)))
    };
    let Some(base) = (0..view.variants.len()).find(is_base) else {
        return Vec::new();
    };
    let mut families: IndexMap<&str, IndexMap<usize, Column>> = IndexMap::new();
    for row in &view.cells {
        let beside = row[base]
            .case()
            .and_then(|(_, case)| Some((view.median(case)?, case)));
        for (column, (at, case)) in row
            .iter()
            .enumerate()
            .filter_map(|(column, cell)| Some((column, cell.case()?)))
        {
            let column = families
                .entry(&case.family)
                .or_default()
                .entry(column)
                .or_default();
            column.cases.push(at);
            column.asked += usize::from(case.status != Outcome::SkipUnavailable);
            column.right += usize::from(case.status == Outcome::Pass);
            if let Some(((beside, other), own)) = beside.zip(view.median(case)) {
                column.speedups.push(beside / own);
                for (sure, [one, other]) in
                    column.sure.iter_mut().zip([[case, other], [other, case]])
                {
                    *sure += usize::from(is_faster(one, other));
                }
            }
        }
    }
    let rows = families
        .iter()
        .filter_map(|(family, columns)| row(view, base, family, columns))
        .collect();
    let columns = &[
        "family",
        "fastest",
        "speed-up",
        "of single models",
        "sure",
        "right",
        "beside",
    ];
    vec![Table {
        title: String::new(),
        columns,
        rows,
    }]
}

/// None where nothing can be compared.
fn row(
    view: &View<'_>,
    base: usize,
    family: &str,
    columns: &IndexMap<usize, Column>,
) -> Option<Vec<Cell>> {
    let others = columns
        .iter()
        .filter(|(at, column)| **at != base && !column.speedups.is_empty());
    let mean = |column: &Column| geometric_mean(&column.speedups);
    let (at, column) = others.max_by(|(_, one), (_, other)| mean(one).total_cmp(&mean(other)))?;
    let beside = view.variants[base].name();
    let mean = mean(column);
    let speedups = sorted(column.speedups.iter().copied());
    let (least, most) = (speedups[0], speedups[speedups.len() - 1]);
    let own = view.variants[*at].name();
    let [sure, sure_of_base] = column.sure;
    let (name, next, sure) = if mean > 1.0 {
        (&own, &beside, sure)
    } else {
        (&beside, &own, sure_of_base)
    };
    let name = match sure == column.speedups.len() {
        true if mean > 1.0 => name.clone().into(),
        true => Cell::with(name, format!("the next is {next}")),
        false => Cell::with("cannot tell", format!("{name} or {next}")),
    };
    Some(vec![
        Cell::of_cases(
            family,
            columns
                .values()
                .flat_map(|column| column.cases.iter().copied()),
        ),
        name,
        format!("{mean:.2}×").into(),
        Cell::with(
            format!("{least:.2}× to {most:.2}×"),
            counted(column.speedups.len(), "model"),
        ),
        format!("{sure} of {}", column.speedups.len()).into(),
        format!("{} of {}", column.right, column.asked).into(),
        beside.into(),
    ])
}

/// The CPU at full precision, by what comes first in the spec.
fn is_base(view: &View<'_>, case: &CaseResult) -> bool {
    case.backend == CPU.name && case.precision == "fp32" && view.median(case).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sections::tests::doc;

    /// What is fastest, beside which it is, and of how many models that is sure.
    fn told(rounds: u32, times: [f64; 2]) -> (String, Option<String>, String) {
        let doc = doc(rounds, times);
        let mut row = fastest(&View::new(&doc)).remove(0).rows.remove(0);
        let (sure, name) = (row.remove(4), row.remove(1));
        (name.text, name.aside, sure.text)
    }

    #[test]
    fn a_speed_up_is_one_where_rounds_show_it() {
        assert_eq!(
            told(5, [2.0, 1.0]),
            ("openvino-fp32".into(), None, "1 of 1".into())
        );
        assert_eq!(
            told(5, [1.0, 2.0]),
            (
                "cpu-fp32".into(),
                Some("the next is openvino-fp32".into()),
                "1 of 1".into()
            )
        );
        // However much single processes differ, and however many there are of what overlaps.
        let doubtful = |first: &str, next: &str| {
            (
                "cannot tell".into(),
                Some(format!("{first} or {next}")),
                "0 of 1".into(),
            )
        };
        assert_eq!(told(1, [2.0, 1.0]), doubtful("openvino-fp32", "cpu-fp32"));
        assert_eq!(told(5, [1.05, 1.0]), doubtful("openvino-fp32", "cpu-fp32"));
    }
}
