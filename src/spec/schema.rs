//! The JSON Schema of spec files, for editors: `specs/schema.json` is a copy of [`text`].

use schemars::generate::SchemaSettings;
use serde_json::Value;

use super::raw::File;

/// The schema, pretty-printed, with a final newline.
pub fn text() -> String {
    let mut schema = SchemaSettings::draft2020_12()
        .into_generator()
        .into_root_schema_for::<File>();
    schema.insert("title".to_owned(), "orch spec".into());
    schema.insert(
        "patternProperties".to_owned(),
        serde_json::json!({ "^x-": {} }),
    );
    let mut text = serde_json::to_string_pretty(&schema).expect("BUG: a schema serialises");
    text.push('\n');
    text
}

/// Every field as Markdown tables, one per mapping, in the order in which a reader meets them.
pub fn reference() -> String {
    let root: Value = serde_json::from_str(&text()).expect("BUG: a schema is JSON");
    let mut page = section("Spec file", &root, &root);
    for (name, part) in root["$defs"].as_object().into_iter().flatten() {
        if part["properties"].is_object() {
            page.push('\n');
            page.push_str(&section(name, part, &root));
        }
    }
    page
}

fn section(name: &str, schema: &Value, root: &Value) -> String {
    let mut text = format!(
        "## {name}\n\n{}\n\n| field | value | meaning |\n|---|---|---|\n",
        prose(schema)
    );
    let required: Vec<&str> = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    for (field, part) in schema["properties"].as_object().into_iter().flatten() {
        let need = if required.contains(&field.as_str()) {
            " **required**"
        } else {
            ""
        };
        text.push_str(&format!(
            "| `{field}`{need} | {} | {} |\n",
            kind(part, root),
            prose(part)
        ));
    }
    text
}

fn prose(schema: &Value) -> String {
    schema["description"]
        .as_str()
        .unwrap_or_default()
        .replace('\n', " ")
        .replace('|', "\\|")
}

fn kind(schema: &Value, root: &Value) -> String {
    if let Some(words) = schema["enum"].as_array() {
        let told = |word: &Value| {
            word.as_str()
                .map_or_else(|| format!("`{word}`"), |word| format!("`{word}`"))
        };
        return words.iter().map(told).collect::<Vec<_>>().join(", ");
    }
    if let Some(name) = schema["$ref"]
        .as_str()
        .and_then(|reference| reference.rsplit('/').next())
    {
        let part = &root["$defs"][name];
        return if part["enum"].is_array() {
            kind(part, root)
        } else {
            format!("[{name}](#{})", name.to_lowercase())
        };
    }
    if let Some(all) = schema["anyOf"].as_array() {
        return all
            .iter()
            .map(|one| kind(one, root))
            .collect::<Vec<_>>()
            .join(" or ");
    }
    match &schema["type"] {
        Value::String(word) if word == "array" => {
            format!("list of {}", kind(&schema["items"], root))
        }
        Value::String(word) if word == "object" => match &schema["additionalProperties"] {
            Value::Object(row) => {
                format!("mapping of names to {}", kind(&row.clone().into(), root))
            }
            _ => "mapping".to_owned(),
        },
        Value::String(word) => word.clone(),
        Value::Array(words) => words
            .iter()
            .filter_map(Value::as_str)
            .collect::<Vec<_>>()
            .join(" or "),
        _ => "anything".to_owned(),
    }
}
