//! The words that a field of the spec may hold.

use super::error::Sink;
use super::shape::{self, Shape, row, spelled, words};
use super::yaml::{Key, Node};
use super::{Dtype, ExpectedStage, ExpectedStatus, Int8Range, Precision, Priority, Route};
use crate::catalogue::{ARTEFACTS, Artefact, RUNTIMES, Runtime};
use crate::device::{BACKENDS, BackendRow};

/// Where the weights of a class come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Weights {
    Seeded,
    Hub,
    Path,
}

words!(pub(super) Weights as "weights" { "seeded" => Seeded, "hub" => Hub, "path" => Path });
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
