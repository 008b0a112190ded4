//! Package versions over all cases; more than one of a package is worth seeing.

use std::collections::{BTreeMap, BTreeSet};

use super::{Cell, Table, View};
use crate::report::view::case_versions;

pub(super) fn versions(view: &View<'_>) -> Vec<Table> {
    let mut packages: BTreeMap<&str, (BTreeSet<&str>, Vec<usize>)> = BTreeMap::new();
    for (at, case) in view.doc.cases.iter().enumerate() {
        for (name, version) in case_versions(case) {
            let (versions, cases) = packages.entry(name).or_default();
            versions.insert(version);
            cases.push(at);
        }
    }
    let joined = |versions: BTreeSet<&str>| versions.into_iter().collect::<Vec<_>>().join(", ");
    let rows = packages.into_iter().map(|(name, (versions, cases))| {
        vec![Cell::of_cases(name, cases), joined(versions).into()]
    });
    vec![Table {
        title: String::new(),
        columns: &["package", "version"],
        rows: rows.collect(),
    }]
}
