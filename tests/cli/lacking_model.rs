//! A model of the Hub that cannot be loaded: it is unavailable, and not the target that would have run it.

use crate::support::Sandbox;

const SPEC: &str = "version: 1
pipelines:
  text: {description: 'ids to logits', tasks: [fill-mask]}
targets:
  eager: {runtime: python, backend: cpu, device: cpu, artefact: model, precisions: [fp32]}
models:
  bert: {class: BertForMaskedLM, family: encoder-only, task: fill-mask, pipeline: text, weights: hub,
    hub: {id: nobody/has-this-model, revision: 0123456789abcdef0123456789abcdef01234567},
    inputs: {input_ids: {dtype: int64, shape: [1, 4], value: 1}}, outputs: [logits]}
";

#[test]
fn a_model_that_the_hub_does_not_give_is_named() {
    let sandbox = Sandbox::new()
        .installs()
        .file("specs/all.yaml", SPEC)
        .env("HF_HUB_OFFLINE", "1");
    let home = sandbox.path("hub").display().to_string();
    let sandbox = sandbox.env("HF_HOME", home);
    let told = sandbox.run(["run", "specs/all.yaml"]).code(3);
    told.stdout_has("— bert unavailable: eager-fp32 (1 case)")
        .stdout_has("nobody/has-this-model")
        .stdout_has("it is not in the Hub's cache (HF_HOME)")
        .stdout_lacks("cpu unavailable");
}
