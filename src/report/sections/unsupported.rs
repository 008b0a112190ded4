//! Models that a vendor's tool refuses.

use super::{Item, Make, Outcome, Section, View};

pub(super) const SECTION: Section = Section {
    id: "unsupported",
    title: "Unsupported",
    hint: "In the vendor's own words.",
    make: Make::List(unsupported),
};

fn unsupported<'a>(view: &View<'a>) -> Vec<Item<'a>> {
    let causes = view.causes(|case| case.status == Outcome::SkipUnsupported);
    causes.iter().map(|cause| Item { label: "unsupported", ..Item::of(cause) }).collect()
}
