//! `generate:<model>` of a transformers class: weights, config, complete inputs and reference outputs.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::step::{Access, Code, MemoryGuess, Places, Requirement, Step, StepKind, Work, Worker, WorkerCall};
use crate::toolchain::{EnvName, Tool};

pub struct Materialise;
pub static MATERIALISE: Materialise = Materialise;

impl StepKind for Materialise {
    known_as!("materialise": Rust "step/materialise.rs"; Python "materialise");

    in_python!(
        EnvName::Torch,
        [
            "torch",
            "transformers",
            "safetensors",
            "tokenizers",
            "sentencepiece",
            "numpy",
            "scipy",
            "timm",
            "torchvision"
        ]
    );

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
        let weights = params["weights"].clone();
        Ok(Work::Worker(WorkerCall {
            worker: Worker::Python(EnvName::Torch),
            op: "materialise",
            params,
            libraries: vec![],
            access: access(&weights),
        }))
    }
}

/// The Hub's client keeps what it fetches.
fn access(weights: &Value) -> Access {
    if weights["kind"] != "hub" {
        return Access::default();
    }
    let of = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let home =
        || of("XDG_CACHE_HOME").or_else(|| Some(of("HOME")?.join(".cache"))).map(|cache| cache.join("huggingface"));
    let kept = of("HF_HOME").or_else(home).into_iter().chain(of("HF_HUB_CACHE"));
    Access { network: true, write: kept.collect(), home: true }
}
