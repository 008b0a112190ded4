//! How many of each family's models are right on each target. For runs of many models, where the matrix gives no overview.

use std::collections::BTreeMap;

use super::{CaseResult, Cell, Make, Outcome, Section, Table, View};
use crate::report::format::seconds;
use crate::report::place::Variant;

pub(super) const SECTION: Section = Section {
    id: "coverage",
    title: "Coverage",
    hint: "Cases by family and target. Right: passed, and wrong outputs would not have. Not asked: excluded or unavailable. \
           Ended: where and how those that failed did, expected or not. A model: what the steps of its case took, shared \
           ones too.",
    make: Make::Tables(coverage),
};

/// Fewer models are seen at a glance.
const LEAST: usize = 30;
const COLUMNS: &[&str] = &[
    "family",
    "cases",
    "right",
    "share",
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

fn coverage(view: &View<'_>) -> Vec<Table> {
    if view.rows.len() < LEAST {
        return Vec::new();
    }
    let table = |(column, variant): (usize, &Variant<'_>)| {
        let mut families: BTreeMap<&str, Counts<'_>> = BTreeMap::new();
        let mut all = Counts::default();
        for (_, case) in view.column(column).filter_map(|cell| cell.case()) {
            families.entry(&case.family).or_default().add(case);
            all.add(case);
        }
        let rows = families.iter().map(|(family, counts)| counts.row(family)).chain([all.row("all")]).collect();
        Table { title: variant.name(), columns: COLUMNS, rows }
    };
    view.variants.iter().enumerate().map(table).collect()
}

#[derive(Default)]
struct Counts<'a> {
    cases: u32,
    right: u32,
    indecisive: u32,
    unsupported: u32,
    failed: u32,
    expected: u32,
    fallbacks: u32,
    incomplete: u32,
    not_asked: u32,
    /// By stage and state.
    ended: BTreeMap<String, u32>,
    /// What each step took, once.
    took: BTreeMap<&'a str, f64>,
}

impl<'a> Counts<'a> {
    fn add(&mut self, case: &'a CaseResult) {
        self.cases += 1;
        self.took.extend(case.took.iter().map(|(step, seconds)| (step.as_str(), *seconds)));
        let expected = case.expected.as_ref().filter(|_| case.status == Outcome::Xfail).map(|expected| expected.status);
        if let Some(state) = expected.or(case.is_failure().then_some(case.status)) {
            let stage = case.stage.as_deref().map(|stage| format!("{stage} ")).unwrap_or_default();
            *self.ended.entry(format!("{stage}{}", state.label())).or_default() += 1;
        }
        let count = match case.status {
            _ if case.is_failure() => &mut self.failed,
            Outcome::Pass | Outcome::Flaky => &mut self.right,
            Outcome::Indecisive => &mut self.indecisive,
            Outcome::SkipUnsupported => &mut self.unsupported,
            Outcome::Xfail | Outcome::Xpass => &mut self.expected,
            Outcome::PassFallback => &mut self.fallbacks,
            Outcome::Incomplete => &mut self.incomplete,
            _ => &mut self.not_asked,
        };
        *count += 1;
    }

    fn row(&self, family: &str) -> Vec<Cell> {
        let asked = self.cases - self.not_asked;
        let share = (100 * self.right).checked_div(asked).map_or("–".to_owned(), |share| format!("{share} %"));
        let counts = [self.indecisive, self.unsupported, self.failed, self.expected, self.fallbacks];
        let shown = |count: u32| Cell::from(if count == 0 { String::new() } else { count.to_string() });
        let ended: Vec<_> = self.ended.iter().map(|(how, count)| format!("{how} {count}")).collect();
        let a_model = self.took.values().sum::<f64>() / f64::from(asked.max(1));
        let last = [ended.join(", "), if self.took.is_empty() { String::new() } else { seconds(a_model) }];
        let first = [family.into(), self.cases.to_string().into(), self.right.to_string().into(), share.into()];
        let counts = counts.into_iter().chain([self.incomplete, self.not_asked]).map(shown);
        first.into_iter().chain(counts).chain(last.map(Cell::from)).collect()
    }
}
