//! Text that is generated with a cache of keys and values, and decoders whose cache is wrong.

use std::process::Command;

use orch::judge::{Evidence, Verdict};
use orch::runtime::Job;
use orch::runtime::generation::{DECODED, Decoded, GENERATED, REFERENCE};
use orch::spec::{Precision, Tolerance};

use super::*;

const MODELS: &str = "\
version: 1
include: [pipelines.yaml, targets.yaml]
measure: {warmup: 1, samples: 3, max_seconds: 60, timeout_seconds: 600}
models:
  gpt2:
    class: GPT2LMHeadModel
    family: decoder-only
    task: text-generation
    pipeline: text
    config: {vocab_size: 128, n_embd: 64, n_layer: 2, n_head: 4, n_positions: 64, initializer_range: 0.1, bos_token_id: 0, eos_token_id: 0}
    dims: &dims {batch: 2, seq: 24}
    inputs: &inputs
      input_ids: {dtype: int64, shape: [batch, seq], randint: [3, 128]}
      attention_mask: {dtype: int64, shape: [batch, seq], value: 1}
    outputs: [logits]
    generate: 16
  mistral:
    class: MistralForCausalLM
    family: decoder-only
    task: text-generation
    pipeline: text
    # Shorter than the text, so that what slides out of sight must not be seen.
    config: {vocab_size: 128, hidden_size: 64, num_hidden_layers: 2, num_attention_heads: 4, num_key_value_heads: 2, intermediate_size: 128, max_position_embeddings: 64, initializer_range: 0.1, sliding_window: 6}
    dims: *dims
    inputs: *inputs
    outputs: [logits]
    generate: 16
  bart:
    class: BartForConditionalGeneration
    family: encoder-decoder
    task: text2text-generation
    pipeline: text
    config: {vocab_size: 128, d_model: 64, encoder_layers: 2, decoder_layers: 2, encoder_attention_heads: 4, decoder_attention_heads: 4, encoder_ffn_dim: 128, decoder_ffn_dim: 128, max_position_embeddings: 64, init_std: 0.15}
    dims: {batch: 2, source: 12, seq: 24}
    inputs:
      input_ids: {dtype: int64, shape: [batch, source], randint: [3, 128]}
      # The second source is shorter.
      attention_mask: {dtype: int64, shape: [batch, source], data: [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0]}
      decoder_input_ids: {dtype: int64, shape: [batch, seq], randint: [3, 128]}
    outputs: [logits]
    generate: 16
  mamba:
    class: MambaForCausalLM
    family: state-space
    task: text-generation
    pipeline: text
    config: {vocab_size: 128, hidden_size: 64, num_hidden_layers: 2, state_size: 8, intermediate_size: 128, initializer_range: 0.2}
    dims: *dims
    inputs:
      input_ids: {dtype: int64, shape: [batch, seq], randint: [3, 128]}
    outputs: [logits]
    generate: 16
matrix:
  models: ['*']
  targets: [cpu, openvino, eager-cpu, cpu-static]
  exclude:
    - {model: mamba, target: cpu-static, reason: weights that make its text vary are too coarse at int8}
";

#[test]
fn text_is_decoded_with_a_cache_where_there_is_one_and_a_wrong_cache_is_caught() {
    let sandbox = suite();
    sandbox.write("specs/all.yaml", MODELS);
    let document = sandbox
        .run(["run", "specs/all.yaml", "--json"])
        .success()
        .json();
    for (name, case) in cases(&document) {
        let generation = &case["numerics"]["generation"];
        let times = &case["metrics"]["decoding"];
        let why = generation["decoded"]["why"].as_str();
        let is_cached = !name.starts_with("mamba") && !name.contains("cpu-static");
        assert_eq!(
            generation["decoded"]["cached"], is_cached,
            "{name}: {why:?}"
        );
        match (is_cached, name.starts_with("mamba")) {
            (true, _) => {
                assert_eq!((&case["status"], why), (&json!("PASS"), None), "{name}");
                assert_eq!(
                    (&times["rows"], &times["prompt"]),
                    (&json!(2), &json!(9)),
                    "{name}"
                );
                let samples = |of: &str| times[of].as_array().unwrap().len();
                assert_eq!(
                    (
                        samples("first_token_samples_ms"),
                        samples("next_token_samples_ms")
                    ),
                    (3, 45),
                    "{name}"
                );
                let [first, next] =
                    ["first_token_ms", "next_token_ms"].map(|of| times[of].as_f64().unwrap());
                let [prefill, decode] = ["prefill_per_second", "decode_per_second"]
                    .map(|of| times[of].as_f64().unwrap());
                assert!(
                    (prefill * first - 18e3).abs() < 1.0 && (decode * next - 2e3).abs() < 1.0,
                    "{name}: {times}"
                );
            }
            (false, true) => {
                assert_eq!(
                    why,
                    Some("MambaForCausalLM keeps no keys and values of every layer"),
                    "{name}"
                );
            }
            (false, _) => {
                assert_eq!(
                    why,
                    Some("what ranges of activations are measured on has one length only"),
                    "{name}"
                )
            }
        }
        assert!(is_cached || times.is_null(), "{name}: {times}");
    }
    for name in [
        "gpt2:cpu-fp32",
        "mistral:openvino-fp32",
        "mistral:openvino-int8",
        "gpt2:eager-cpu-fp32",
        "bart:cpu-fp32",
        "bart:openvino-fp16",
        "bart:eager-cpu-fp32",
    ] {
        the_generated_test_stands_alone(&sandbox, cases(&document)[name]);
        agrees_with_its_test(&sandbox, name, cases(&document)[name]);
    }

    // No clock is read where none is asked for.
    let checked = sandbox
        .run(["run", "specs/all.yaml", "-m", "gpt2", "--check", "--json"])
        .success()
        .json();
    for (name, case) in cases(&checked) {
        assert_eq!(
            (&case["metrics"], &case["untimed"]),
            (&Value::Null, &json!(true)),
            "{name}"
        );
    }

    for model in ["gpt2", "mistral", "bart"] {
        for change in [
            "none",
            "zeroed",
            "shifted",
            "without_a_layer",
            "another prompt",
            "unseen",
        ] {
            if change == "unseen" && model != "bart" {
                continue;
            }
            let (verdict, reason) = with_decoder(&sandbox, model, change);
            let expected = if change == "none" {
                Verdict::Pass
            } else {
                Verdict::Numerics
            };
            assert_eq!(verdict, expected, "{model}, {change}: {reason:?}");
            assert!(
                change == "none" || reason.unwrap().starts_with("generated text: token "),
                "{model}, {change}"
            );
        }
    }
}

/// The tokens of the generated test are the run's.
fn agrees_with_its_test(sandbox: &Sandbox, name: &str, case: &Value) {
    let (model, _) = name.split_once(':').unwrap();
    let ran = format!("run:{name}");
    sandbox
        .run(["output", &ran, "--to", &format!("ran/{name}")])
        .success();
    let line = format!(
        "{} --save '{}'",
        text(&case["repro"]),
        sandbox.path(&format!("saved/{name}")).display()
    );
    let output = Command::new("sh")
        .args(["-c", &line])
        .current_dir(sandbox.path(""))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{line}\n{}",
        String::from_utf8_lossy(&output.stdout)
    );
    let tokens = |folder: &str| {
        let tensors =
            orch::runtime::tensors::read(&sandbox.path(&format!("{folder}/{name}/{GENERATED}")))
                .unwrap();
        (
            tensors["tokens"].shape().to_vec(),
            tensors["tokens"].to_f64(),
        )
    };
    assert_eq!(tokens("ran"), tokens("saved"), "{model}");
    assert_eq!(
        Decoded::read(&sandbox.path(&format!("saved/{name}/{DECODED}")))
            .unwrap()
            .unwrap()
            .why,
        None
    );
}

/// What the judge says of a run with this change of the decoder.
fn with_decoder(sandbox: &Sandbox, model: &str, change: &str) -> (Verdict, Option<String>) {
    let folder = format!("made/{model}/{change}");
    let tree = sandbox.path(&format!("{folder}/onnx"));
    let reference = sandbox.path(&format!("{folder}/model"));
    for (step, to) in [
        (format!("convert:{model}:onnx"), &tree),
        (format!("generate:{model}"), &reference),
    ] {
        sandbox
            .run(["output", &step, "--to", to.to_str().unwrap()])
            .success();
    }
    match change {
        "none" => {}
        "another prompt" => {
            fs::copy(
                tree.join("control-inputs.safetensors"),
                tree.join("inputs.safetensors"),
            )
            .unwrap();
            // The whole outputs would be found wrong first.
            fs::copy(
                reference.join("control-reference.safetensors"),
                reference.join("reference.safetensors"),
            )
            .unwrap();
            fs::remove_file(tree.join("control-inputs.safetensors")).unwrap();
        }
        change => {
            let script =
                Path::new(env!("CARGO_MANIFEST_DIR")).join("python/tests/wrong_decoders.py");
            let python = in_environment("ort-", |path| path.ends_with("bin/python"));
            let mut command = Command::new(python);
            command
                .arg(script)
                .arg(change)
                .arg(tree.join("decoder/model.onnx"));
            assert!(command.status().unwrap().success(), "{change}");
        }
    }
    let out = sandbox.path(&format!("{folder}/out"));
    fs::create_dir(&out).unwrap();
    let named = |path: &Path| {
        path.file_name()
            .unwrap()
            .to_string_lossy()
            .starts_with("libonnxruntime.so.")
    };
    let library = in_environment("ort-", named);
    let job = Job {
        op: "run".into(),
        params: json!({"library": library, "ep": "cpu", "measure": "none"}),
        inputs: [
            ("artefact".to_owned(), tree),
            ("model".to_owned(), reference.clone()),
        ]
        .into(),
        out: out.clone(),
        ..Job::default()
    };
    sandbox.write(
        &format!("{folder}/job.json"),
        serde_json::to_string(&job).unwrap() + "\n",
    );
    let given = format!("{folder}/job.json");
    let answer = sandbox.path(&format!("{folder}/answer"));
    let line = format!(
        r#"ORCH_RESULT_FD=3 exec "$@" 3>'{}' <'{given}'"#,
        answer.display()
    );
    sandbox
        .run_through(["sh", "-c", &line, "sh"], &["worker", "ort"])
        .success();
    let answer = fs::read_to_string(answer).unwrap();
    assert!(answer.contains(r#""status":"ok""#), "{change}: {answer}");
    let generated = out.join(GENERATED);
    let tokens = reference.join(REFERENCE);
    let evidence = Evidence {
        outputs: &out.join("outputs.safetensors"),
        reference: &reference.join("reference.safetensors"),
        control_outputs: None,
        control_reference: None,
        dropped: None,
        tokens: &[],
        generation: Some((&tokens, Some(&generated))),
        decoded: Decoded::read(&out.join(DECODED)).unwrap(),
    };
    assert_eq!(
        evidence.decoded,
        Some(Decoded {
            cached: true,
            why: None
        })
    );
    let (verdict, _, reason) = evidence
        .judge("torch", &Tolerance::usual(Precision::Fp32))
        .unwrap();
    (verdict, reason)
}

/// A file of an installed environment.
fn in_environment(prefix: &str, is_it: impl Fn(&Path) -> bool) -> PathBuf {
    let environments = fs::read_dir(env_dir())
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut environments = environments.filter(|path| {
        path.is_dir()
            && path
                .file_name()
                .unwrap()
                .to_string_lossy()
                .starts_with(prefix)
    });
    let found = environments.find_map(|root| {
        let files = walkdir::WalkDir::new(root)
            .into_iter()
            .filter_map(Result::ok);
        files
            .map(walkdir::DirEntry::into_path)
            .find(|path| is_it(path))
    });
    found.expect("an environment holds it")
}
