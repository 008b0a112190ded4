//! Cases that the spec takes out, by reason.

use indexmap::IndexMap;

use super::Section;
use crate::report::format::one_line;
use crate::report::shape::{Item, Shape};
use crate::report::view::View;

pub(super) const SECTION: Section =
    Section { id: "excluded", title: "Excluded", hint: "By the spec.", is_brief: true, make: excluded };

fn excluded<'a>(view: &View<'a>) -> Shape<'a> {
    let mut reasons: IndexMap<&str, Vec<usize>> = IndexMap::new();
    for (at, excluded) in view.doc.excluded.iter().enumerate() {
        reasons.entry(&excluded.reason).or_default().push(view.doc.cases.len() + at);
    }
    let item = |(reason, cases)| {
        let lines = vec![one_line(reason)];
        let (whose, stage, repro) = (None, None, None);
        Item { kind: "excluded", glyph: "·", label: "excluded", whose, cases, stage, lines, repro }
    };
    Shape::List(reasons.into_iter().map(item).collect())
}
