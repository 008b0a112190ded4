//! Rows of the zoo: made by `orch zoo`, run, and taken into the capability table.

use std::fs;

use serde_json::{Value, json};

use super::{cases, suite};

#[test]
#[ignore = "deep, and slow: `cargo test --test '*' -- --ignored`, as CI does"]
fn a_row_that_the_zoo_makes_passes() {
    let sandbox = suite();
    let zoo = |args: &[&str]| sandbox.run([&["zoo"], args, &["--into", "specs/models"]].concat());
    let made = zoo(&["add", "albert", "--task", "fill-mask"]).success();
    assert!(
        made.stdout
            .contains("added albert-fill-mask in encoder-only.yaml\n"),
        "{}",
        made.stdout
    );
    let spec = "version: 1\ninclude: [models/encoder-only.yaml, pipelines.yaml, targets.yaml]\nmatrix: {models: ['*'], targets: [eager-cpu]}\n";
    sandbox.write("specs/zoo.yaml", spec);
    let document = sandbox
        .run(["run", "specs/zoo.yaml", "--json"])
        .success()
        .summary([("cases", 1), ("passed", 1)])
        .json();
    let case = cases(&document)["albert-fill-mask:eager-cpu-fp32"];
    assert_eq!(
        (&case["status"], &case["type"]),
        (&json!("PASS"), &json!("albert"))
    );
    zoo(&["add", "berd"]).code(2);

    let file = "specs/models/encoder-only.yaml";
    let row = sandbox.read(file);
    sandbox.write(file, row.replace("priority: medium", "priority: low"));
    let again = zoo(&["refresh"]).success();
    assert_eq!(
        (again.stdout.as_str(), sandbox.read(file)),
        ("changed albert-fill-mask in encoder-only.yaml\n", row)
    );
    let facts = json!({"convert:albert-fill-mask:onnx": {"route": "dynamo"}});
    sandbox.write(
        "matrix.json",
        json!({"cases": [{"model": "albert-fill-mask", "facts": facts}]}).to_string(),
    );
    zoo(&["routes", "matrix.json"]).success();
    assert!(
        sandbox
            .read(file)
            .contains("    export: {routes: [dynamo, "),
        "{}",
        sandbox.read(file)
    );
}

#[test]
#[ignore = "deep, and slow: `cargo test --test '*' -- --ignored`, as CI does"]
fn a_loop_over_several_models_has_all_their_parameters_and_a_place_in_the_table() {
    let sandbox = suite();
    let specs = concat!(env!("CARGO_MANIFEST_DIR"), "/specs");
    sandbox.write(
        "specs/composed.yaml",
        fs::read(format!("{specs}/composed.yaml")).unwrap(),
    );
    let spec = "version: 1\ninclude: [composed.yaml, pipelines.yaml, targets.yaml]\nmatrix: {models: ['rag*'], targets: [eager-cpu]}\n";
    sandbox.write("specs/loops.yaml", spec);
    let table = "version: 1\nsources: {old: {document: a page}}\nfamilies: {rag: {cpu: {asserted: {source: old, compatible: false}}}}\ntypes: {}\nruns: []\n";
    sandbox.write("table.yaml", table);
    let document = sandbox
        .run(["run", "specs/loops.yaml", "--json"])
        .success()
        .json();
    let found = cases(&document);
    let parameters = |model: &str| {
        found[&format!("{model}:eager-cpu-fp32")]["parameters"]
            .as_u64()
            .unwrap()
    };
    assert_eq!(
        parameters("rag"),
        ["rag-question", "rag-context", "rag-generator"]
            .map(parameters)
            .iter()
            .sum::<u64>()
    );
    sandbox
        .run([
            "capabilities",
            "--table",
            "table.yaml",
            "--update",
            "orch-out/report/matrix.json",
        ])
        .success();
    let table: Value = sandbox
        .run([
            "capabilities",
            "--table",
            "table.yaml",
            "--asserted",
            "--json",
        ])
        .success()
        .json();
    assert_eq!(
        table["table"]["families"]["rag"]["cpu"]["contradicted"],
        "1 of 1 right"
    );
}
