//! `half:` of a target, as it is written: `auto`, `always` or `never`, or `true` and `false` for the last two.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::Precision;
use super::error::Sink;
use super::shape::{self, Shape};
use super::yaml::{Key, Node, Value};
use crate::base::words::words;

words! {
    /// Whether a target computes in half precision, for a target that does not list its precisions.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Half {
        /// Half precision where a probe on the device shows that it computes so; fp32 elsewhere.
        "auto" => Auto,
        /// Half precision or not at all.
        "always" => Always,
        /// Single precision.
        "never" => Never,
    }
}

impl Half {
    /// What it may come to, the best first.
    pub fn precisions(self) -> &'static [Precision] {
        match self {
            Self::Auto => &[Precision::Fp16, Precision::Bf16, Precision::Fp32],
            Self::Always => &[Precision::Fp16, Precision::Bf16],
            Self::Never => &[Precision::Fp32],
        }
    }
}

impl Shape for Half {
    fn read(node: &Node, key: &Key, sink: &mut Sink) -> Option<Self> {
        match &node.value {
            Value::Bool(true) => Some(Self::Always),
            Value::Bool(false) => Some(Self::Never),
            Value::Text(text) => {
                let span = sink.span(node.pos);
                shape::word(text, "value of `half`", Self::WORDS, span, sink)
            }
            _ => shape::wrong(
                node,
                key,
                "`auto`, `always` (`true`) or `never` (`false`)",
                sink,
            ),
        }
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<Self>()
    }
}

impl JsonSchema for Half {
    fn schema_name() -> Cow<'static, str> {
        "Half".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "enum": ["auto", "always", "never", true, false] })
    }
}
