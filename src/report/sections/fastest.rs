//! The column that infers fastest for each family, beside the CPU.

use indexmap::IndexMap;

use super::guidance::{MEASURE, is_faster};
use super::{CaseResult, Cell, Outcome, Table, View};
use crate::base::figures::counted;
use crate::device::backends::CPU;
use crate::report::stats::{geometric_mean, sorted};

/// A family on one column.
#[derive(Default)]
struct Column {
    /// One for each model whose latency is quiet on both.
    speedups: Vec<f64>,
    /// How many models have a latency on both.
    both: usize,
    /// The number of them whose rounds show that this column is ahead, and that the base is.
    sure: [usize; 2],
    right: usize,
    attempted: usize,
    cases: Vec<usize>,
}

pub(super) fn fastest(view: &View<'_>) -> Vec<Table> {
    let Some(base) = base(view) else {
        return Vec::new();
    };
    let mut families: IndexMap<&str, IndexMap<usize, Column>> = IndexMap::new();
    for row in &view.cells {
        let beside = row[base]
            .case()
            .map(|(_, case)| case)
            .filter(|case| view.median(case).is_some());
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
            column.attempted += usize::from(case.status != Outcome::SkipUnavailable);
            column.right += usize::from(case.status == Outcome::Pass);
            let is_beside =
                |base: &&CaseResult| view.median(case).is_some() && view.on_one_machine(base, case);
            if let Some(other) = beside.filter(is_beside) {
                column.both += 1;
                column.speedups.extend(
                    view.quiet_median(other)
                        .zip(view.quiet_median(case))
                        .map(|(base, own)| base / own),
                );
                for (sure, [one, other]) in
                    column.sure.iter_mut().zip([[case, other], [other, case]])
                {
                    *sure += usize::from(is_faster(one, other));
                }
            }
        }
    }
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    let mut undecided: Vec<(&str, Vec<usize>)> = Vec::new();
    for (family, columns) in &families {
        match row(view, base, family, columns) {
            Line::Row(row) => rows.push(row),
            Line::CannotTell => {
                let cases = columns
                    .values()
                    .flat_map(|column| column.cases.iter().copied());
                undecided.push((family, cases.collect()));
            }
            Line::Nothing => {}
        }
    }
    rows.extend(folded(&undecided));
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

/// The column that most models show to be faster than the CPU's.
pub(in crate::report) struct Lead {
    column: String,
    base: String,
    /// How many times as fast each of those models is, sorted.
    speedups: Vec<f64>,
    /// How many models have latencies on both.
    both: usize,
}

impl Lead {
    /// `openvino-fp32 is 1.1 to 2.1 times as fast as cpu-fp32, as 13 of 15 models show.`
    pub(in crate::report) fn sentence(&self) -> String {
        let least = self.speedups[0];
        let most = self.speedups[self.speedups.len() - 1];
        let times = if self.speedups.len() == 1 {
            format!("{least:.1}")
        } else {
            format!("{least:.1} to {most:.1}")
        };
        let count = self.speedups.len();
        let verb = if count == 1 && self.both == 1 {
            "shows"
        } else {
            "show"
        };
        format!(
            "{} is {times} times as fast as {}, as {count} of {} {verb}.",
            self.column,
            self.base,
            counted(self.both, "model"),
        )
    }
}

/// The lead of the report; None where no column is shown to be faster than the base by more than half of the models that both
/// have in common.
pub(in crate::report) fn lead(view: &View<'_>) -> Option<Lead> {
    let base = base(view)?;
    let mut leads: Vec<Lead> = Vec::new();
    for (column, variant) in view.variants.iter().enumerate() {
        let mut lead = Lead {
            column: variant.name(),
            base: view.variants[base].name(),
            speedups: Vec::new(),
            both: 0,
        };
        for row in &view.cells {
            let Some(((_, beside), (_, case))) = row[base].case().zip(row[column].case()) else {
                continue;
            };
            let times = view.quiet_median(beside).zip(view.quiet_median(case));
            let Some((slow, fast)) = times.filter(|_| view.on_one_machine(beside, case)) else {
                continue;
            };
            lead.both += 1;
            if is_faster(case, beside) {
                lead.speedups.push(slow / fast);
            }
        }
        lead.speedups.sort_by(f64::total_cmp);
        if lead.speedups.len() * 2 > lead.both {
            leads.push(lead);
        }
    }
    leads.into_iter().max_by(|one, other| {
        let rank = |lead: &Lead| (lead.speedups.len(), geometric_mean(&lead.speedups));
        let (count, mean) = rank(one);
        let (other_count, other_mean) = rank(other);
        count.cmp(&other_count).then(mean.total_cmp(&other_mean))
    })
}

/// The column that others are compared with: the first one of the CPU at full precision.
fn base(view: &View<'_>) -> Option<usize> {
    (0..view.variants.len()).find(|at| {
        view.column(*at)
            .any(|cell| cell.case().is_some_and(|(_, case)| is_base(view, case)))
    })
}

/// The line on a family.
enum Line {
    Row(Vec<Cell>),
    /// Two columns have latencies, and rounds do not show which is ahead.
    CannotTell,
    /// There is nothing to compare.
    Nothing,
}

/// The fastest column of a family, and how many times shorter its latencies are than those of the one that it is compared with:
/// the base, or the next one where the base is the fastest.
fn row(view: &View<'_>, base: usize, family: &str, columns: &IndexMap<usize, Column>) -> Line {
    let others = || {
        columns
            .iter()
            .filter(|(at, column)| **at != base && column.both > 0)
    };
    let mean = |column: &Column| geometric_mean(&column.speedups);
    let quiet = others().filter(|(_, column)| !column.speedups.is_empty());
    let Some((at, column)) = quiet.max_by(|(_, one), (_, other)| mean(one).total_cmp(&mean(other)))
    else {
        return if others().next().is_some() {
            Line::CannotTell
        } else {
            Line::Nothing
        };
    };
    let is_base_ahead = mean(column) <= 1.0;
    let [sure, sure_of_base] = column.sure;
    let sure = if is_base_ahead { sure_of_base } else { sure };
    if sure < column.both {
        return Line::CannotTell;
    }
    let (fastest, beside) = if is_base_ahead {
        (base, *at)
    } else {
        (*at, base)
    };
    let own = |speedup: f64| {
        if is_base_ahead {
            speedup.recip()
        } else {
            speedup
        }
    };
    let speedups = sorted(column.speedups.iter().copied().map(own));
    let least = speedups[0];
    let most = speedups[speedups.len() - 1];
    let Column {
        right, attempted, ..
    } = &columns[&fastest];
    Line::Row(vec![
        Cell::of_cases(
            family,
            columns
                .values()
                .flat_map(|column| column.cases.iter().copied()),
        ),
        view.variants[fastest].name().into(),
        format!("{:.2}×", own(mean(column))).into(),
        Cell::with(
            format!("{least:.2}× to {most:.2}×"),
            counted(column.speedups.len(), "model"),
        ),
        format!("{sure} of {}", column.both).into(),
        format!("{right} of {attempted}").into(),
        view.variants[beside].name().into(),
    ])
}

/// One row for all families of which nothing can be decided, with what to do; none where there are none.
fn folded(undecided: &[(&str, Vec<usize>)]) -> Option<Vec<Cell>> {
    let names: Vec<&str> = undecided.iter().map(|(family, _)| *family).collect();
    let cases = undecided
        .iter()
        .flat_map(|(_, cases)| cases.iter().copied());
    let first = Cell::of_cases(names.join(", "), cases);
    let dashes = std::iter::repeat_with(|| "–".into()).take(5);
    (!names.is_empty()).then(|| {
        [first, Cell::with("cannot tell", MEASURE)]
            .into_iter()
            .chain(dashes)
            .collect()
    })
}

/// The CPU at full precision, by what comes first in the spec.
fn is_base(view: &View<'_>, case: &CaseResult) -> bool {
    case.backend == CPU.name && case.precision == "fp32" && view.median(case).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::ReportDoc;
    use crate::report::sections::tests::doc;

    /// The one row: texts of its cells.
    fn texts(doc: &ReportDoc) -> Vec<String> {
        let mut rows = fastest(&View::new(doc)).remove(0).rows;
        assert_eq!(rows.len(), 1);
        rows.remove(0).into_iter().map(|cell| cell.text).collect()
    }

    #[test]
    fn a_speed_up_is_that_of_the_column_in_whose_row_it_stands() {
        let ahead = [
            "openvino-fp32",
            "2.00×",
            "2.00× to 2.00×",
            "1 of 1",
            "1 of 1",
            "cpu-fp32",
        ];
        assert_eq!(texts(&doc(5, [2.0, 1.0]))[1..], ahead);
        let base = [
            "cpu-fp32",
            "4.00×",
            "4.00× to 4.00×",
            "1 of 1",
            "1 of 1",
            "openvino-fp32",
        ];
        assert_eq!(texts(&doc(5, [1.0, 4.0]))[1..], base);
    }

    #[test]
    fn columns_of_two_machines_are_not_compared() {
        let mut doc = doc(5, [2.0, 1.0]);
        doc.cases[1].host = Some("another".into());
        assert!(fastest(&View::new(&doc))[0].rows.is_empty());
    }

    #[test]
    fn what_rounds_do_not_show_is_one_row_that_says_what_to_do() {
        let undecided = ["encoder-only", "cannot tell", "–", "–", "–", "–", "–"];
        // However much single processes differ, and however many there are of what overlaps.
        assert_eq!(texts(&doc(1, [2.0, 1.0])), undecided);
        assert_eq!(texts(&doc(5, [1.05, 1.0])), undecided);
        // However clear it seems, if one side is not quiet.
        for side in 0..2 {
            let mut doubtful = doc(5, [2.0, 1.0]);
            doubtful.cases[side].metrics.as_mut().unwrap().noisy = true;
            assert_eq!(texts(&doubtful), undecided);
        }
        let mut families = doc(1, [2.0, 1.0]);
        for (at, family) in [(0, "vision"), (1, "vision")] {
            let other = CaseResult {
                model: "vit".into(),
                family: family.into(),
                ..families.cases[at].clone()
            };
            families.cases.push(other);
        }
        let row = fastest(&View::new(&families)).remove(0).rows.remove(0);
        assert_eq!(row[0].text, "encoder-only, vision");
        assert!(row[1].aside.as_ref().unwrap().contains("`orch bench "));
    }
}
