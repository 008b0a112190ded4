//! Single values that are more than one YAML scalar: pairs, sizes, numbers that may be booleans, mappings of any depth.

use std::num::{NonZeroU32, NonZeroU64};

use schemars::{Schema, SchemaGenerator, json_schema};

use super::error::Sink;
use super::shape::{self, Shape, leaf};
use super::yaml::{Key, Node, Value};
use crate::base::size;

/// Less is a forgotten unit: a process takes more before it begins.
const LEAST_MEMORY: u64 = 1 << 20;

/// `[a, b]`
#[derive(Debug)]
pub(super) struct Pair<T>(pub(super) T, pub(super) T);

/// A size of a shape: a number, or the name of a dim.
#[derive(Debug)]
pub(super) enum Size {
    Fixed(u64),
    Named(String),
}

/// A number, or `true` and `false` as 1 and 0.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scalar(pub(super) f64);

/// Memory: a number of bytes, or one with a unit. Never as little as nobody means.
#[derive(Debug, Clone, Copy)]
pub(super) struct Memory(pub(super) NonZeroU64);

/// The positions of a text at which its scores are computed: `last 16`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Positions(pub(super) NonZeroU32);

/// A mapping of any depth.
#[derive(Debug)]
pub(super) struct Config(pub(super) serde_json::Value);

impl<T: Shape> Shape for Pair<T> {
    fn read(node: &Node, key: &Key, sink: &mut Sink) -> Option<Self> {
        match &node.value {
            Value::List(items) if items.len() == 2 => {
                let first = T::read(&items[0], key, sink);
                let second = T::read(&items[1], key, sink);
                Some(Self(first?, second?))
            }
            _ => shape::wrong(node, key, "a list of two numbers", sink),
        }
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "array", "items": T::schema(generator), "minItems": 2, "maxItems": 2 })
    }
}

leaf!(
    Size,
    "made of whole numbers from 0 and names from `dims`",
    |_| json_schema!({ "anyOf": [{ "type": "integer", "minimum": 0 }, { "type": "string" }] }),
    {
        Value::Text(name) => Some(Self::Named(name.to_string())),
        Value::Int(size @ 0..) => Some(Self::Fixed(*size as u64)),
        Value::Large(size) => Some(Self::Fixed(*size)),
    }
);

impl Shape for Memory {
    fn read(node: &Node, key: &Key, sink: &mut Sink) -> Option<Self> {
        let span = sink.span(node.pos);
        let bytes = match &node.value {
            Value::Text(text) => text.parse::<size::Size>().ok().map(|size| size.0),
            Value::Int(bytes) => u64::try_from(*bytes).ok(),
            Value::Large(bytes) => Some(*bytes),
            _ => None,
        };
        let Some(bytes) = bytes else {
            let found = match &node.value {
                Value::Text(text) => format!("`{text}`"),
                Value::Int(number) => number.to_string(),
                _ => node.kind().to_owned(),
            };
            sink.error_hint(
                span,
                format!("`{}` must be a size, found {found}", key.text),
                size::REMEDY,
            );
            return None;
        };
        match NonZeroU64::new(bytes).filter(|_| bytes >= LEAST_MEMORY) {
            Some(bytes) => Some(Self(bytes)),
            None => {
                let message = format!("`{}` must be at least 1 MiB, found {bytes} bytes", key.text);
                sink.error_hint(
                    span,
                    message,
                    "a number without a unit counts bytes: write `4 GiB` or `500M`",
                );
                None
            }
        }
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "type": "integer", "minimum": LEAST_MEMORY }, { "type": "string" }] })
    }
}

leaf!(
    Positions,
    "`last` and a number from 1, such as `last 16`",
    |_| json_schema!({ "type": "string", "pattern": "^last [1-9][0-9]*$" }),
    {
        Value::Text(text) => {
            let count = text.strip_prefix("last ").and_then(|count| count.parse().ok());
            count.map(Self)
        },
    }
);

impl Shape for Scalar {
    fn read(node: &Node, key: &Key, sink: &mut Sink) -> Option<Self> {
        match node.value {
            Value::Bool(value) => Some(Self(f64::from(u8::from(value)))),
            Value::Float(value) => Some(Self(value)),
            // Values are kept as f64, which holds whole numbers exactly up to 2^53 only.
            Value::Int(value) if value.unsigned_abs() <= 1 << 53 => Some(Self(value as f64)),
            Value::Int(_) | Value::Large(_) => {
                shape::wrong(node, key, "a number within ±2^53", sink)
            }
            _ => shape::wrong(node, key, "a number, `true` or `false`", sink),
        }
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["number", "boolean"] })
    }
}

impl Shape for Config {
    fn read(node: &Node, key: &Key, sink: &mut Sink) -> Option<Self> {
        shape::entries(node, key, sink).map(|_| Self(node.to_json()))
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object" })
    }
}
