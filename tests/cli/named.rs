//! `explain`, `log` and `output` take a step or a case, by the names that pages and logs have, and the spec as `run` does.

use crate::ready_onnx::sandbox;
use crate::support::Sandbox;

const SPEC: &str = "version: 1
pipelines:
  text: {description: 'ids to logits', tasks: [fill-mask]}
targets:
  none: {runtime: ort, backend: rocm, artefact: onnx, precisions: [fp32, fp16]}
matrix:
  targets: [none]
  exclude: [{model: bert, precision: fp16, reason: it is too large}]
models:
  bert: &bert {class: BertForMaskedLM, family: encoder-only, task: fill-mask, pipeline: text,
    inputs: {input_ids: {dtype: int64, shape: [batch, seq], value: 1}}}
  albert: {<<: *bert, class: AlbertForMaskedLM}
";

#[test]
fn a_case_is_found_by_any_words_that_only_it_has() {
    let sandbox = Sandbox::new().file("spec.yaml", SPEC);
    for name in [
        "bert:none-fp32",
        "bert on none-fp32",
        "bert @ none fp32",
        "bert none",
        " bert ",
        "bert:*",
    ] {
        sandbox
            .run(["explain", name, "spec.yaml"])
            .success()
            .stdout_has("run:bert:none-fp32: ");
    }
    let both = sandbox.run(["explain", "albert:*", "spec.yaml"]).success();
    both.stdout_has("run:albert:none-fp32: ")
        .stdout_has("run:albert:none-fp16: ");
    // A step's own name and a glob of steps come first, and the spec may still be named by its flag.
    sandbox
        .run(["explain", "convert:bert:onnx", "--spec", "spec.yaml"])
        .success()
        .stdout_has("convert:bert:onnx: ");
}

#[test]
fn the_spec_may_come_before_the_step() {
    let sandbox = Sandbox::new().file("spec.yaml", SPEC);
    let in_order = sandbox.run(["explain", "convert:bert:onnx", "spec.yaml"]);
    let spec_first = sandbox.run(["explain", "spec.yaml", "convert:bert:onnx"]);
    assert_eq!(spec_first.success().stdout, in_order.success().stdout);
}

#[test]
fn words_of_several_cases_and_of_none_are_errors_that_say_which_there_are() {
    let sandbox = Sandbox::new().file("spec.yaml", SPEC);
    for command in ["explain", "log", "output"] {
        let ended = sandbox.run([command, "albert", "spec.yaml"]).code(2);
        ended
            .stderr_has("may be any of 2 cases")
            .stderr_has("name one: `albert:none-fp32`, `albert:none-fp16`");
    }
    let slip = sandbox
        .run(["explain", "bert on nnone-fp32", "spec.yaml"])
        .code(2);
    slip.stderr_has("no step or case is called")
        .stderr_has("did you mean `bert:none-fp32`?");
    let excluded = sandbox.run(["log", "bert none fp16", "spec.yaml"]).code(2);
    excluded.stderr_has("`bert:none-fp16` is excluded, so it has no steps: it is too large");
    sandbox
        .run(["output", "*", "spec.yaml"])
        .code(2)
        .stderr_has("only one can be printed or copied at a time");
}

#[test]
fn the_log_of_a_case_is_of_its_run_and_of_what_failed() {
    let sandbox = sandbox([41.5, 51.5, 60.]);
    let document = sandbox
        .run(["run", "--json", "--remeasure", "0"])
        .code(1)
        .json();
    let target = document["cases"][0]["target"].as_str().unwrap().to_owned();
    let name = format!("linear on {target}-fp32");
    let log = sandbox.run(["log", &name]).success();
    log.stdout_has(&format!("run:linear:{target}-fp32: PASS"))
        .stdout_has(&format!("judge:linear:{target}-fp32: NUMERICS"));
    let made = sandbox.run(["output", &name, "--json"]).success().json();
    assert_eq!(made["step"], format!("run:linear:{target}-fp32").as_str());
    let latest = sandbox
        .run(["output", &name, "--json", "--latest"])
        .success()
        .json();
    assert_eq!(made["tree"], latest["tree"]);
    sandbox
        .run(["explain", &name])
        .success()
        .stdout_has("up to date");
}
