//! What changed since an older report, for a page and a feed.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::names::{file, pair};
use crate::report::compare::{Change, Comparison, Side, counts, found, statistic_line, what};
use crate::report::format::day;
use crate::report::view::View;

pub(super) fn page(view: &View<'_>, comparison: &Comparison) -> Value {
    let pages: HashMap<&str, String> = view
        .doc
        .cases
        .iter()
        .enumerate()
        .map(|(at, case)| (&*case.case, pair(view, at)))
        .collect();
    let change = |title: &str, it: &Change| {
        // With the feed's id: that of an entry. What the newer report does not have has no page.
        let id = format!("{}:{}", file(&it.case), file(title));
        json!({"id": id, "case": it.case, "href": pages.get(&*it.case), "what": what(it)})
    };
    let groups = found(comparison).map(|(title, _, changes)| {
        json!({"title": title, "changes": changes.into_iter().map(|it| change(title, it)).collect::<Vec<_>>()})
    });
    let last = |side: &Side| side.measured.as_ref().map(|(_, last)| last.clone());
    let named =
        |side| last(side).map_or_else(|| "an unknown day".to_owned(), |time| day(&time).to_owned());
    json!({
        // Of the feed: a name that no other has.
        "id": format!("urn:orch:{}", file(&view.doc.spec)),
        "base": named(&comparison.base),
        // A run's name, or that of a file: where it lay is nobody's business.
        "base_name": comparison.base.name.rsplit('/').next(),
        "head": named(&comparison.head),
        // When the head was measured, RFC 3339 UTC.
        "updated": last(&comparison.head).unwrap_or_else(|| "1970-01-01T00:00:00Z".to_owned()),
        "counts": counts(comparison),
        "times": statistic_line(comparison),
        "groups": groups.collect::<Vec<_>>(),
        "packages": comparison.packages.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}
