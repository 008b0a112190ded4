//! Package versions over all cases; more than one of a package is worth seeing.

use std::collections::{BTreeMap, BTreeSet};

use super::Section;
use crate::report::shape::{Align::Left, Shape, Table};
use crate::report::view::{View, case_versions};

pub(super) const SECTION: Section =
    Section { id: "versions", title: "Versions", hint: "", is_brief: false, make: versions };

fn versions<'a>(view: &View<'a>) -> Shape<'a> {
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (name, version) in view.doc.cases.iter().flat_map(case_versions) {
        versions.entry(name).or_default().insert(version);
    }
    let told = |values: BTreeSet<&str>| values.into_iter().collect::<Vec<_>>().join(", ");
    let rows = versions.into_iter().map(|(name, values)| vec![name.into(), told(values).into()]);
    Table::alone(&[("package", Left), ("version", Left)], rows.collect())
}
