//! What failed, by cause.

use super::Section;
use crate::base::figures::counted;
use crate::report::CaseResult;
use crate::report::format::day;
use crate::report::shape::{Item, Shape};
use crate::report::view::View;

pub(super) const SECTION: Section =
    Section { id: "failures", title: "Failures", hint: "", is_brief: true, make: failures };

fn failures<'a>(view: &View<'a>) -> Shape<'a> {
    let causes = view.causes(CaseResult::is_failure).into_iter().map(|cause| {
        let mut item = Item::of(&cause);
        let first = cause.first();
        item.lines.extend(first.known_since.as_ref().map(|since| format!("known since {}", day(since))));
        let attempts = counted(first.attempts.len(), "failed attempt");
        item.lines.extend((!first.attempts.is_empty()).then(|| format!("after {attempts} before it")));
        item
    });
    Shape::List(causes.collect())
}
