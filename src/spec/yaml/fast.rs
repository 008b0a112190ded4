//! The usual part of YAML, read in one pass: block and flow collections, scalars on one line, literal texts, comments.
//!
//! An event parser for all of YAML reads some 16 MB a second, and a spec of a million steps has more than 100 MB. This
//! reader knows nothing of anchors, aliases, tags, documents, complex keys, and scalars over several lines. Whatever it
//! is not sure of, an error as much as an unusual form, it gives up on, and the whole text goes to the full parser. So
//! it may be narrow but never different: what it reads is, places included, what the full parser reads, and a test
//! compares the two on texts made at random. It reports no errors and knows nothing of what keys mean.

use std::collections::HashSet;

use super::rows::{Behind, Rows};
use super::scalar::{Place, Scalar, Scanner};
use super::{Key, Node, Pos, Value};

/// Not sure: the full parser decides.
#[derive(Debug)]
pub(super) struct Unsure;

pub(super) type Read<T> = Result<T, Unsure>;

/// The section whose rows are handed over, so that it never stands in memory as a tree, however large it is.
pub(super) struct Stream<'s, 'a> {
    /// Its key at the top.
    pub(super) section: &'s str,
    /// Takes the rows and gives the place behind them; None if it is not sure that they are right.
    pub(super) take: &'s mut dyn FnMut(Rows<'a>) -> Option<Behind<'a>>,
}

/// Deeper than honest specs, and far less than what the stack holds or the full parser allows.
const MAX_DEPTH: u32 = 40;

/// The tree of a text, without the rows of the streamed section, whose mapping is then empty.
pub(super) fn read<'a>(text: &'a str, stream: Option<Stream<'_, 'a>>) -> Option<Node<'a>> {
    let mut reader = Reader { stream, ..Reader::at(Scanner::new(text).ok()?, 0) };
    reader.document().ok()
}

pub(super) struct Reader<'s, 'a> {
    pub(super) scan: Scanner<'a>,
    stream: Option<Stream<'s, 'a>>,
    depth: u32,
    /// What the collections that are being read hold so far, the inner ones behind the outer ones.
    items: Vec<Node<'a>>,
    entries: Vec<(Key<'a>, Node<'a>)>,
}

impl<'a> Reader<'_, 'a> {
    pub(super) fn at(scan: Scanner<'a>, depth: u32) -> Self {
        Self { scan, stream: None, depth, items: Vec::new(), entries: Vec::new() }
    }

    fn document(&mut self) -> Read<Node<'a>> {
        self.scan.skip()?;
        if self.scan.at_end() || self.scan.column() != 1 {
            return Err(Unsure);
        }
        let node = self.block(0)?;
        if self.scan.at_end() { Ok(node) } else { Err(Unsure) }
    }

    /// The node that begins here, inside something whose column is `parent`. Ends at the next content.
    fn block(&mut self, parent: u32) -> Read<Node<'a>> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Unsure);
        }
        let column = self.scan.column();
        debug_assert!(column > parent);
        let node = match self.scan.peek() {
            b'-' if self.scan.is_dash() => self.sequence(column, true),
            b'{' | b'[' => self.flow(parent).and_then(|node| self.scan.end_line().map(|()| node)),
            _ => {
                let scalar = self.scan.scalar(Place::Block)?;
                if self.scan.is_colon() { self.mapping(column, scalar) } else { self.ended(scalar) }
            }
        };
        self.depth -= 1;
        node
    }

    fn ended(&mut self, scalar: Scalar<'a>) -> Read<Node<'a>> {
        self.scan.end_line()?;
        scalar.into_node()
    }

    fn mapping(&mut self, column: u32, first: Scalar<'a>) -> Read<Node<'a>> {
        let pos = Pos { len: 0, ..first.pos };
        let start = self.entries.len();
        let mut key = first.into_key()?;
        loop {
            self.scan.bump(1);
            let streamed = self.depth == 1 && self.stream.as_ref().is_some_and(|stream| stream.section == key.text);
            let value = if streamed { self.streamed(column)? } else { self.value(column)? };
            self.entries.push((key, value));
            if self.scan.at_end() || self.scan.column() < column {
                return Ok(Node { pos, value: self.take_map(start)? });
            }
            key = self.next_key(column)?;
        }
    }

    pub(super) fn next_key(&mut self, column: u32) -> Read<Key<'a>> {
        if self.scan.column() != column {
            return Err(Unsure);
        }
        let scalar = self.scan.scalar(Place::Block)?;
        if self.scan.is_colon() { scalar.into_key() } else { Err(Unsure) }
    }

    /// The section whose rows are handed over; anything but a block mapping stays a node.
    fn streamed(&mut self, parent: u32) -> Read<Node<'a>> {
        self.scan.spaces();
        if !matches!(self.scan.peek(), b'\n' | b'#') {
            return self.value(parent);
        }
        self.scan.skip()?;
        let column = if self.scan.at_end() { 0 } else { self.scan.column() };
        if column <= parent || self.scan.is_dash() || matches!(self.scan.peek(), b'{' | b'[') {
            return self.below(parent);
        }
        let rows = Rows::new(self.scan.clone(), column);
        let scalar = self.scan.scalar(Place::Block)?;
        if !self.scan.is_colon() {
            return self.ended(scalar);
        }
        let stream = self.stream.as_mut().expect("BUG: streamed without a stream");
        self.scan = (stream.take)(rows).ok_or(Unsure)?.0;
        Ok(Node { pos: Pos { len: 0, ..scalar.pos }, value: Value::Map(Vec::new()) })
    }

    /// What stands after `key:`. Ends at the next content.
    pub(super) fn value(&mut self, column: u32) -> Read<Node<'a>> {
        self.scan.spaces();
        match self.scan.peek() {
            b'\n' | b'#' => {
                self.scan.skip()?;
                self.below(column)
            }
            b'{' | b'[' => {
                let node = self.flow(column)?;
                self.scan.end_line()?;
                Ok(node)
            }
            b'|' => self.scan.literal(column),
            _ => {
                let scalar = self.scan.scalar(Place::Block)?;
                if self.scan.is_colon() { Err(Unsure) } else { self.ended(scalar) }
            }
        }
    }

    /// What stands on the lines below a key.
    fn below(&mut self, column: u32) -> Read<Node<'a>> {
        match if self.scan.at_end() { 0 } else { self.scan.column() } {
            found if found > column => self.block(column),
            // A list may stand at the column of its key.
            found if found == column && self.scan.is_dash() => self.sequence(column, false),
            _ => Err(Unsure),
        }
    }

    /// A list; the full parser places one at the column of its key behind its first dash.
    fn sequence(&mut self, column: u32, is_inside: bool) -> Read<Node<'a>> {
        let mut pos = self.scan.pos();
        let start = self.items.len();
        loop {
            self.scan.bump(1);
            self.scan.spaces();
            if self.items.len() == start && !is_inside {
                pos = self.scan.pos();
                if self.scan.peek() == b'#' {
                    return Err(Unsure);
                }
            }
            if matches!(self.scan.peek(), b'\n' | b'#') {
                self.scan.skip()?;
                if self.scan.at_end() || self.scan.column() <= column {
                    return Err(Unsure);
                }
            }
            if self.scan.at_end() {
                return Err(Unsure);
            }
            let item = self.block(column)?;
            self.items.push(item);
            if self.scan.at_end() || self.scan.column() < column {
                break;
            }
            match (self.scan.column() == column, self.scan.is_dash()) {
                (true, true) => {}
                // The next key of the mapping whose value this list is.
                (true, false) => break,
                (false, _) => return Err(Unsure),
            }
        }
        Ok(Node { pos, value: Value::List(self.items.drain(start..).collect()) })
    }

    /// `{…}` or `[…]`, whose lines stand to the right of column `parent`.
    fn flow(&mut self, parent: u32) -> Read<Node<'a>> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Unsure);
        }
        let pos = Pos { len: 1, ..self.scan.pos() };
        let value = if self.scan.peek() == b'{' { self.flow_map(parent)? } else { self.flow_list(parent)? };
        self.depth -= 1;
        Ok(Node { pos, value })
    }

    fn flow_map(&mut self, parent: u32) -> Read<Value<'a>> {
        let start = self.entries.len();
        self.scan.bump(1);
        loop {
            self.scan.skip_inside(parent)?;
            if self.scan.peek() == b'}' {
                break;
            }
            let key = self.scan.scalar(Place::Flow)?;
            if !self.scan.is_colon() {
                return Err(Unsure);
            }
            self.scan.bump(1);
            self.scan.skip_inside(parent)?;
            let value = self.flow_node(parent)?;
            self.entries.push((key.into_key()?, value));
            self.scan.skip_inside(parent)?;
            match self.scan.peek() {
                b',' => self.scan.bump(1),
                b'}' => break,
                _ => return Err(Unsure),
            }
        }
        self.scan.bump(1);
        self.take_map(start)
    }

    fn flow_list(&mut self, parent: u32) -> Read<Value<'a>> {
        let start = self.items.len();
        self.scan.bump(1);
        loop {
            self.scan.skip_inside(parent)?;
            if self.scan.peek() == b']' {
                break;
            }
            let item = self.flow_node(parent)?;
            self.items.push(item);
            self.scan.skip_inside(parent)?;
            match self.scan.peek() {
                b',' => self.scan.bump(1),
                b']' => break,
                _ => return Err(Unsure),
            }
        }
        self.scan.bump(1);
        Ok(Value::List(self.items.drain(start..).collect()))
    }

    fn flow_node(&mut self, parent: u32) -> Read<Node<'a>> {
        match self.scan.peek() {
            b'{' | b'[' => self.flow(parent),
            _ => self.scan.scalar(Place::Flow)?.into_node(),
        }
    }

    /// The entries from `start` on, if no key is among them twice.
    fn take_map(&mut self, start: usize) -> Read<Value<'a>> {
        let entries = &self.entries[start..];
        let is_double = if entries.len() <= FEW {
            (1..entries.len()).any(|at| entries[..at].iter().any(|(key, _)| key.text == entries[at].0.text))
        } else {
            let mut seen = HashSet::with_capacity(entries.len());
            !entries.iter().all(|(key, _)| seen.insert(&*key.text))
        };
        if is_double { Err(Unsure) } else { Ok(Value::Map(self.entries.drain(start..).collect())) }
    }
}

/// Up to so many keys are compared one by one.
const FEW: usize = 12;
