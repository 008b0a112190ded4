//! The words that a field of the spec may hold.

use super::error::Sink;
use super::shape::{self, Shape};
use super::yaml::{Key, Node};
use super::{Compose, Dtype, ExpectedStage, ExpectedStatus, Int8Range, Precision, Priority, Route};
use crate::catalogue::{ARTEFACTS, Artefact, RUNTIMES, Runtime};
use crate::device::{BACKENDS, BackendRow};

/// Where the weights of a class come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Weights {
    Seeded,
    Hub,
    Path,
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
        named!($type, $type, stringify!($type), $what, <$type>::WORDS.iter().copied());
    };
}

/// A row of a table is read by its name.
macro_rules! row {
    ($type:ident as $schema:literal, $what:literal in $table:ident) => {
        named!(&'static $type, $type, $schema, $what, $table.iter().map(|row| (row.name, *row)));
    };
}

/// Declares how the variants of an enum are written; `what` names the enum in messages.
macro_rules! words {
    ($vis:vis $type:ident as $what:literal { $($word:literal => $variant:ident),* $(,)? }) => {
        crate::base::words::words!($vis $type { $($word => $variant),* });
        spelled!($type as $what);
    };
}

words!(pub(super) Weights as "weights" { "seeded" => Seeded, "hub" => Hub, "path" => Path });
words!(pub Compose as "loop" {
    "rag" => Rag, "ddpm" => Ddpm, "dit" => Dit, "stable-diffusion" => StableDiffusion,
});
words!(pub Priority as "priority" { "high" => High, "medium" => Medium, "low" => Low });
words!(pub Dtype as "dtype" {
    "float64" => Float64, "float32" => Float32, "float16" => Float16, "bfloat16" => Bfloat16, "int64" => Int64,
    "int32" => Int32, "int16" => Int16, "int8" => Int8, "uint64" => Uint64, "uint32" => Uint32, "uint16" => Uint16,
    "uint8" => Uint8, "bool" => Bool,
});
words!(pub Route as "export route" { "legacy" => Legacy, "dynamo" => Dynamo, "transformers" => Transformers });
words!(pub ExpectedStatus as "status of an expectation" {
    "FAIL" => Fail, "NUMERICS" => Numerics, "OOM" => Oom, "TIMEOUT" => Timeout, "CRASH" => Crash,
    "SKIP_UNSUPPORTED" => Unsupported,
});
words!(pub ExpectedStage as "stage" { "generate" => Generate, "convert" => Convert, "run" => Run });
spelled!(Int8Range as "range of int8 weights");
spelled!(Precision as "precision");
row!(Runtime as "Runtime", "runtime" in RUNTIMES);
row!(BackendRow as "Backend", "backend" in BACKENDS);
row!(Artefact as "Artefact", "artefact" in ARTEFACTS);
