//! How cases went over time, as the history has it: beside what a document shows, where somebody keeps a history.

use std::collections::BTreeMap;

use serde::Serialize;

use super::details::{Part, Samples};
use super::format::ms;
use super::shape::{Cell, Table};
use super::stats::median_of;

/// Executions by case and machine, in their order and on one basis.
pub type Trends = BTreeMap<(String, String), Vec<Executed>>;

/// A page shows the last of more.
const MOST: usize = 60;

/// One execution.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Executed {
    /// `2026-01-31 08:00`, UTC
    pub when: String,
    /// `1a2b3c4d5`, with a plus where files differed from it.
    pub revision: Option<String>,
    pub state: String,
    pub median_ms: Option<f64>,
    /// What is compared with other executions.
    pub lowest_ms: f64,
    /// Another level begins here: 0.1 is 10 % slower than the one before.
    pub shift: Option<f64>,
}

/// A chart and a table. None of a single execution: there is no trend to see.
pub(super) fn part<'a>(executions: &[Executed]) -> Option<Part<'a>> {
    let shown = &executions[executions.len().saturating_sub(MOST)..];
    if shown.len() < 2 {
        return None;
    }
    let values: Vec<f64> = shown.iter().map(|one| one.lowest_ms).collect();
    let before = |at: usize| at.checked_sub(1).map(|before| values[before]);
    let rows = shown
        .iter()
        .enumerate()
        .rev()
        .map(|(at, one)| row(one, before(at)))
        .collect();
    let columns = &[
        "executed (UTC)",
        "git",
        "result",
        "median",
        "lowest",
        "change",
    ];
    let median = median_of(values.iter().copied())?;
    let samples = Some(Samples {
        median,
        of: values.len(),
        values,
        what: "executions",
    });
    let table = Some(Table {
        title: String::new(),
        columns,
        rows,
    });
    Some(Part {
        title: "History",
        note: Some(note(executions)),
        samples,
        table,
        ..Part::default()
    })
}

/// How many there are, and where the level changed last.
fn note(executions: &[Executed]) -> String {
    let shift = executions
        .iter()
        .rev()
        .find_map(|one| Some((one, one.shift?)));
    let shift = shift.map(|(one, by)| {
        let at = one
            .revision
            .as_ref()
            .map(|revision| format!(" at {revision}"))
            .unwrap_or_default();
        format!(
            "; since {}{at} {:.1} % {}",
            one.when,
            100.0 * by.abs(),
            if by > 0.0 { "slower" } else { "faster" }
        )
    });
    format!(
        "{} executions on one machine{}",
        executions.len(),
        shift.unwrap_or_default()
    )
}

fn row(one: &Executed, before: Option<f64>) -> Vec<Cell> {
    vec![
        one.when.clone().into(),
        Cell::or_dash(one.revision.clone()),
        one.state.clone().into(),
        Cell::or_dash(one.median_ms.map(ms)),
        ms(one.lowest_ms).into(),
        Cell::or_dash(
            before.map(|before| format!("{:+.1} %", 100.0 * (one.lowest_ms / before - 1.0))),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn executions(lowest: &[f64]) -> Vec<Executed> {
        let one = |(day, lowest): (usize, &f64)| Executed {
            when: format!("2026-01-{:02} 08:00", day + 1),
            revision: Some(format!("{day}abc")),
            state: "PASS".to_owned(),
            median_ms: Some(lowest * 1.1),
            lowest_ms: *lowest,
            shift: (day == 4).then_some(0.2),
        };
        lowest.iter().enumerate().map(one).collect()
    }

    #[test]
    fn a_course_has_a_chart_and_a_table_that_begins_with_the_last() {
        assert!(part(&executions(&[1.0])).is_none());
        let course = part(&executions(&[1.0, 1.0, 1.0, 1.0, 1.2])).unwrap();
        assert_eq!(
            course.note.unwrap(),
            "5 executions on one machine; since 2026-01-05 08:00 at 4abc 20.0 % slower"
        );
        assert_eq!(course.samples.unwrap().values, [1.0, 1.0, 1.0, 1.0, 1.2]);
        let rows = course.table.unwrap().rows;
        assert_eq!(
            (&*rows[0][0].text, &*rows[0][5].text, &*rows[4][5].text),
            ("2026-01-05 08:00", "+20.0 %", "–")
        );
        assert_eq!(
            part(&executions(&[1.0; 100]))
                .unwrap()
                .table
                .unwrap()
                .rows
                .len(),
            MOST
        );
    }
}
