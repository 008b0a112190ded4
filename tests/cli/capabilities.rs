//! `orch capabilities`: what is asserted stays, what runs say is taken from their reports, and what did not run is never taken.

use serde_json::{Value, json};

use crate::support::Sandbox;

const SPEC: &str = "version: 1
pipelines: {text: {description: x, tasks: [fill-mask]}}
targets:
  plain: {runtime: ort, backend: cpu, artefact: onnx, precisions: [fp32]}
  chip: {runtime: ort, backend: qnn, artefact: qnn, precisions: [fp16]}
models:
  bert: &bert {class: BertForMaskedLM, family: encoder-only, task: fill-mask, pipeline: text,
    inputs: {input_ids: {dtype: int64, shape: [1, 4], value: 1}}}
  albert: {<<: *bert, class: AlbertForMaskedLM}
";
const TABLE: &str = "version: 1
sources:
  old: {document: a page, date: \"2025-03-24\"}
families:
  encoder-only:
    cpu: {asserted: {source: old, compatible: false, tier: poor, notes: \"Very slow: no\", hints: [threading]}}
    cuda: {asserted: {source: old, compatible: true}}
    qnn: {asserted: {source: old, compatible: false}}
types:
  bert:
    cpu: {asserted: {source: old, compatible: true}}
runs: []
";

/// A report of these cases: model, target, state, and when it ran.
fn report(cases: &[(&str, &str, &str, Option<&str>)]) -> String {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/fixtures/report/doc.json"
    );
    let mut doc: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let good = doc["cases"]
        .as_array()
        .unwrap()
        .iter()
        .find(|case| case["status"] == "PASS")
        .unwrap()
        .clone();
    let case = |&(model, target, status, measured): &(&str, &str, &str, Option<&str>)| {
        let (precision, backend, device) = match target {
            "chip" => ("fp16", "qnn", "qnn-htp-emulator"),
            _ => ("fp32", "cpu", "cpu"),
        };
        let mut case = good.clone();
        case["case"] = format!("{model}:{target}-{precision}").into();
        case["model"] = model.into();
        case["family"] = "encoder-only".into();
        case["task"] = "fill-mask".into();
        case["target"] = target.into();
        case["precision"] = precision.into();
        case["backend"] = backend.into();
        case["actual_device"] = device.into();
        case["status"] = status.into();
        case["measured"] = measured.into();
        let facts = if model == "bert" {
            json!({"route": "legacy"})
        } else {
            json!({"attempts": [{"ok": false}]})
        };
        case["facts"] = json!({format!("convert:{model}:onnx"): facts});
        case
    };
    doc["spec"] = "spec.yaml".into();
    doc["cases"] = cases.iter().map(case).collect();
    doc.to_string()
}

fn sandbox() -> Sandbox {
    Sandbox::new()
        .file("spec.yaml", SPEC)
        .file("table.yaml", TABLE)
}

/// The table after this report.
fn updated(sandbox: &Sandbox, cases: &[(&str, &str, &str, Option<&str>)]) -> String {
    sandbox.write("matrix.json", report(cases));
    sandbox
        .run([
            "capabilities",
            "--table",
            "table.yaml",
            "--update",
            "matrix.json",
        ])
        .success();
    sandbox.read("table.yaml")
}

fn json(sandbox: &Sandbox, args: &[&str]) -> Value {
    sandbox
        .run(
            [
                &[
                    "capabilities",
                    "--table",
                    "table.yaml",
                    "--asserted",
                    "--json",
                ],
                args,
            ]
            .concat(),
        )
        .success()
        .json()
}

#[test]
fn what_others_assert_is_shown_on_request_and_in_another_colour() {
    let sandbox = sandbox();
    updated(&sandbox, &[("bert", "plain", "PASS", FIRST)]);
    let ask = ["capabilities", "--table", "table.yaml", "--color", "always"];
    let plain = sandbox
        .run(ask)
        .success()
        .stdout_has("1 of 1 right, 2026-01-02 on ");
    plain
        .stdout_lacks("Very slow")
        .stdout_lacks("CONTRADICTS")
        .stdout_lacks("cuda  ")
        .stdout_lacks("asserted");
    let all = sandbox.run([&ask[..], &["--asserted"]].concat()).success();
    all.stdout_has("\u{1b}[33masserted: no, poor (old); Very slow: no; hints: threading\u{1b}[0m")
        .stdout_has("CONTRADICTS");
    let json = sandbox
        .run(["capabilities", "--table", "table.yaml", "--json"])
        .success()
        .json();
    assert_eq!(json["table"]["sources"], json!({}));
    // In a folder where nothing ran, nobody else's figures stand.
    let empty = Sandbox::new();
    let told = empty
        .run(["capabilities"])
        .success()
        .stdout_has("nothing was measured in this folder yet: `orch run`");
    told.stdout_lacks(" right, ").stdout_lacks("excellent");
    empty
        .run(["capabilities", "--asserted"])
        .success()
        .stdout_has("asserted: yes, excellent");
}

#[test]
fn what_was_measured_here_comes_first() {
    let sandbox = sandbox();
    let mut doc: Value = serde_json::from_str(&report(&[("bert", "chip", "PASS", FIRST)])).unwrap();
    doc["run"] = json!({"started": "2026-02-03T04:05:06.000Z", "git": null});
    let own = sandbox.run(["devices", "--json"]).success().json()["host"].clone();
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    (
        doc["host"]["name"],
        doc["host"]["cpu"],
        doc["host"]["cores"],
    ) = (name.trim().into(), own["cpu"].clone(), own["cores"].clone());
    sandbox.write("orch-out/report/matrix.json", doc.to_string());
    sandbox.write("specs/capabilities.yaml", TABLE);
    sandbox.write(
        "elsewhere.json",
        report(&[("bert", "plain", "PASS", FIRST)]),
    );
    sandbox
        .run(["capabilities", "--update", "elsewhere.json"])
        .success();
    let before = sandbox.read("specs/capabilities.yaml");
    let told = sandbox
        .run(["capabilities"])
        .success()
        .stderr_has("with orch-out/report/matrix.json, the run of 2026-02-03");
    let lines: Vec<&str> = told.stdout.lines().collect();
    let place = |word: &str| {
        lines
            .iter()
            .position(|line| line.contains(word))
            .unwrap_or_else(|| panic!("{word}: {}", told.stdout))
    };
    assert!(
        place("1 of 1 right, 2026-01-02 here") < place("1 of 1 right, 2026-01-02 on build-07"),
        "{}",
        told.stdout
    );
    // Who looks writes nothing.
    assert_eq!(sandbox.read("specs/capabilities.yaml"), before);
}

const FIRST: Option<&str> = Some("2026-01-02T03:04:05Z");
const LATER: Option<&str> = Some("2026-02-03T04:05:06Z");

#[test]
fn a_run_that_contradicts_an_assertion_marks_it_and_a_later_one_takes_the_mark_away() {
    let sandbox = sandbox();
    let text = updated(
        &sandbox,
        &[
            ("bert", "plain", "PASS", FIRST),
            ("albert", "plain", "NUMERICS", LATER),
        ],
    );
    assert!(
        text.contains("notes: \"Very slow: no\"")
            && text.contains("contradicted: \"1 of 2 right\""),
        "{text}"
    );
    let seen = json(&sandbox, &[]);
    let cpu = &seen["table"]["families"]["encoder-only"]["cpu"];
    assert_eq!(cpu["asserted"]["compatible"], false);
    let measured = json!({"column": "plain-fp32", "right": 1, "asked": 2, "first": "2026-01-02", "last": "2026-02-03",
        "host": cpu["measured"][0]["host"]});
    assert_eq!(cpu["measured"], json!([measured]));
    assert_eq!(
        seen["table"]["families"]["encoder-only"]["cuda"]["measured"],
        Value::Null
    );
    assert_eq!(
        seen["table"]["runs"][0]["models"]["bert"]["exporters"],
        json!({"onnx": "legacy"})
    );
    assert_eq!(
        seen["table"]["runs"][1]["models"]["albert"]["exporters"],
        json!({"onnx": "none"})
    );
    assert_eq!(seen["here"][0]["name"], "cpu");
    let page = sandbox
        .run(["capabilities", "--table", "table.yaml", "--asserted"])
        .success();
    page.stdout_has("CONTRADICTS (1 of 2 right): 1 of 2 right, 2026-01-02 to 2026-02-03 on")
        .stdout_has("hints: threading")
        // Two types of the family were asked for.
        .stdout_has("% (1/2)");

    // Reading a report twice changes no byte, and an older one removes no later result.
    let again = updated(
        &sandbox,
        &[
            ("bert", "plain", "PASS", FIRST),
            ("albert", "plain", "NUMERICS", LATER),
        ],
    );
    assert_eq!(again, text);
    assert_eq!(
        updated(&sandbox, &[("albert", "plain", "PASS", FIRST)]),
        text
    );
    let text = updated(&sandbox, &[("bert", "plain", "CRASH", LATER)]);
    assert!(!text.contains("2026-01-02"), "{text}");
    let seen = json(&sandbox, &[]);
    assert_eq!(
        seen["table"]["families"]["encoder-only"]["cpu"]["contradicted"],
        Value::Null
    );
    // Nothing is right where all should be.
    assert_eq!(
        seen["table"]["types"]["bert"]["cpu"]["contradicted"],
        "0 of 1 right"
    );
}

#[test]
fn a_loop_over_several_models_is_taken_as_one_of_its_family() {
    let sandbox = sandbox();
    let loop_ = "  rag: {compose: rag, components: {question: bert, context: albert, generator: bert}, family: rag, task: fill-mask,
    pipeline: text, inputs: {input_ids: {dtype: int64, shape: [1, 4], value: 1}}}\n";
    sandbox.write("spec.yaml", format!("{SPEC}{loop_}"));
    sandbox.write(
        "table.yaml",
        TABLE.replace(
            "  encoder-only:",
            "  rag: {cpu: {asserted: {source: old, compatible: false}}}\n  encoder-only:",
        ),
    );
    let mut doc: Value = serde_json::from_str(&report(&[("rag", "plain", "PASS", FIRST)])).unwrap();
    doc["cases"][0]["family"] = "rag".into();
    // Each of its models is exported in the way that worked for it.
    doc["cases"][0]["facts"] = json!({"convert:bert:onnx": {"route": "legacy"}, "convert:albert:onnx": {"route": "dynamo"}});
    sandbox.write("matrix.json", doc.to_string());
    sandbox
        .run([
            "capabilities",
            "--table",
            "table.yaml",
            "--update",
            "matrix.json",
        ])
        .success();
    let table = json(&sandbox, &[])["table"].clone();
    assert_eq!(
        table["families"]["rag"]["cpu"]["contradicted"],
        "1 of 1 right"
    );
    assert_eq!(
        table["runs"][0]["models"]["rag"]["exporters"],
        json!({"onnx": "dynamo, legacy"})
    );
    assert_eq!(
        table["families"]["encoder-only"]["cpu"]["measured"],
        Value::Null
    );
}

#[test]
fn what_did_not_run_is_not_taken() {
    let sandbox = sandbox();
    for status in ["SKIP_UNAVAILABLE", "MOCK", "INCOMPLETE", "PASS_FALLBACK"] {
        sandbox.write("matrix.json", report(&[("bert", "plain", status, FIRST)]));
        let refused = sandbox
            .run([
                "capabilities",
                "--table",
                "table.yaml",
                "--update",
                "matrix.json",
            ])
            .code(2);
        refused.stderr_has("nothing in the report ran");
        assert_eq!(sandbox.read("table.yaml"), TABLE, "{status}");
    }
    // It takes the place of nothing, either.
    updated(&sandbox, &[("bert", "plain", "PASS", FIRST)]);
    updated(
        &sandbox,
        &[
            ("bert", "plain", "MOCK", LATER),
            ("albert", "plain", "INDECISIVE", LATER),
        ],
    );
    let measured =
        json(&sandbox, &[])["table"]["families"]["encoder-only"]["cpu"]["measured"].clone();
    assert_eq!(
        (&measured[0]["right"], &measured[0]["asked"]),
        (&json!(1), &json!(2))
    );
}

#[test]
fn an_emulator_is_named_and_a_date_is_never_made_up() {
    let sandbox = sandbox();
    let text = updated(&sandbox, &[("bert", "chip", "PASS", FIRST)]);
    assert!(
        text.contains("contradicted: \"1 of 1 right, on no hardware\""),
        "{text}"
    );
    assert!(
        json(&sandbox, &[])["coverage"]["families"][0]["backends"]["qnn (emulated)"].is_object()
    );
    sandbox.write("matrix.json", report(&[("bert", "plain", "FAIL", None)]));
    let undated = sandbox
        .run([
            "capabilities",
            "--table",
            "table.yaml",
            "--update",
            "matrix.json",
        ])
        .code(2);
    undated.stderr_has("the report has no date");
}

#[test]
fn what_a_looser_tolerance_let_pass_is_reported() {
    let sandbox = sandbox();
    let of = |looser: Value| {
        let mut doc: Value =
            serde_json::from_str(&report(&[("bert", "plain", "PASS", FIRST)])).unwrap();
        doc["cases"][0]["numerics"]["looser"] = looser;
        sandbox.write("matrix.json", doc.to_string());
        sandbox
            .run([
                "capabilities",
                "--table",
                "table.yaml",
                "--update",
                "matrix.json",
            ])
            .success();
        sandbox
            .run(["capabilities", "--table", "table.yaml"])
            .success()
    };
    of(json!(["atol"])).stdout_has("plain-fp32 1 of 1 (1 by a looser tolerance)");
    of(json!([]))
        .stdout_has("plain-fp32 1 of 1\n")
        .stdout_lacks("looser");
}

#[test]
fn a_model_that_the_spec_lost_goes_and_a_stranger_does_not_come() {
    let sandbox = sandbox();
    updated(
        &sandbox,
        &[
            ("bert", "plain", "PASS", FIRST),
            ("albert", "plain", "PASS", FIRST),
        ],
    );
    sandbox.write("spec.yaml", SPEC.split("  albert").next().unwrap());
    sandbox.write(
        "matrix.json",
        report(&[
            ("bert", "plain", "PASS", LATER),
            ("zebra", "plain", "PASS", LATER),
        ]),
    );
    let told = sandbox
        .run([
            "capabilities",
            "--table",
            "table.yaml",
            "--update",
            "matrix.json",
        ])
        .success();
    told.stderr_has("the spec has no such model: zebra")
        .stderr_has("the spec no longer has them: albert");
    let text = sandbox.read("table.yaml");
    assert!(
        !text.contains("albert") && !text.contains("zebra") && text.contains("right: 1, asked: 1"),
        "{text}"
    );
}

#[test]
fn a_part_is_selected_as_elsewhere() {
    let sandbox = sandbox();
    updated(
        &sandbox,
        &[
            ("bert", "plain", "PASS", FIRST),
            ("albert", "plain", "FAIL", FIRST),
            ("bert", "chip", "FAIL", FIRST),
        ],
    );
    let part = json(&sandbox, &["--select", "backend:cpu & type:bert"]);
    let cells = part["table"]["families"]["encoder-only"]
        .as_object()
        .unwrap();
    assert_eq!(cells.keys().collect::<Vec<_>>(), ["cpu"]);
    assert_eq!(
        (
            &cells["cpu"]["measured"][0]["right"],
            &cells["cpu"]["measured"][0]["asked"]
        ),
        (&json!(1), &json!(1))
    );
    // What is asserted and was not measured is there for who asks for the family, and not for who asks for a task.
    assert!(
        json(&sandbox, &["--family", "enc*"])["table"]["families"]["encoder-only"]["cuda"]
            .is_object()
    );
    assert!(
        json(&sandbox, &["--task", "fill-mask"])["table"]["families"]["encoder-only"]["cuda"]
            .is_null()
    );
    let types = sandbox
        .run([
            "capabilities",
            "--table",
            "table.yaml",
            "--types",
            "-t",
            "plain",
        ])
        .success();
    types
        .stdout_has("bert fill-mask: onnx by legacy; PASS plain-fp32; 2026-01-02")
        .stdout_lacks("chip-fp16");
    let wrong = |query: &str| {
        sandbox
            .run(["capabilities", "--table", "table.yaml", "--select", query])
            .code(2)
    };
    wrong("family:encodr-only").stderr_has("did you mean `encoder-only`?");
    wrong("type:albert & target:chip").stderr_has("nothing in the table meets the whole selection");
    // Without a checkout it is the table that orch comes with.
    sandbox
        .run(["capabilities", "--asserted", "--family", "vision"])
        .success()
        .stdout_has("Vision models are highly optimized");
    sandbox.write(
        "table.yaml",
        TABLE.replace("compatible: false, tier", "compatible: perhaps, tier"),
    );
    sandbox
        .run(["capabilities", "--table", "table.yaml"])
        .code(2)
        .stderr_has("table.yaml is no table of capabilities: 6:");
}
