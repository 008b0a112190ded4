//! A ready ONNX file from end to end: no torch, its own expected outputs, on ONNX Runtime and on OpenVINO.

use std::path::Path;

use prost::Message;

use crate::support::{Sandbox, env_dir};

// As much of onnx.proto as a linear layer needs.
#[derive(Clone, PartialEq, Message)]
struct ModelProto {
    #[prost(int64, tag = "1")]
    ir_version: i64,
    #[prost(message, optional, tag = "7")]
    graph: Option<GraphProto>,
    #[prost(message, repeated, tag = "8")]
    opset_import: Vec<OperatorSetIdProto>,
}

#[derive(Clone, PartialEq, Message)]
struct OperatorSetIdProto {
    #[prost(int64, tag = "2")]
    version: i64,
}

#[derive(Clone, PartialEq, Message)]
struct GraphProto {
    #[prost(message, repeated, tag = "1")]
    node: Vec<NodeProto>,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(message, repeated, tag = "5")]
    initializer: Vec<TensorProto>,
    #[prost(message, repeated, tag = "11")]
    input: Vec<ValueInfoProto>,
    #[prost(message, repeated, tag = "12")]
    output: Vec<ValueInfoProto>,
}

#[derive(Clone, PartialEq, Message)]
struct NodeProto {
    #[prost(string, repeated, tag = "1")]
    input: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    output: Vec<String>,
    #[prost(string, tag = "4")]
    op_type: String,
    #[prost(message, repeated, tag = "5")]
    attribute: Vec<AttributeProto>,
}

#[derive(Clone, PartialEq, Message)]
struct AttributeProto {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(int64, tag = "3")]
    i: i64,
    #[prost(int32, tag = "20")]
    r#type: i32,
}

#[derive(Clone, PartialEq, Message)]
struct TensorProto {
    #[prost(int64, repeated, tag = "1")]
    dims: Vec<i64>,
    #[prost(int32, tag = "2")]
    data_type: i32,
    #[prost(float, repeated, tag = "4")]
    float_data: Vec<f32>,
    #[prost(int32, repeated, tag = "5")]
    int32_data: Vec<i32>,
    #[prost(int64, repeated, tag = "7")]
    int64_data: Vec<i64>,
    #[prost(string, tag = "8")]
    name: String,
}

#[derive(Clone, PartialEq, Message)]
struct ValueInfoProto {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    r#type: Option<TypeProto>,
}

#[derive(Clone, PartialEq, Message)]
struct TypeProto {
    #[prost(message, optional, tag = "1")]
    tensor_type: Option<TensorTypeProto>,
}

#[derive(Clone, PartialEq, Message)]
struct TensorTypeProto {
    #[prost(int32, tag = "1")]
    elem_type: i32,
    #[prost(message, optional, tag = "2")]
    shape: Option<ShapeProto>,
}

#[derive(Clone, PartialEq, Message)]
struct ShapeProto {
    #[prost(message, repeated, tag = "1")]
    dim: Vec<DimProto>,
}

#[derive(Clone, PartialEq, Message)]
struct DimProto {
    #[prost(oneof = "Dim", tags = "1, 2")]
    value: Option<Dim>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Dim {
    #[prost(int64, tag = "1")]
    Value(i64),
    #[prost(string, tag = "2")]
    Param(String),
}

const FLOAT: i32 = 1;
const BFLOAT16: i32 = 16;
const INT64: i32 = 7;

fn tensor(name: &str, dims: &[i64], values: &[f32]) -> TensorProto {
    TensorProto {
        dims: dims.into(),
        data_type: FLOAT,
        float_data: values.into(),
        int32_data: vec![],
        int64_data: vec![],
        name: name.into(),
    }
}

fn number(name: &str, value: i64) -> TensorProto {
    TensorProto { data_type: INT64, float_data: vec![], int64_data: vec![value], ..tensor(name, &[1], &[]) }
}

/// A size below 0 is that of the batch.
fn value(name: &str, dims: &[i64]) -> ValueInfoProto {
    let dim = |size: &i64| if *size < 0 { Dim::Param("batch".into()) } else { Dim::Value(*size) };
    let shape = ShapeProto { dim: dims.iter().map(|size| DimProto { value: Some(dim(size)) }).collect() };
    let tensor_type = Some(TensorTypeProto { elem_type: FLOAT, shape: Some(shape) });
    ValueInfoProto { name: name.into(), r#type: Some(TypeProto { tensor_type }) }
}

fn node<const N: usize>(op_type: &str, input: [&str; N], output: &str) -> NodeProto {
    let (input, output) = (input.map(String::from).into(), vec![output.into()]);
    NodeProto { input, output, op_type: op_type.into(), attribute: vec![] }
}

/// The same in another type.
fn cast(input: &str, output: &str, to: i32) -> NodeProto {
    const INT: i32 = 2;
    let to = AttributeProto { name: "to".into(), i: to.into(), r#type: INT };
    NodeProto { attribute: vec![to], ..node("Cast", [input], output) }
}

/// y = x · w + b, with x of 1 × 2, w of 2 × 3.
pub(super) fn linear() -> Vec<u8> {
    let graph = GraphProto {
        node: vec![node("MatMul", ["x", "w"], "xw"), node("Add", ["xw", "b"], "y")],
        name: "linear".into(),
        initializer: vec![tensor("w", &[2, 3], &[1., 2., 3., 4., 5., 6.]), tensor("b", &[3], &[0.5, -0.5, 0.])],
        input: vec![value("x", &[1, 2])],
        output: vec![value("y", &[1, 3])],
    };
    let opset_import = vec![OperatorSetIdProto { version: 17 }];
    ModelProto { ir_version: 8, graph: Some(graph), opset_import }.encode_to_vec()
}

/// The same layer with x and y in bfloat16. It computes in fp32: ONNX Runtime's CPU has few kernels for bfloat16.
pub(super) fn bfloat16_linear() -> Vec<u8> {
    let of_bfloat16 = |name: &str, dims: &[i64]| {
        let mut info = value(name, dims);
        info.r#type.as_mut().unwrap().tensor_type.as_mut().unwrap().elem_type = BFLOAT16;
        info
    };
    let mut model = ModelProto::decode(&*linear()).unwrap();
    let graph = model.graph.as_mut().unwrap();
    graph.node = vec![
        cast("x", "wide", FLOAT),
        node("MatMul", ["wide", "w"], "xw"),
        node("Add", ["xw", "b"], "sum"),
        cast("sum", "y", BFLOAT16),
    ];
    (graph.input, graph.output) = (vec![of_bfloat16("x", &[1, 2])], vec![of_bfloat16("y", &[1, 3])]);
    model.encode_to_vec()
}

/// Values of y, which bfloat16 holds without rounding.
pub(super) fn expected_bfloat16(values: [f32; 3]) -> Vec<u8> {
    let bits = values.map(|value| (value.to_bits() >> 16) as i32).into();
    TensorProto { data_type: BFLOAT16, int32_data: bits, ..tensor("y", &[1, 3], &[]) }.encode_to_vec()
}

/// y = x · w, plus the sum of (batch - 3)²⁰ zeros: next to nothing for a batch of 4, and for one of 8 more memory than any
/// machine can name.
pub(super) fn hungry() -> Vec<u8> {
    let graph = GraphProto {
        node: vec![
            node("Shape", ["x"], "shape"),
            node("Gather", ["shape", "first"], "batch"),
            node("Sub", ["batch", "three"], "base"),
            node("Pow", ["base", "twenty"], "many"),
            node("ConstantOfShape", ["many"], "zeros"),
            node("ReduceSum", ["zeros"], "nothing"),
            node("MatMul", ["x", "w"], "xw"),
            node("Add", ["xw", "nothing"], "y"),
        ],
        name: "hungry".into(),
        initializer: vec![
            tensor("w", &[2, 3], &[1., 2., 3., 4., 5., 6.]),
            number("first", 0),
            number("three", 3),
            number("twenty", 20),
        ],
        input: vec![value("x", &[-1, 2])],
        output: vec![value("y", &[-1, 3])],
    };
    let opset_import = vec![OperatorSetIdProto { version: 17 }];
    ModelProto { ir_version: 8, graph: Some(graph), opset_import }.encode_to_vec()
}

/// x = (1, 10) by a recipe, so y = (41.5, 51.5, 63).
pub(super) fn expected(values: [f32; 3]) -> Vec<u8> {
    tensor("y", &[1, 3], &values).encode_to_vec()
}

pub(super) const RIGHT: [f32; 3] = [41.5, 51.5, 63.];

pub(super) const SPEC: &str = "version: 1
pipelines:
  tabular: {description: numbers to numbers, tasks: [regression], template: text}
targets:
  cpu: {runtime: ort, backend: cpu, device: cpu, artefact: onnx, precisions: [fp32]}
  openvino: {runtime: openvino, backend: openvino, device: CPU, artefact: openvino, precisions: [fp32]}
measure: {warmup: 1, samples: 6}
models:
  linear:
    onnx: ../models/linear.onnx
    expected: ../models/expected
    family: other
    task: regression
    pipeline: tabular
    inputs: {x: {dtype: float32, shape: [1, 2], data: [1, 10]}}
";

const RUN: [&str; 3] = ["run", "specs/all.yaml", "--json"];

/// A sandbox whose environments are those two that a ready ONNX file needs, and no other.
pub(super) fn sandbox(values: [f32; 3]) -> Sandbox {
    let sandbox = Sandbox::new()
        .installs()
        .file("specs/all.yaml", SPEC)
        .file("models/linear.onnx", linear())
        .file("models/expected/output_0.pb", expected(values));
    sandbox.run(["setup", "ort", "openvino", "--spec", "specs/all.yaml"]).success();
    let own = sandbox.path("envs");
    std::fs::create_dir(&own).unwrap();
    for entry in std::fs::read_dir(env_dir()).unwrap().map(|entry| entry.unwrap()) {
        let name = entry.file_name().into_string().unwrap();
        if entry.path().is_dir() && (name.starts_with("ort-") || name.starts_with("openvino-")) {
            std::os::unix::fs::symlink(entry.path(), own.join(name)).unwrap();
        }
    }
    sandbox.env("ORCH_ENV_DIR", own.to_str().unwrap())
}

/// Gives another environment the ONNX Runtime of orch's own: no ready ONNX file has a second input without it.
pub(super) fn lend_onnx_runtime(packages: &Path) {
    let is_ort = |name: &str| name.starts_with("ort-") && !name.contains('.');
    let envs = std::fs::read_dir(env_dir()).unwrap().map(|entry| entry.unwrap());
    let ort = envs.filter(|entry| is_ort(entry.file_name().to_str().unwrap())).map(|entry| entry.path()).max().unwrap();
    let lib = std::fs::read_dir(ort.join("lib")).unwrap().next().unwrap().unwrap().path();
    for entry in std::fs::read_dir(lib.join("site-packages")).unwrap().map(|entry| entry.unwrap()) {
        let name = entry.file_name();
        if name.to_str().unwrap().starts_with("onnxruntime") && !packages.join(&name).exists() {
            std::os::unix::fs::symlink(entry.path(), packages.join(&name)).unwrap();
        }
    }
}

#[test]
fn it_passes_on_onnx_runtime_and_on_openvino_without_torch() {
    let sandbox = sandbox(RIGHT);
    let ended = sandbox.run(RUN).success().summary([("cases", 2), ("passed", 2), ("failed", 0), ("unavailable", 0)]);
    let document = ended.json();
    for (case, target, device) in [(0, "cpu", "cpu"), (1, "openvino", "CPU")] {
        let case = &document["cases"][case];
        assert_eq!(
            (&case["model"], &case["target"], &case["status"]),
            (&"linear".into(), &target.into(), &"PASS".into())
        );
        assert_eq!((&case["pipeline"], &case["precision"]), (&"tabular".into(), &"fp32".into()));
        let (requested, actual) = (case["requested_device"].as_str().unwrap(), case["actual_device"].as_str().unwrap());
        assert!(requested.contains(device) && actual.contains(device), "{requested} {actual}");
        assert_eq!(case["numerics"]["passed"], true);
        assert_eq!(case["numerics"]["reference"], "expected outputs given by the user");
        assert_eq!(case["metrics"]["samples"], 6);
        assert!(case["metrics"]["median_ms"].as_f64().unwrap() > 0.);
        assert!(case["repro"].as_str().unwrap().contains(&format!("orch-out/tests/test_linear_{target}-fp32.py")));
    }
    let placement = document["cases"][0]["placement"].as_object().unwrap();
    assert_eq!(placement.keys().collect::<Vec<_>>(), ["CPUExecutionProvider"]);
    let envs = std::fs::read_dir(sandbox.path("envs")).unwrap().map(|entry| entry.unwrap().file_name());
    let torch: Vec<_> = envs.filter(|name| name.to_string_lossy().contains("torch")).collect();
    assert!(torch.is_empty(), "{torch:?}");

    sandbox.run(RUN).success().summary([("executed", 0), ("passed", 2)]);
    // Another expectation is another reference: both runs are judged again.
    sandbox.write("models/expected/output_0.pb", expected([41.5, 51.5, 60.]));
    sandbox.run(RUN).code(1).summary([("passed", 0), ("failed", 2)]);
}

#[test]
fn wrong_outputs_never_pass() {
    let sandbox = sandbox([41.5, 51.5, 60.]);
    for cached in [false, true] {
        let ended = sandbox.run(["run", "specs/all.yaml", "-t", "cpu", "--json"]).code(1);
        let case = &ended.json()["cases"][0];
        assert_eq!(
            (&case["status"], &case["stage"], &case["cached"]),
            (&"NUMERICS".into(), &"run".into(), &cached.into())
        );
        assert_eq!(case["numerics"]["passed"], false);
        assert!(case["reason"].as_str().unwrap().contains('y'), "{case}");
        ended.stdout_has("NUMERICS");
    }
}

#[test]
fn without_expected_outputs_the_reference_is_named_for_what_it_is() {
    let sandbox = sandbox(RIGHT);
    sandbox.write("specs/all.yaml", SPEC.replace("    expected: ../models/expected\n", ""));
    let document = sandbox.run(RUN).success().summary([("passed", 2)]).json();
    for case in document["cases"].as_array().unwrap() {
        assert_eq!(case["numerics"]["reference"], "onnxruntime cpu fp32", "{case}");
    }
}

/// As by an update of orch or a build of it beside a run.
#[cfg(target_os = "linux")]
#[test]
fn a_run_whose_program_is_removed_meanwhile_goes_on() {
    let sandbox = sandbox(RIGHT);
    let own = sandbox.path("orch");
    std::fs::copy(env!("CARGO_BIN_EXE_orch"), &own).unwrap();
    let remove = format!("rm {}; echo > out", own.display());
    let commands = format!("commands:\n  remove: {{argv: [sh, -c, '{remove}'], outputs: [out]}}\n");
    sandbox.write("specs/all.yaml", format!("{SPEC}{commands}"));
    // Timed runs on the CPU wait until nothing else executes.
    let like = sandbox.command(["run", "specs/all.yaml", "-t", "cpu"]);
    let mut command = std::process::Command::new(&own);
    command.args(like.get_args()).current_dir(sandbox.path("")).env_clear();
    command.envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let ended = command.output().unwrap();
    assert!(!own.exists());
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
}

/// y = the determinant of x, of 1 × 2 × 2.
fn determinant() -> Vec<u8> {
    let graph = GraphProto {
        node: vec![node("Det", ["x"], "y")],
        name: "det".into(),
        initializer: vec![],
        input: vec![value("x", &[1, 2, 2])],
        output: vec![value("y", &[1])],
    };
    let opset_import = vec![OperatorSetIdProto { version: 17 }];
    ModelProto { ir_version: 8, graph: Some(graph), opset_import }.encode_to_vec()
}

/// An operator of ONNX that ONNX Runtime has no kernel for on any device.
fn image_decoder() -> Vec<u8> {
    const UINT8: i32 = 2;
    let bytes = |name: &str, dims: &[i64]| {
        let mut info = value(name, dims);
        info.r#type.as_mut().unwrap().tensor_type.as_mut().unwrap().elem_type = UINT8;
        info
    };
    let graph = GraphProto {
        node: vec![node("ImageDecoder", ["x"], "y")],
        name: "picture".into(),
        initializer: vec![],
        input: vec![bytes("x", &[20])],
        output: vec![bytes("y", &[2, 2, 3])],
    };
    let opset_import = vec![OperatorSetIdProto { version: 20 }];
    ModelProto { ir_version: 9, graph: Some(graph), opset_import }.encode_to_vec()
}

/// Each was a failure, OpenVINO's with a line that said where in its sources.
#[test]
fn what_a_runtime_has_no_operator_for_is_its_refusal_in_its_words() {
    let sandbox = sandbox(RIGHT);
    sandbox.write("models/linear.onnx", determinant());
    let inputs = "inputs: {x: {dtype: float32, shape: [1, 2, 2], data: [1, 2, 3, 4]}}";
    let (head, _) = SPEC.split_once("    inputs:").unwrap();
    let head = head.replace("    expected: ../models/expected\n", "");
    sandbox.write("specs/all.yaml", format!("{head}    {inputs}\n"));
    let document = sandbox.run(RUN).json();
    let case = &document["cases"][1];
    assert_eq!((&case["target"], &case["status"]), (&"openvino".into(), &"SKIP_UNSUPPORTED".into()), "{case:#}");
    assert_eq!(case["stage"], "convert", "{case:#}");
    let reason = case["reason"].as_str().unwrap();
    assert!(reason.starts_with("OpenVINO 20"), "{reason}");
    assert!(
        reason.ends_with("does not convert the model: No conversion rule found for operations: Det-17"),
        "{reason}"
    );

    // Nobody can say what is right where the reference is ONNX Runtime's own, and it lacks the operator.
    sandbox.write("models/linear.onnx", image_decoder());
    sandbox.write("specs/all.yaml", format!("{head}    inputs: {{x: {{dtype: uint8, shape: [20], value: 1}}}}\n"));
    let document = sandbox.run(RUN).json();
    let case = &document["cases"][0];
    assert_eq!((&case["target"], &case["status"]), (&"cpu".into(), &"SKIP_UNSUPPORTED".into()), "{case:#}");
    let reason = case["reason"].as_str().unwrap();
    assert!(reason.contains("Could not find an implementation for ImageDecoder(20)"), "{reason}");
}
