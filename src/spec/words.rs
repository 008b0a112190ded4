//! The words that a field of the spec may hold.

use super::error::Sink;
use super::shape::{self, Shape};
use super::yaml::{Key, Node};
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

macro_rules! named {
    ($read:ty, $described:ident, $schema:expr, $what:literal, $words:expr) => {
        impl Shape for $read {
            fn read(node: &Node, key: &Key, sink: &mut Sink) -> Option<Self> {
                let text = String::read(node, key, sink)?;
                let span = sink.span(node.pos);
                shape::word(&text, $what, &$words.collect::<Vec<_>>(), span, sink)
            }

            fn schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                generator.subschema_for::<Self>()
            }
        }

        impl schemars::JsonSchema for $described {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                $schema.into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let words: Vec<&str> = $words.map(|(word, _)| word).collect();
                schemars::json_schema!({ "type": "string", "enum": words })
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
