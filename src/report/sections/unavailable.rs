//! Backends that are not there, for what reason, and what would mend it.

use indexmap::IndexSet;

use super::Section;
use crate::base::figures::counted;
use crate::record::Outcome;
use crate::report::cause::Cause;
use crate::report::format::one_line;
use crate::report::place::Place;
use crate::report::shape::{Item, Shape};
use crate::report::view::View;

pub(super) const SECTION: Section = Section {
    id: "unavailable",
    title: "Unavailable",
    hint: "What this host does not have.",
    is_brief: true,
    make: |view| {
        let causes = view.causes(|case| case.status == Outcome::SkipUnavailable);
        Shape::List(causes.iter().map(|cause| backend(view, cause)).collect())
    },
};

fn backend<'a>(view: &View<'a>, cause: &Cause<'a>) -> Item<'a> {
    let targets: IndexSet<String> = cause.cases.iter().map(|(_, case)| Place::from(*case).variant.name()).collect();
    let targets = targets.into_iter().collect::<Vec<_>>().join(", ");
    let first = cause.first();
    let whose = format!("unavailable: {targets} ({})", counted(cause.cases.len(), "case"));
    let mut item = Item { label: &first.backend, whose: Some(whose), stage: None, repro: None, ..Item::of(cause) };
    // The prober's remedy mends what the prober misses; a backend that is there has none.
    let remedy = view.backend(first).filter(|backend| !backend.available).and_then(|backend| backend.remedy.as_deref());
    item.lines.extend(remedy.map(|remedy| format!("remedy: {}", one_line(remedy))));
    item
}
