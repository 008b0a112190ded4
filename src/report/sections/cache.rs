//! What the run did not have to do.

use super::{Cell, Table, View};
use crate::report::format::seconds;

pub(super) fn cache(view: &View<'_>) -> Vec<Table> {
    let summary = &view.doc.summary;
    if summary.saved_seconds + summary.executed_seconds == 0.0 {
        return Vec::new();
    }
    let row = |what: &str, count: u32, took: f64| -> Vec<Cell> {
        vec![what.into(), count.to_string().into(), seconds(took).into()]
    };
    let hits = match summary.fetched {
        0 => "up to date".to_owned(),
        fetched => format!("up to date, {fetched} of them from the remote"),
    };
    let rows = vec![
        row("executed in this run", summary.executed, summary.executed_seconds),
        row(&hits, summary.hits, summary.saved_seconds),
    ];
    vec![Table { title: String::new(), columns: &["steps", "count", "took"], rows }]
}
