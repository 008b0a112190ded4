//! The row of an ONNX file, by what its graph declares.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use crate::runtime::onnx_file::{self, Port, Size};
use crate::runtime::tensors::Element;
use crate::session::usage;

/// What a size is where the file leaves it open: of the first axis, which is mostly the batch, and of others.
const OPEN: [u64; 2] = [1, 16];

pub(super) fn row(path: &Path, name: &str, written: &str) -> anyhow::Result<String> {
    let facts = onnx_file::facts(path)?;
    if let Some(foreign) = facts.inexpressible.first() {
        usage!("orch cannot run `{}`: {foreign}", path.display());
    }
    let mut sizes = BTreeMap::new();
    let mut inputs = String::new();
    for port in onnx_file::ports(path)? {
        let shape: Vec<_> = port
            .sizes
            .iter()
            .enumerate()
            .map(|(axis, size)| written_size(axis, size, &mut sizes))
            .collect();
        let dtype = port.element.word();
        let fill = fill(&port);
        writeln!(
            inputs,
            "      {}: {{dtype: {dtype}, shape: [{}], {fill}}}",
            quoted(&port.name),
            shape.join(", ")
        )?;
    }
    let mut row = format!("  {}:\n    onnx: {}\n", quoted(name), quoted(written));
    if !sizes.is_empty() {
        let sizes: Vec<_> = sizes
            .iter()
            .map(|(name, size)| format!("{}: {size}", quoted(name)))
            .collect();
        writeln!(row, "    dims: {{{}}}", sizes.join(", "))?;
    }
    match inputs.is_empty() {
        true => row.push_str("    inputs: {}\n"),
        false => write!(row, "    inputs:\n{inputs}")?,
    }
    Ok(row)
}

/// A size as a recipe has it. A named one goes to the row's `dims`, where a user finds it.
fn written_size(axis: usize, size: &Size, sizes: &mut BTreeMap<String, u64>) -> String {
    let open = OPEN[axis.min(1)];
    match size {
        Size::Fixed(size) => size.to_string(),
        Size::Open => open.to_string(),
        Size::Named(name) => {
            let is_batch = name.to_lowercase().contains("batch");
            sizes
                .entry(name.clone())
                .or_insert(if is_batch { 1 } else { open });
            quoted(name)
        }
    }
}

/// A guess that a user may correct: noise, ids that the model has rows for, masks that hide nothing.
fn fill(port: &Port) -> String {
    let is = |word: &str| port.name.to_lowercase().contains(word);
    match (port.element, port.vocabulary) {
        (Element::Float16 | Element::Bfloat16 | Element::Float32 | Element::Float64, _) => {
            "normal: [0, 1]".into()
        }
        (Element::Bool, _) => "value: true".into(),
        (_, Some(rows)) => format!("randint: [0, {rows}]"),
        _ if is("mask") => "value: 1".into(),
        _ if is("rate") || port.name == "sr" => "value: 16000".into(),
        _ => "randint: [0, 2]".into(),
    }
}

/// A text as YAML reads it back.
fn quoted(text: &str) -> String {
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphabetic() || "./".contains(c))
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c))
        && !["true", "false", "null", "yes", "no", "on", "off", "y", "n"]
            .contains(&text.to_lowercase().as_str());
    if is_plain {
        text.to_owned()
    } else {
        serde_json::Value::from(text).to_string()
    }
}
