//! Completions: commands, options, and the names of the spec that is here or on the line.

use std::process::Command;

use crate::support::Sandbox;

const SPEC: &str = "version: 1
pipelines:
  text: {description: 'ids to logits', tasks: [fill-mask]}
targets:
  none: {runtime: ort, backend: rocm, artefact: onnx, precisions: [fp32]}
  other: {runtime: ort, backend: cuda, artefact: onnx, precisions: [fp32]}
matrix: {targets: [none]}
models:
  bert: &bert {class: BertForMaskedLM, family: encoder-only, task: fill-mask, pipeline: text,
    inputs: {input_ids: {dtype: int64, shape: [1, 4], value: 1}}}
  bart: {<<: *bert, class: BartForCausalLM}
";

/// What a shell is told for the last of these words.
fn completed(sandbox: &Sandbox, words: &[&str]) -> Vec<String> {
    let mut command = sandbox.command(["--", "orch"].iter().chain(words));
    command
        .env("ORCH_COMPLETE", "bash")
        .env("_CLAP_COMPLETE_INDEX", words.len().to_string())
        .env("_CLAP_IFS", "\n");
    let output = command.output().unwrap();
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{output:?}"
    );
    String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect()
}

#[test]
fn names_come_from_the_spec() {
    let sandbox = Sandbox::new().file("specs/all.yaml", SPEC);
    assert_eq!(completed(&sandbox, &["run", "-m", "b"]), ["bert", "bart"]);
    assert_eq!(completed(&sandbox, &["run", "--model", "be"]), ["bert"]);
    assert_eq!(
        completed(&sandbox, &["verify", "-t", ""]),
        ["none", "other", "auto"]
    );
    assert_eq!(
        completed(&sandbox, &["plan", "--case", "ba"]),
        ["bart:none-fp32"]
    );
    assert_eq!(completed(&sandbox, &["log", "bert:"]), ["bert:none-fp32"]);
    assert_eq!(
        completed(&sandbox, &["explain", "convert:b"]),
        ["convert:bart:onnx", "convert:bert:onnx"]
    );
    assert_eq!(
        completed(&sandbox, &["run", "--rerun", "run:be"]),
        ["run:bert:none-fp32"]
    );
    assert_eq!(completed(&sandbox, &["ex"]), ["explain"]);
    assert_eq!(completed(&sandbox, &["run", "--fail-f"]), ["--fail-fast"]);
}

#[test]
fn a_spec_on_the_line_is_taken_and_one_that_is_no_spec_says_nothing() {
    let sandbox = Sandbox::new()
        .file("my.yaml", SPEC)
        .file("wrong.yaml", "models: [");
    assert_eq!(
        completed(&sandbox, &["run", "my.yaml", "-m", "be"]),
        ["bert"]
    );
    assert_eq!(
        completed(&sandbox, &["run", "wrong.yaml", "-m", "be"]),
        [""; 0]
    );
    assert_eq!(completed(&sandbox, &["run", "-m", "be"]), [""; 0]);
}

#[test]
fn a_shell_takes_the_script_and_completes_names_with_colons() {
    let sandbox = Sandbox::new().file("specs/all.yaml", SPEC);
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        sandbox
            .run(["completions", shell])
            .success()
            .stdout_has("ORCH_COMPLETE");
    }
    sandbox.write(
        "orch.bash",
        sandbox.run(["completions", "bash"]).success().stdout,
    );
    // As bash calls it when the tabulator is pressed.
    let line = "source ./orch.bash; COMP_WORDS=(orch log bert:n); COMP_CWORD=2; COMP_TYPE=9; \
        _clap_complete_orch orch bert:n log 2>/dev/null; echo \"${COMPREPLY[*]}\"; echo \"[$COMP_WORDBREAKS]\"";
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_orch"))
        .parent()
        .unwrap();
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap());
    let told = Command::new("bash")
        .args(["-c", line])
        .current_dir(sandbox.path(""))
        .env("PATH", path)
        .output();
    let told = String::from_utf8(told.unwrap().stdout).unwrap();
    assert!(
        told.starts_with("bert:none-fp32\n") && !told[15..].contains(':'),
        "{told}"
    );
}
