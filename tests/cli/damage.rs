//! A damaged store is noticed where it is read, told, and mended by running again.

use std::fs;
use std::path::PathBuf;

use crate::support::{Sandbox, flip_byte};

const RUN: [&str; 3] = ["run", "spec.yaml", "--json"];

/// One step that makes something, one that reads it.
const PAIR: &str = "version: 1
commands:
  maker: {argv: [sh, -c, 'echo made > made.txt'], outputs: [made.txt]}
  reader: {argv: [sh, -c, 'cat in/made.txt > read.txt; echo 1 >> read.txt'], inputs: {in: {step: 'command:maker'}}, outputs: [read.txt]}
";

fn pair() -> Sandbox {
    let sandbox = Sandbox::new().file("spec.yaml", PAIR);
    sandbox.run(RUN).success().summary([("executed", 3)]);
    sandbox
}

/// A change of the reader alone, so that the next run needs the maker's tree.
fn change_reader(sandbox: &Sandbox) {
    sandbox.write("spec.yaml", PAIR.replace("echo 1", "echo 2"));
}

fn made(sandbox: &Sandbox) -> PathBuf {
    sandbox.stored_files("trees").into_iter().find(|path| path.ends_with("files/made.txt")).unwrap()
}

fn record_of(sandbox: &Sandbox, step: &str) -> PathBuf {
    let records = sandbox.stored_files("records").into_iter();
    let mut of_step =
        records.filter(|path| fs::read_to_string(path).unwrap().contains(&format!("\"step\":\"{step}\"")));
    of_step.next().unwrap()
}

/// The tree is damaged: told, made again, and then everything is right.
fn mends_a_tree(damage: impl Fn(&Sandbox)) {
    let sandbox = pair();
    damage(&sandbox);
    sandbox.run(["cache", "verify"]).code(1).stdout_has("trees/");
    change_reader(&sandbox);
    let ended = sandbox.run(RUN).success().stderr_has("warning the output of command:maker is damaged (");
    ended.stderr_has("it runs again").summary([("executed", 2), ("hits", 1), ("failed", 0)]);
    sandbox.run(["cache", "verify"]).success();
    assert_eq!(fs::read_to_string(made(&sandbox)).unwrap(), "made\n");
    sandbox.run(RUN).success().summary([("executed", 0), ("hits", 3)]);
}

#[test]
fn a_flipped_byte_in_a_tree() {
    mends_a_tree(|sandbox| flip_byte(&made(sandbox)));
}

#[test]
fn a_file_that_is_gone_from_a_tree() {
    mends_a_tree(|sandbox| fs::remove_file(made(sandbox)).unwrap());
}

#[test]
fn a_file_too_many_in_a_tree() {
    mends_a_tree(|sandbox| fs::write(made(sandbox).with_file_name("more"), "x").unwrap());
}

#[test]
fn a_flipped_byte_in_a_manifest() {
    mends_a_tree(|sandbox| flip_byte(&made(sandbox).parent().unwrap().with_file_name("manifest.json")));
}

#[test]
fn a_tree_that_is_gone() {
    let sandbox = pair();
    fs::remove_dir_all(made(&sandbox).ancestors().nth(2).unwrap()).unwrap();
    sandbox.run(["plan", "spec.yaml"]).success().stdout_has("run  command:maker").stdout_has("its output was lost");
    sandbox.run(RUN).success().summary([("executed", 1), ("hits", 2)]);
}

#[test]
fn a_damaged_record_is_a_miss_with_a_warning() {
    let sandbox = pair();
    for damage in
        [flip_byte as fn(&std::path::Path), |path| fs::write(path, "{").unwrap(), |path| fs::write(path, "").unwrap()]
    {
        damage(&record_of(&sandbox, "command:maker"));
        sandbox.run(["cache", "verify"]).code(1).stdout_has("records/");
        let ended = sandbox.run(RUN).success().stderr_has("is damaged:").stderr_has("the step runs again");
        ended.summary([("executed", 1), ("hits", 2)]);
        sandbox.run(["cache", "verify"]).success();
    }
}

#[test]
fn healing_takes_damage_out() {
    let sandbox = pair();
    flip_byte(&made(&sandbox));
    flip_byte(&record_of(&sandbox, "command:reader"));
    let found = sandbox.run(["cache", "verify", "--json"]).code(1).json();
    assert_eq!(found.as_array().unwrap().len(), 2, "{found}");
    sandbox.run(["cache", "verify", "--heal"]).success().stderr_has("taken out");
    sandbox.run(["cache", "verify"]).success().stdout_has("everything is as it was published");
    sandbox.run(RUN).success().stderr_lacks("warning").summary([("executed", 2), ("hits", 1)]);
    sandbox.run(["cache", "verify"]).success();
}

#[test]
fn a_rerun_over_a_damaged_tree_leaves_a_whole_one() {
    let sandbox = pair();
    flip_byte(&made(&sandbox));
    sandbox.run(["run", "spec.yaml", "--rerun", "command:maker"]).success();
    change_reader(&sandbox);
    sandbox.run(RUN).success();
    sandbox.run(["cache", "verify"]).success();
    assert_eq!(fs::read_to_string(made(&sandbox)).unwrap(), "made\n");
}

#[test]
fn a_damaged_memory_of_file_digests_only_costs_hashing() {
    let sandbox = Sandbox::new().file("in.txt", "x").file(
        "spec.yaml",
        "version: 1\ncommands:\n  c: {argv: [cp, in, out], inputs: {in: {file: in.txt}}, outputs: [out]}\n",
    );
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(60);
    fs::File::options().write(true).open(sandbox.path("in.txt")).unwrap().set_modified(old).unwrap();
    sandbox.run(RUN).success().summary([("executed", 2)]);
    let memory = sandbox.store("files");
    let whole = fs::read(&memory).unwrap();
    for damaged in [&whole[..whole.len() / 2], b"", b"[]", b"\xff"] {
        fs::write(&memory, damaged).unwrap();
        sandbox.run(RUN).success().summary([("executed", 0), ("hits", 2)]);
    }
}

#[test]
fn a_damaged_report_is_made_again() {
    let sandbox = pair();
    let page = sandbox.stored_files("trees").into_iter().find(|path| path.ends_with("index.html")).unwrap();
    flip_byte(&page);
    sandbox.run(RUN).success().stderr_has("the report is made again");
    sandbox.run(["cache", "verify"]).success();
}

#[test]
#[cfg(target_os = "linux")]
fn a_damaged_generated_test_is_not_handed_out() {
    let spec = "version: 1
pipelines:
  text: {description: 'ids to logits', tasks: [fill-mask]}
targets:
  mps: {runtime: torch, backend: mps, artefact: torchscript, precisions: [fp32]}
models:
  bert: {class: BertForMaskedLM, family: encoder-only, task: fill-mask, pipeline: text,
    inputs: {input_ids: {dtype: int64, shape: [batch, seq], value: 1}}}
";
    let sandbox = Sandbox::new().file("spec.yaml", spec);
    sandbox.run(RUN).code(3);
    let name = "orch-out/tests/test_bert_mps-fp32.py";
    let whole = sandbox.read(name);
    let published =
        sandbox.stored_files("trees").into_iter().find(|path| path.ends_with("test_bert_mps-fp32.py")).unwrap();
    flip_byte(&published);
    sandbox.run(RUN).code(3).stderr_has("is damaged:").stderr_has("ok    generate:bert:mps-fp32");
    assert_eq!(sandbox.read(name), whole);
    sandbox.run(["cache", "verify"]).success();
    sandbox.run(RUN).code(3).stderr_lacks("damaged").summary([("executed", 0)]);
}
