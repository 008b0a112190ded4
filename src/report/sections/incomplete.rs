//! What was interrupted or not reached.

use super::{Item, Outcome, View};

pub(super) fn incomplete<'a>(view: &View<'a>) -> Vec<Item<'a>> {
    view.causes(|case| case.status == Outcome::Incomplete)
        .iter()
        .map(Item::of)
        .collect()
}
