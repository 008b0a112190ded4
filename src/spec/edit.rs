//! Changes `matrix.expect` in the text of a spec file, and nothing else: comments, order and layout stay.
//!
//! Works on places that the reader knows. What it makes must be read back before it is believed: YAML has more forms
//! than are understood here, and one that is not is an error, or is found out then.

mod spans;

use super::yaml::{self, Node, Value};
use super::{ExpectedStage, ExpectedStatus, Fault};
use spans::{Edit, Item, Layout};

/// What is to be changed; rows by the line and column at which they begin.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Other rows in a row's place; none takes it out.
    Replace(u32, u32, Vec<Row>),
    /// Another status, and another stage if the row has one.
    Status(u32, u32, ExpectedStatus, Option<ExpectedStage>),
    /// A row behind all others.
    Add(Row),
}

/// A new row, for one case.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    pub case: String,
    pub status: ExpectedStatus,
    pub stage: Option<ExpectedStage>,
    pub reason: String,
    pub since: Option<String>,
    pub fault: Fault,
    pub strict: bool,
}

impl Row {
    fn text(&self) -> String {
        // JSON's strings are YAML's too.
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let mut text = format!(
            "{{case: {}, status: {}",
            quoted(&self.case),
            self.status.word()
        );
        if let Some(stage) = self.stage {
            text.push_str(&format!(", stage: {}", stage.word()));
        }
        text.push_str(&format!(", reason: {}", quoted(&self.reason)));
        if let Some(since) = &self.since {
            text.push_str(&format!(", since: {}", quoted(since)));
        }
        if let Some(cause) = self.fault.cause {
            text.push_str(&format!(", cause: {}", cause.word()));
        }
        for (key, value) in [
            ("url", &self.fault.url),
            ("signature", &self.fault.signature),
        ] {
            if let Some(value) = value {
                text.push_str(&format!(", {key}: {}", quoted(value)));
            }
        }
        if !self.strict {
            text.push_str(", strict: false");
        }
        text + "}"
    }
}

/// Whether a file's text has a `matrix`, which stands in one file of a spec only.
pub fn has_matrix(text: &str) -> bool {
    let (node, _) = yaml::parse(text);
    node.is_some_and(|node| entry(&node, "matrix").is_some())
}

/// The file's data without what is changed here.
pub fn others(text: &str) -> Option<serde_json::Value> {
    let mut data = super::yaml_data(text)?;
    if let Some(matrix) = data
        .get_mut("matrix")
        .and_then(|matrix| matrix.as_object_mut())
    {
        matrix.remove("expect");
        if matrix.is_empty() {
            data.as_object_mut()?.remove("matrix");
        }
    }
    Some(data)
}

/// The text with these changes, or why it cannot be made.
pub fn expectations(text: &str, changes: &[Change]) -> Result<String, String> {
    let (node, errors) = yaml::parse(text);
    let node = node.filter(|_| errors.is_empty()).ok_or("it is no YAML")?;
    let layout = Layout::new(text);
    let new: Vec<_> = changes
        .iter()
        .filter_map(|change| {
            if let Change::Add(row) = change {
                Some(row.text())
            } else {
                None
            }
        })
        .collect();
    let Some((matrix_at, matrix)) = entry(&node, "matrix") else {
        let gap = if text.is_empty() || text.ends_with('\n') {
            ""
        } else {
            "\n"
        };
        let rows: String = new.iter().map(|row| format!("    - {row}\n")).collect();
        return Ok(format!("{text}{gap}matrix:\n  expect:\n{rows}"));
    };
    let Some((expect_at, expect)) = entry(matrix, "expect") else {
        return layout.with_key(matrix_at, matrix, &new);
    };
    let Value::List(nodes) = &expect.value else {
        return Err("`expect` is no list".to_owned());
    };
    let items = layout.items(expect, nodes)?;
    let mut edits: Vec<Edit> = Vec::new();
    let mut left = items.rows.len();
    let find = |line: u32, column: u32| {
        let at = nodes
            .iter()
            .position(|node| (node.pos.line, node.pos.column) == (line, column));
        at.ok_or_else(|| format!("no row begins at line {line}"))
    };
    for change in changes {
        match change {
            Change::Replace(line, column, rows) => {
                let at = find(*line, *column)?;
                let rows: Vec<_> = rows.iter().map(Row::text).collect();
                left = left - 1 + rows.len();
                edits.push(items.replacement(&layout, at, &rows));
            }
            Change::Status(line, column, status, stage) => {
                let at = find(*line, *column)?;
                let (_, old) =
                    entry(&nodes[at], "status").ok_or("a row has no `status` of its own")?;
                edits.push((layout.scalar(old)?, status.word().to_owned()));
                if let (Some(stage), Some((_, old))) = (stage, entry(&nodes[at], "stage")) {
                    edits.push((layout.scalar(old)?, stage.word().to_owned()));
                }
            }
            Change::Add(_) => {}
        }
    }
    if left + new.len() == 0 && !items.is_flow {
        // A key without rows would be no list.
        let at = layout.after_colon(expect_at)?;
        edits.push((at..at, " []".to_owned()));
    } else if !new.is_empty() {
        edits.push(items.addition(&layout, expect_at, &new)?);
    }
    spans::apply(text, edits)
}

/// An entry of a mapping, with the place of its key.
fn entry<'n, 'a>(node: &'n Node<'a>, name: &str) -> Option<(yaml::Pos, &'n Node<'a>)> {
    let Value::Map(entries) = &node.value else {
        return None;
    };
    entries
        .iter()
        .find(|(key, _)| key.text == name)
        .map(|(key, value)| (key.pos, value))
}

/// Rows of a list in the text.
struct Items {
    rows: Vec<Item>,
    /// Whether the list is in brackets, on one line or several.
    is_flow: bool,
    /// The whole list, brackets included.
    whole: std::ops::Range<usize>,
}

impl Items {
    fn replacement(&self, layout: &Layout<'_>, at: usize, rows: &[String]) -> Edit {
        let item = &self.rows[at];
        if !self.is_flow {
            let lines = rows.iter().map(|row| format!("{}- {row}\n", item.indent));
            return (layout.lines(&item.range), lines.collect());
        }
        if !rows.is_empty() {
            return (item.range.clone(), rows.join(", "));
        }
        // With the comma behind it, or else the one before it.
        let range = match (self.rows.get(at + 1), at.checked_sub(1)) {
            (Some(next), _) => item.range.start..next.range.start,
            (None, Some(before)) => self.rows[before].range.end..item.range.end,
            (None, None) => item.range.clone(),
        };
        (range, String::new())
    }

    fn addition(
        &self,
        layout: &Layout<'_>,
        key: yaml::Pos,
        rows: &[String],
    ) -> Result<Edit, String> {
        match self.rows.last() {
            Some(last) if self.is_flow => Ok((
                last.range.end..last.range.end,
                rows.iter().map(|row| format!(", {row}")).collect(),
            )),
            Some(last) => {
                let at = layout.lines(&last.range).end;
                let gap = if layout.text[..at].ends_with('\n') {
                    ""
                } else {
                    "\n"
                };
                let lines = rows.iter().map(|row| format!("{}- {row}\n", last.indent));
                Ok((at..at, gap.to_owned() + &lines.collect::<String>()))
            }
            // `expect: []`
            None if layout.is_block_key(key) => {
                let indent = " ".repeat(key.column as usize + 1);
                let lines: Vec<_> = rows
                    .iter()
                    .map(|row| format!("\n{indent}- {row}"))
                    .collect();
                let start = layout.after_colon(key)?;
                Ok((start..self.whole.end, lines.concat()))
            }
            None => Ok((self.whole.clone(), format!("[{}]", rows.join(", ")))),
        }
    }
}

#[cfg(test)]
mod tests;
