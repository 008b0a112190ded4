//! Models that a vendor's tool refuses.

use super::Section;
use crate::record::Outcome;
use crate::report::format::word;
use crate::report::shape::{Item, Shape};

pub(super) const SECTION: Section = Section {
    id: "unsupported",
    title: "Unsupported",
    hint: "By the vendor's own word.",
    is_brief: true,
    make: |view| {
        let causes = view.causes(|case| case.status == Outcome::SkipUnsupported);
        let label = word(Outcome::SkipUnsupported);
        Shape::List(causes.iter().map(|cause| Item { label, ..Item::of(cause) }).collect())
    },
};
