//! `--partition`: the parts are disjoint, together they are everything, and each says which it is.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::support::Sandbox;

/// Twelve cases of a GPU that is not there, and six commands.
const SPEC: &str = "version: 1
pipelines:
  text: {description: 'ids to logits', tasks: [fill-mask]}
targets:
  none: {runtime: ort, backend: rocm, artefact: onnx, precisions: [fp32]}
matrix:
  batch: [1, 2, 3, 4, 5, 6]
models:
  bert: &bert {class: BertForMaskedLM, family: encoder-only, task: fill-mask, pipeline: text, config: {vocab_size: 10},
    inputs: {input_ids: {dtype: int64, shape: [batch, seq], value: 1}}}
  other: *bert
commands:
  c0: {argv: [sh, -c, 'echo 0 > out'], outputs: [out]}
  c1: {argv: [sh, -c, 'echo 1 > out'], outputs: [out]}
  c2: {argv: [sh, -c, 'echo 2 > out'], outputs: [out]}
  c3: {argv: [sh, -c, 'echo 3 > out'], outputs: [out]}
  c4: {argv: [sh, -c, 'echo 4 > out'], outputs: [out]}
  joined: {argv: [sh, -c, 'cat in/out > all'], inputs: {in: {step: 'command:c0'}}, outputs: [all]}
";

const COMMANDS: [&str; 6] = ["c0", "c1", "c2", "c3", "c4", "joined"];

fn case_ids(document: &Value) -> Vec<String> {
    let cases = document["cases"].as_array().unwrap().iter();
    cases
        .map(|case| {
            case["steps"]
                .as_array()
                .unwrap()
                .last()
                .unwrap()
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect()
}

/// Cases and commands of one part, each part in a store of its own, as on machines of their own.
fn part(partition: &str) -> (Vec<String>, Vec<String>) {
    let sandbox = Sandbox::new().file("spec.yaml", SPEC);
    let ended = sandbox.run(["run", "spec.yaml", "--json", "--partition", partition]);
    let document = ended.json();
    assert_eq!(document["scope"], format!("partition {partition}"));
    assert!(
        sandbox
            .read("orch-out/report/matrix.json")
            .contains(&format!("\"scope\": \"partition {partition}\""))
    );
    let ran = COMMANDS
        .into_iter()
        .filter(|name| ended.stderr.contains(&format!("ok    command:{name} ")));
    (case_ids(&document), ran.map(str::to_owned).collect())
}

#[test]
fn the_parts_are_disjoint_and_together_they_are_everything() {
    for method in ["hash", "slice"] {
        let mut cases = Vec::new();
        let mut commands = Vec::new();
        for n in 1..=3 {
            let (mine, ran) = part(&format!("{method}:{n}/3"));
            cases.extend(mine);
            commands.push(ran);
        }
        assert_eq!(cases.len(), 12, "{method}: {cases:?}");
        assert_eq!(
            cases.iter().collect::<BTreeSet<_>>().len(),
            12,
            "{method}: {cases:?}"
        );
        // What a command reads comes along, so `c0` may run in two parts, and nothing else may.
        let all: Vec<_> = commands.concat();
        assert_eq!(
            all.iter().collect::<BTreeSet<_>>().len(),
            6,
            "{method}: {commands:?}"
        );
        let twice = all.iter().filter(|name| *name != "c0").count();
        assert_eq!(twice, 5, "{method}: {commands:?}");
        let joined = commands
            .iter()
            .find(|ran| ran.contains(&"joined".into()))
            .unwrap();
        assert!(joined.contains(&"c0".into()), "{method}: {commands:?}");
    }
}

#[test]
fn every_page_says_that_it_is_a_part() {
    let sandbox = Sandbox::new().file("spec.yaml", SPEC);
    let ended = sandbox.run(["run", "spec.yaml", "--partition", "slice:2/3"]);
    ended.stdout_has("partition slice:2/3: not the whole spec");
    assert!(
        sandbox
            .read("orch-out/report/matrix.md")
            .contains("Not the whole spec: partition slice:2/3.")
    );
    assert!(
        sandbox
            .read("orch-out/report/index.html")
            .contains("Not the whole spec: partition slice:2&#x2f;3")
    );
    assert!(
        sandbox
            .read("orch-out/report/junit.xml")
            .contains("(partition slice:2/3)")
    );
    let plan = sandbox
        .run(["plan", "spec.yaml", "--partition", "slice:2/3", "--json"])
        .success()
        .json();
    assert_eq!(
        (&plan["scope"], &plan["cases"]),
        (&"partition slice:2/3".into(), &4.into())
    );
    // The whole has a report of its own, although it holds the same where there is one part only.
    sandbox.run(["run", "spec.yaml", "--partition", "hash:1/1"]);
    sandbox
        .run(["run", "spec.yaml"])
        .stdout_lacks("not the whole spec");
    assert!(
        !sandbox
            .read("orch-out/report/matrix.md")
            .contains("Not the whole spec")
    );
}

#[test]
fn an_empty_part_is_green_and_says_so() {
    let spec = "version: 1\ncommands:\n  one: {argv: [sh, -c, 'echo x > out'], outputs: [out]}\n";
    let sandbox = Sandbox::new().file("spec.yaml", spec);
    let mut empty = 0;
    for n in 1..=3 {
        let ended = sandbox
            .run([
                "run",
                "spec.yaml",
                "--json",
                "--partition",
                &format!("hash:{n}/3"),
            ])
            .success();
        let says = ended.stderr.contains(&format!(
            "partition hash:{n}/3 holds no case and no command: nothing to run"
        ));
        assert_eq!(
            says,
            !ended.stderr.contains("ok    command:one"),
            "{}",
            ended.stderr
        );
        assert_eq!(ended.json()["scope"], format!("partition hash:{n}/3"));
        empty += usize::from(says);
    }
    assert_eq!(empty, 2);
}

#[test]
fn steps_chosen_by_name_are_parted_by_name() {
    let sandbox = Sandbox::new().file("spec.yaml", SPEC);
    let mut ran = 0;
    for n in 1..=2 {
        let ended = sandbox
            .run([
                "run",
                "spec.yaml",
                "--step",
                "command:c*",
                "--partition",
                &format!("slice:{n}/2"),
            ])
            .success();
        ran += COMMANDS
            .iter()
            .filter(|name| ended.stderr.contains(&format!("ok    command:{name} ")))
            .count();
    }
    assert_eq!(ran, 5);
    // A step that is not in this part is no unknown step.
    for n in 1..=2 {
        let part = format!("slice:{n}/2");
        sandbox
            .run([
                "run",
                "spec.yaml",
                "--step",
                "command:c*",
                "--rerun",
                "command:c1",
                "--partition",
                &part,
            ])
            .success();
    }
}

#[test]
fn mistakes_are_told_with_a_remedy() {
    let sandbox = Sandbox::new().file("spec.yaml", SPEC);
    for (given, why) in [
        ("1/4", "it names no method"),
        ("hash:5/4", "there are only 4 parts"),
        ("hash:0/4", "from 1"),
    ] {
        sandbox
            .run(["run", "spec.yaml", "--partition", given])
            .code(2)
            .stderr_has(why)
            .stderr_has("`hash:1/4`");
    }
}
