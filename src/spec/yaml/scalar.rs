//! Scalars and blanks of the usual part of YAML. What they are part of is `fast.rs`, and so is why this exists.

mod literal;

use std::borrow::Cow;

use super::fast::{Read, Unsure};
use super::resolve::{is_null, plain_value};
use super::{Key, Node, Pos, Value};

/// Where a scalar stands: in flow collections `,[]{}` end it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Block,
    Flow,
}

/// Longer keys may be too long for a key of the full parser.
const MAX_KEY: usize = 500;

/// Walks over the text; the column of a place is counted in characters.
#[derive(Clone)]
pub(super) struct Scanner<'a> {
    text: &'a str,
    at: usize,
    line: u32,
    line_start: usize,
    ascii: bool,
    /// A place of this line and how many characters stand before it: so none is counted twice.
    counted: (usize, u32),
}

pub(super) struct Scalar<'a> {
    pub(super) pos: Pos,
    text: Cow<'a, str>,
    is_plain: bool,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a str) -> Read<Self> {
        // Tabs, carriage returns and characters that YAML does not allow are for the full parser. Without a way out of
        // the loop, many bytes are looked at together.
        let is_odd = |byte: u8| (byte < b' ' && byte != b'\n') || byte == 0x7f;
        let odd_among = |bytes: &[u8]| bytes.iter().fold(false, |odd, byte| odd | is_odd(*byte));
        if text.as_bytes().chunks(1024).any(odd_among) {
            return Err(Unsure);
        }
        let ascii = text.is_ascii();
        if !ascii && !text.chars().all(is_usual) {
            return Err(Unsure);
        }
        let mut scanner = Self { text, at: 0, line: 1, line_start: 0, ascii, counted: (0, 0) };
        scanner.begin_line(0)?;
        Ok(scanner)
    }

    /// The byte here; 0 at the end, as the text holds none.
    pub(super) fn peek(&self) -> u8 {
        self.byte(self.at)
    }

    fn byte(&self, at: usize) -> u8 {
        self.text.as_bytes().get(at).copied().unwrap_or(0)
    }

    /// What is not read yet.
    pub(super) fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Bytes of the text before this place.
    pub(super) fn place(&self) -> usize {
        self.at
    }

    /// Goes to the beginning of the next line with content that is no comment, and tells its indentation.
    pub(super) fn next_line(&mut self) -> Option<u32> {
        let bytes = self.text.as_bytes();
        loop {
            self.at += bytes[self.at..].iter().position(|byte| *byte == b'\n')? + 1;
            self.line += 1;
            let indent = bytes[self.at..].iter().take_while(|byte| **byte == b' ').count();
            match self.byte(self.at + indent) {
                0 | b'\n' | b'#' => {}
                _ => return Some(indent as u32),
            }
        }
    }

    /// A scanner at another place of the line at whose beginning this one is.
    pub(super) fn moved(&self, at: usize) -> Read<Self> {
        let mut other = self.clone();
        other.begin_line(self.at)?;
        other.at = at;
        Ok(other)
    }

    pub(super) fn at_end(&self) -> bool {
        self.at == self.text.len()
    }

    pub(super) fn bump(&mut self, bytes: usize) {
        self.at += bytes;
    }

    pub(super) fn column(&mut self) -> u32 {
        self.characters(self.at) + 1
    }

    /// Characters of this line before `at`, which only moves forward.
    fn characters(&mut self, at: usize) -> u32 {
        if self.ascii {
            return (at - self.line_start) as u32;
        }
        let (from, count) = self.counted;
        let more = self.text.as_bytes()[from..at].iter().filter(|byte| **byte & 0xc0 != 0x80).count();
        self.counted = (at, count + more as u32);
        self.counted.1
    }

    pub(super) fn pos(&mut self) -> Pos {
        Pos { line: self.line, column: self.column(), len: 0 }
    }

    fn begin_line(&mut self, at: usize) -> Read<()> {
        self.at = at;
        self.line_start = at;
        self.counted = (at, 0);
        // Marks of documents, and what looks like them.
        match self.byte(at) {
            b'-' if self.text[at..].starts_with("---") => Err(Unsure),
            b'.' if self.text[at..].starts_with("...") => Err(Unsure),
            _ => Ok(()),
        }
    }

    pub(super) fn spaces(&mut self) {
        while self.peek() == b' ' {
            self.at += 1;
        }
    }

    /// Goes to the next content: over spaces, comments and ends of lines.
    pub(super) fn skip(&mut self) -> Read<()> {
        loop {
            match self.peek() {
                b' ' => self.at += 1,
                b'\n' => {
                    self.line += 1;
                    self.begin_line(self.at + 1)?;
                }
                b'#' => self.comment()?,
                _ => return Ok(()),
            }
        }
    }

    fn comment(&mut self) -> Read<()> {
        if self.at > self.line_start && self.byte(self.at - 1) != b' ' {
            return Err(Unsure);
        }
        let rest = &self.text.as_bytes()[self.at..];
        self.at += rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
        Ok(())
    }

    /// [`Self::skip`] inside a flow collection, whose lines stand to the right of column `parent`.
    pub(super) fn skip_inside(&mut self, parent: u32) -> Read<()> {
        let line = self.line;
        self.skip()?;
        if self.line != line && self.column() <= parent { Err(Unsure) } else { Ok(()) }
    }

    /// The line ends here, but for a comment. Goes to the next content.
    pub(super) fn end_line(&mut self) -> Read<()> {
        let line = self.line;
        self.skip()?;
        if self.line == line && !self.at_end() { Err(Unsure) } else { Ok(()) }
    }

    /// Whether a `-` here begins an item of a list.
    pub(super) fn is_dash(&self) -> bool {
        self.peek() == b'-' && matches!(self.byte(self.at + 1), b' ' | b'\n' | 0)
    }

    /// Whether a `:` that ends a key comes next, and goes there.
    pub(super) fn is_colon(&mut self) -> bool {
        self.spaces();
        self.peek() == b':' && matches!(self.byte(self.at + 1), b' ' | b'\n')
    }

    pub(super) fn scalar(&mut self, place: Place) -> Read<Scalar<'a>> {
        let mut pos = self.pos();
        let (text, end) = match self.peek() {
            b'"' => self.double_quoted()?,
            b'\'' => self.single_quoted()?,
            _ => {
                let text = self.plain(place)?;
                let end = self.at;
                let len = if self.ascii { text.len() } else { text.chars().count() };
                pos.len = len as u32;
                debug_assert!(end <= self.text.len());
                return Ok(Scalar { pos, text: Cow::Borrowed(text), is_plain: true });
            }
        };
        self.at = end;
        pos.len = self.characters(end) + 1 - pos.column;
        Ok(Scalar { pos, text, is_plain: false })
    }

    /// Ends behind the spaces that follow it.
    fn plain(&mut self, place: Place) -> Read<&'a str> {
        let start = self.at;
        let next = self.byte(start + 1);
        match self.peek() {
            0 | b'\n' | b' ' | b'&' | b'*' | b'!' | b'|' | b'>' | b'%' | b'@' | b'`' | b'?' | b':' | b',' | b'['
            | b']' | b'{' | b'}' | b'#' | b'"' | b'\'' => return Err(Unsure),
            b'-' if matches!(next, b' ' | b'\n' | 0 | b',' | b'[' | b']' | b'{' | b'}') => return Err(Unsure),
            _ => {}
        }
        // Behind the last character that is no space.
        let mut end = start;
        loop {
            let run = self.at;
            while PLAIN[self.peek() as usize] {
                self.at += 1;
            }
            if self.at > run {
                end = self.at;
            }
            match self.peek() {
                b' ' => {
                    self.spaces();
                    if self.peek() == b'#' {
                        break;
                    }
                    continue;
                }
                b':' => match self.byte(self.at + 1) {
                    b' ' | b'\n' => break,
                    0 => return Err(Unsure),
                    b',' | b'[' | b']' | b'{' | b'}' if place == Place::Flow => return Err(Unsure),
                    _ => {}
                },
                b',' | b'[' | b']' | b'{' | b'}' if place == Place::Flow => break,
                0 | b'\n' => break,
                _ => {}
            }
            self.at += 1;
            end = self.at;
        }
        Ok(&self.text[start..end])
    }

    fn single_quoted(&mut self) -> Read<(Cow<'a, str>, usize)> {
        let bytes = self.text.as_bytes();
        let start = self.at + 1;
        let mut doubled = false;
        let mut end = start;
        loop {
            match self.byte(end) {
                0 | b'\n' => return Err(Unsure),
                b'\'' if bytes.get(end + 1) == Some(&b'\'') => {
                    doubled = true;
                    end += 2;
                }
                b'\'' => break,
                _ => end += 1,
            }
        }
        let raw = &self.text[start..end];
        Ok((if doubled { Cow::Owned(raw.replace("''", "'")) } else { Cow::Borrowed(raw) }, end + 1))
    }

    fn double_quoted(&mut self) -> Read<(Cow<'a, str>, usize)> {
        let start = self.at + 1;
        let mut made: Option<String> = None;
        let (mut from, mut end) = (start, start);
        loop {
            match self.byte(end) {
                0 | b'\n' => return Err(Unsure),
                b'"' => break,
                b'\\' => {
                    let character = match self.byte(end + 1) {
                        b'n' => '\n',
                        b't' => '\t',
                        b'"' => '"',
                        b'\\' => '\\',
                        b'/' => '/',
                        _ => return Err(Unsure),
                    };
                    let made = made.get_or_insert_default();
                    made.push_str(&self.text[from..end]);
                    made.push(character);
                    end += 2;
                    from = end;
                }
                _ => end += 1,
            }
        }
        let text = match made {
            Some(mut made) => {
                made.push_str(&self.text[from..end]);
                Cow::Owned(made)
            }
            None => Cow::Borrowed(&self.text[from..end]),
        };
        Ok((text, end + 1))
    }
}

impl<'a> Scalar<'a> {
    pub(super) fn into_key(self) -> Read<Key<'a>> {
        // Keys that are no text, and merge keys.
        let is_odd = self.is_plain && (is_null(&self.text) || &*self.text == "<<");
        if is_odd || self.text.len() > MAX_KEY { Err(Unsure) } else { Ok(Key { pos: self.pos, text: self.text }) }
    }

    pub(super) fn into_node(self) -> Read<Node<'a>> {
        let value = if self.is_plain { plain_value(self.text)? } else { Value::Text(self.text) };
        Ok(Node { pos: self.pos, value })
    }
}

/// Bytes that mean nothing special inside a plain scalar.
static PLAIN: [bool; 256] = {
    let mut table = [true; 256];
    let special = b"\0\n :,[]{}";
    let mut index = 0;
    while index < special.len() {
        table[special[index] as usize] = false;
        index += 1;
    }
    table
};

/// Characters beyond ASCII that YAML allows anywhere, without those that some reader takes for a line end or a mark.
fn is_usual(character: char) -> bool {
    character.is_ascii()
        || matches!(character, '\u{a0}'..='\u{2027}' | '\u{202a}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}'
            | '\u{10000}'..='\u{1fffd}')
}
