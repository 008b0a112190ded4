//! The files beside an ONNX file in which it keeps its data, found without reading what it holds itself.
//!
//! Tensors lie in initializers, in attributes of nodes (as Constant has them), in graphs within nodes and in functions; each may
//! name a file. The file is scanned as Protobuf encodes it (<https://protobuf.dev/programming-guides/encoding/>), and
//! everything that names none is passed over.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufReader, Read as _};
use std::path::Path;

/// Graphs lie in nodes of graphs; no model has so many within each other.
const DEEPEST: u32 = 64;
/// A longer name is none of a file.
const LONGEST: u64 = 1 << 16;

/// Messages on the way to a name, with the field numbers of `onnx.proto`.
#[derive(Clone, Copy)]
enum Message {
    Model,
    Graph,
    Function,
    Node,
    Attribute,
    SparseTensor,
    Tensor,
}

impl Message {
    /// The message in a field, if tensors may lie in it.
    fn field(self, number: u64) -> Option<Self> {
        Some(match (self, number) {
            (Self::Model, 7) | (Self::Attribute, 6 | 11) => Self::Graph,
            (Self::Model, 25) => Self::Function,
            (Self::Graph, 1) | (Self::Function, 7) => Self::Node,
            (Self::Node, 5) => Self::Attribute,
            (Self::Graph, 15) | (Self::Attribute, 22 | 23) => Self::SparseTensor,
            (Self::Graph, 5) | (Self::Attribute, 5 | 10) | (Self::SparseTensor, 1 | 2) => {
                Self::Tensor
            }
            _ => return None,
        })
    }
}

/// The names of the files as the model has them, relative to its folder.
pub fn names(path: &Path) -> io::Result<BTreeSet<String>> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(malformed("it is no regular file"));
    }
    let mut scan = Scan {
        reader: BufReader::new(file),
        at: 0,
        found: BTreeSet::new(),
    };
    scan.message(Message::Model, metadata.len(), 0)?;
    Ok(scan.found)
}

struct Scan {
    reader: BufReader<File>,
    at: u64,
    found: BTreeSet<String>,
}

impl Scan {
    /// A message that ends at a place of the file.
    fn message(&mut self, message: Message, end: u64, depth: u32) -> io::Result<()> {
        if depth > DEEPEST {
            return Err(malformed("its graphs lie too deep in each other"));
        }
        while self.at < end {
            let (number, length) = self.field(end)?;
            let after = self.at + length;
            if matches!((message, number), (Message::Tensor, 13)) {
                self.entry(after)?;
            } else if let Some(below) = message.field(number) {
                self.message(below, after, depth + 1)?;
            }
            self.skip(after - self.at)?;
        }
        Ok(())
    }

    /// An entry of `external_data`: a key and a value.
    fn entry(&mut self, end: u64) -> io::Result<()> {
        let mut key = String::new();
        let mut value = String::new();
        while self.at < end {
            match self.field(end)? {
                (1, length) => key = self.text(length)?,
                (2, length) => value = self.text(length)?,
                (_, length) => self.skip(length)?,
            }
        }
        if key == "location" {
            self.found.insert(value);
        }
        Ok(())
    }

    /// The number of the field that begins here, and the length of its value, at which the scan is then.
    fn field(&mut self, end: u64) -> io::Result<(u64, u64)> {
        let key = self.varint()?;
        let length = match key & 7 {
            0 => {
                self.varint()?;
                0
            }
            1 => 8,
            2 => self.varint()?,
            5 => 4,
            _ => return Err(malformed("a field is of an unknown kind")),
        };
        if self.at.checked_add(length).is_none_or(|after| after > end) {
            return Err(malformed("a field ends behind what it is part of"));
        }
        Ok((key >> 3, length))
    }

    fn varint(&mut self) -> io::Result<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let mut byte = [0];
            self.reader.read_exact(&mut byte)?;
            self.at += 1;
            number |= u64::from(byte[0] & 0x7f) << shift;
            if byte[0] < 0x80 {
                return Ok(number);
            }
        }
        Err(malformed("a number has no end"))
    }

    fn text(&mut self, length: u64) -> io::Result<String> {
        if length > LONGEST {
            return Err(malformed("a name is too long"));
        }
        let mut bytes = vec![0; length as usize];
        self.reader.read_exact(&mut bytes)?;
        self.at += length;
        String::from_utf8(bytes).map_err(|_| malformed("a name is no text"))
    }

    fn skip(&mut self, count: u64) -> io::Result<()> {
        self.at += count;
        self.reader.seek_relative(count as i64)
    }
}

fn malformed(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field of a message that has a length.
    fn field(tag: u64, content: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for mut number in [tag << 3 | 2, content.len() as u64] {
            while number > 0x7f {
                bytes.push(number as u8 | 0x80);
                number >>= 7;
            }
            bytes.push(number as u8);
        }
        [bytes, content.to_vec()].concat()
    }

    fn tensor(name: &str) -> Vec<u8> {
        let location = [field(1, b"location"), field(2, name.as_bytes())].concat();
        let offset = [field(1, b"offset"), field(2, b"4096")].concat();
        [
            field(8, b"w"),
            field(9, &[7; 300]),
            field(13, &location),
            field(13, &offset),
        ]
        .concat()
    }

    fn names_of(bytes: &[u8]) -> io::Result<Vec<String>> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        Ok(names(file.path())?.into_iter().collect())
    }

    #[test]
    fn files_of_every_place_are_found() {
        let node = |attribute: &[u8]| field(1, &field(5, attribute));
        let branch = field(
            6,
            &[field(5, &tensor("c")), node(&field(5, &tensor("d")))].concat(),
        );
        let graph = [
            field(5, &tensor("a")),
            node(&field(5, &tensor("b"))),
            node(&branch),
            field(15, &field(1, &tensor("e"))),
        ];
        let function = field(7, &field(5, &field(10, &tensor("f"))));
        let model = [
            vec![8, 9], // ir_version: 9
            field(7, &graph.concat()),
            field(25, &function),
        ];
        let found = names_of(&model.concat()).unwrap();
        assert_eq!(found, ["a", "b", "c", "d", "e", "f"]);
    }

    #[test]
    fn what_is_no_model_is_an_error_and_no_more() {
        let mut deep = tensor("x");
        for _ in 0..40 {
            deep = field(1, &field(5, &field(6, &deep)));
        }
        for bytes in [
            &b"version https://git-lfs"[..],
            &field(7, &[0x3a, 0xff]),
            &[0x80; 20],
            &field(7, &deep),
        ] {
            assert!(names_of(bytes).is_err(), "{bytes:?}");
        }
        assert!(names(Path::new("/dev/null")).is_err());
        assert_eq!(names_of(b"").unwrap(), [""; 0]);
    }
}
