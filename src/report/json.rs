//! `matrix.json` and `orch run --json`: the document itself.

use super::ReportDoc;
use super::compare::Comparison;
use crate::base::schema;

/// Pretty JSON, ending in a newline.
pub fn render(doc: &ReportDoc) -> String {
    let mut text =
        serde_json::to_string_pretty(doc).expect("BUG: a report of strings and numbers serialises");
    text.push('\n');
    text
}

/// JSON without white space, ending in a newline.
pub fn compact(doc: &ReportDoc) -> String {
    serde_json::to_string(doc).expect("BUG: a report of strings and numbers serialises") + "\n"
}

/// The JSON Schema of a report, with a final newline.
pub fn schema() -> String {
    schema::text::<ReportDoc>("orch run --json, matrix.json")
}

/// The JSON Schema of a comparison, with a final newline.
pub fn comparison_schema() -> String {
    schema::text::<Comparison>("orch compare --json")
}
