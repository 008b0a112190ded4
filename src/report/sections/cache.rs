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
        row(
            "executed in this run",
            summary.executed,
            summary.executed_seconds,
        ),
        row(&hits, summary.hits, summary.saved_seconds),
    ];
    vec![Table {
        title: String::new(),
        columns: &["steps", "count", "took"],
        rows,
    }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{ReportDoc, fixture};

    fn rows_of(doc: &ReportDoc) -> Vec<[String; 3]> {
        let rows = cache(&View::new(doc))
            .into_iter()
            .flat_map(|table| table.rows);
        rows.map(|row| [0, 1, 2].map(|at| row[at].text.clone()))
            .collect()
    }

    #[test]
    fn what_was_executed_stands_beside_what_was_saved() {
        let mut doc = fixture();
        assert_eq!(
            rows_of(&doc),
            [
                ["executed in this run", "38", "61 s"],
                ["up to date", "263", "8 min 33 s"]
            ]
        );
        doc.summary.fetched = 12;
        assert_eq!(
            rows_of(&doc)[1][0],
            "up to date, 12 of them from the remote"
        );
        (doc.summary.executed_seconds, doc.summary.saved_seconds) = (0.0, 0.0);
        assert!(rows_of(&doc).is_empty(), "an older report does not know");
    }
}
