//! Everything that can change an output: each input is changed alone, and exactly the steps that read it run, each
//! naming the line of its key, old and new; with them all that depends on what they make, if it comes out otherwise.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::harness::{Outputs, World};
use crate::table::{assert_all, row, shown};

const TESTS: &str = "generate:bert:cpu-fp32 | generate:bert:openvino-fp16 | generate:bert:openvino-int8 \
    | generate:bert:qnn-fp16 | generate:bert:torch-cpu-fp32 | generate:bert:eager-cpu-fp32 | generate:bert:eager-cpu-fp32:run";

#[test]
fn a_models_own_inputs() {
    assert_all([
        row(
            "the revision of hub weights",
            |w| w.edit(&"1".repeat(40), &"2".repeat(40)),
            &[("generate:hubbed", "param.weights.revision")],
        ),
        row(
            "the id of hub weights",
            |w| w.edit("someone/tuned", "someone/else"),
            &[(
                "generate:hubbed",
                r#"param.weights.id "someone/tuned" => "someone/else""#,
            )],
        ),
        row(
            "a file of path weights",
            |w| w.write("weights/model.safetensors", "weightz"),
            &[("generate:local", "input.weights/model.safetensors")],
        ),
        row(
            "a new file beside path weights",
            |w| w.write("weights/tokenizer.json", "{}"),
            &[("generate:local", "input.weights/tokenizer.json")],
        ),
        row(
            "code that comes with the weights",
            |w| {
                w.edit(
                    "weights: path\n",
                    "weights: path\n    trust_remote_code: true\n",
                )
            },
            &[
                ("generate:local", "param.trust_remote_code false => true"),
                (
                    "generate:local:eager-cpu-fp32 | generate:local:eager-cpu-fp32:run",
                    "param.trust_remote_code false => true",
                ),
            ],
        ),
        row(
            "weights that are left out on purpose",
            |w| {
                w.edit(
                    "weights: path\n",
                    "weights: path\n    unused_weights: [pooler.*]\n",
                )
            },
            &[(
                "generate:local",
                r#"param.weights.unused absent => ["pooler.*"]"#,
            )],
        ),
        row(
            "weights that lack on purpose",
            |w| {
                w.edit(
                    "weights: path\n",
                    "weights: path\n    missing_weights: [pooler.*]\n",
                )
            },
            &[(
                "generate:local",
                r#"param.weights.missing absent => ["pooler.*"]"#,
            )],
        ),
        row(
            "how large the models may be",
            |w| {
                w.edit(
                    "weights: path\n",
                    "weights: path\n    max_parameters: 1000\n",
                )
            },
            &[("generate:local", "param.max_parameters absent => 1000")],
        ),
        row(
            "the class",
            |w| w.edit("class: BertModel", "class: BertLMHeadModel"),
            &[
                (
                    "generate:plain",
                    r#"param.class "BertModel" => "BertLMHeadModel""#,
                ),
                (
                    "generate:plain:cpu-fp32",
                    r#"param.class "BertModel" => "BertLMHeadModel""#,
                ),
            ],
        ),
        row(
            "a value of the config",
            |w| w.edit("hidden_size: 64", "hidden_size: 32"),
            &[("generate:bert", "param.config.hidden_size 64 => 32")],
        ),
        row(
            "a value deep in the config",
            |w| w.edit("size: 4}", "size: 5}"),
            &[(
                "generate:bert",
                r#"param.config.layers [{"kind":"full","size":4}] => [{"kind":"full","size":5}]"#,
            )],
        ),
        row(
            "the seed",
            |w| w.edit("seed: 7", "seed: 8"),
            &[("inputs:bert | generate:bert", "param.seed 7 => 8")],
        ),
        row(
            "the seed of inputs alone",
            |w| w.edit("weights: hub\n", "weights: hub\n    seed: 8\n"),
            &[("inputs:hubbed", "param.seed 0 => 8")],
        ),
        row(
            "a size of the inputs",
            |w| w.edit("seq: 16}", "seq: 8}"),
            &[
                (
                    "inputs:bert",
                    r#"param.inputs.input_ids.shape [{"fixed":1},{"fixed":16}] => [{"fixed":1},{"fixed":8}], param.inputs.attention_mask.shape [{"fixed":1},{"fixed":16}] => [{"fixed":1},{"fixed":8}]"#,
                ),
                (TESTS, "param.inputs"),
                // It shows the size of each case.
                ("report", "what it shows"),
            ],
        ),
        row(
            "the type of an input",
            |w| {
                w.edit(
                    "attention_mask: {dtype: int64",
                    "attention_mask: {dtype: int32",
                )
            },
            &[
                (
                    "inputs:bert",
                    r#"param.inputs.attention_mask.dtype "int64" => "int32""#,
                ),
                (TESTS, "param.inputs"),
            ],
        ),
        // int8 of weights alone is calibrated by no data: its conversion reads the ONNX artefact and nothing else.
        row(
            "how an input is filled",
            |w| w.edit("randint: [5, 128]", "randint: [6, 128]"),
            &[(
                "inputs:bert",
                "param.inputs.input_ids.fill.randint [5,128] => [6,128]",
            )],
        ),
        row(
            "which outputs are compared",
            |w| w.edit("outputs: [logits]", "outputs: [logits, states]"),
            &[
                (
                    "generate:bert",
                    r#"param.outputs ["logits"] => ["logits","states"]"#,
                ),
                (TESTS, r#"param.outputs ["logits"] => ["logits","states"]"#),
            ],
        ),
        row(
            "the task",
            |w| {
                w.edit("tasks: [fill-mask]", "tasks: [fill-mask, other]");
                w.edit(
                    "class: BertModel\n    family: encoder-only\n    task: fill-mask",
                    "class: BertModel\n    family: encoder-only\n    task: other",
                );
            },
            &[
                (
                    "generate:plain | generate:plain:cpu-fp32",
                    r#"param.task "fill-mask" => "other""#,
                ),
                ("report", "what it shows"),
            ],
        ),
        row(
            "the family",
            |w| {
                w.edit(
                    "class: BertModel\n    family: encoder-only",
                    "class: BertModel\n    family: vision",
                )
            },
            &[
                (
                    "generate:plain:cpu-fp32",
                    r#"param.family "encoder-only" => "vision""#,
                ),
                ("report", "what it shows"),
            ],
        ),
    ]);
}

#[test]
fn ready_files() {
    assert_all([
        row(
            "the file",
            |w| w.write("ready/affine.onnx", "affinf"),
            &[("generate:affine", "input.file")],
        ),
        row(
            "a file in which it keeps its weights",
            |w| w.write("ready/affine.onnx.data", "weightz"),
            &[("generate:affine", "input.external/affine.onnx.data")],
        ),
        row(
            "the file of given inputs",
            |w| w.write("ready/inputs.npz", "others"),
            &[("generate:affine", "input.inputs_from")],
        ),
        row(
            "the file of expected outputs",
            |w| w.write("ready/expected.npz", "others"),
            &[("generate:affine", "input.expected")],
        ),
        row(
            "inputs by recipe",
            |w| w.edit("data: [3, 4]", "data: [3, 5]"),
            &[(
                "inputs:scaled",
                "param.inputs.y.fill.data [3.0,4.0] => [3.0,5.0]",
            )],
        ),
    ]);
}

#[test]
fn conversions() {
    let soc = "param.options.soc_model 60 => 69";
    assert_all([
        row(
            "the exporters",
            |w| w.edit("routes: [legacy, dynamo]", "routes: [dynamo, legacy]"),
            &[(
                "convert:bert:onnx",
                r#"param.routes ["legacy","dynamo"] => ["dynamo","legacy"]"#,
            )],
        ),
        row(
            "the precision of an ONNX file",
            |w| {
                w.edit(
                    "target: cpu, precision: fp16",
                    "target: cpu, precision: int8",
                )
            },
            &[
                (
                    "convert:affine:onnx-int8 | generate:affine:cpu-int8 | run:affine:cpu-int8 | judge:affine:cpu-int8",
                    "never ran",
                ),
                ("report", "what it shows"),
            ],
        ),
        row(
            "the opset",
            |w| w.edit("opset: 17", "opset: 18"),
            &[("convert:bert:onnx", "param.opset 17 => 18")],
        ),
        row(
            "the chip",
            |w| w.edit("soc_model: 60", "soc_model: 69"),
            &[(
                "convert:bert:qnn-fp16 | run:bert:qnn-fp16 | generate:bert:qnn-fp16",
                soc,
            )],
        ),
        row(
            "another option of QNN",
            |w| w.edit("soc_model: 60", "soc_model: 60, vtcm_mb: 4"),
            &[(
                "convert:bert:qnn-fp16 | run:bert:qnn-fp16 | generate:bert:qnn-fp16",
                "param.options.vtcm_mb absent => 4",
            )],
        ),
        row(
            "the precision",
            |w| w.edit("precisions: [fp16, int8]", "precisions: [fp16, fp32]"),
            &[
                (
                    "convert:bert:openvino-fp32 | generate:bert:openvino-fp32 | run:bert:openvino-fp32 \
                    | judge:bert:openvino-fp32",
                    "never ran",
                ),
                ("report", "what it shows"),
            ],
        ),
    ]);
}

#[test]
fn commands() {
    let folder = &[("command:packed", "input.tree")];
    assert_all([
        row(
            "its arguments",
            |w| w.edit("-u, words.txt", "-r, words.txt"),
            &[("command:sorted", "param.argv")],
        ),
        row(
            "a file that it reads",
            |w| w.write("data/words.txt", "b\nc\n"),
            &[("command:sorted", "input.words.txt")],
        ),
        row(
            "a file in a folder that it reads",
            |w| w.write("data/tree/sub/two.txt", "3"),
            folder,
        ),
        row(
            "that a file may be executed",
            |w| w.may_execute("data/words.txt"),
            &[("command:sorted", "input.words.txt")],
        ),
        row(
            "that a file in a folder may be",
            |w| w.may_execute("data/tree/one.txt"),
            folder,
        ),
        row(
            "another file in it",
            |w| w.write("data/tree/three.txt", "3"),
            folder,
        ),
        row(
            "a file in it that is gone",
            |w| fs::remove_file(w.root().join("data/tree/one.txt")).unwrap(),
            folder,
        ),
        row(
            "the name of a file in it",
            |w| {
                fs::rename(
                    w.root().join("data/tree/one.txt"),
                    w.root().join("data/tree/1.txt"),
                )
                .unwrap()
            },
            folder,
        ),
        row(
            "the name under which it sees a file",
            |w| w.edit("inputs: {words.txt:", "inputs: {other.txt:"),
            &[("command:sorted", "input.words.txt, input.other.txt")],
        ),
        row(
            "what it makes",
            |w| w.edit("outputs: [all.tar]", "outputs: [all.tar, list]"),
            &[(
                "command:packed",
                r#"param.outputs ["all.tar"] => ["all.tar","list"]"#,
            )],
        ),
        row(
            "which variables it sees",
            |w| {
                w.edit(
                    "outputs: [card.json]",
                    "outputs: [card.json]\n    env: [ORCH_KEYS_DECLARED]",
                )
            },
            &[("command:card", r#"param.env [] => ["ORCH_KEYS_DECLARED"]"#)],
        ),
        row(
            "which step it reads",
            |w| {
                w.edit(
                    "onnx: {step: \"convert:bert:onnx\"}",
                    "onnx: {step: \"convert:plain:onnx\"}",
                )
            },
            &[("command:card", "input.onnx")],
        ),
    ]);
}

/// The data of a quantisation's calibration are in the key of that conversion, and in no other's.
#[test]
fn what_a_quantisation_is_calibrated_on() {
    let reran = |change: &dyn Fn(&World), outputs: Outputs| -> BTreeMap<String, BTreeSet<String>> {
        let world = World::new();
        world.edit(
            "precisions: [fp16, int8]",
            "precisions: [fp16, int8, int8-static]",
        );
        world.settle(Outputs::Equal);
        change(&world);
        world
            .settle(outputs)
            .into_iter()
            .map(|(step, why)| (step, shown(&why)))
            .collect()
    };
    let sets =
        |world: &World| world.edit("    seed: 7\n", "    seed: 7\n    calibration_sets: 4\n");
    let names =
        |found: &BTreeMap<String, BTreeSet<String>>| found.keys().cloned().collect::<Vec<_>>();
    let of = |words: &[&str]| {
        words
            .iter()
            .map(|word| (*word).to_owned())
            .collect::<BTreeSet<_>>()
    };

    let found = reran(&sets, Outputs::Changed);
    let static_ = "bert:openvino-int8-static";
    let all = [
        "calibration:bert".into(),
        format!("convert:{static_}"),
        format!("judge:{static_}"),
        format!("run:{static_}"),
    ];
    assert_eq!(names(&found), all);
    assert_eq!(found["calibration:bert"], of(&["param.sets 16 => 4"]));
    assert_eq!(found[&all[1]], of(&["input.calibration"]));
    // Sets that came out as they were are no reason.
    assert_eq!(names(&reran(&sets, Outputs::Equal)), ["calibration:bert"]);

    let recipe = |world: &World| world.edit("randint: [5, 128]", "randint: [6, 128]");
    let found = reran(&recipe, Outputs::Equal);
    assert_eq!(names(&found), ["calibration:bert", "inputs:bert"]);
    let found = reran(&recipe, Outputs::Changed);
    assert!(found[&all[1]].contains("input.calibration"), "{found:?}");
    assert!(
        !found["convert:bert:openvino-int8"].contains("input.calibration"),
        "{found:?}"
    );

    // Neither how weights are made nor another model's inputs change what it is calibrated on.
    let weights = |world: &World| world.edit("hidden_size: 64", "hidden_size: 32");
    assert!(!reran(&weights, Outputs::Changed).contains_key("calibration:bert"));
    let others = |world: &World| world.edit("randint: [0, 9]", "randint: [1, 9]");
    assert!(
        names(&reran(&others, Outputs::Changed))
            .iter()
            .all(|name| !name.contains("bert"))
    );
}

/// What QNN compiles is quantised by a step of its own: the chip is not in that one's key, and the data are in no other's.
#[test]
fn what_qnn_is_calibrated_on() {
    let world = World::new();
    world.edit(
        "precisions: [fp16], options: {soc",
        "precisions: [fp16, int8-static, a16w8], options: {soc",
    );
    world.settle(Outputs::Equal);
    let steps = |precision: &str| {
        ["convert:bert:qdq-", "convert:bert:qnn-", "run:bert:qnn-"]
            .map(|s| format!("{s}{precision}"))
    };
    let of = |precisions: [&str; 2]| {
        precisions
            .map(steps)
            .concat()
            .into_iter()
            .collect::<BTreeSet<_>>()
    };
    let settled = |outputs| {
        world
            .settle(outputs)
            .into_iter()
            .map(|(step, why)| (step, shown(&why)))
            .collect::<BTreeMap<_, _>>()
    };

    world.edit("    seed: 7\n", "    seed: 7\n    calibration_sets: 4\n");
    let found = settled(Outputs::Changed);
    let expected = &of(["int8-static", "a16w8"]) | &["calibration:bert".to_owned()].into();
    let judges = [
        "judge:bert:qnn-int8-static".to_owned(),
        "judge:bert:qnn-a16w8".to_owned(),
    ]
    .into();
    assert_eq!(
        found.keys().cloned().collect::<BTreeSet<_>>(),
        &expected | &judges
    );
    assert_eq!(
        found["convert:bert:qdq-a16w8"],
        ["input.calibration".to_owned()].into()
    );
    assert_eq!(
        found["convert:bert:qnn-a16w8"],
        ["input.artefact".to_owned()].into()
    );

    world.edit("soc_model: 60", "soc_model: 69");
    let found = settled(Outputs::Equal);
    assert!(
        found.contains_key("convert:bert:qnn-a16w8")
            && !found.contains_key("convert:bert:qdq-a16w8"),
        "{found:?}"
    );
}

/// The change of one model reaches every step of that model and none of another's.
#[test]
fn a_wave_ends_at_the_model() {
    let world = World::new();
    world.edit("hidden_size: 64", "hidden_size: 32");
    let reran: Vec<String> = world
        .settle(Outputs::Changed)
        .into_iter()
        .map(|(step, _)| step)
        .collect();
    let expected = [
        "generate:bert",
        "convert:bert:onnx",
        "run:bert:eager-cpu-fp32",
        "convert:bert:torchscript",
        "run:bert:cpu-fp32",
        "convert:bert:openvino-fp16",
        "convert:bert:openvino-int8",
        "convert:bert:qnn-fp16",
        "command:card",
        "run:bert:openvino-fp16",
        "run:bert:openvino-int8",
        "run:bert:qnn-fp16",
        "run:bert:torch-cpu-fp32",
        "judge:bert:cpu-fp32",
        "judge:bert:eager-cpu-fp32",
        "judge:bert:openvino-fp16",
        "judge:bert:openvino-int8",
        "judge:bert:qnn-fp16",
        "judge:bert:torch-cpu-fp32",
    ];
    assert_eq!(
        reran.iter().map(String::as_str).collect::<BTreeSet<_>>(),
        expected.into()
    );
    assert_eq!(world.rewritten(), ["what it shows"].into());
}

/// Rows with files are made by a kind of step of their own; the files' content is in its key, and their names are not.
#[test]
fn pictures_and_sounds() {
    let world = World::new();
    let row = |name: &str, input: &str| {
        format!(
            "  {name}: {{class: CLIPModel, weights: path, path: ../weights, family: vision, task: fill-mask, pipeline: text, \
            inputs: {{{input}, mask: {{dtype: int64, shape: [1], value: 1}}}}}}\n"
        )
    };
    let of_two = "dtype: float32, shape: [2, 4]";
    let of_one = "dtype: float32, shape: [1, 4]";
    let pictured = format!(
        "pixel_values: {{{of_two}, picture: [a.png, b.png]}}, pixel_mask: {{{of_one}, picture: [b.png]}}"
    );
    let heard = format!("input_values: {{{of_one}, sound: [c.wav]}}");
    world.edit(
        "models:\n",
        &format!(
            "models:\n{}{}",
            row("pictured", &pictured),
            row("heard", &heard)
        ),
    );
    let included = "include:\n    - {model: pictured, target: eager-cpu}\n    - {model: heard, target: eager-cpu}\n";
    world.edit("include:\n", included);
    for name in ["a.png", "b.png", "c.wav"] {
        world.write(&format!("specs/{name}"), name);
    }
    let plan = world.plan();
    let step = |name: &str| plan.steps.iter().find(|step| step.name == name).unwrap();
    assert_eq!(step("generate:pictured").kind.name(), "materialise-own");
    let files: Vec<_> = step("generate:pictured")
        .inputs
        .iter()
        .map(|(name, _)| &**name)
        .collect();
    assert_eq!(
        files,
        [
            "inputs",
            "weights/config.json",
            "weights/model.safetensors",
            "picture/0",
            "picture/1"
        ],
        "one that two inputs take is there once"
    );
    let added: BTreeSet<String> = world
        .settle(Outputs::Equal)
        .into_iter()
        .map(|(step, _)| step)
        .collect();
    assert!(
        added.contains("generate:heard") && !added.contains("generate:local"),
        "{added:?}"
    );

    let changed = |what: &str, change: &dyn Fn(), expected: &[&str]| {
        change();
        let reran: Vec<String> = world
            .settle(Outputs::Equal)
            .iter()
            .map(|(step, why)| format!("{step}: {why}"))
            .collect();
        assert_eq!(reran.len(), expected.len(), "{what}: {reran:?}");
        for (reran, expected) in reran.iter().zip(expected) {
            assert!(reran.starts_with(expected), "{what}: {reran}");
        }
    };
    changed("nothing", &|| {}, &[]);
    changed(
        "a sound",
        &|| world.write("specs/c.wav", "d"),
        &["generate:heard: input.sound/0 changed"],
    );
    changed(
        "a picture",
        &|| world.write("specs/b.png", "d"),
        &["generate:pictured: input.picture/1 changed"],
    );
    let renamed = || {
        fs::rename(
            world.root().join("specs/a.png"),
            world.root().join("specs/A.jpeg"),
        )
        .unwrap();
        world.edit("a.png", "A.jpeg");
    };
    changed("a name", &renamed, &[]);
    changed(
        "the order",
        &|| world.edit("[A.jpeg, b.png]", "[b.png, A.jpeg]"),
        &["generate:pictured: input.picture/0"],
    );
}
