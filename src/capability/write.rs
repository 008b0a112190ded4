//! The table as YAML: a mapping that fits on a line stands on one, and each mapping of a list on its own.

use serde_json::Value;

use super::Table;

const HEAD: &str = "\
# What is asserted of families and model types on backends, and what runs measured, side by side: `orch capabilities` prints it.
# `sources` and `asserted` are written by hand. All else is written by `orch capabilities --update REPORT`, and counted from `runs`.
";
/// Characters of a line.
const WIDTH: usize = 260;

impl Table {
    /// The text of its file; the same for the same table.
    pub fn text(&self) -> String {
        let document = serde_json::to_value(self).expect("BUG: a table serialises");
        let mut text = HEAD.to_owned();
        mapping(&mut text, &document, 0);
        text
    }
}

fn mapping(text: &mut String, value: &Value, indent: usize) {
    for (key, value) in value.as_object().into_iter().flatten() {
        let lead = format!("{:indent$}{}:", "", scalar(key));
        let line = format!("{lead} {}", flow(value));
        // The parts of the document are blocks whatever their length.
        let is_block = indent == 0 || line.chars().count() > WIDTH;
        match value {
            Value::Array(items) if items.iter().any(Value::is_object) => {
                text.push_str(&format!("{lead}\n"));
                items.iter().for_each(|each| item(text, each, indent + 2));
            }
            Value::Object(entries) if !entries.is_empty() && (is_block || has_list(value)) => {
                text.push_str(&format!("{lead}\n"));
                mapping(text, value, indent + 2);
            }
            _ => text.push_str(&format!("{line}\n")),
        }
    }
}

/// Whether a list of mappings stands in it.
fn has_list(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(Value::is_object),
        Value::Object(entries) => entries.values().any(has_list),
        _ => false,
    }
}

fn item(text: &mut String, value: &Value, indent: usize) {
    let line = format!("{:indent$}- {}", "", flow(value));
    if !value.is_object() || line.chars().count() <= WIDTH {
        text.push_str(&format!("{line}\n"));
        return;
    }
    let mut block = String::new();
    mapping(&mut block, value, indent + 2);
    text.push_str(&format!("{:indent$}- {}", "", &block[indent + 2..]));
}

fn flow(value: &Value) -> String {
    match value {
        Value::Array(items) => format!(
            "[{}]",
            items.iter().map(flow).collect::<Vec<_>>().join(", ")
        ),
        Value::Object(entries) => {
            let entry =
                |(key, value): (&String, &Value)| format!("{}: {}", scalar(key), flow(value));
            format!(
                "{{{}}}",
                entries.iter().map(entry).collect::<Vec<_>>().join(", ")
            )
        }
        Value::String(word) => scalar(word),
        other => other.to_string(),
    }
}

/// A word as it is where no reader of YAML can take it for anything else, or in quotes: JSON's strings are YAML's too.
fn scalar(word: &str) -> String {
    const OTHERS: [&str; 10] = [
        "true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan",
    ];
    let is_plain = word.starts_with(|c: char| c.is_ascii_alphabetic())
        && word
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c))
        && !OTHERS.contains(&word.to_lowercase().as_str());
    if is_plain {
        word.to_owned()
    } else {
        Value::from(word).to_string()
    }
}
