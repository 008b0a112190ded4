//! `generate:<model>` of a transformers class: weights, config, complete inputs and reference outputs.

use serde_json::json;

use crate::step::{Code, MemoryGuess, Part, Places, Requirement, Step, StepKind, Work, Worker, WorkerCall};
use crate::toolchain::{EnvName, Tool};

pub struct Materialise;
pub static MATERIALISE: Materialise = Materialise;

impl StepKind for Materialise {
    fn name(&self) -> &'static str {
        "materialise"
    }

    fn code(&self, _: &Step) -> &Code {
        static CODE: Code = Code::of(&[&[Part::Rust("step/materialise.rs"), Part::Python("materialise")]]);
        &CODE
    }

    fn tools(&self, _: &Step) -> Vec<Tool> {
        ["torch", "transformers", "safetensors", "tokenizers", "sentencepiece", "numpy", "scipy", "timm", "torchvision"]
            .map(|package| Tool { env: EnvName::Torch, package })
            .into()
    }

    fn requires(&self, _: &Step) -> Vec<Requirement> {
        vec![Requirement::Env(EnvName::Torch)]
    }

    fn server(&self, _: &Step) -> Option<EnvName> {
        Some(EnvName::Torch)
    }

    /// How large the model becomes is known when it is there; from then on its records tell.
    fn memory(&self) -> Option<MemoryGuess> {
        Some(MemoryGuess { base: 1 << 30, factor: 0 })
    }

    fn lower(&self, step: &Step, places: &Places) -> anyhow::Result<Work> {
        let mut params = step.params.json().clone();
        // A local folder is an input like any other: its content is in the key, its path only here.
        if let Some(folder) = places.inputs.get("weights") {
            params["weights"]["path"] = json!(folder);
        }
        Ok(Work::Worker(WorkerCall {
            worker: Worker::Python(EnvName::Torch),
            op: "materialise",
            params,
            libraries: vec![],
        }))
    }
}
