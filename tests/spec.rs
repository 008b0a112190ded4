//! Specs as users write them: the suites of this repository load, mistakes are told as in `fixtures/spec/*.txt`, and
//! the published schema and field reference say what is read. `BLESS=1 cargo test --test spec` rewrites those files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use orch::spec::schema;
use orch::spec::{
    CommandInput, Dim, Fill, Measure, Precision, Priority, ReadyFormat, Route, Source, Spec,
    Timing, Tolerance, Weights, model_types,
};
use pretty_assertions::assert_eq;

/// Compares a file with what it should hold, or writes it.
fn current(path: &Path, text: &str) {
    if std::env::var_os("BLESS").is_some() {
        fs::write(path, text).unwrap();
    }
    let stored = fs::read_to_string(path).unwrap_or_default();
    assert_eq!(
        stored,
        text,
        "{} is stale: BLESS=1 cargo test --test spec",
        path.display()
    );
}

fn yaml_files(folder: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.retain(|path| {
        path.extension()
            .is_some_and(|extension| extension == "yaml")
    });
    files.sort();
    assert!(!files.is_empty(), "{folder} holds no spec");
    files
}

fn load(text: &str) -> Spec {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("spec.yaml");
    fs::write(&path, text).unwrap();
    Spec::load(&path).unwrap_or_else(|errors| panic!("{errors}"))
}

#[test]
fn the_suites_of_this_repository_load() {
    let spec = Spec::load(Path::new("specs/all.yaml")).unwrap_or_else(|errors| panic!("{errors}"));
    assert!(spec.models.contains_key("bert"));
    assert!(spec.targets.contains_key("qnn-android"));
    assert_eq!(spec.files.len(), 4);
    assert_eq!(
        spec.models["bert"].loc.file.as_path(),
        Path::new("specs/models.yaml")
    );
}

/// As the mission has them, each by the first target of its kind.
#[test]
fn each_family_prefers_what_it_runs_best_on() {
    let spec = Spec::load(Path::new("specs/all.yaml")).unwrap_or_else(|errors| panic!("{errors}"));
    let order = |family: &str| {
        let mut backends: Vec<&str> = Vec::new();
        for target in &spec.prefer[family] {
            let backend = spec.targets[target].backend.name;
            if !backends.contains(&backend) {
                backends.push(backend);
            }
        }
        backends.join(" > ")
    };
    for family in [
        "encoder-only",
        "decoder-only",
        "encoder-decoder",
        "diffusion",
        "rag",
    ] {
        assert_eq!(order(family), "cuda > rocm > mps > cpu", "{family}");
    }
    assert_eq!(order("vision"), "cuda > rocm > mps > openvino > qnn > cpu");
    assert_eq!(order("audio"), "cuda > rocm > openvino > qnn > mps > cpu");
    for family in ["mixture-of-experts", "state-space"] {
        assert_eq!(order(family), "cuda > rocm > cpu", "{family}");
    }
    assert!(
        spec.models.values().all(|model| spec.prefer.contains_key(&model.family) || spec.prefer.contains_key("any"))
    );
}

#[test]
fn every_suite_names_its_schema() {
    // The table of capabilities is no spec.
    for path in yaml_files("specs")
        .into_iter()
        .filter(|path| !path.ends_with("capabilities.yaml"))
    {
        let text = fs::read_to_string(&path).unwrap();
        assert!(
            text.starts_with("# yaml-language-server: $schema=schema.json\n"),
            "{}",
            path.display()
        );
    }
}

#[test]
fn mistakes_are_reported_with_place_and_remedy() {
    for path in yaml_files("tests/fixtures/spec") {
        let errors = match Spec::load(&path) {
            Ok(_) => panic!("{} was taken", path.display()),
            // All of them: told together, the first are printed and the others counted.
            Err(errors) => errors
                .0
                .iter()
                .map(|error| format!("{error}\n"))
                .collect::<Vec<_>>()
                .join("\n"),
        };
        current(&path.with_extension("txt"), &errors);
    }
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let errors = Spec::load(Path::new("no/such.yaml")).unwrap_err();
    assert!(
        errors
            .to_string()
            .starts_with("failed to read no/such.yaml: "),
        "{errors}"
    );
}

#[test]
fn the_schema_is_current() {
    current(Path::new("specs/schema.json"), &schema::text());
}

#[test]
fn the_field_reference_is_current() {
    let path = Path::new("docs/specs/fields.md");
    let text = fs::read_to_string(path).unwrap();
    let mark = "<!-- Made from src/spec/raw.rs; everything below is overwritten. -->\n";
    let (written, _) = text
        .split_once(mark)
        .expect("docs/specs/fields.md lacks the mark of its generated part");
    current(path, &format!("{written}{mark}\n{}", schema::reference()));
}

/// The examples of the guide are specs that load.
#[test]
fn the_examples_of_the_guide_load() {
    let mut text = fs::read_to_string("docs/specs.md").unwrap();
    for entry in fs::read_dir("docs/specs").unwrap() {
        text.push_str(&fs::read_to_string(entry.unwrap().path()).unwrap());
    }
    let examples: Vec<&str> = text
        .split("```yaml\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap_or_default())
        .collect();
    assert!(examples.len() >= 3);
    for example in examples {
        let spec = load(example);
        assert!(
            !spec.models.is_empty() || !spec.commands.is_empty(),
            "an example without models:\n{example}"
        );
    }
}

const USUAL: &str = "
version: 1
pipelines: {text: {description: x, tasks: [fill-mask]}}
targets: {cpu: {runtime: ort, backend: cpu, artefact: onnx, precisions: [fp32]}}
";

#[test]
fn what_is_not_given_has_its_default() {
    let spec = load(&format!(
        "{USUAL}
models:
  bert: {{class: BertModel, family: encoder-only, task: fill-mask, pipeline: text, inputs: {{x: {{dtype: int64, shape: [batch, seq, 3], value: 1}}}}}}"
    ));
    let bert = &spec.models["bert"];
    assert_eq!(bert.priority, Priority::Medium);
    assert_eq!((bert.seed, bert.export.opset), (0, 17));
    assert_eq!(
        bert.export.routes,
        [Route::Legacy, Route::Dynamo, Route::Transformers]
    );
    assert_eq!(
        bert.dims
            .iter()
            .map(|(name, size)| (name.as_str(), *size))
            .collect::<Vec<_>>(),
        [("batch", 1), ("seq", 16)]
    );
    assert_eq!(
        bert.inputs["x"].shape,
        [
            Dim::Named("batch".to_owned()),
            Dim::Named("seq".to_owned()),
            Dim::Fixed(3)
        ]
    );
    let Source::Transformers {
        weights,
        config,
        hub,
        trust_remote_code,
        ..
    } = &bert.source
    else {
        panic!()
    };
    assert_eq!(
        (weights, config, hub, trust_remote_code),
        (&Weights::Seeded, &serde_json::json!({}), &None, &false)
    );
    let timing = Timing::Hardware;
    assert_eq!(
        spec.measure,
        Measure {
            timing,
            warmup: 3,
            samples: 30,
            rounds: 1,
            remeasure_seconds: 10,
            max_seconds: 10.0,
            timeout_seconds: 600
        }
    );
    assert_eq!(
        spec.tolerances[&Precision::Fp32],
        Tolerance::usual(Precision::Fp32)
    );
    assert_eq!(
        (
            spec.targets["cpu"].device.as_str(),
            spec.targets["cpu"].measure
        ),
        ("cpu", None)
    );
    assert_eq!(spec.pipelines["text"].template, "text");
}

#[test]
fn memory_is_a_size() {
    let spec = load(&format!(
        "{USUAL}
models:
  bert: {{class: BertModel, memory: 12 GiB, family: encoder-only, task: fill-mask, pipeline: text, inputs: {{x: {{dtype: int64, shape: [1], value: 1}}}}}}
commands:
  a: {{argv: [x], outputs: [o], memory: 500M}}
  b: {{argv: [x], outputs: [o], memory: 2097152}}
  c: {{argv: [x], outputs: [o]}}"
    ));
    let bytes = |name: &str| spec.commands[name].memory.map(|bytes| bytes.get());
    assert_eq!(
        spec.models["bert"].memory.map(|bytes| bytes.get()),
        Some(12 << 30)
    );
    assert_eq!(
        [bytes("a"), bytes("b"), bytes("c")],
        [Some(500 << 20), Some(2 << 20), None]
    );
}

#[test]
fn anchors_and_merge_keys_work() {
    let spec = load(&format!(
        "{USUAL}
x-inputs: &inputs {{x: {{dtype: int64, shape: [1], value: 1}}}}
x-usual: &usual {{family: encoder-only, task: fill-mask, pipeline: text, inputs: *inputs, tags: [a]}}
x-small: &small {{config: {{hidden_size: 8}}, tags: [b]}}
models:
  one: {{<<: *usual, class: OPTModel}}
  two: {{<<: [*small, *usual], class: T5Model, family: audio}}"
    ));
    let two = &spec.models["two"];
    assert_eq!(
        (two.family.as_str(), &two.tags, two.inputs.len()),
        ("audio", &vec!["b".to_owned()], 1)
    );
    let Source::Transformers { class, config, .. } = &two.source else {
        panic!()
    };
    assert_eq!(
        (class.as_str(), config),
        ("T5Model", &serde_json::json!({"hidden_size": 8}))
    );
    assert_eq!(spec.models["one"].tags, ["a"]);
}

#[test]
fn only_true_and_false_are_booleans() {
    let spec = load(&format!(
        "{USUAL}
models:
  no:
    {{class: BertModel, family: audio, task: fill-mask, pipeline: text, tags: [y, off, yes, on],
    config: {{a: no, b: true, c: 1, d: 1.0e-5, e: null, f: [1, [2]], 0: label, g: -3}},
    inputs: {{x: {{dtype: bool, shape: [2], data: [true, false]}}}}}}"
    ));
    let model = &spec.models["no"];
    assert_eq!(model.tags, ["y", "off", "yes", "on"]);
    let Source::Transformers { config, .. } = &model.source else {
        panic!()
    };
    let expected = serde_json::json!({"a": "no", "b": true, "c": 1, "d": 1e-5, "e": null, "f": [1, [2]], "0": "label", "g": -3});
    assert_eq!(config, &expected);
    assert_eq!(model.inputs["x"].fill, Fill::Data(vec![1.0, 0.0]));
}

/// A spec that includes `deep/more.yaml`, which is not there yet; with its folder.
fn with_a_deep_include() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(folder.path()).unwrap();
    fs::create_dir(root.join("deep")).unwrap();
    fs::write(
        root.join("spec.yaml"),
        format!("{USUAL}include: [deep/more.yaml]\n"),
    )
    .unwrap();
    (folder, root)
}

#[test]
fn paths_start_from_the_file_that_names_them() {
    let (_folder, root) = with_a_deep_include();
    let more = "
models:
  ready: {onnx: ./m.onnx, external: [m.onnx.data], inputs_from: data/in, expected: /abs/out.npz, family: encoder-only, task: fill-mask, pipeline: text}
  local: {class: BertModel, weights: path, path: w, family: encoder-only, task: fill-mask, pipeline: text, inputs: {x: {dtype: int64, shape: [1], value: 1}}}
commands:
  copy: {argv: [cp, a, b], inputs: {a: {file: a.txt}, tree: {step: 'convert:ready:onnx'}}, outputs: [b]}
";
    fs::write(root.join("deep/more.yaml"), more).unwrap();
    let spec = Spec::load(&root.join("spec.yaml")).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(spec.root, root);
    let deep = root.join("deep");
    let Source::Ready {
        format,
        path,
        external,
        inputs_from,
        expected,
    } = &spec.models["ready"].source
    else {
        panic!()
    };
    assert_eq!((*format, path), (ReadyFormat::Onnx, &deep.join("m.onnx")));
    assert_eq!(external, &["m.onnx.data"]);
    assert_eq!(
        (inputs_from, expected),
        (
            &Some(deep.join("data/in")),
            &Some(PathBuf::from("/abs/out.npz"))
        )
    );
    let Source::Transformers { weights, .. } = &spec.models["local"].source else {
        panic!()
    };
    assert_eq!(weights, &Weights::Path(deep.join("w")));
    let file = CommandInput::File(deep.join("a.txt").into());
    let step = CommandInput::Step("convert:ready:onnx".into());
    assert_eq!(
        *spec.commands["copy"].inputs,
        [("a".into(), file), ("tree".into(), step)]
    );
}

/// Whoever watches a spec waits for what it lacks.
#[test]
fn pictures_start_from_the_file_that_names_them_and_are_looked_for() {
    let (_folder, root) = with_a_deep_include();
    let more = "
models:
  local: {class: ViTModel, weights: path, path: w, family: vision, task: fill-mask, pipeline: text,
    inputs: {pixel_values: {dtype: float32, shape: [2, 3, 8, 8], picture: [a.png, ../b.JPEG]}}}
";
    fs::write(root.join("deep/more.yaml"), more).unwrap();
    fs::write(root.join("deep/a.png"), "").unwrap();
    let mut asked = Vec::new();
    let errors = Spec::load_noting(&root.join("spec.yaml"), &mut asked).unwrap_err();
    assert_eq!(errors.0.len(), 1, "{errors}");
    assert!(
        errors
            .to_string()
            .contains("deep/more.yaml:4:83: there is no file `../b.JPEG`"),
        "{errors}"
    );
    assert!(
        asked.iter().any(|path| path.ends_with("b.JPEG")),
        "{asked:?}"
    );
    fs::write(root.join("b.JPEG"), "").unwrap();
    let spec = Spec::load(&root.join("spec.yaml")).unwrap_or_else(|errors| panic!("{errors}"));
    let (kind, files) = spec.models["local"].inputs["pixel_values"]
        .fill
        .files()
        .unwrap();
    assert_eq!((kind, &files[0]), ("picture", &root.join("deep/a.png")));
    assert_eq!(fs::canonicalize(&files[1]).unwrap(), root.join("b.JPEG"));
}

#[test]
fn what_a_class_may_take_and_leave_out() {
    let spec = load(
        "
version: 1
max_parameters: 7
pipelines: {text: {description: x, tasks: [fill-mask]}}
x-usual: &usual {family: encoder-only, task: fill-mask, pipeline: text, inputs: {x: {dtype: int64, shape: [1], value: 1}}}
models:
  general: {<<: *usual, class: BertModel}
  own: {<<: *usual, class: AutoModel, weights: path, path: w, max_parameters: 9_000_000_000, unused_weights: ['cls.*']}
",
    );
    let limits = |name: &str| match &spec.models[name].source {
        Source::Transformers {
            max_parameters,
            unused_weights,
            ..
        } => (*max_parameters, unused_weights.join(" ")),
        Source::Composed { .. } | Source::Ready { .. } => panic!(),
    };
    assert_eq!(limits("general"), (Some(7), String::new()));
    assert_eq!(limits("own"), (Some(9_000_000_000), "cls.*".to_owned()));
}

/// Every row of the zoo can be planned, and is of a model of its own.
#[test]
fn the_zoo_is_a_spec_of_hundreds_of_models() {
    let spec = Spec::load(Path::new("specs/zoo.yaml")).unwrap_or_else(|errors| panic!("{errors}"));
    assert!(spec.models.len() >= 850, "{} models", spec.models.len());
    let classes: BTreeSet<_> = spec
        .models
        .values()
        .map(|model| format!("{:?}", model.source))
        .collect();
    assert_eq!(
        classes.len(),
        spec.models.len(),
        "two rows are of one model"
    );
    for family in [
        "audio",
        "decoder-only",
        "encoder-decoder",
        "encoder-only",
        "mixture-of-experts",
        "multimodal",
        "state-space",
        "vision",
        "vision-text",
    ] {
        let rows = spec
            .models
            .values()
            .filter(|model| model.family == family)
            .count();
        assert!(rows >= 20, "{rows} of {family}");
    }
}

/// What docs/zoo.md says of them.
#[test]
fn the_zoo_has_the_types_heads_families_and_ids_of_the_hub_that_are_claimed() {
    let spec = Spec::load(Path::new("specs/zoo.yaml")).unwrap_or_else(|errors| panic!("{errors}"));
    // A type is what an auto class of transformers knows a class for; each further class of it is a head.
    let families: BTreeMap<&str, Option<&str>> = model_types().collect();
    let mut rows: BTreeMap<&str, usize> = BTreeMap::new();
    for model in spec.models.values() {
        let Some((model_type, family)) = model
            .model_type()
            .and_then(|name| families.get_key_value(name))
        else {
            continue;
        };
        assert!(
            family.is_none_or(|family| family == model.family),
            "{} is of {family:?}",
            model.name
        );
        *rows.entry(*model_type).or_default() += 1;
    }
    let heads = rows.values().sum::<usize>() - rows.len();
    assert!(
        rows.len() >= 430 && heads >= 320,
        "{} types and {heads} further heads",
        rows.len()
    );
    let unnamed = spec
        .models
        .values()
        .filter(|model| matches!(model.source, Source::Transformers { hub: None, .. }));
    let unnamed: BTreeSet<&str> = unnamed.map(|model| model.name.as_str()).collect();
    let of_any_two = [
        "encoder-decoder",
        "speech-encoder-decoder",
        "vision-encoder-decoder",
        "vision-text-dual-encoder",
    ];
    let of_timm = ["timm_wrapper", "timm_wrapper-image-classification"];
    assert_eq!(
        unnamed,
        BTreeSet::from_iter(of_any_two.into_iter().chain(of_timm))
    );
}

/// The code of a pipeline, what the guide says of it and what a spec may ask of it are of the same tasks.
#[test]
fn tasks_are_those_of_the_guide_and_of_the_templates() {
    let spec = Spec::load(Path::new("specs/all.yaml")).unwrap_or_else(|errors| panic!("{errors}"));
    let guide = fs::read_to_string("docs/pipelines.md").unwrap();
    let words = |text: &str, mark: char| -> BTreeSet<String> {
        let odd = text.split(mark).skip(1).step_by(2);
        odd.filter(|word| {
            !word.is_empty()
                && word
                    .chars()
                    .all(|c| c.is_ascii_lowercase() || "2-".contains(c))
        })
        .map(str::to_owned)
        .collect()
    };
    for (name, pipeline) in &spec.pipelines {
        let declared: BTreeSet<String> = pipeline.tasks.iter().cloned().collect();
        let rows = guide
            .lines()
            .filter_map(|line| line.strip_prefix(&format!("| {name} | ")));
        let told: BTreeSet<String> = rows
            .flat_map(|row| words(row.split('|').next().unwrap(), '`'))
            .collect();
        assert_eq!(
            declared, told,
            "docs/pipelines.md and specs/pipelines.yaml differ in `{name}`"
        );
        let code =
            fs::read_to_string(format!("templates/pipelines/{}.py.j2", pipeline.template)).unwrap();
        let asked: BTreeSet<String> = code
            .lines()
            .filter(|line| line.contains(" task ==") || line.contains(" task in "))
            .flat_map(|line| words(&line[line.find(" task ").unwrap()..], '"'))
            .filter(|word| word != "tensors")
            .collect();
        assert_eq!(
            declared, asked,
            "{} and specs/pipelines.yaml differ in `{name}`",
            pipeline.template
        );
    }
}

#[test]
fn a_target_changes_only_what_it_names() {
    let spec = load(
        "
version: 1
measure: {samples: 7}
tolerances: {fp16: {rtol: 0.5}}
pipelines: {}
targets:
  qnn:
    {runtime: ort, backend: qnn, device: htp, artefact: qnn, precisions: [fp16], options: {soc_model: 60, nested: {a: [1]}},
    measure: {warmup: 0}, tolerances: {fp16: {atol: 0.25}}}
",
    );
    let qnn = &spec.targets["qnn"];
    let timing = Timing::All;
    assert_eq!(
        qnn.measure,
        Some(Measure {
            timing,
            warmup: 0,
            samples: 7,
            rounds: 1,
            remeasure_seconds: 10,
            max_seconds: 10.0,
            timeout_seconds: 600
        })
    );
    let tolerance = qnn.tolerances[&Precision::Fp16];
    assert_eq!(
        (tolerance.atol, tolerance.rtol, tolerance.cosine),
        (0.25, 0.5, 0.999)
    );
    assert_eq!(qnn.options["soc_model"], 60);
    assert_eq!(qnn.options["nested"], serde_json::json!({"a": [1]}));
}

#[test]
fn the_outputs_that_are_tokens_are_those_of_the_task() {
    let spec = load(
        "
version: 1
tolerances: {fp32: {tokens: 0.98}}
pipelines:
  sound: {description: x, tasks: [coding, hearing], tokens: {coding: [codes, lengths]}}
x-usual: &usual {family: encoder-only, pipeline: sound, class: EncodecModel, inputs: {x: {dtype: float32, shape: [1], value: 1}}}
models:
  coder: {<<: *usual, task: coding}
  hearer: {<<: *usual, task: hearing}
",
    );
    let of = |model: &str| spec.tokens(&spec.models[model], "sound");
    assert_eq!(of("coder"), ["codes", "lengths"]);
    assert!(of("hearer").is_empty());
    let tolerance = spec.tolerances[&Precision::Fp32];
    let usual = Tolerance::usual(Precision::Fp32);
    assert_eq!(tolerance.looser_than(&usual), ["tokens"]);
    assert_eq!(
        tolerance,
        Tolerance {
            tokens: 0.98,
            ..usual
        }
    );
}

/// What users write and what records and keys say is the same word.
#[test]
fn words_are_those_of_serde() {
    for (word, precision) in Precision::WORDS {
        assert_eq!(serde_json::to_value(precision).unwrap(), *word);
    }
    for (word, dtype) in orch::spec::Element::WORDS {
        assert_eq!(serde_json::to_value(dtype).unwrap(), *word);
    }
    for (word, route) in Route::WORDS {
        assert_eq!(serde_json::to_value(route).unwrap(), *word);
    }
    for (word, priority) in Priority::WORDS {
        assert_eq!(serde_json::to_value(priority).unwrap(), *word);
    }
}

/// Such a spec is read in parts, on all cores.
#[test]
fn a_large_spec_is_read_like_a_small_one() {
    let long = "long ".repeat(200);
    let rows = |change: &dyn Fn(usize) -> Option<String>| {
        let row = |number| {
            format!(
                "  c{number}: {{argv: [cp, {long}], inputs: {{in: {{file: ä/{number}}}}}, outputs: [out]}}\n"
            )
        };
        let rows: String = (0..1_400)
            .map(|number| change(number).unwrap_or_else(|| row(number)))
            .collect();
        format!("version: 1\ncommands:\n{rows}models: {{}}\n")
    };
    let spec = load(&rows(&|_| None));
    assert_eq!(spec.commands.len(), 1_400);
    let numbers = spec
        .commands
        .values()
        .map(|command| command.name[1..].parse::<u32>().unwrap());
    assert!(numbers.eq(0..1_400), "the order of rows is lost");
    assert_eq!(
        (
            spec.commands["c1399"].loc.line,
            spec.commands["c1399"].loc.column
        ),
        (1_402, 3)
    );

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("spec.yaml");
    let mistakes = |text: String| {
        fs::write(&path, text).unwrap();
        let errors = Spec::load(&path).unwrap_err();
        errors
            .0
            .iter()
            .map(|error| (error.loc.as_ref().unwrap().line, error.message.clone()))
            .collect::<Vec<_>>()
    };
    let wrong = mistakes(rows(&|number| match number {
        7 | 1_200 => Some(format!("  c{number}: {{argv: [ä], outputs: [3]}}\n")),
        _ => None,
    }));
    let expected = |line| {
        (
            line,
            "`outputs` must be text, found the number 3".to_owned(),
        )
    };
    assert_eq!(wrong, [expected(10), expected(1_203)]);
    let double = mistakes(rows(&|number| {
        (number == 1_200).then(|| "  c3: {argv: [a], outputs: [b]}\n".to_owned())
    }));
    assert_eq!(double, [(1_203, "`c3` is given twice".to_owned())]);
    let broken = mistakes(rows(&|number| {
        (number == 1_200).then(|| "  c1200: {argv: [a\n".to_owned())
    }));
    assert_eq!(broken.len(), 1, "{broken:?}");
}

#[test]
fn every_style_of_yaml_declares_the_same_commands() {
    let body = "{argv: [cp, in, out], inputs: {in: {file: x}}, outputs: [out]}";
    let shown = |text: &str| {
        let spec = load(text);
        let rows = spec
            .commands
            .values()
            .map(|command| format!("{} {:?}", command.name, command.does));
        rows.collect::<Vec<_>>()
    };
    let expected = shown(&format!(
        "version: 1\ncommands:\n  one: {body}\n  two: {body}\n"
    ));
    assert_eq!(expected.len(), 2);
    for text in [
        format!("version: 1\ncommands: {{one: {body}, two: {body}}}\n"),
        format!("{{version: 1, commands: {{one: {body}, two: {body}}}}}\n"),
        format!("version: 1\ncommands:\n  {{one: {body}, two: {body}}}\n"),
        format!("version: 1\ncommands: {{\n  one: {body},\n  two: {body}\n  }}\n"),
        format!("\"version\": 1\n'commands':\n    one: {body}\n    \"two\": {body}\n"),
        format!("version: 1\ncommands:\n  one: &body {body}\n  two: *body\n"),
        format!("version: 1\ncommands: # all\n  # first\n  one: {body} # here\n\n  two:\n    {body}\n"),
        format!("commands:\n  one: {body}\n  two: {body}\nversion: 1\n"),
        "{\"version\": 1, \"commands\": {\"one\": {\"argv\": [\"cp\", \"in\", \"out\"], \"inputs\": {\"in\": {\"file\": \"x\"}}, \
         \"outputs\": [\"out\"]}, \"two\": {\"argv\": [\"cp\", \"in\", \"out\"], \"inputs\": {\"in\": {\"file\": \"x\"}}, \"outputs\": \
         [\"out\"]}}}"
            .to_owned(),
        format!("--- \nversion: 1\ncommands:\n  ? one\n  : {body}\n  ? two\n  : {body}\n...\n"),
    ] {
        assert_eq!(shown(&text), expected, "{text}");
    }
}
