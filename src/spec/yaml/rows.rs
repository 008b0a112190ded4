//! The rows of a block mapping, read one by one, and in parts that can be read at the same time.

use super::fast::{Read, Reader, Unsure};
use super::scalar::Scanner;
use super::{Key, Node};

/// Rows that begin at one column.
pub(in crate::spec) struct Rows<'a> {
    /// At the first row.
    scan: Scanner<'a>,
    column: u32,
    /// Where the first row of the next part begins; the last part ends where the rows do.
    end: Option<usize>,
}

/// The place behind the last row.
pub(in crate::spec) struct Behind<'a>(pub(super) Scanner<'a>);

impl<'a> Rows<'a> {
    pub(super) fn new(scan: Scanner<'a>, column: u32) -> Self {
        Self { scan, column, end: None }
    }

    /// About so many parts of equal size, in order.
    ///
    /// A row begins on every line that begins with content at the rows' column: what stands inside of a row stands to
    /// the right of it, or reading the part finds that it does not end where the next one begins.
    pub(in crate::spec) fn split(self, count: usize) -> Vec<Self> {
        let size = self.scan.rest().len() / count.max(1) + 1;
        let mut parts = Vec::with_capacity(count);
        let mut walk = self.scan.clone();
        let mut part = self;
        let mut begin = part.scan.place();
        while let Some(indent) = walk.next_line() {
            if indent < part.column - 1 {
                break;
            }
            let at = walk.place() + indent as usize;
            // A list may stand at the column of its row.
            if indent == part.column - 1 && at - begin >= size && !walk.rest()[indent as usize..].starts_with('-') {
                let Ok(next) = walk.moved(at) else { break };
                let next = Self { scan: next, column: part.column, end: None };
                parts.push(Self { end: Some(at), ..std::mem::replace(&mut part, next) });
                begin = at;
            }
        }
        parts.push(part);
        parts
    }

    /// Hands over row by row; None if it is not sure of one, or `take` is not.
    pub(in crate::spec) fn each(self, mut take: impl FnMut(Key<'a>, Node<'a>) -> bool) -> Option<Behind<'a>> {
        self.read(&mut take).ok()
    }

    fn read(self, take: &mut dyn FnMut(Key<'a>, Node<'a>) -> bool) -> Read<Behind<'a>> {
        let Self { scan, column, end } = self;
        let mut reader = Reader::at(scan, 2);
        loop {
            let key = reader.next_key(column)?;
            reader.scan.bump(1);
            let value = reader.value(column)?;
            if !take(key, value) {
                return Err(Unsure);
            }
            let is_over = match end {
                Some(end) if reader.scan.place() > end => return Err(Unsure),
                Some(end) => reader.scan.place() == end,
                None => reader.scan.at_end() || reader.scan.column() < column,
            };
            if is_over {
                return Ok(Behind(reader.scan));
            }
        }
    }
}
