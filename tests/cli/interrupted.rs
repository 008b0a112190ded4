//! Ctrl-C while a model is converted: the prompt is back within two seconds, and what is said fits on one screen.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::support::{Sandbox, signal};

/// Lines of the usual terminal.
const SCREEN: usize = 24;
/// The promise is two seconds; a busy machine gets another.
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
    // What says that a conversion began; what is counted is said without it.
    for (verbosity, is_counted) in [("-v", false), ("", true)] {
        let mut command = sandbox.command(["run", "spec.yaml"]);
        command.env_remove("ORCH_VERBOSE").env("ORCH_CACHE_DIR", sandbox.path(&format!("cache{verbosity}")));
        command.args((!verbosity.is_empty()).then_some(verbosity)).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
        let began = |line: &String| line.contains("generate:first") && !line.contains("cpu-fp32");
        assert!(said.by_ref().map(Result::unwrap).any(|line| began(&line)), "no model was made");
        let clock = Instant::now();
        std::thread::sleep(Duration::from_millis(100));
        signal(&child, libc::SIGINT);
        let code = child.wait().unwrap().code();
        let took = clock.elapsed();
        let mut page = String::new();
        child.stdout.take().unwrap().read_to_string(&mut page).unwrap();
        let after: Vec<_> = said.map(Result::unwrap).collect();
        assert_eq!(code, Some(130), "{page}{after:#?}");
        assert!(took < SOON, "it took {took:?}");
        if is_counted {
            let lines = page.lines().count() + after.len();
            assert!(lines <= SCREEN, "{lines} lines\n{}\n{page}", after.join("\n"));
            assert!(page.contains("no case was finished") && page.contains("incomplete"), "{page}");
        }
    }
}
