//! Literal texts: `|` and the lines below it.

use std::borrow::Cow;

use super::Scanner;
use crate::spec::yaml::fast::{Read, Unsure};
use crate::spec::yaml::{Node, Pos, Value};

impl<'a> Scanner<'a> {
    /// A literal text, `|` or `|-`, whose lines stand to the right of column `parent`. Ends at the next content.
    pub(in crate::spec::yaml) fn literal(&mut self, parent: u32) -> Read<Node<'a>> {
        self.at += 1;
        let keeps_end = self.peek() != b'-';
        if !keeps_end {
            self.at += 1;
        }
        if self.peek() != b'\n' {
            return Err(Unsure);
        }
        let begin = self.at + 1;
        let bytes = self.text.as_bytes();
        let indent = bytes[begin..].iter().take_while(|byte| **byte == b' ').count();
        // Of texts that begin with an empty line the full parser knows more.
        if indent < parent as usize || matches!(self.byte(begin + indent), b'\n' | 0) {
            return Err(Unsure);
        }
        let first = begin + indent;
        let mut pos = Pos { line: self.line + 1, column: indent as u32 + 1, len: 0 };
        let mut made = String::new();
        let mut empty = 0;
        let mut at = begin;
        loop {
            self.line += 1;
            self.begin_line(at)?;
            let rest = &bytes[at..];
            let len = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
            let own = rest[..len].iter().take_while(|byte| **byte == b' ').count();
            if own == len {
                // Spaces alone may be text, or too many.
                if len > 0 {
                    return Err(Unsure);
                }
                empty += 1;
            } else if own < indent {
                self.at += own;
                break;
            } else {
                made.extend(std::iter::repeat_n('\n', empty));
                made.push_str(&self.text[at + indent..at + len]);
                empty = 1;
            }
            at += len + 1;
            if at >= bytes.len() {
                // Without a line end behind the last line the full parser adds none.
                if at > bytes.len() {
                    return Err(Unsure);
                }
                self.line += 1;
                self.begin_line(at)?;
                break;
            }
        }
        if keeps_end {
            made.push('\n');
        }
        pos.len = self.text[first..self.at].chars().count() as u32;
        self.skip()?;
        Ok(Node { pos, value: Value::Text(Cow::Owned(made)) })
    }
}
