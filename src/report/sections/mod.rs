//! The sections of a report, in their order. To add one is to write its file and to list it here.

mod chosen;
mod devices;
mod excluded;
mod failures;
mod incomplete;
mod latency;
pub(super) mod matrix;
mod notable;
mod numerics;
mod performance;
mod precision;
mod unavailable;
mod unsupported;
mod versions;

use super::shape::Shape;
use super::view::View;

const SECTIONS: &[Section] = &[
    matrix::SECTION,
    failures::SECTION,
    incomplete::SECTION,
    notable::SECTION,
    precision::SECTION,
    unavailable::SECTION,
    unsupported::SECTION,
    excluded::SECTION,
    chosen::SECTION,
    latency::SECTION,
    performance::SECTION,
    numerics::SECTION,
    devices::SECTION,
    versions::SECTION,
];

pub(super) struct Section {
    /// Its anchor on the page.
    id: &'static str,
    title: &'static str,
    /// A sentence to read first; may be empty.
    hint: &'static str,
    /// Whether the console shows it too.
    is_brief: bool,
    make: for<'a> fn(&View<'a>) -> Shape<'a>,
}

/// A section that has something to show.
#[derive(serde::Serialize)]
pub(super) struct Made<'a> {
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    pub(super) hint: &'static str,
    #[serde(flatten)]
    pub(super) shape: Shape<'a>,
}

pub(super) fn all<'a>(view: &View<'a>) -> Vec<Made<'a>> {
    made(view, SECTIONS.iter())
}

/// Those for the console.
pub(super) fn brief<'a>(view: &View<'a>) -> Vec<Made<'a>> {
    made(view, SECTIONS.iter().filter(|section| section.is_brief))
}

fn made<'a>(view: &View<'a>, sections: impl Iterator<Item = &'static Section>) -> Vec<Made<'a>> {
    let made = sections.map(|&Section { id, title, hint, make, .. }| Made { id, title, hint, shape: make(view) });
    made.filter(|section| !section.shape.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::SECTIONS;

    #[test]
    fn each_section_has_an_anchor_of_its_own() {
        // Of the page besides: its list of cases, the details beside it, the document in it.
        let others = ["cases", "panel", "data", "save", "text", "target", "shown"];
        let ids: BTreeSet<&str> = SECTIONS.iter().map(|section| section.id).chain(others).collect();
        assert_eq!(ids.len(), SECTIONS.len() + others.len());
    }
}
