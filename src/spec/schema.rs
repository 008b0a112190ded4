//! The JSON Schema of spec files, for editors: `specs/schema.json` is a copy of [`text`].

use schemars::generate::SchemaSettings;

use super::raw::File;

/// The schema, pretty-printed, with a final newline.
pub fn text() -> String {
    let mut schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<File>();
    schema.insert("title".to_owned(), "orch spec".into());
    schema.insert("patternProperties".to_owned(), serde_json::json!({ "^x-": {} }));
    let mut text = serde_json::to_string_pretty(&schema).expect("BUG: a schema serialises");
    text.push('\n');
    text
}
