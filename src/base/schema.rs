//! JSON Schemas of documents that commands print.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;

/// The JSON Schema (draft 2020-12) of a document, with a final newline. `title` names the command that prints it.
pub fn text<T: JsonSchema>(title: &str) -> String {
    let mut schema = SchemaSettings::draft2020_12()
        .for_serialize()
        .into_generator()
        .into_root_schema_for::<T>();
    schema.insert("title".to_owned(), title.into());
    serde_json::to_string_pretty(&schema).expect("BUG: a schema serialises") + "\n"
}
