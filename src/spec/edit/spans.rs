//! Places where the parts of a YAML text begin and end, in bytes.

use std::ops::Range;

use super::Items;
use crate::spec::yaml::{Node, Pos, Value};

/// What comes in the place of a part of the text.
pub(super) type Edit = (Range<usize>, String);

/// A text by its lines.
pub(super) struct Layout<'t> {
    pub(super) text: &'t str,
    /// The beginning of each line.
    starts: Vec<usize>,
}

/// A row of a list.
pub(super) struct Item {
    /// The range of a row: of a block from its dash, in brackets from its brace.
    pub(super) range: Range<usize>,
    /// What stands before its dash.
    pub(super) indent: String,
}

impl<'t> Layout<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        let starts = std::iter::once(0)
            .chain(text.match_indices('\n').map(|(at, _)| at + 1))
            .collect();
        Self { text, starts }
    }

    fn line(&self, number: usize) -> Option<&'t str> {
        let start = *self.starts.get(number)?;
        let end = self
            .starts
            .get(number + 1)
            .copied()
            .unwrap_or(self.text.len());
        Some(&self.text[start..end])
    }

    fn number(&self, at: usize) -> usize {
        self.starts.partition_point(|start| *start <= at) - 1
    }

    fn offset(&self, pos: Pos) -> Result<usize, String> {
        let line = (pos.line as usize)
            .checked_sub(1)
            .and_then(|number| self.line(number));
        let line = line.ok_or("a place is beyond the text")?;
        let column = line
            .char_indices()
            .nth(pos.column as usize - 1)
            .map_or(line.len(), |(at, _)| at);
        Ok(self.starts[pos.line as usize - 1] + column)
    }

    /// The whole lines of a range, with their ends.
    pub(super) fn lines(&self, range: &Range<usize>) -> Range<usize> {
        let first = self.number(range.start);
        let last = self.number(range.end.saturating_sub(1).max(range.start));
        self.starts[first]
            ..self
                .starts
                .get(last + 1)
                .copied()
                .unwrap_or(self.text.len())
    }

    pub(super) fn after_colon(&self, key: Pos) -> Result<usize, String> {
        let at = self.offset(key)?;
        let colon = self.text[at..]
            .find(':')
            .filter(|colon| !self.text[at..at + colon].contains('\n'));
        Ok(at + colon.ok_or("a key has no colon on its line")? + 1)
    }

    /// Whether a key stands first on its line, as those of block mappings do.
    pub(super) fn is_block_key(&self, key: Pos) -> bool {
        let line = self.line(key.line as usize - 1).unwrap_or_default();
        line.chars().take(key.column as usize - 1).all(|c| c == ' ')
    }

    /// A plain or quoted scalar on one line.
    pub(super) fn scalar(&self, node: &Node) -> Result<Range<usize>, String> {
        let Value::Text(value) = &node.value else {
            return Err("a status is no text".to_owned());
        };
        let at = self.offset(node.pos)?;
        let rest = &self.text[at..];
        let len = match rest.chars().next() {
            Some(quote @ ('"' | '\'')) => rest[1..].find(quote).map(|end| end + 2),
            _ => rest.starts_with(&**value).then_some(value.len()),
        };
        // An alias, or a scalar with escapes in it.
        let range = at..at + len.ok_or("a status is not written out where it stands")?;
        if self.text[range.clone()].trim_matches(['"', '\'']) != value {
            return Err("a status is not written out where it stands".to_owned());
        }
        Ok(range)
    }

    pub(super) fn items(&self, list: &Node, nodes: &[Node]) -> Result<Items, String> {
        let at = self.offset(list.pos)?;
        if self.text[at..].starts_with('[') {
            let whole = at..self.closing(at)?;
            let item = |node: &Node| {
                let start = self.offset(node.pos)?;
                if !self.text[start..].starts_with('{') {
                    return Err(format!(
                        "the row at line {} is not in braces",
                        node.pos.line
                    ));
                }
                Ok(Item {
                    range: start..self.closing(start)?,
                    indent: String::new(),
                })
            };
            return Ok(Items {
                rows: nodes.iter().map(item).collect::<Result<_, _>>()?,
                is_flow: true,
                whole,
            });
        }
        let rows = nodes
            .iter()
            .map(|node| self.block_item(node))
            .collect::<Result<Vec<_>, _>>()?;
        let whole = rows.first().map_or(at, |row| row.range.start)
            ..rows.last().map_or(at, |row| row.range.end);
        Ok(Items {
            rows,
            is_flow: false,
            whole,
        })
    }

    /// The range from the row's dash to the end of the last line that is deeper than the dash and says something.
    fn block_item(&self, node: &Node) -> Result<Item, String> {
        let number = node.pos.line as usize - 1;
        let line = self.line(number).unwrap_or_default();
        let depth = line.len() - line.trim_start_matches(' ').len();
        if !line[depth..].starts_with("- ") {
            return Err(format!(
                "the row at line {} does not begin with its dash",
                node.pos.line
            ));
        }
        let mut last = number;
        for at in number + 1..self.starts.len() {
            let line = self.line(at).unwrap_or_default();
            let said = line.trim_start_matches(' ');
            match said.trim_end() {
                "" => continue,
                text if text.starts_with('#') => continue,
                _ if line.len() - said.len() > depth => last = at,
                _ => break,
            }
        }
        let end = self.starts[last] + self.line(last).unwrap_or_default().trim_end().len();
        Ok(Item {
            range: self.starts[number] + depth..end,
            indent: " ".repeat(depth),
        })
    }

    /// The place behind the bracket that closes the one at `open`.
    fn closing(&self, open: usize) -> Result<usize, String> {
        let bytes = self.text.as_bytes();
        let mut depth = 0_u32;
        let mut at = open;
        while at < bytes.len() {
            match bytes[at] {
                b'[' | b'{' => depth += 1,
                b']' | b'}' => {
                    depth -= 1;
                    if depth == 0 {
                        return Ok(at + 1);
                    }
                }
                // Quotes begin a scalar only where one may begin.
                quote @ (b'"' | b'\'') if b" ,:[{\n".contains(&bytes[at - 1]) => {
                    at += 1;
                    while at < bytes.len() && bytes[at] != quote {
                        at += if quote == b'"' && bytes[at] == b'\\' {
                            2
                        } else {
                            1
                        };
                    }
                }
                b'#' if bytes[at - 1].is_ascii_whitespace() => {
                    at += self.text[at..].find('\n').unwrap_or(self.text.len() - at);
                }
                _ => {}
            }
            at += 1;
        }
        Err("a bracket is not closed".to_owned())
    }

    /// Gives a matrix that has none a key `expect` with these rows.
    pub(super) fn with_key(
        &self,
        key: Pos,
        matrix: &Node,
        rows: &[String],
    ) -> Result<String, String> {
        let Value::Map(entries) = &matrix.value else {
            return Err("`matrix` is no mapping".to_owned());
        };
        let at = self.offset(matrix.pos)?;
        if self.text[at..].starts_with('{') {
            let end = self.closing(at)? - 1;
            let comma = if entries.is_empty() { "" } else { ", " };
            let end_of_said = self.text[..end].trim_end().len();
            let text = format!("{comma}expect: [{}]", rows.join(", "));
            return apply(self.text, vec![(end_of_said..end_of_said, text)]);
        }
        let Some((first, _)) = entries.first() else {
            return Err("`matrix` is empty".to_owned());
        };
        if !self.is_block_key(first.pos) || first.pos.line <= key.line {
            return Err("`matrix` does not begin on a line of its own".to_owned());
        }
        let indent = " ".repeat(first.pos.column as usize - 1);
        let lines: String = rows
            .iter()
            .map(|row| format!("{indent}  - {row}\n"))
            .collect();
        let at = self.starts[first.pos.line as usize - 1];
        apply(
            self.text,
            vec![(at..at, format!("{indent}expect:\n{lines}"))],
        )
    }
}

/// Makes edits that do not overlap.
pub(super) fn apply(text: &str, mut edits: Vec<Edit>) -> Result<String, String> {
    edits.sort_by_key(|(range, _)| (range.start, range.end));
    if edits.windows(2).any(|pair| pair[0].0.end > pair[1].0.start) {
        return Err("two changes meet in one place".to_owned());
    }
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for (range, new) in edits {
        out.push_str(&text[done..range.start]);
        out.push_str(&new);
        done = range.end;
    }
    out.push_str(&text[done..]);
    Ok(out)
}
