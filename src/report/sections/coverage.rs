//! How many of each family's models are right on each target. For runs of many models, where the matrix gives no overview.

use std::collections::BTreeMap;

use super::{CaseResult, Cell, Make, Outcome, Section, Table, View};
use crate::report::place::Variant;

pub(super) const SECTION: Section = Section {
    id: "coverage",
    title: "Coverage",
    hint: "Cases by family and target. Right: passed, and wrong outputs would not have. Not asked: excluded or unavailable.",
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
];

fn coverage(view: &View<'_>) -> Vec<Table> {
    if view.rows.len() < LEAST {
        return Vec::new();
    }
    let table = |(column, variant): (usize, &Variant<'_>)| {
        let mut families: BTreeMap<&str, Counts> = BTreeMap::new();
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
struct Counts {
    cases: u32,
    right: u32,
    indecisive: u32,
    unsupported: u32,
    failed: u32,
    expected: u32,
    fallbacks: u32,
    incomplete: u32,
    not_asked: u32,
}

impl Counts {
    fn add(&mut self, case: &CaseResult) {
        self.cases += 1;
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
        let first = [family.into(), self.cases.to_string().into(), self.right.to_string().into(), share.into()];
        first.into_iter().chain(counts.into_iter().chain([self.incomplete, self.not_asked]).map(shown)).collect()
    }
}
