//! How many of each family's models are right on each target. For runs of many models, where the matrix gives no overview.

use std::collections::{BTreeMap, BTreeSet};

use super::{CaseResult, Cell, Outcome, Table, View};
use crate::report::format::seconds;
use crate::report::place::Variant;

/// Fewer models are seen at a glance.
const LEAST: usize = 30;
const COLUMNS: &[&str] = &[
    "family",
    "cases",
    "right",
    "share",
    "types",
    "types right",
    "indecisive",
    "unsupported",
    "failed",
    "as expected",
    "on a fallback",
    "incomplete",
    "not asked",
    "ended",
    "a model",
];

pub(super) fn coverage(view: &View<'_>) -> Vec<Table> {
    if view.rows.len() < LEAST {
        return Vec::new();
    }
    let table = |(column, variant): (usize, &Variant<'_>)| {
        let mut families: BTreeMap<&str, Counts<'_>> = BTreeMap::new();
        let mut all = Counts::default();
        for (at, case) in view.column(column).filter_map(|cell| cell.case()) {
            families.entry(&case.family).or_default().add(at, case);
            all.add(at, case);
        }
        let rows = families
            .iter()
            .map(|(family, counts)| counts.row(family))
            .chain([all.row("all")])
            .collect();
        Table {
            title: variant.name(),
            columns: COLUMNS,
            rows,
        }
    };
    view.variants.iter().enumerate().map(table).collect()
}

#[derive(Default)]
struct Counts<'a> {
    /// The states by column.
    states: BTreeMap<&'static str, u32>,
    /// The model types of which a case was tried, and those of which one was right.
    types: BTreeSet<&'a str>,
    right: BTreeSet<&'a str>,
    /// The cases that ended, by stage and state.
    ended: BTreeMap<String, u32>,
    /// What each step took, once.
    took: BTreeMap<&'a str, f64>,
    of: Vec<usize>,
}

impl<'a> Counts<'a> {
    fn add(&mut self, at: usize, case: &'a CaseResult) {
        self.of.push(at);
        self.took.extend(
            case.took
                .iter()
                .map(|(step, seconds)| (step.as_str(), *seconds)),
        );
        let expected = case
            .expected
            .as_ref()
            .filter(|_| case.status == Outcome::Xfail)
            .map(|expected| expected.status);
        if let Some(state) = expected.or(case.is_failure().then_some(case.status)) {
            let stage = case
                .stage
                .as_deref()
                .map(|stage| format!("{stage} "))
                .unwrap_or_default();
            *self
                .ended
                .entry(format!("{stage}{}", state.label()))
                .or_default() += 1;
        }
        let state = match case.status {
            _ if case.is_failure() => "failed",
            Outcome::Pass | Outcome::Flaky => "right",
            Outcome::Indecisive => "indecisive",
            Outcome::SkipUnsupported => "unsupported",
            Outcome::Xfail | Outcome::Xpass => "as expected",
            Outcome::PassFallback => "on a fallback",
            Outcome::Incomplete => "incomplete",
            _ => "not asked",
        };
        *self.states.entry(state).or_default() += 1;
        if state != "not asked" {
            self.types.extend(case.model_type.as_deref());
        }
        if state == "right" {
            self.right.extend(case.model_type.as_deref());
        }
    }

    fn row(&self, family: &str) -> Vec<Cell> {
        let count = |state: &str| self.states.get(state).copied().unwrap_or_default();
        let cases: u32 = self.states.values().sum();
        let attempted = cases - count("not asked");
        let ended: Vec<_> = self
            .ended
            .iter()
            .map(|(how, count)| format!("{how} {count}"))
            .collect();
        let a_model = self.took.values().sum::<f64>() / f64::from(attempted.max(1));
        let cell = |column: &&str| match *column {
            "family" => Cell::of_cases(family, self.of.iter().copied()),
            "cases" => cases.to_string().into(),
            "right" => count("right").to_string().into(),
            "share" => Cell::or_dash(
                (100 * count("right"))
                    .checked_div(attempted)
                    .map(|share| format!("{share} %")),
            ),
            "types" | "types right" if self.types.is_empty() => "".into(),
            "types" => self.types.len().to_string().into(),
            "types right" => self.right.len().to_string().into(),
            "ended" => ended.join(", ").into(),
            "a model" if self.took.is_empty() => "".into(),
            "a model" => seconds(a_model).into(),
            state => self
                .states
                .get(state)
                .map(u32::to_string)
                .unwrap_or_default()
                .into(),
        };
        COLUMNS.iter().map(cell).collect()
    }
}
