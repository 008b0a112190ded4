//! Cases that the spec takes out, by reason.

use indexmap::IndexMap;

use super::{Item, View, one_line};

pub(super) fn excluded<'a>(view: &View<'a>) -> Vec<Item<'a>> {
    let mut reasons: IndexMap<&str, Vec<usize>> = IndexMap::new();
    for (at, excluded) in view.doc.excluded.iter().enumerate() {
        reasons
            .entry(&excluded.reason)
            .or_default()
            .push(view.doc.cases.len() + at);
    }
    let item = |(reason, cases)| {
        let about = Item::about("excluded", String::new(), one_line(reason));
        Item {
            kind: "excluded",
            glyph: "·",
            whose: None,
            cases,
            ..about
        }
    };
    reasons.into_iter().map(item).collect()
}
