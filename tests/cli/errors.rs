//! Mistakes of the user's: exit 2, every one at once, with place and remedy. Nothing ran: exit 3.

use std::path::Path;
use std::process::Command;

use crate::support::Sandbox;

const SPEC: &str = "version: 1
pipelines:
  text: {description: 'ids to logits', tasks: [fill-mask]}
targets:
  cuda: {runtime: ort, backend: cuda, artefact: onnx, precisions: [fp32]}
models:
  bert: {class: BertForMaskedLM, family: encoder-only, task: fill-mask, pipeline: text, config: {vocab_size: 10},
    inputs: {input_ids: {dtype: int64, shape: [batch, seq], value: 1}}}
";

#[test]
fn mistakes_in_a_spec_are_reported_all_at_once_with_their_places() {
    let spec = "version: 1
commands:
  a: {argv: [true], output: [x]}
  b: {argv: ['true'], outputs: [x], timeout_seconds: 0}
";
    let ended = Sandbox::new()
        .file("spec.yaml", spec)
        .run(["run", "spec.yaml"])
        .code(2);
    let ended = ended
        .stderr_has("error: spec.yaml has ")
        .stderr_has("spec.yaml:3:")
        .stderr_has("spec.yaml:4:");
    ended
        .stderr_has("did you mean `outputs`?")
        .stderr_has("`timeout_seconds` must be at least 1")
        .stdout_lacks("x");
}

#[test]
fn a_model_whose_names_no_spec_can_hold_is_an_error_and_writes_nothing() {
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/browser/quoted.onnx");
    let sandbox = Sandbox::new();
    sandbox
        .run(["init", "--model", model.to_str().unwrap()])
        .code(2)
        .stderr_has("nothing was written: with the model's row, specs/all.yaml has 2 errors")
        .stderr_has(r#"`a\"b` cannot be the name of an input"#);
    assert!(!sandbox.path("specs").exists());
}

#[test]
fn a_working_folder_that_was_removed_is_named_as_that() {
    let sandbox = Sandbox::new().file("gone/spec.yaml", SPEC);
    let orch = env!("CARGO_BIN_EXE_orch");
    let output = Command::new("sh")
        .args([
            "-c",
            "rm spec.yaml && rmdir ../gone && exec \"$0\" plan spec.yaml",
            orch,
        ])
        .current_dir(sandbox.path("gone"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("the working folder was removed"), "{said}");
}

#[test]
fn a_spec_that_is_not_there_is_named() {
    Sandbox::new()
        .run(["run", "nowhere.yaml"])
        .code(2)
        .stderr_has("nowhere.yaml");
}

#[test]
fn a_selection_of_nothing_is_a_mistake() {
    let sandbox = Sandbox::new().file("spec.yaml", SPEC);
    sandbox
        .run(["run", "spec.yaml", "-m", "brt"])
        .code(2)
        .stderr_has("no model matches `brt`")
        .stderr_has("`bert`");
    sandbox
        .run(["plan", "spec.yaml", "--case", "bert:cpu-*"])
        .code(2)
        .stderr_has("no case matches `bert:cpu-*`");
    sandbox
        .run(["run", "spec.yaml", "--step", "run:bert:cuda-fp16"])
        .code(2)
        .stderr_has("did you mean `run:bert:cuda-fp32`?");
    sandbox
        .run(["run", "spec.yaml", "--rerun", "zebra*"])
        .code(2)
        .stderr_has("no step is called `zebra*`");
    sandbox
        .run(["run", "spec.yaml", "--rerun", "all"])
        .code(2)
        .stderr_has("hint: `'*'` names them all");
    sandbox
        .run(["run", "spec.yaml", "--case", "bert:cuda"])
        .code(2)
        .stderr_has("did you mean `bert:cuda-fp32`?");
    sandbox
        .run(["run", "spec.yaml", "--env-dir", "/proc/none"])
        .code(2)
        .stderr_has("hint: name another place with --env-dir");
    assert!(!sandbox.path("orch-out").exists());
    Sandbox::new()
        .file("spec.yaml", "version: 1")
        .run(["run", "spec.yaml"])
        .code(2)
        .stderr_has("the spec has no cases");
}

#[test]
fn a_run_in_which_nothing_ran_is_not_green() {
    if std::path::Path::new("/dev/nvidiactl").exists() {
        return; // here something may run
    }
    let sandbox = Sandbox::new().file("spec.yaml", SPEC);
    let ended = sandbox
        .run(["run", "spec.yaml", "-t", "cuda", "--json"])
        .code(3);
    let document = ended.json();
    let case = &document["cases"][0];
    assert_eq!(document["summary"]["unavailable"], 1);
    assert_eq!(document["summary"]["passed"], 0);
    assert_eq!(case["status"], "SKIP_UNAVAILABLE");
    assert!(
        case["reason"]
            .as_str()
            .is_some_and(|reason| !reason.is_empty()),
        "{case}"
    );
    assert_eq!(case["actual_device"], serde_json::Value::Null);
    assert_eq!(case["metrics"], serde_json::Value::Null);
    sandbox
        .run(["run", "spec.yaml"])
        .code(3)
        .stdout_has(case["reason"].as_str().unwrap());
    assert!(
        !sandbox.path("cache/envs").exists(),
        "something was installed for nothing"
    );
}

#[test]
fn an_unknown_step_gets_a_suggestion() {
    let sandbox = Sandbox::new().file("spec.yaml", SPEC);
    let ended = sandbox
        .run(["explain", "convert:bert:onx", "--spec", "spec.yaml"])
        .code(2);
    ended
        .stderr_has("no step or case is called `convert:bert:onx`")
        .stderr_has("did you mean `convert:bert:onnx`?");
}

#[test]
fn bad_usage_is_2_and_help_is_0() {
    let sandbox = Sandbox::new();
    sandbox
        .run(["run", "--jbos", "2"])
        .code(2)
        .stderr_has("--jobs");
    sandbox.run(["run", "--jobs", "0"]).code(2);
    sandbox.run(["frobnicate"]).code(2);
    sandbox.run(["--help"]).success().stdout_has("Exit codes");
    sandbox
        .run(["--version"])
        .success()
        .stdout_has(env!("CARGO_PKG_VERSION"));
}

#[test]
fn commands_in_a_circle_or_of_unknown_steps_are_mistakes() {
    let command = |name: &str, step: &str| {
        format!("  {name}: {{argv: [x], inputs: {{in: {{step: '{step}'}}}}, outputs: [o]}}\n")
    };
    let spec = |first: &str, second: &str| {
        format!(
            "version: 1\ncommands:\n{}{}",
            command("one", first),
            command("two", second)
        )
    };
    let circle = Sandbox::new().file("spec.yaml", spec("command:two", "command:one"));
    circle
        .run(["plan", "spec.yaml"])
        .code(2)
        .stderr_has("command:one")
        .stderr_has("command:two");
    let stray = Sandbox::new().file("spec.yaml", spec("command:tow", "command:one"));
    stray
        .run(["plan", "spec.yaml"])
        .code(2)
        .stderr_has("command:tow")
        .stderr_has("spec.yaml:3:")
        .stderr_has("`command:two`");
}

#[test]
fn whoever_has_no_spec_or_mistypes_gets_a_hint() {
    let sandbox = Sandbox::new();
    sandbox
        .run(["run"])
        .code(2)
        .stderr_has("hint: `orch init` writes a first spec");
    sandbox
        .run(["run", "bert-base-uncased"])
        .code(2)
        .stderr_has("of which `-m bert-base-uncased` selects a model");
    // What names a model and no spec is answered with the command that takes one.
    sandbox
        .run(["run", "google-bert/bert-base-uncased"])
        .code(2)
        .stderr_has("hint: `orch init --model google-bert/bert-base-uncased` writes a spec");
    assert!(
        !sandbox.path("cache").exists() && !sandbox.path("orch-out").exists(),
        "nothing was made"
    );
    sandbox.write("models/own.onnx", [0xff; 8]);
    sandbox.write("models/own/config.json", "{}");
    for model in ["models/own.onnx", "models/own"] {
        sandbox.run(["run", model]).code(2).stderr_has(&format!(
            "hint: that is a model: `orch init --model {model}`"
        ));
    }
    sandbox
        .run(["rnu"])
        .code(2)
        .stderr_has("hint: did you mean `orch run`?");
    sandbox
        .run(["reprot"])
        .code(2)
        .stderr_has("'report'")
        .stderr_lacks("hint: did you mean");
    sandbox.write("specs/all.yaml", "version: 1\n");
    sandbox
        .run(["run", "specs"])
        .code(2)
        .stderr_has("hint: did you mean `specs/all.yaml`?");
    sandbox
        .run(["run", "bert"])
        .code(2)
        .stderr_has("hint: `-m bert` selects a model of `specs/all.yaml`");
    sandbox
        .run(["run", "specs/al.yaml"])
        .code(2)
        .stderr_has("hint: name a spec that is there, such as `specs/all.yaml`");
    sandbox
        .run(["bench", "--strict", "600"])
        .code(2)
        .stderr_has("hint: `600` was read as the spec: give an option its value as `--option=600`");
    sandbox.write("specs/latin.yaml", b"version: 1\n# caf\xe9\n");
    sandbox
        .run(["run", "specs/latin.yaml"])
        .code(2)
        .stderr_has("it is not UTF-8 from line 2 on")
        .stderr_has("hint: a spec is a YAML file: save it as UTF-8");
}

#[test]
fn a_wrong_value_of_a_variable_names_the_variable() {
    Sandbox::new()
        .env("ORCH_RETRIES", "often")
        .run(["run"])
        .code(2)
        .stderr_has("give a whole number")
        .stderr_has("hint: the variable ORCH_RETRIES is set to `often`");
    Sandbox::new()
        .run(["run", "--retries", "often"])
        .code(2)
        .stderr_lacks("ORCH_RETRIES");
}

#[test]
fn hidden_commands_are_not_listed_where_a_command_is_missing() {
    let no_arguments: [&str; 0] = [];
    Sandbox::new()
        .run(no_arguments)
        .code(2)
        .stderr_has("bench")
        .stderr_lacks("worker-properties");
}
