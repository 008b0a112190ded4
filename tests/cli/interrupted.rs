//! Ctrl-C while a model is converted: the prompt is back within two seconds, and what is said fits on one screen.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::support::{Sandbox, beside_load, eventually, signal};

/// Lines of the usual terminal.
const SCREEN: usize = 24;
/// The promise is two seconds; a machine that runs other tests gets another.
const SOON: Duration = Duration::from_secs(3);

/// Thirty models, of which the first is being converted soon.
fn spec() -> String {
    let rows = (0..30).map(|n| format!("  m{n}: {{<<: *bert, seed: {n}}}\n"));
    "version: 1
pipelines:
  text: {description: 'ids to logits', tasks: [fill-mask]}
targets:
  cpu: {runtime: ort, backend: cpu, device: cpu, artefact: onnx, precisions: [fp32]}
  openvino: {runtime: openvino, backend: openvino, device: CPU, artefact: openvino, precisions: [fp32]}
models:
  first: &bert {class: BertForMaskedLM, family: encoder-only, task: fill-mask, pipeline: text, priority: high,
    config: {hidden_size: 32, num_hidden_layers: 2, num_attention_heads: 2, intermediate_size: 64, vocab_size: 100},
    dims: {batch: 1, seq: 8}, inputs: {input_ids: {dtype: int64, shape: [batch, seq], randint: [0, 100]}}}\n"
        .chars()
        .chain(rows.collect::<String>().chars())
        .collect()
}

#[test]
fn a_run_that_converts_ends_within_two_seconds_and_on_one_screen() {
    let sandbox = Sandbox::new().installs().file("spec.yaml", spec());
    sandbox.run(["setup", "torch", "ort", "openvino"]).success();
    let mut command = sandbox.command(["run", "spec.yaml"]);
    let child = command
        .env_remove("ORCH_VERBOSE")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The journal tells of each step, however quick the machine is; the terminal does so of slow ones.
    let journal = || {
        sandbox
            .journals()
            .iter()
            .map(|file| fs::read_to_string(file).unwrap())
            .collect::<String>()
    };
    eventually("a model was made", || {
        journal().contains(r#"{"step":{"step":"generate:first","#)
    });
    let clock = Instant::now();
    signal(&child, libc::SIGINT);
    let ended = child.wait_with_output().unwrap();
    let took = clock.elapsed();
    let [page, narration] =
        [&ended.stdout, &ended.stderr].map(|text| String::from_utf8_lossy(text));
    assert_eq!(ended.status.code(), Some(130), "{page}{narration}");
    assert!(took < beside_load(SOON), "it took {took:?}");
    let lines = page.lines().count() + narration.lines().count();
    assert!(lines <= SCREEN, "{lines} lines\n{narration}\n{page}");
    assert!(
        page.contains("no case was finished") && page.contains("incomplete"),
        "{page}"
    );
}
