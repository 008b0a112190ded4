//! `measure:` as it is written, a mapping or the word `none`, and what it means for the clock.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::error::Sink;
use super::raw;
use super::shape::{self, Shape};
use super::yaml::{Key, Node, Value};

/// Runs that are timed. One that is not is checked all the same: it infers once, and its outputs are judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Timing {
    /// Those on hardware. The times of an emulator, or of software that stands for hardware, say nothing of the hardware.
    Hardware,
    /// All, because the target asks for it.
    All,
    None,
}

/// How runs are measured, or that they are not.
#[derive(Debug)]
pub(super) enum Timed {
    By(raw::Measure),
    None,
}

/// The value of a row that can only say that nothing is timed.
#[derive(Debug)]
pub(super) struct NoTimes;

fn is_none(node: &Node) -> bool {
    matches!(&node.value, Value::Text(text) if text == "none")
}

impl Shape for Timed {
    fn read(node: &Node, key: &Key, sink: &mut Sink) -> Option<Self> {
        match &node.value {
            _ if is_none(node) => Some(Self::None),
            Value::Map(_) => raw::Measure::read(node, key, sink).map(Self::By),
            _ => shape::wrong(node, key, "a mapping, or `none`", sink),
        }
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [raw::Measure::schema(generator), NoTimes::schema(generator)] })
    }
}

impl Shape for NoTimes {
    fn read(node: &Node, key: &Key, sink: &mut Sink) -> Option<Self> {
        if is_none(node) {
            Some(Self)
        } else {
            shape::wrong(node, key, "`none`", sink)
        }
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "enum": ["none"] })
    }
}
