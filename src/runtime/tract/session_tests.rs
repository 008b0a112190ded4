//! Small models through tract itself: what it gives, and what becomes of its refusals and panics.

use prost::Message;
use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::runtime::onnx_proto::{
    Dimension, GraphProto, ModelProto, NodeProto, TensorProto, TensorShape, ValueInfoProto,
};
use crate::runtime::tract::execute;

const FLOAT: i32 = 1;
const INT64: i32 = 7;

/// Rows of two numbers, as many as are given.
fn rows(name: &str) -> ValueInfoProto {
    let rows = Dimension {
        dim_param: Some("rows".to_owned()),
        ..Dimension::default()
    };
    let shape = TensorShape {
        dim: vec![rows, Dimension::of(2)],
    };
    ValueInfoProto::of(name, FLOAT, Some(shape))
}

/// `scaled` is `x` with its columns times 2 and 3, and `size` its shape. Neither is called as its node is.
fn graph() -> GraphProto {
    let factors = [2f32, 3.0].map(f32::to_le_bytes).concat();
    GraphProto {
        name: Some("test".to_owned()),
        node: vec![
            NodeProto::of("Shape", "/first/Shape", &["x"], "size"),
            NodeProto::of("Mul", "/second/Mul", &["x", "factors"], "scaled"),
        ],
        initializer: vec![TensorProto::of("factors", FLOAT, &[2], factors)],
        input: vec![rows("x")],
        output: vec![ValueInfoProto::of("size", INT64, None), rows("scaled")],
        ..GraphProto::default()
    }
}

fn floats(shape: &[usize], values: &[f64]) -> Tensor {
    Tensor::of(Element::Float32, shape, values).unwrap()
}

fn inputs(tensor: Tensor) -> Tensors {
    Tensors::from([("x".to_owned(), tensor)])
}

/// An artefact of this graph, and a folder for what comes out.
fn job(graph: GraphProto, outputs: &[&str], measure: Value) -> (TempDir, Job) {
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path().join("artefact");
    let out = folder.path().join("out");
    for path in [&tree, &out] {
        std::fs::create_dir(path).unwrap();
    }
    let model = ModelProto {
        // Operator set 17 of ONNX's own.
        opset_import: vec![vec![0x10, 17]],
        ir_version: Some(8),
        ..ModelProto::of(graph)
    };
    std::fs::write(tree.join("model.onnx"), model.encode_to_vec()).unwrap();
    let manifest = json!({"inputs": ["x"], "outputs": outputs}).to_string();
    std::fs::write(tree.join("manifest.json"), manifest).unwrap();
    let first = inputs(floats(&[1, 2], &[1.0, -1.0]));
    tensors::write(&tree.join(tensors::INPUTS), &first).unwrap();
    let control = inputs(floats(&[2, 2], &[1.0, 2.0, 3.0, 4.0]));
    tensors::write(&tree.join(tensors::CONTROL_INPUTS), &control).unwrap();
    let job = Job {
        op: "run".to_owned(),
        params: json!({"device": "cpu", "measure": measure}),
        inputs: [("artefact".to_owned(), tree)].into(),
        out,
        ..Job::default()
    };
    (folder, job)
}

fn refused(graph: GraphProto) -> (JobStatus, String) {
    let (_folder, job) = job(graph, &["scaled"], json!("none"));
    let output = execute(&job, &|_| ());
    (output.status, output.reason.unwrap())
}

#[test]
fn a_model_is_run_and_its_outputs_go_by_the_names_of_the_file() {
    let measure = json!({"warmup": 1, "samples": 3, "max_seconds": 5.0});
    let (_folder, job) = job(graph(), &["scaled", "size"], measure);
    let output = execute(&job, &|_| ());
    assert_eq!(output.status, JobStatus::Ok, "{output:?}");
    let found = tensors::read(&job.out.join(tensors::OUTPUTS)).unwrap();
    assert_eq!(found["scaled"], floats(&[1, 2], &[2.0, -3.0]));
    // tract itself computes sizes in a type that no file has.
    let size = Tensor::of(Element::Int64, &[2], &[1.0, 2.0]).unwrap();
    assert_eq!(found["size"], size);
    let measured = output.measure.unwrap();
    assert_eq!(measured.actual_device, "cpu");
    assert!(measured.times.unwrap().samples_ms.len() >= 3);
    assert_eq!(output.facts["tract"], VERSION);
}

#[test]
fn inputs_of_another_shape_are_taken_too() {
    let (_folder, job) = job(graph(), &["scaled"], json!("none"));
    let output = execute(&job, &|_| ());
    assert_eq!(output.status, JobStatus::Ok, "{output:?}");
    let found = tensors::read(&job.out.join(tensors::CONTROL_OUTPUTS)).unwrap();
    let expected = floats(&[2, 2], &[2.0, 6.0, 6.0, 12.0]);
    assert_eq!(found, Tensors::from([("scaled".to_owned(), expected)]));
}

#[test]
fn operators_that_it_does_not_have_are_named() {
    let mut of = graph();
    of.node[1].op_type = Some("DeformConv".to_owned());
    let expected = format!("tract {VERSION} has no operator `DeformConv`");
    assert_eq!(refused(of), (JobStatus::Unsupported, expected));
}

#[test]
fn an_error_names_what_failed_and_is_no_refusal() {
    let mut of = graph();
    of.initializer[0] = TensorProto::of("factors", FLOAT, &[3], vec![0; 12]);
    let (status, reason) = refused(of);
    assert_eq!(status, JobStatus::Error);
    assert!(
        reason.starts_with("failed to ") && reason.contains("/second/Mul"),
        "{reason}"
    );
}

#[test]
fn a_panic_is_a_crash_of_the_run() {
    let status = |panics: fn() -> TractResult<()>| {
        let error = guarded(panics).unwrap_err();
        (Refusal::status_of(&error), error.to_string())
    };
    let (kind, reason) = status(|| panic!("index out of bounds"));
    assert_eq!(kind, JobStatus::Crash);
    assert_eq!(reason, "tract panicked: index out of bounds");
    let (kind, _) = status(|| panic!("not implemented: a cast"));
    assert_eq!(kind, JobStatus::Unsupported);
}

#[test]
fn a_type_that_it_does_not_have_is_its_refusal() {
    let bytes = vec![0; 2];
    let error = held(&Tensor::new(Element::Bfloat16, vec![1], bytes).unwrap()).unwrap_err();
    assert_eq!(Refusal::status_of(&error), JobStatus::Unsupported);
    let expected = format!("tract {VERSION} has no tensors of bfloat16");
    assert_eq!(error.to_string(), expected);
}

#[test]
fn the_version_is_that_of_the_lock() {
    let lock = include_str!("../../../Cargo.lock");
    let entry = format!("name = \"tract-onnx\"\nversion = \"{VERSION}\"\n");
    assert!(lock.contains(&entry), "{VERSION}");
}
