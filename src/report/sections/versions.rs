//! Package versions over all cases; more than one of a package is worth seeing.

use std::collections::{BTreeMap, BTreeSet};

use super::{Table, View};
use crate::report::view::case_versions;

pub(super) fn versions(view: &View<'_>) -> Vec<Table> {
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (name, version) in view.doc.cases.iter().flat_map(case_versions) {
        versions.entry(name).or_default().insert(version);
    }
    let told = |values: BTreeSet<&str>| values.into_iter().collect::<Vec<_>>().join(", ");
    let rows = versions.into_iter().map(|(name, values)| vec![name.into(), told(values).into()]);
    vec![Table { title: String::new(), columns: &["package", "version"], rows: rows.collect() }]
}
