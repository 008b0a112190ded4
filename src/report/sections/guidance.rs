//! The column to deploy on for each family, by what matters most; and whether the figures support that.
//!
//! Columns are compared by the models that are right on both. Of times more than one process must tell: two columns differ for a
//! model if each has enough rounds and the ranges of their medians do not meet. Memory must differ by as much as two reports must for
//! `orch compare` to say so. Sizes of files do not vary.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use indexmap::IndexMap;

use super::{CaseResult, Cell, Table, View};
use crate::base::figures::{bytes, counted, plural};
use crate::report::compare::{LITTLE, MEMORY};
use crate::report::format::ms;
use crate::report::stats::geometric_mean;

/// So many processes a side, or their times are left out.
const ROUNDS: usize = 3;
/// What to do where nothing can be decided.
pub(super) const MEASURE: &str = "`orch bench --strict` measures five quiet rounds of each";
/// The words beside what was not decided.
const CANNOT_TELL: &str = "cannot tell";

/// What matters, with the figure that says so. Less is better.
struct Aim {
    figure: fn(&CaseResult) -> Option<f64>,
    /// Whether the first is better than the second, for sure.
    is_ahead: fn(&CaseResult, &CaseResult) -> bool,
    format: fn(f64) -> String,
    /// Whether it was measured: of figures of two machines nothing follows.
    is_measured: bool,
}

const AIMS: [Aim; 4] = [
    Aim {
        figure: median,
        is_ahead: is_faster,
        format: ms,
        is_measured: true,
    },
    Aim {
        figure: |case| Some(1.0 / per_second(case)?),
        is_ahead: gives_more,
        format: |each| format!("{:.1} a second", 1.0 / each),
        is_measured: true,
    },
    Aim {
        figure: peak,
        is_ahead: takes_less,
        format: |peak| bytes(peak as u64),
        is_measured: true,
    },
    Aim {
        figure: size,
        is_ahead: |one, other| size(one) < size(other),
        format: |size| bytes(size as u64),
        is_measured: false,
    },
];

/// A family's cases by row of the matrix, then by column.
type Rows<'a> = Vec<Vec<(usize, &'a CaseResult)>>;

pub(super) fn guidance(view: &View<'_>) -> Vec<Table> {
    let mut families: IndexMap<&str, (Rows<'_>, Vec<usize>)> = IndexMap::new();
    for row in &view.cells {
        let right = row
            .iter()
            .enumerate()
            .filter_map(|(column, cell)| Some((column, cell.case()?)));
        let right: Vec<_> = right
            .filter(|(_, (_, case))| view.comparable(case))
            .collect();
        if let Some((_, (_, case))) = right.first().filter(|_| right.len() > 1) {
            let (rows, cases) = families.entry(&case.family).or_default();
            cases.extend(right.iter().map(|(_, (at, _))| *at));
            rows.push(
                right
                    .into_iter()
                    .map(|(column, (_, case))| (column, case))
                    .collect(),
            );
        }
    }
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    // Of each aim, the families of which nobody can tell.
    let mut undecided: [Vec<&str>; AIMS.len()] = Default::default();
    let mut undecided_cases: Vec<usize> = Vec::new();
    for (family, (models, cases)) in &families {
        let mut row = vec![Cell::of_cases(*family, cases.iter().copied())];
        for (aim, undecided) in AIMS.iter().zip(&mut undecided) {
            row.push(best(view, models, aim).unwrap_or_else(|| {
                undecided.push(family);
                undecided_cases.extend(cases);
                "–".into()
            }));
        }
        if row[1..].iter().any(|cell| cell.text != "–") {
            rows.push(row);
        }
    }
    rows.extend(folded(&undecided, families.len(), undecided_cases));
    let columns = &[
        "family",
        "for latency",
        "for throughput",
        "for little memory",
        "for the edge",
    ];
    vec![Table {
        title: String::new(),
        columns,
        rows,
    }]
}

/// One row of what cannot be decided, with what to do; none where everything is.
fn folded(
    undecided: &[Vec<&str>; AIMS.len()],
    families: usize,
    mut cases: Vec<usize>,
) -> Option<Vec<Cell>> {
    cases.sort_unstable();
    cases.dedup();
    let first = Cell {
        aside: Some(MEASURE.to_owned()),
        ..Cell::of_cases(CANNOT_TELL, cases)
    };
    let of_aim = |names: &Vec<&str>| match names.len() {
        0 => Cell::from("–"),
        some => {
            let count = format!("{some} of {}", counted_families(families));
            if some == families {
                count.into()
            } else {
                Cell::with(count, names.join(", "))
            }
        }
    };
    let is_any = undecided.iter().any(|names| !names.is_empty());
    is_any.then(|| {
        [first]
            .into_iter()
            .chain(undecided.iter().map(of_aim))
            .collect()
    })
}

fn counted_families(families: usize) -> String {
    format!("{families} {}", plural(families, "family", "families"))
}

/// The best column, with its figure where the family has one model; None where another one may be as good.
fn best(view: &View<'_>, rows: &Rows<'_>, aim: &Aim) -> Option<Cell> {
    let columns = rows
        .iter()
        .flatten()
        .filter(|(_, case)| (aim.figure)(case).is_some())
        .map(|(at, _)| *at);
    let columns: BTreeSet<usize> = columns.collect();
    let wins = |at: usize| {
        columns
            .iter()
            .filter(|other| beside(view, rows, aim, at, **other).is_some_and(|ratio| ratio < 1.0))
            .count()
    };
    let mut ranked: Vec<usize> = columns.iter().copied().collect();
    ranked.sort_by_cached_key(|at| Reverse(wins(*at)));
    let [first, others @ ..] = ranked.as_slice() else {
        return Some("–".into());
    };
    let name = view.variants[*first].name();
    if others.is_empty() {
        return Some(Cell::with(name, "nothing to compare with"));
    }
    let is_best = others
        .iter()
        .all(|at| is_ahead(view, rows, aim, *first, *at));
    is_best.then(|| Cell::with(name, summary(rows, aim, *first)))
}

/// The figure of one model, or of how many it is the best.
fn summary(rows: &Rows<'_>, aim: &Aim, at: usize) -> String {
    let own = rows
        .iter()
        .flatten()
        .filter(|(column, _)| *column == at)
        .filter_map(|(_, case)| (aim.figure)(case));
    match own.collect::<Vec<_>>().as_slice() {
        [one] => (aim.format)(*one),
        all => format!("of {}", counted(all.len(), "model")),
    }
}

/// The cases of models that have the figure on both columns, of one machine.
fn shared<'a>(
    view: &'a View<'_>,
    rows: &'a Rows<'a>,
    aim: &'a Aim,
    one: usize,
    other: usize,
) -> impl Iterator<Item = [&'a CaseResult; 2]> {
    rows.iter().filter_map(move |row| {
        let on = |at: usize| {
            row.iter()
                .find(|(column, case)| *column == at && (aim.figure)(case).is_some())
        };
        let pair = [on(one)?.1, on(other)?.1];
        (!aim.is_measured || view.on_one_machine(pair[0], pair[1])).then_some(pair)
    })
}

/// The geometric mean of one column's figures over another's; None where no model has both.
fn beside(view: &View<'_>, rows: &Rows<'_>, aim: &Aim, one: usize, other: usize) -> Option<f64> {
    let figure = |case| (aim.figure)(case).unwrap_or(f64::NAN);
    let ratios: Vec<f64> = shared(view, rows, aim, one, other)
        .map(|[a, b]| figure(a) / figure(b))
        .collect();
    (!ratios.is_empty()).then(|| geometric_mean(&ratios))
}

/// Whether one is surely ahead for every model that both have. Where none has both, nothing is known.
fn is_ahead(view: &View<'_>, rows: &Rows<'_>, aim: &Aim, one: usize, other: usize) -> bool {
    let mut pairs = shared(view, rows, aim, one, other).peekable();
    pairs.peek().is_some() && pairs.all(|[a, b]| (aim.is_ahead)(a, b))
}

fn median(case: &CaseResult) -> Option<f64> {
    case.metrics
        .as_ref()
        .map(|metrics| metrics.median_ms)
        .filter(|ms| *ms > 0.0)
}

fn per_second(case: &CaseResult) -> Option<f64> {
    case.metrics
        .as_ref()?
        .per_second
        .filter(|items| *items > 0.0)
}

fn peak(case: &CaseResult) -> Option<f64> {
    case.peak_rss().map(|bytes| bytes as f64)
}

fn size(case: &CaseResult) -> Option<f64> {
    case.loaded_bytes.map(|bytes| bytes as f64)
}

/// The lowest and the highest median of enough rounds, ms; None of a figure that is not quiet.
fn range(case: &CaseResult) -> Option<(f64, f64)> {
    let metrics = case
        .metrics
        .as_ref()
        .filter(|metrics| metrics.rounds.len() >= ROUNDS && metrics.is_quiet())?;
    metrics.median_low_ms.zip(metrics.median_high_ms)
}

/// The one rule for times, here and for each family's speed-up: both have enough rounds, and their medians do not meet.
pub(super) fn is_faster(one: &CaseResult, other: &CaseResult) -> bool {
    range(one)
        .zip(range(other))
        .is_some_and(|((_, slowest), (fastest, _))| slowest < fastest)
}

/// Whether one gives more, by the range that the medians of rounds leave.
fn gives_more(one: &CaseResult, other: &CaseResult) -> bool {
    let bounds = |case: &CaseResult| {
        let items = per_second(case)? * median(case)?;
        range(case).map(|(low, high)| (items / high, items / low))
    };
    bounds(one)
        .zip(bounds(other))
        .is_some_and(|((least, _), (_, most))| least > most)
}

fn takes_less(one: &CaseResult, other: &CaseResult) -> bool {
    let less = |(one, other): (f64, f64)| other - one > (other * MEMORY).max(LITTLE);
    peak(one).zip(peak(other)).is_some_and(less)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::ReportDoc;
    use crate::report::sections::tests::doc;

    fn advice(doc: &ReportDoc) -> Vec<(String, Option<String>)> {
        texts(guidance(&View::new(doc)).remove(0).rows.remove(0))
    }

    fn texts(row: Vec<Cell>) -> Vec<(String, Option<String>)> {
        row.into_iter()
            .map(|cell| (cell.text, cell.aside))
            .collect()
    }

    #[test]
    fn nothing_is_advised_that_rounds_do_not_support() {
        let clear = advice(&doc(5, [2.0, 1.0]));
        assert_eq!(
            clear[1],
            ("openvino-fp32".to_owned(), Some("1.00 ms".to_owned()))
        );
        assert_eq!(
            clear[2],
            (
                "openvino-fp32".to_owned(),
                Some("1000.0 a second".to_owned())
            )
        );
        // One process says nothing of the next, however far apart the two are.
        let undecided = |doc: &ReportDoc| {
            let row = texts(guidance(&View::new(doc)).remove(0).rows.pop().unwrap());
            assert_eq!(row[0], ("cannot tell".to_owned(), Some(MEASURE.to_owned())));
            assert_eq!((&*row[1].0, &*row[2].0), ("1 of 1 family", "1 of 1 family"));
        };
        undecided(&doc(1, [2.0, 1.0]));
        undecided(&doc(5, [1.05, 1.0]));
        for side in 0..2 {
            let mut doubtful = doc(5, [2.0, 1.0]);
            doubtful.cases[side].metrics.as_mut().unwrap().min_ms = 0.5;
            undecided(&doubtful);
        }
    }

    #[test]
    fn of_two_machines_only_the_sizes_of_files_are_compared() {
        let mut doc = doc(5, [2.0, 1.0]);
        doc.cases[1].host = Some("another".into());
        for (case, bytes) in doc.cases.iter_mut().zip([1000, 999]) {
            case.loaded_bytes = Some(bytes);
        }
        let advised = advice(&doc);
        let advised_texts: Vec<&str> = advised[1..].iter().map(|(text, _)| &**text).collect();
        assert_eq!(advised_texts, ["–", "–", "–", "openvino-fp32"]);
    }

    #[test]
    fn files_have_one_size() {
        let mut doc = doc(1, [1.0, 1.0]);
        for (case, bytes) in doc.cases.iter_mut().zip([1000, 999]) {
            case.loaded_bytes = Some(bytes);
        }
        assert_eq!(
            advice(&doc)[4],
            ("openvino-fp32".to_owned(), Some("999 B".to_owned()))
        );
    }
}
