//! What changed since an older report, for a page and a feed.

use std::collections::HashMap;

use serde::Serialize;

use super::names::{file, pair};
use crate::report::compare::{Comparison, Kind, found, what};
use crate::report::view::View;

#[derive(Serialize)]
pub(super) struct Changes {
    /// Of the feed: a name that no other has.
    id: String,
    base: String,
    head: String,
    /// When the head was measured, RFC 3339 UTC.
    updated: String,
    counts: String,
    groups: Vec<Group>,
    packages: Vec<String>,
}

#[derive(Serialize)]
struct Group {
    title: &'static str,
    worse: bool,
    changes: Vec<Change>,
}

#[derive(Serialize)]
struct Change {
    /// With the feed's: that of an entry.
    id: String,
    case: String,
    /// None: the newer report does not have it.
    href: Option<String>,
    what: String,
}

pub(super) fn page(view: &View<'_>, comparison: &Comparison) -> Changes {
    let pages: HashMap<&str, String> =
        view.doc.cases.iter().enumerate().map(|(at, case)| (&*case.case, pair(view, at))).collect();
    let group = |(title, kind, changes): (&'static str, Kind, Vec<&crate::report::compare::Change>)| {
        let change = |it: &crate::report::compare::Change| Change {
            id: format!("{}:{}", file(&it.case), file(title)),
            case: it.case.clone(),
            href: pages.get(&*it.case).cloned(),
            what: what(it),
        };
        Group { title, worse: kind.is_worse(), changes: changes.into_iter().map(change).collect() }
    };
    let day = |side: &crate::report::compare::Side| side.measured.as_ref().map(|(_, last)| last.clone());
    let named = |side| day(side).map_or_else(|| "an unknown day".to_owned(), |time| time[..10].to_owned());
    Changes {
        id: format!("urn:orch:{}", file(&view.doc.spec)),
        base: named(&comparison.base),
        head: named(&comparison.head),
        updated: day(&comparison.head).unwrap_or_else(|| "1970-01-01T00:00:00Z".to_owned()),
        counts: crate::report::compare::counts(comparison),
        groups: found(comparison).map(group).collect(),
        packages: comparison.packages.iter().map(ToString::to_string).collect(),
    }
}
