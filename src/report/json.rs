//! `matrix.json` and `orch run --json`: the document itself.

use super::ReportDoc;

/// Pretty JSON, ending in a newline.
pub fn render(doc: &ReportDoc) -> String {
    let mut text =
        serde_json::to_string_pretty(doc).expect("BUG: a report of strings and numbers serialises");
    text.push('\n');
    text
}
