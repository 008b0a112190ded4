//! Backends that are not there, for what reason, and what would mend it.

use indexmap::IndexSet;

use super::{Item, Outcome, Place, View, counted, one_line};
use crate::report::cause::Cause;

pub(super) fn unavailable<'a>(view: &View<'a>) -> Vec<Item<'a>> {
    let causes = view.causes(|case| case.status == Outcome::SkipUnavailable);
    causes.iter().map(|cause| backend(view, cause)).collect()
}

fn backend<'a>(view: &View<'a>, cause: &Cause<'a>) -> Item<'a> {
    let targets: IndexSet<String> = cause
        .cases
        .iter()
        .map(|(_, case)| Place::from(*case).variant.name())
        .collect();
    let targets = targets.into_iter().collect::<Vec<_>>().join(", ");
    let first = cause.first();
    let whose = format!(
        "unavailable: {targets} ({})",
        counted(cause.cases.len(), "case")
    );
    // A backend that is there is not what a case lacks: a target may name a machine that nobody offers.
    let missing = view.backend(first).filter(|backend| !backend.available);
    let label = if missing.is_some() {
        &first.backend
    } else {
        &first.target
    };
    let mut item = Item {
        label,
        whose: Some(whose),
        stage: None,
        repro: None,
        ..Item::of(cause)
    };
    let remedy = missing.and_then(|backend| backend.remedy.as_deref());
    item.lines
        .extend(remedy.map(|remedy| format!("remedy: {}", one_line(remedy))));
    item
}
