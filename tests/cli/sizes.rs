//! Cases that differ in size only: each has its own place in every page, its own files, and a test that takes no other's.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

use crate::onnx::RIGHT;
use crate::page;
use crate::ready_onnx::sandbox;
use crate::support::Sandbox;

const SPEC: &str = "version: 1
pipelines: {text: {description: x, tasks: [fill-mask]}}
targets:
  mps: {runtime: torch, backend: mps, device: mps, artefact: torchscript, precisions: [fp32, fp16]}
  b_c: {runtime: ort, backend: cpu, device: cpu, artefact: onnx, precisions: [fp32]}
  c: {runtime: ort, backend: cpu, device: cpu, artefact: onnx, precisions: [fp32]}
models:
  a: {class: BertForMaskedLM, family: encoder-only, task: fill-mask, pipeline: text,
    config: {vocab_size: 32, hidden_size: 16, num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: 16},
    inputs: {ids: {dtype: int64, shape: [batch, seq], value: 1}}}
  a_b: {class: BertForMaskedLM, family: encoder-only, task: fill-mask, pipeline: text,
    config: {vocab_size: 32, hidden_size: 16, num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: 16},
    inputs: {ids: {dtype: int64, shape: [batch, seq], value: 1}}}
matrix: {batch: [1, 3], seq: [16, 8], exclude: [{model: a, target: c, reason: it is slow}]}
";

fn ids(document: &Value, list: &str) -> BTreeSet<String> {
    let rows = document[list].as_array().unwrap();
    let ids: BTreeSet<String> = rows
        .iter()
        .map(|row| row["case"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(ids.len(), rows.len());
    ids
}

#[test]
#[ignore = "deep, and slow: `cargo test --test '*' -- --ignored`, as CI does"]
fn sizes_of_the_command_line_are_those_of_the_matrix() {
    let sandbox = Sandbox::new().file("specs/all.yaml", SPEC);
    let plan = |args: &[&str]| {
        let plan = sandbox
            .run([&["plan", "specs/all.yaml", "--all"], args].concat())
            .success();
        plan.stdout
            .lines()
            .filter(|line| line.contains("run:"))
            .map(str::to_owned)
            .collect::<BTreeSet<_>>()
    };
    let swept = plan(&["--batch", "1,3,3", "--seq", "16,8"]);
    let own = plan(&[]);
    assert_eq!(swept, own);
    sandbox.write(
        "specs/all.yaml",
        SPEC.replace("batch: [1, 3], seq: [16, 8], ", ""),
    );
    assert_eq!(plan(&["--batch", "1,3", "--seq", "16,8"]), own);
    assert!(
        plan(&["--batch", "5"])
            .iter()
            .any(|line| line.contains("-b5"))
    );
    sandbox
        .run(["plan", "specs/all.yaml", "--batch", "0"])
        .code(2)
        .stderr_has("--batch");
    let repro = sandbox
        .run([
            "run",
            "specs/all.yaml",
            "--batch",
            "2",
            "-m",
            "a",
            "-t",
            "b_c",
            "--json",
        ])
        .json();
    assert!(
        repro["cases"][0]["repro"]
            .as_str()
            .unwrap()
            .contains(" --batch 2 "),
        "{repro:#}"
    );
}

#[test]
fn every_page_has_the_cases_of_the_plan() {
    let sandbox = Sandbox::new().file("specs/all.yaml", SPEC);
    let plan = sandbox
        .run(["plan", "specs/all.yaml", "--json"])
        .success()
        .json();
    let steps = plan["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| step["step"].as_str().unwrap());
    let cases: BTreeSet<String> = steps
        .filter_map(|step| step.strip_prefix("run:").map(str::to_owned))
        .collect();
    assert_eq!((plan["cases"].as_u64(), cases.len()), (Some(28), 28));
    let report = |format: &str| {
        sandbox
            .run(["report", "specs/all.yaml", "--format", format])
            .code(3)
            .stdout
    };
    let document: Value = serde_json::from_str(&report("json")).unwrap();
    assert_eq!(
        (ids(&document, "cases"), ids(&document, "excluded")),
        (cases.clone(), ids(&plan, "excluded"))
    );
    for case in document["cases"].as_array().unwrap() {
        let id = case["case"].as_str().unwrap();
        let of = |mark: &str, own: u64| {
            id.rsplit_once(mark)
                .map_or(own, |(_, size)| size[..1].parse().unwrap())
        };
        let sizes = serde_json::json!({"batch": of("-b", 1), "seq": of("-s", 16)});
        assert_eq!(case["dims"], sizes, "{id}");
    }
    let junit = report("junit");
    let markdown = report("markdown").replace('\\', "");
    let data = page::data(&report("html"));
    let details: Vec<_> = data["details"]
        .as_array()
        .unwrap()
        .iter()
        .map(|case| case["name"].clone())
        .collect();
    assert_eq!(details.len(), cases.len());
    for id in &cases {
        let (model, variant) = id.split_once(':').unwrap();
        let test = format!("<testcase name=\"{model}\" classname=\"{variant}\"");
        assert_eq!(junit.matches(&test).count(), 1, "{id}");
        let named = format!("{model} on {variant}");
        assert_eq!(
            details.iter().filter(|name| **name == named).count(),
            1,
            "{id}"
        );
    }
    assert!(junit.contains("tests=\"32\""), "{}", &junit[..300]);
    for row in ["| a |", "| a@s8 |", "| a@b3 |", "| a@b3-s8 |"] {
        assert_eq!(markdown.matches(row).count(), 1, "{row}\n{markdown}");
    }
}

pub(super) fn shell(sandbox: &Sandbox, line: &str) -> (bool, String) {
    let output = Command::new("sh")
        .args(["-c", line])
        .current_dir(sandbox.path(""))
        .output()
        .unwrap();
    (
        output.status.success(),
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned(),
    )
}

#[test]
fn the_reproducer_of_a_size_runs_that_size_and_takes_no_other() {
    let sandbox = sandbox(RIGHT);
    let spec = sandbox.read("specs/all.yaml");
    let spec = spec
        .replace("    expected: ../models/expected\n", "")
        .replace(
            "shape: [1, 2], data: [1, 10]",
            "shape: [batch, 2], uniform: [0, 1]",
        );
    sandbox.write(
        "specs/all.yaml",
        spec + "matrix: {targets: [cpu], batch: [4, 2]}\n",
    );
    sandbox.write("models/linear.onnx", crate::onnx::hungry());
    let document = sandbox
        .run(["run", "specs/all.yaml", "--json"])
        .success()
        .summary([("passed", 2)])
        .json();
    let repro = |id: &str| {
        let cases = document["cases"].as_array().unwrap();
        let case = cases
            .iter()
            .find(|case| case["case"] == id)
            .unwrap_or_else(|| panic!("{document:#}"));
        case["repro"].as_str().unwrap().to_owned()
    };
    let four = repro("linear:cpu-fp32-b4");
    let two = repro("linear:cpu-fp32-b2");
    for (line, size) in [(&four, 4), (&two, 2)] {
        let (passed, said) = shell(&sandbox, &format!("{line} --json out.json"));
        assert!(passed, "{said}");
        let found: Value = serde_json::from_str(&sandbox.read("out.json")).unwrap();
        assert_eq!(
            found["facts"]["inputs"]["x"],
            format!("float32 [{size}, 2]"),
            "{said}"
        );
    }
    let folder = "orch-out/artefacts/linear@b2";
    let (passed, said) = shell(&sandbox, &format!("{four} --artefact {folder}/onnx"));
    assert!(
        !passed
            && said
                .contains("holds `onnx` of linear@b2, and this is a test of `onnx` of linear@b4"),
        "{said}"
    );
    let (passed, said) = shell(&sandbox, &format!("{four} --model {folder}/model"));
    assert!(
        !passed && said.contains("holds `model` of linear@b2"),
        "{said}"
    );
    // A folder that does not say whose it is may be anybody's; orch's own, of the store, has the wrong shapes.
    std::fs::remove_file(sandbox.path(folder).join("onnx/orch.json")).unwrap();
    let (passed, said) = shell(&sandbox, &format!("{four} --artefact {folder}/onnx"));
    assert!(
        !passed && said.contains("onnx/orch.json to say whose files these are"),
        "{said}"
    );
    let test = sandbox.output("generate:linear:cpu-fp32-b4", "test_linear_cpu-fp32-b4.py");
    sandbox.write("orch-out/tests/test_linear_cpu-fp32-b4.py", test);
    let (passed, said) = shell(&sandbox, &format!("{four} --artefact {folder}/onnx"));
    assert!(
        !passed && said.contains("is not this test's: x is (2, 2) there, and here (4, 2)"),
        "{said}"
    );
}
