//! Models that a vendor's tool refuses.

use super::{Item, Outcome, View};

pub(super) fn unsupported<'a>(view: &View<'a>) -> Vec<Item<'a>> {
    let causes = view.causes(|case| case.status == Outcome::SkipUnsupported);
    causes
        .iter()
        .map(|cause| Item {
            label: "unsupported",
            ..Item::of(cause)
        })
        .collect()
}
