//! Pictures and sounds as inputs: read by what comes with the weights, in the key, and seen by the verdict.

use super::*;

/// Makes what `argv` names, in the folder of the spec.
const MAKE: &str = "import sys, wave
import numpy as np
from PIL import Image
from safetensors.numpy import load_file, save_file
for what in sys.argv[1:]:
    draw = np.random.default_rng(len(what))
    if what.endswith('.png'):
        Image.fromarray(draw.integers(0, 256, (40, 50, 3)).astype(np.uint8)).save('specs/' + what)
    elif what.endswith('.wav'):
        file = wave.open('specs/' + what.split(':')[-1], 'wb')
        file.setparams((1, 2, int(what.split(':')[0]), 0, 'NONE', ''))
        file.writeframes(draw.normal(0, 3000, 3000).astype('<i2').tobytes())
        file.close()
    else:
        tensors = load_file(what)
        tensors['classifier.weight'] *= 0
        save_file(tensors, what, metadata={'format': 'pt'})
";

const ROWS: &str = "version: 1
include: [pipelines.yaml, targets.yaml]
matrix: {models: ['*'], targets: [cpu, eager-cpu]}
measure: none
models:
  pictured:
    class: ViTForImageClassification
    weights: path
    path: ../vit
    family: vision
    task: image-classification
    pipeline: vision
    inputs:
      pixel_values: {dtype: float32, shape: [2, 3, 32, 32], picture: [cat.png, raccoon.png]}
    outputs: [logits]
  heard:
    class: Wav2Vec2ForCTC
    weights: path
    path: ../wav2vec2
    family: audio
    task: automatic-speech-recognition
    pipeline: audio
    inputs:
      input_values: {dtype: float32, shape: [1, 4000], sound: [word.wav]}
    outputs: [logits]
";

#[test]
#[ignore = "deep, and slow: `cargo test --test '*' -- --ignored`, as CI does"]
fn pictures_and_sounds_are_read_by_the_model_s_own_processor_and_are_in_the_key() {
    let sandbox = suite();
    sandbox
        .run([
            "run",
            "specs/all.yaml",
            "-m",
            "vit",
            "-m",
            "wav2vec2",
            "-t",
            "eager-cpu",
        ])
        .success();
    for (name, processor) in [
        (
            "vit",
            json!({"image_processor_type": "ViTImageProcessor", "size": {"height": 32, "width": 32}}),
        ),
        (
            "wav2vec2",
            json!({"feature_extractor_type": "Wav2Vec2FeatureExtractor", "sampling_rate": 16000}),
        ),
    ] {
        for file in ["config.json", "model.safetensors"] {
            let bytes = fs::read(artefact(&sandbox, &format!("{name}/model")).join(file)).unwrap();
            sandbox.write(&format!("{name}/{file}"), bytes);
        }
        sandbox.write(
            &format!("{name}/preprocessor_config.json"),
            processor.to_string(),
        );
    }
    let make = |what: &[&str]| {
        let python = torch_env().join("bin/python");
        let made = Command::new(&python)
            .args(["-c", MAKE])
            .args(what)
            .current_dir(sandbox.path(""))
            .output()
            .unwrap();
        assert!(
            made.status.success(),
            "{}",
            String::from_utf8_lossy(&made.stderr)
        );
    };
    make(&["cat.png", "raccoon.png", "16000:word.wav"]);
    sandbox.write("specs/files.yaml", ROWS);
    let run = ["run", "specs/files.yaml", "--json"];
    let document = sandbox
        .run(run)
        .success()
        .summary([("cases", 4), ("passed", 4)])
        .json();
    for (name, case) in cases(&document) {
        let control = &case["numerics"]["control"];
        assert!(
            control["differs_by"].as_f64().is_some_and(|off| off > 0.1),
            "{name}: {control}"
        );
    }
    the_generated_test_stands_alone(&sandbox, cases(&document)["pictured:cpu-fp32"]);

    // So are the files that somebody gives a generated test: by the same processor, or not at all.
    let given = |python: &str, case: &str, files: &str| {
        let line = format!("{python} {case} --inputs {files} --json told.json");
        let ended = Command::new("sh")
            .args(["-c", &line])
            .current_dir(sandbox.path(""))
            .output()
            .unwrap();
        let told: Value = serde_json::from_str(&sandbox.read("told.json")).unwrap();
        (ended.status.code(), told)
    };
    let transformers = torch_env().join("bin/python").display().to_string();
    let found = cases(&document);
    let (ort, test) = text(&found["pictured:cpu-fp32"]["repro"])
        .rsplit_once(' ')
        .unwrap();
    let (code, told) = given(&transformers, test, "specs/cat.png specs/raccoon.png");
    let facts = &told["facts"];
    assert_eq!(
        (code, &facts["given"][0]),
        (
            Some(0),
            &"pixel_values by ViTImageProcessor of cat.png, raccoon.png".into()
        )
    );
    assert!(
        facts["words"]
            .as_array()
            .is_some_and(|words| !words.is_empty()),
        "{told:#}"
    );
    let (code, told) = given(ort, test, "specs/cat.png specs/raccoon.png");
    assert!(
        code == Some(3) && text(&told["reason"]).contains("pip install transformers"),
        "{told:#}"
    );
    let (_, test) = text(&found["heard:cpu-fp32"]["repro"])
        .rsplit_once(' ')
        .unwrap();
    let (code, told) = given(&transformers, test, "specs/word.wav");
    assert_eq!(
        (code, &told["facts"]["given"][0]),
        (
            Some(0),
            &"input_values by Wav2Vec2FeatureExtractor of word.wav".into()
        )
    );
    sandbox
        .run(run)
        .success()
        .summary([("executed", 0), ("passed", 4)]);

    // What is in a file counts, and not what it is called.
    fs::rename(
        sandbox.path("specs/cat.png"),
        sandbox.path("specs/feline.png"),
    )
    .unwrap();
    let gone = sandbox.run(run).code(2);
    gone.stderr_has("specs/files.yaml:14:")
        .stderr_has("there is no file `cat.png`")
        .stderr_has("hint: paths start from");
    edit(&sandbox, "specs/files.yaml", "cat.png", "feline.png");
    let plan = sandbox.run(["plan", "specs/files.yaml"]).success();
    plan.stdout_lacks("run  generate:pictured ")
        .stdout_has("0 would run");
    fs::copy(
        sandbox.path("specs/raccoon.png"),
        sandbox.path("specs/feline.png"),
    )
    .unwrap();
    let plan = sandbox.run(["plan", "specs/files.yaml"]).success();
    plan.stdout_has("input.picture/0 changed")
        .stdout_lacks("heard");
    let changed = sandbox.run(run).success().summary([("passed", 4)]);
    changed
        .stderr_has("ok    generate:pictured")
        .stderr_lacks("heard");

    // One that answers all pictures alike is no evidence; a sound at another rate is another sound.
    make(&["vit/model.safetensors", "22050:word.wav"]);
    let document = sandbox.run(run).code(1).summary([("passed", 0)]).json();
    for (name, case) in cases(&document) {
        let (status, told) = if name.starts_with("heard") {
            (
                "FAIL",
                "has 22050 samples a second, and the feature extractor of",
            )
        } else {
            ("INDECISIVE", "")
        };
        assert_eq!(case["status"], status, "{case:#}");
        assert!(text(&case["reason"]).contains(told), "{case:#}");
    }
}
