//! Documents that commands print are what their JSON Schemas say.

use serde_json::Value;

use crate::devices::complaints;
use crate::onnx::{RIGHT, expected};
use crate::ready_onnx::sandbox;
use crate::support::Sandbox;

const RUN: [&str; 3] = ["run", "specs/all.yaml", "--json"];

fn schema(sandbox: &Sandbox, of: &str) -> Value {
    sandbox.run(["schema", "--of", of]).success().json()
}

fn wrong(document: &Value, schema: &Value) -> Vec<String> {
    complaints(document, schema, schema, "")
}

#[test]
fn reports_and_comparisons_are_what_their_schemas_say() {
    let sandbox = sandbox(RIGHT);
    let run = schema(&sandbox, "run");
    let right = sandbox.run(RUN).success().json();
    assert_eq!(wrong(&right, &run), Vec::<String>::new());
    sandbox.write("base.json", right.to_string());

    sandbox.write("models/expected/output_0.pb", expected([41.5, 51.5, 60.]));
    let broken = sandbox.run(RUN).code(1).json();
    assert_eq!(wrong(&broken, &run), Vec::<String>::new());

    let compare = schema(&sandbox, "compare");
    let comparison = sandbox
        .run(["compare", "base.json", "--json"])
        .success()
        .json();
    assert_eq!(comparison["changes"][0]["kind"], "broken");
    assert_eq!(wrong(&comparison, &compare), Vec::<String>::new());

    // A schema that takes everything describes nothing.
    let mut other = broken.clone();
    other["cases"][0]["status"] = "GREEN".into();
    other["cases"][0]["metrics"]["median_ms"] = "fast".into();
    other["cases"][1]["surprise"] = 1.into();
    assert_eq!(wrong(&other, &run).len(), 3, "{:?}", wrong(&other, &run));
}
