//! Why orch chose targets, if that was requested.

use super::{Cell, Table, View};

pub(super) fn chosen(view: &View<'_>) -> Vec<Table> {
    let rows = view.doc.cases.iter().enumerate().filter_map(|(at, case)| {
        let why = case.chosen.as_deref()?;
        Some(vec![Cell::of_case(at, case), why.into()])
    });
    vec![Table {
        title: String::new(),
        columns: &["case", "chosen as"],
        rows: rows.collect(),
    }]
}
