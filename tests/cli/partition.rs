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
fn mistakes_are_reported_with_a_remedy() {
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

/// Models of which each is in one case at three batch sizes.
fn models(names: &[&str]) -> Sandbox {
    let (before, after) = SPEC.split_once("  other: *bert\n").unwrap();
    let rows: String = names
        .iter()
        .map(|name| format!("  {name}: *bert\n"))
        .collect();
    Sandbox::new().file("spec.yaml", format!("{before}{rows}{after}"))
}

/// The report of a part by model, and its models.
fn part_by_model(sandbox: &Sandbox, part: &str, more: &[&str]) -> (Value, BTreeSet<String>) {
    let partition = format!("model:{part}");
    let run = ["run", "spec.yaml", "--json", "--partition", &partition];
    let document = sandbox.run([&run[..], more].concat()).json();
    let models = document["cases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|case| case["model"].as_str().unwrap().to_owned())
        .collect();
    (document, models)
}

#[test]
fn parts_by_model_keep_a_model_together_and_its_part_over_time() {
    let sandbox = models(&["a", "b", "c", "d", "e"]);
    let mut of = Vec::new();
    for part in ["1/2", "2/2"] {
        let (document, models) = part_by_model(&sandbox, part, &[]);
        assert_eq!(
            document["cases"].as_array().unwrap().len(),
            6 * models.len()
        );
        let scope = document["scope"].as_str().unwrap();
        assert!(scope.starts_with("partition model-") && scope.ends_with(part));
        sandbox.write(
            &format!("{}.json", part.replace('/', "-")),
            document.to_string(),
        );
        of.push(models);
    }
    assert!(of[0].is_disjoint(&of[1]));
    assert_eq!((of[0].len(), of[1].len()), (3, 3), "{of:?}");
    let merge = |files: [&str; 2]| {
        let report = ["report", "--allow-none", "--format", "json", "--merge"];
        sandbox.run([&report[..], &files].concat())
    };
    let mut base = merge(["1-2.json", "2-2.json"]).success().json();
    assert_eq!(base["scope"], Value::Null);
    // One that takes as long as five others has a part for itself.
    for case in base["cases"].as_array_mut().unwrap() {
        let seconds = if case["model"] == "a" { 5.0 } else { 1.0 };
        let steps = case["steps"].as_array().unwrap().clone();
        for step in steps {
            case["took"][step.as_str().unwrap()] = seconds.into();
        }
    }
    sandbox.write("base.json", base.to_string());
    let durations = ["--durations", "base.json"];
    let [one, other] = ["1/2", "2/2"].map(|part| part_by_model(&sandbox, part, &durations));
    let with_a = [&one.1, &other.1]
        .into_iter()
        .find(|models| models.contains("a"))
        .unwrap();
    assert_eq!(with_a.len(), 1, "{with_a:?}");
    // What is there already stays where it is, and a new model goes to the shorter part.
    sandbox.write("one.json", one.0.to_string());
    sandbox.write("other.json", other.0.to_string());
    let mut base = merge(["one.json", "other.json"]).success().json();
    for case in base["cases"].as_array_mut().unwrap() {
        let seconds = if case["model"] == "a" { 5.2 } else { 1.0 };
        let steps = case["steps"].as_array().unwrap().clone();
        for step in steps {
            case["took"][step.as_str().unwrap()] = seconds.into();
        }
    }
    sandbox.write("base.json", base.to_string());
    let spec = sandbox.read("spec.yaml");
    sandbox.write(
        "spec.yaml",
        spec.replace("  a: *bert\n", "  a: *bert\n  new: *bert\n"),
    );
    let again = ["1/2", "2/2"].map(|part| part_by_model(&sandbox, part, &durations));
    for (before, now) in [(&one, &again[0]), (&other, &again[1])] {
        assert!(before.1.is_subset(&now.1), "{:?} {:?}", before.1, now.1);
    }
    // Parts of two divisions may leave a case to nobody.
    sandbox.write("other.json", again[1].0.to_string());
    merge(["1-2.json", "other.json"])
        .code(2)
        .stderr_has("a case may be in no part")
        .stderr_has("`--durations` the same file in each part");
    sandbox
        .run([
            "run",
            "spec.yaml",
            "--partition",
            "hash:1/2",
            "--durations",
            "base.json",
        ])
        .code(2)
        .stderr_has("`--durations` is of a partition by model, and `hash:1/2` is none");
}
