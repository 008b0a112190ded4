//! What a reference is held to before any target is, and what the control shows: of ready files, end to end.

use prost::Message;
use serde_json::Value;

use crate::onnx::{
    GraphProto, ModelProto, NodeProto, OperatorSetIdProto, RIGHT, TensorProto, ValueInfoProto,
    node, number, tensor, value,
};
use crate::ready_onnx::sandbox;

fn file<const N: usize>(
    nodes: [NodeProto; N],
    known: Vec<TensorProto>,
    inputs: Vec<ValueInfoProto>,
    y: &[i64],
) -> Vec<u8> {
    let graph = GraphProto {
        node: nodes.into(),
        name: "graph".into(),
        initializer: known,
        input: inputs,
        output: vec![value("y", y)],
    };
    let opset_import = vec![OperatorSetIdProto { version: 17 }];
    ModelProto {
        ir_version: 8,
        graph: Some(graph),
        opset_import,
    }
    .encode_to_vec()
}

const HEAD: &str = "version: 1
measure: none
targets:
  cpu: {runtime: ort, backend: cpu, device: cpu, artefact: onnx, precisions: [fp32]}
  openvino: {runtime: openvino, backend: openvino, device: CPU, artefact: openvino, precisions: [fp32]}
models:
";

fn of<'a>(document: &'a Value, case: &str) -> &'a Value {
    let cases = document["cases"].as_array().unwrap();
    cases
        .iter()
        .find(|found| found["case"] == case)
        .unwrap_or_else(|| panic!("no {case}: {document:#}"))
}

#[test]
fn what_no_target_can_be_held_to_is_reported_once_and_is_no_target_s_fault() {
    let sandbox = sandbox(RIGHT);
    let x = || vec![value("x", &[-1, 2])];
    let random = [
        node("RandomNormalLike", ["x"], "r"),
        node("Add", ["x", "r"], "y"),
    ];
    sandbox.write("specs/random.onnx", file(random, vec![], x(), &[-1, 2]));
    let nan = [
        node("Abs", ["x"], "a"),
        node("Neg", ["a"], "n"),
        node("Sqrt", ["n"], "y"),
    ];
    sandbox.write("specs/nan.onnx", file(nan, vec![], x(), &[-1, 2]));
    let first = [node("Gather", ["x", "first"], "y")];
    sandbox.write(
        "specs/collapsed.onnx",
        file(first, vec![number("first", 0)], x(), &[-1, 2]),
    );
    let models = ["random", "nan", "collapsed"].map(|name| {
        format!("  {name}: {{onnx: {name}.onnx, inputs: {{x: {{dtype: float32, shape: [3, 2], normal: [0, 1]}}}}}}\n")
    });
    sandbox.write("specs/all.yaml", HEAD.to_owned() + &models.concat());
    let document = sandbox
        .run(["run", "specs/all.yaml", "--json"])
        .code(1)
        .json();
    for (model, status, told) in [
        (
            "random",
            "INDECISIVE",
            "differs between two runs of the reference on the same inputs: `RandomNormalLike` draws random",
        ),
        (
            "nan",
            "INDECISIVE",
            "in the reference the output `y` holds 6 NaN of 6 values, so no target can be compared with it",
        ),
        (
            "collapsed",
            "FAIL",
            "the declared axis `batch` of the output `y` (axis 0) is 3 by the input `x`, and 1 came",
        ),
    ] {
        for target in ["cpu", "openvino"] {
            let case = of(&document, &format!("{model}:{target}-fp32"));
            assert_eq!(
                (&case["status"], &case["stage"]),
                (&status.into(), &"generate".into()),
                "{case:#}"
            );
            assert!(case["reason"].as_str().unwrap().contains(told), "{case:#}");
        }
    }
}

#[test]
fn an_input_and_a_row_that_change_nothing_are_named_in_their_cells() {
    let sandbox = sandbox(RIGHT);
    let inputs = vec![value("x", &[-1, 2]), value("mask", &[-1, 3])];
    let nodes = [
        node("Gather", ["x", "first"], "f"),
        node("ReduceSum", ["mask"], "s"),
        node("Mul", ["s", "zero"], "z"),
        node("Add", ["f", "z"], "y"),
    ];
    let known = vec![number("first", 0), tensor("zero", &[1], &[0.0])];
    sandbox.write("specs/m.onnx", file(nodes, known, inputs, &[1, 2]));
    let row = "  m:
    onnx: m.onnx
    inputs:
      x: {dtype: float32, shape: [2, 2], normal: [0, 1]}
      mask: {dtype: float32, shape: [2, 3], value: 1}
";
    sandbox.write("specs/all.yaml", HEAD.to_owned() + row);
    let document = sandbox
        .run(["run", "specs/all.yaml", "-t", "cpu", "--json"])
        .success()
        .json();
    let case = of(&document, "m:cpu-fp32");
    let control = &case["numerics"]["control"];
    assert_eq!(
        (&control["idle"], &control["idle_rows"]),
        (&["mask"].into(), &[1].into()),
        "{case:#}"
    );
    sandbox
        .run(["report", "specs/all.yaml"])
        .success()
        .stdout_has("ignores inputs");
    sandbox
        .run(["report", "specs/all.yaml", "--format", "junit"])
        .success()
        .stdout_has("no output depends on mask");
}

/// Scores below 1 beside places of hundreds: the bounds of the tensor are wider than the scores.
#[test]
fn scores_that_are_wrong_do_not_pass_because_boxes_beside_them_are_right() {
    let sandbox = sandbox(RIGHT);
    let right = [300.0, 150.0, 0.1, -200.0, 250.0, 0.05];
    let wrong = [300.0, 150.0, 0.0, -200.0, 250.0, 0.0];
    let x: Vec<f32> = (0..16).map(|at| (at * 7 % 16) as f32 / 4.0 - 2.0).collect();
    for (name, weights) in [("right", right), ("wrong", wrong)] {
        let known = vec![tensor("w", &[2, 3], &weights)];
        let made = file(
            [node("MatMul", ["x", "w"], "y")],
            known,
            vec![value("x", &[-1, 2])],
            &[-1, 3],
        );
        sandbox.write(&format!("specs/{name}.onnx"), made);
    }
    let expected: Vec<f32> = x
        .chunks(2)
        .flat_map(|row| (0..3).map(move |at| row[0] * right[at] + row[1] * right[3 + at]))
        .collect();
    sandbox.write(
        "specs/expected/output_0.pb",
        tensor("y", &[8, 3], &expected).encode_to_vec(),
    );
    let models = ["right", "wrong"].map(|name| {
        format!(
            "  {name}: {{onnx: {name}.onnx, expected: expected, inputs: {{x: {{dtype: float32, shape: [8, 2], data: {x:?}}}}}}}\n"
        )
    });
    let head = HEAD.replace("precisions: [fp32]", "precisions: [fp16]");
    sandbox.write("specs/all.yaml", head + &models.concat());
    let document = sandbox
        .run(["run", "specs/all.yaml", "-t", "cpu", "--json"])
        .json();
    assert_eq!(
        of(&document, "right:cpu-fp16")["status"],
        "PASS",
        "{document:#}"
    );
    let wrong = of(&document, "wrong:cpu-fp16");
    assert_ne!(wrong["status"], "PASS", "{wrong:#}");
    let reason = wrong["reason"].as_str().unwrap();
    assert!(
        reason.contains("`y`, axis 1, index 2 of 3: zeros would pass as well"),
        "{reason}"
    );
}
