//! The words that a field of the spec may hold.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::error::Sink;
use super::shape::{self, Shape};
use super::yaml::{Key, Node, Value};
use super::{
    Compose, Element, ExpectedStage, ExpectedStatus, FaultCause, Int8Range, Precision, Priority,
    Route,
};
use crate::base::words::words;
use crate::catalogue::{ARTEFACTS, Artefact, RUNTIMES, Runtime};
use crate::device::{BACKENDS, BackendRow};

words! {
    /// The origin of a class's weights.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(super) enum Weights { "seeded" => Seeded, "hub" => Hub, "path" => Path }
}

words! {
    /// The converters of a toolchain's artefacts.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(super) enum Convert { "own" => Own, "newest" => Newest }
}

macro_rules! named {
    ($read:ty, $described:ident, $schema:expr, $what:literal, $words:expr) => {
        impl Shape for $read {
            fn read(node: &Node, key: &Key, sink: &mut Sink) -> Option<Self> {
                let text = String::read(node, key, sink)?;
                let span = sink.span(node.pos);
                shape::word(&text, $what, &$words.collect::<Vec<_>>(), span, sink)
            }

            fn schema(generator: &mut SchemaGenerator) -> Schema {
                generator.subschema_for::<Self>()
            }
        }

        impl JsonSchema for $described {
            fn schema_name() -> Cow<'static, str> {
                $schema.into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                let words: Vec<&str> = $words.map(|(word, _)| word).collect();
                json_schema!({ "type": "string", "enum": words })
            }
        }
    };
}

/// An enum is read by its words.
macro_rules! spelled {
    ($type:ident as $what:literal) => {
        named!(
            $type,
            $type,
            stringify!($type),
            $what,
            <$type>::WORDS.iter().copied()
        );
    };
}

/// A row of a table is read by its name.
macro_rules! row {
    ($type:ident as $schema:literal, $what:literal in $table:ident) => {
        named!(
            &'static $type,
            $type,
            $schema,
            $what,
            $table.iter().map(|row| (row.name, *row))
        );
    };
}

spelled!(Weights as "weights");
spelled!(Convert as "converter");
spelled!(Compose as "loop");
spelled!(Priority as "priority");
spelled!(Element as "dtype");
spelled!(Route as "export route");
spelled!(ExpectedStatus as "status of an expectation");
spelled!(ExpectedStage as "stage");
spelled!(FaultCause as "cause");
spelled!(Int8Range as "range of int8 weights");
spelled!(Precision as "precision");
row!(Runtime as "Runtime", "runtime" in RUNTIMES);
row!(BackendRow as "Backend", "backend" in BACKENDS);
row!(Artefact as "Artefact", "artefact" in ARTEFACTS);

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
