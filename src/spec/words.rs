//! The words that a field of the spec may hold.

use super::error::Sink;
use super::shape::{self, Shape, words};
use super::yaml::{Key, Node};
use super::{Artefact, Dtype, ExpectedStage, ExpectedStatus, Int8Range, Precision, Priority, Route};

/// Where the weights of a class come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Weights {
    Seeded,
    Hub,
    Path,
}

/// The runtimes that exist; the runtime module's own table is tested against this list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Runtime {
    Ort,
    Openvino,
    Torch,
    Python,
    Browser,
    TransformersJs,
    Android,
}

/// The backends that have a prober.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Backend {
    Cpu,
    Cuda,
    Rocm,
    Mps,
    Openvino,
    Qnn,
    QnnAndroid,
    Webnn,
    Webgpu,
    WebgpuBrowser,
}

words!(pub(super) Weights as "weights" { "seeded" => Seeded, "hub" => Hub, "path" => Path });
words!(pub(super) Runtime as "runtime" {
    "ort" => Ort, "openvino" => Openvino, "torch" => Torch, "python" => Python, "browser" => Browser,
    "transformers-js" => TransformersJs, "android" => Android,
});
words!(pub(super) Backend as "backend" {
    "cpu" => Cpu, "cuda" => Cuda, "rocm" => Rocm, "mps" => Mps, "openvino" => Openvino, "qnn" => Qnn, "qnn-android" => QnnAndroid,
    "webnn" => Webnn, "webgpu" => Webgpu, "webgpu-browser" => WebgpuBrowser,
});
words!(pub Priority as "priority" { "high" => High, "medium" => Medium, "low" => Low });
words!(pub Dtype as "dtype" {
    "float64" => Float64, "float32" => Float32, "float16" => Float16, "bfloat16" => Bfloat16, "int64" => Int64,
    "int32" => Int32, "int16" => Int16, "int8" => Int8, "uint64" => Uint64, "uint32" => Uint32, "uint16" => Uint16,
    "uint8" => Uint8, "bool" => Bool,
});
words!(pub Route as "export route" { "legacy" => Legacy, "dynamo" => Dynamo, "transformers" => Transformers });
words!(pub Artefact as "artefact" {
    "onnx" => Onnx, "openvino" => Openvino, "qnn" => Qnn, "torchscript" => Torchscript, "model" => Model,
    "transformers-js" => TransformersJs,
});
words!(pub ExpectedStatus as "status of an expectation" {
    "FAIL" => Fail, "NUMERICS" => Numerics, "OOM" => Oom, "TIMEOUT" => Timeout, "CRASH" => Crash,
    "SKIP_UNSUPPORTED" => Unsupported,
});
words!(pub ExpectedStage as "stage" { "generate" => Generate, "convert" => Convert, "run" => Run });
words!(pub Int8Range as "range of int8 weights" { "reduced" => Reduced, "full" => Full });
words!(pub Precision as "precision" { "fp32" => Fp32, "fp16" => Fp16, "bf16" => Bf16, "int8" => Int8 });
