//! What was interrupted or not reached.

use super::{Item, Make, Outcome, Section, View};

pub(super) const SECTION: Section =
    Section { id: "incomplete", title: "Incomplete", hint: "", make: Make::List(incomplete) };

fn incomplete<'a>(view: &View<'a>) -> Vec<Item<'a>> {
    view.causes(|case| case.status == Outcome::Incomplete).iter().map(Item::of).collect()
}
