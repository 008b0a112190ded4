//! `--select` and lists: they narrow what runs, and what they do not know is an error with its place.

use crate::support::Sandbox;

const SPEC: &str = "version: 1
pipelines:
  text: {description: 'ids to logits', tasks: [fill-mask]}
targets:
  none: {runtime: ort, backend: rocm, artefact: onnx, precisions: [fp32, fp16]}
  other: {runtime: ort, backend: cuda, artefact: onnx, precisions: [fp32], tags: [big]}
  apart: {runtime: ort, backend: cpu, artefact: onnx, precisions: [fp32]}
matrix: {targets: [none, other]}
models:
  bert: &bert {class: BertForMaskedLM, family: encoder-only, task: fill-mask, pipeline: text, priority: high,
    inputs: {input_ids: {dtype: int64, shape: [batch, seq], value: 1}}}
  albert: {<<: *bert, class: AlbertForMaskedLM, priority: low}
  file: {onnx: m.onnx, expected: e.npz, pipeline: text, task: fill-mask, inputs: {x: {dtype: int64, shape: [1], value: 1}}}
";

/// How many cases are left of nine.
fn cases(sandbox: &Sandbox, args: &[&str]) -> i64 {
    let document = sandbox
        .run([&["plan", "spec.yaml", "--json"], args].concat())
        .success()
        .json();
    document["cases"].as_i64().unwrap()
}

#[test]
fn an_expression_narrows_whatever_reads_a_spec() {
    let sandbox = Sandbox::new()
        .file("spec.yaml", SPEC)
        .file("m.onnx", "")
        .file("e.npz", "");
    assert_eq!(cases(&sandbox, &[]), 9);
    assert_eq!(cases(&sandbox, &["-m", "bert,file"]), 6);
    assert_eq!(
        cases(&sandbox, &["-m", "*bert", "-t", "none-fp16,other"]),
        4
    );
    assert_eq!(
        cases(&sandbox, &["--select", "type:*bert & !precision:fp16"]),
        4
    );
    assert_eq!(
        cases(
            &sandbox,
            &["--select", "(type:bert | priority:medium) & target:none"]
        ),
        4
    );
    assert_eq!(
        cases(
            &sandbox,
            &[
                "--select",
                "!tag:big",
                "--select",
                "*bert",
                "-m",
                "b*",
                "--priority",
                "high"
            ]
        ),
        2
    );
    let told = sandbox.run([
        "report",
        "spec.yaml",
        "--format",
        "json",
        "--select",
        "bert & precision:fp16",
    ]);
    told.stdout_has("run:bert:none-fp16")
        .stdout_lacks("albert")
        .stdout_lacks("none-fp32");
    let drawn = sandbox
        .run([
            "plan",
            "spec.yaml",
            "--format",
            "dot",
            "--select",
            "albert & backend:cuda",
        ])
        .success();
    drawn
        .stdout_has("run:albert:other-fp32")
        .stdout_lacks("run:bert");
}

#[test]
fn a_list_file_names_one_a_line() {
    let sandbox = Sandbox::new()
        .file("spec.yaml", SPEC)
        .file("m.onnx", "")
        .file("e.npz", "");
    sandbox.write(
        "list",
        "# those of the first wave\n\nbert   # the first\nalb*\n",
    );
    assert_eq!(cases(&sandbox, &["--models-from", "list"]), 6);
    assert_eq!(cases(&sandbox, &["--models-from", "list", "-m", "bert"]), 3);
    sandbox.write(
        "queries",
        "bert & target:other\nalbert & !target:other # slow there\n",
    );
    assert_eq!(cases(&sandbox, &["--select", "@queries"]), 3);
    sandbox.write("queries", "bert\n\nalbert & (target:other\n");
    let wrong = sandbox
        .run(["plan", "spec.yaml", "--select", "@queries"])
        .code(2);
    wrong
        .stderr_has("queries:3: expected `)`\n  albert & (target:other\n                        ^");
    sandbox.write("list", "# nothing yet\n");
    sandbox
        .run(["run", "spec.yaml", "--models-from", "list"])
        .code(2)
        .stderr_has("`list` lists nothing");
    sandbox
        .run(["run", "spec.yaml", "--models-from", "lost"])
        .code(2)
        .stderr_has("failed to read `lost`");
}

#[test]
fn what_selects_nothing_is_an_error_that_names_what_there_is() {
    let sandbox = Sandbox::new()
        .file("spec.yaml", SPEC)
        .file("m.onnx", "")
        .file("e.npz", "");
    let wrong = |query: &str| sandbox.run(["run", "spec.yaml", "--select", query]).code(2);
    wrong("family:encoder_only")
        .stderr_has("no family matches `encoder_only`")
        .stderr_has("did you mean `encoder-only`?");
    wrong("!type:brt")
        .stderr_has("no type matches `brt`")
        .stderr_has("did you mean `bert`?");
    wrong("famly:x")
        .stderr_has("nothing is selected by `famly`; did you mean `family`?\n  famly:x\n  ^");
    wrong("zebra:x").stderr_has("known: `model`, `type`, `family`");
    wrong("bert &").stderr_has("bert &\n        ^");
    wrong("bert & type:albert").stderr_has("no case meets the whole selection");
    // It never adds to the matrix.
    wrong("target:apart").stderr_has("the matrix has no case of it; `-t apart` adds them");
    assert!(!sandbox.path("orch-out").exists());
}
