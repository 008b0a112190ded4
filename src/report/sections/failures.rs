//! What failed, by cause.

use super::{CaseResult, Item, View, counted};
use crate::report::format::day;

pub(super) fn failures<'a>(view: &View<'a>) -> Vec<Item<'a>> {
    let causes = view
        .causes(CaseResult::is_failure)
        .into_iter()
        .map(|cause| {
            let mut item = Item::of(&cause);
            let first = cause.first();
            item.lines.extend(
                first
                    .known_since
                    .as_ref()
                    .map(|since| format!("known since {}", day(since))),
            );
            let attempts = counted(first.attempts.len(), "failed attempt");
            item.lines.extend(
                (!first.attempts.is_empty()).then(|| format!("after {attempts} before it")),
            );
            item
        });
    causes.collect()
}
