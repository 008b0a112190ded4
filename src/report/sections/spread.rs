//! How long inferences take by hardware and by family: average, median, least and most; the slowest and the fastest cases.

use indexmap::IndexMap;

use super::{CaseResult, Cell, Place, Table, View};
use crate::report::format::ms;
use crate::report::stats::{quantile, sorted};

const SHOWN: usize = 10;

/// A case, its place in the document, and its median.
type Timed<'a> = (f64, usize, &'a CaseResult);

/// Whom cases are grouped by, besides the machine that measured them.
type By = fn(&CaseResult) -> Vec<&str>;

pub(super) fn spread(view: &View<'_>) -> Vec<Table> {
    let cases = view.doc.cases.iter().enumerate();
    let mut timed: Vec<Timed<'_>> = cases
        .filter_map(|(at, case)| Some((view.quiet_median(case)?, at, case)))
        .collect();
    let groups: [(&str, &'static [&'static str], By); 3] = [
        (
            "By hardware",
            &["hardware", "cases", "average", "median", "least", "most"],
            |case| vec![&case.backend],
        ),
        (
            "By family",
            &["family", "cases", "average", "median", "least", "most"],
            |case| vec![&case.family],
        ),
        (
            "By family and hardware",
            &[
                "family", "hardware", "cases", "average", "median", "least", "most",
            ],
            |case| vec![&case.family, &case.backend],
        ),
    ];
    let groups = groups.map(|(title, columns, by)| Table {
        title: title.into(),
        columns,
        rows: grouped(view, &timed, by),
    });
    timed.sort_by(|(one, ..), (other, ..)| one.total_cmp(other));
    // What stands in both lists says nothing.
    let shown = SHOWN.min(timed.len() / 2);
    let listed = |timed: &mut dyn Iterator<Item = &Timed<'_>>, end: &'static str| {
        let row = |(time, at, case): &Timed<'_>| {
            vec![
                Cell::sum(Cell::of_case(*at, case), end),
                Cell::sum(ms(*time), "each latency"),
            ]
        };
        timed.take(shown).map(row).collect()
    };
    let columns = &["case", "median"];
    let slowest = Table {
        title: "The slowest".into(),
        columns,
        rows: listed(&mut timed.iter().rev(), "most latency"),
    };
    let fastest = Table {
        title: "The fastest".into(),
        columns,
        rows: listed(&mut timed.iter(), "least latency"),
    };
    groups.into_iter().chain([slowest, fastest]).collect()
}

/// A row for each group of cases, in the order in which the document names them.
fn grouped<'a>(
    view: &View<'_>,
    timed: &[Timed<'a>],
    by: fn(&'a CaseResult) -> Vec<&'a str>,
) -> Vec<Vec<Cell>> {
    let mut groups: IndexMap<(Vec<&str>, Option<&str>), Vec<&Timed<'_>>> = IndexMap::new();
    for case in timed {
        let key = (by(case.2), view.letter(case.2));
        groups.entry(key).or_default().push(case);
    }
    type Group<'g, 't> = ((Vec<&'g str>, Option<&'g str>), Vec<&'g Timed<'t>>);
    let row = |((names, letter), cases): Group<'_, '_>| {
        let times = sorted(cases.iter().map(|case| case.0));
        let average = times.iter().sum::<f64>() / times.len() as f64;
        let whose = |time: f64, sum| {
            let (_, at, case) = cases
                .iter()
                .find(|case| case.0 == time)
                .expect("BUG: the time is of one of them");
            Cell {
                case: Some(*at),
                sum: Some(sum),
                ..Cell::with(ms(time), Place::from(*case).name())
            }
        };
        let figures = [
            Cell::sum(cases.len().to_string(), "count latency"),
            Cell::sum(ms(average), "average latency"),
            Cell::sum(ms(quantile(&times, 0.5)), "median latency"),
            whose(times[0], "least latency"),
            whose(times[times.len() - 1], "most latency"),
        ];
        let mut row: Vec<Cell> = names.into_iter().map(Cell::from).chain(figures).collect();
        if let Some(letter) = letter {
            row[0].text = format!("{} {letter}", row[0].text);
        }
        row[0].of = cases.iter().map(|(_, at, _)| *at).collect();
        row
    };
    groups.into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    fn texts(rows: &[Vec<Cell>]) -> Vec<Vec<&str>> {
        rows.iter()
            .map(|row| row.iter().map(|cell| &*cell.text).collect())
            .collect()
    }

    #[test]
    fn stand_ins_and_what_is_wrong_are_in_no_figure() {
        let mut doc = fixture();
        doc.cases
            .retain(|case| case.model == "bert" && case.metrics.is_some());
        doc.cases
            .retain(|case| ["cpu", "openvino", "qnn"].contains(&&*case.target));
        assert!(
            doc.cases.iter().any(|case| case.backend == "qnn"),
            "the emulator has a time"
        );
        let times = [
            ("bert:cpu-fp32", 4.0),
            ("bert:openvino-fp32", 1.0),
            ("bert:openvino-fp16", 2.0),
            ("bert:openvino-int8", 9.0),
        ];
        for case in &mut doc.cases {
            if let Some((_, median)) = times.iter().find(|(id, _)| *id == case.case) {
                let metrics = case.metrics.as_mut().unwrap();
                (metrics.median_ms, metrics.min_ms, metrics.noisy) = (*median, *median, false);
            }
        }
        // A figure that is not quiet is in none either.
        let mut noisy = doc.clone();
        let is_slow = |case: &&mut CaseResult| case.case == "bert:openvino-int8";
        noisy
            .cases
            .iter_mut()
            .find(is_slow)
            .unwrap()
            .metrics
            .as_mut()
            .unwrap()
            .noisy = true;
        let by_hardware = &spread(&View::new(&noisy))[0].rows;
        assert_eq!(
            texts(by_hardware)[1],
            ["openvino", "2", "1.50 ms", "1.50 ms", "1.00 ms", "2.00 ms"]
        );
        let tables = spread(&View::new(&doc));
        let by_hardware = [
            vec!["cpu", "1", "4.00 ms", "4.00 ms", "4.00 ms", "4.00 ms"],
            vec!["openvino", "3", "4.00 ms", "2.00 ms", "1.00 ms", "9.00 ms"],
        ];
        assert_eq!(texts(&tables[0].rows), by_hardware);
        assert_eq!(
            texts(&tables[1].rows),
            [[
                "encoder-only",
                "4",
                "4.00 ms",
                "3.00 ms",
                "1.00 ms",
                "9.00 ms"
            ]]
        );
        assert_eq!(
            tables[0].rows[1][5].aside.as_deref(),
            Some("bert on openvino-int8")
        );
        assert_eq!(
            texts(&tables[3].rows),
            [
                ["bert on openvino-int8", "9.00 ms"],
                ["bert on cpu-fp32", "4.00 ms"]
            ]
        );
        assert_eq!(
            texts(&tables[4].rows),
            [
                ["bert on openvino-fp32", "1.00 ms"],
                ["bert on openvino-fp16", "2.00 ms"]
            ]
        );
        // No average is of two machines.
        let mut merged = doc.clone();
        merged.cases[0].host = Some("another".into());
        let view = View::new(&merged);
        let by_hardware = spread(&view).remove(0).rows;
        assert_eq!(
            texts(&by_hardware)
                .iter()
                .map(|row| row[0])
                .collect::<Vec<_>>(),
            ["cpu A", "openvino B"]
        );
        doc.cases
            .iter_mut()
            .for_each(|case| case.status = crate::record::Outcome::Numerics);
        assert!(
            spread(&View::new(&doc))
                .iter()
                .all(|table| table.rows.is_empty())
        );
    }
}
