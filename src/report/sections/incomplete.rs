//! What was interrupted or not reached.

use super::Section;
use crate::record::Outcome;
use crate::report::shape::{Item, Shape};

pub(super) const SECTION: Section = Section {
    id: "incomplete",
    title: "Incomplete",
    hint: "",
    is_brief: true,
    make: |view| {
        let causes = view.causes(|case| case.status == Outcome::Incomplete);
        Shape::List(causes.iter().map(Item::of).collect())
    },
};
