//! `-t auto`: by the order of the spec first, by what was measured then; the choice says why.

use crate::ready_onnx;
use crate::support::Sandbox;

#[test]
fn the_order_decides_until_something_was_measured() {
    let sandbox = ready_onnx::sandbox(crate::onnx::RIGHT);
    let spec = sandbox.read("specs/all.yaml");
    sandbox.write(
        "specs/all.yaml",
        spec + "prefer: {other: [openvino], any: [cpu]}\n",
    );
    let run = ["run", "specs/all.yaml", "-t", "auto", "--json"];
    let first = sandbox
        .run(run)
        .success()
        .summary([("cases", 1), ("passed", 1)]);
    let case = first.json()["cases"][0].clone();
    assert_eq!(
        (&case["target"], &case["chosen"]),
        (&"openvino".into(), &"the first by `prefer.other`".into())
    );
    assert_eq!(
        case["facts"]["run:linear:openvino-fp32"]["chosen"],
        "the first by `prefer.other`"
    );
    first.stderr_has("linear on openvino: the first by `prefer.other`");

    // Among some of the targets.
    let among = ["run", "specs/all.yaml", "-t", "auto", "-t", "cpu", "--json"];
    assert_eq!(
        sandbox.run(among).success().json()["cases"][0]["target"],
        "cpu"
    );

    let all = sandbox
        .run(["run", "specs/all.yaml", "--json"])
        .success()
        .json();
    let median = |at: usize| all["cases"][at]["metrics"]["median_ms"].as_f64().unwrap();
    let fastest = if median(0) <= median(1) {
        "cpu"
    } else {
        "openvino"
    };
    // A check takes away nothing that was measured.
    sandbox.run(["run", "specs/all.yaml", "--check"]).success();
    let then = sandbox.run(run).success().summary([("cases", 1)]).json();
    assert_eq!(then["cases"][0]["target"], fastest);
    let why = then["cases"][0]["chosen"].as_str().unwrap();
    assert!(
        why.starts_with("the fastest that was measured on this kind of machine: openvino-fp32 "),
        "{why}"
    );
    sandbox
        .run([
            "report",
            "specs/all.yaml",
            "-t",
            "auto",
            "--format",
            "markdown",
        ])
        .success()
        .stdout_has("## Chosen targets");
    // Another such run looks at the measurements again: it leaves no memo.
    assert_eq!(sandbox.run(run).success().json()["summary"]["path"], "full");
}

#[test]
fn commands_that_know_no_host_say_so() {
    let sandbox = Sandbox::new().file("spec.yaml", crate::support::WITHOUT_DEVICE);
    sandbox
        .run(["cache", "export", "x.tar", "spec.yaml", "-t", "auto"])
        .code(2)
        .stderr_has("name the targets instead");
    let plan = sandbox.run(["plan", "spec.yaml", "-t", "auto"]).success();
    plan.stderr_has("bert on mps: the first in the order of the spec, though none of the devices is here; mps: ");
}
