//! `generate:<model>` of a transformers class: weights, config, complete inputs and reference outputs.

use serde_json::{Value, json};

use crate::catalogue::parts;
use crate::step::{
    Access, Code, MemoryGuess, Places, Requirement, SharedFolder, Step, StepKind, Work, Worker,
    WorkerCall, model_folder,
};
use crate::toolchain::{EnvName, Tool};

pub struct Materialise {
    name: &'static str,
    op: &'static str,
    /// The packages besides those that every model's numbers come from.
    more: &'static [&'static str],
    code: Code,
}

/// Those that every model's numbers come from.
const PACKAGES: &[&str] = &[
    "torch",
    "transformers",
    "safetensors",
    "tokenizers",
    "sentencepiece",
    "numpy",
    "scipy",
    "timm",
    "torchvision",
];

pub static MATERIALISE: Materialise = Materialise {
    name: "materialise",
    op: "materialise",
    more: &[],
    code: Code::of(&[parts!(Rust "step/materialise.rs"; Python "materialise")]),
};

/// The model of a row with weights of a folder or of the Hub: what comes with them makes tensors of text, pictures and
/// sounds, and stays with the model. A kind of its own, so that the keys of seeded rows hold nothing of it.
pub static MATERIALISE_OWN: Materialise = Materialise {
    name: "materialise-own",
    op: "materialise_own",
    more: &["pillow"],
    code: Code::of(&[parts!(Rust "step/materialise.rs"; Python "materialise_own")]),
};

impl StepKind for Materialise {
    fn name(&self) -> &'static str {
        self.name
    }

    fn code(&self, _: &Step) -> &Code {
        &self.code
    }

    fn tools(&self, _: &Step) -> Vec<Tool> {
        PACKAGES
            .iter()
            .chain(self.more)
            .map(|package| Tool {
                env: EnvName::Torch,
                package,
            })
            .collect()
    }

    fn requires(&self, _: &Step) -> Vec<Requirement> {
        vec![Requirement::Env(EnvName::Torch)]
    }

    fn server(&self, _: &Step) -> Option<EnvName> {
        Some(EnvName::Torch)
    }

    fn fetches(&self, step: &Step) -> bool {
        is_of_the_hub(&step.params.json()["weights"])
    }

    /// A Python with torch; the weights as they are read, as they are loaded back from the tree, and in fp64.
    fn memory(&self) -> Option<MemoryGuess> {
        Some(MemoryGuess {
            base: 1 << 30,
            factor: 3,
        })
    }

    fn lower(&self, step: &Step, places: &Places) -> anyhow::Result<Work> {
        let mut params = step.params.json().clone();
        // A local folder is an input like any other: its content is in the key, its path only here.
        let folder = places.inputs.iter().find_map(|(label, path)| {
            let is_folder = label == model_folder::LABEL;
            is_folder
                .then(|| path.clone())
                .or_else(|| model_folder::folder_of(label, path))
        });
        if let Some(folder) = folder {
            params["weights"]["path"] = json!(folder);
        }
        let access = access(&params["weights"]);
        Ok(Work::Worker(WorkerCall {
            access,
            ..WorkerCall::of(Worker::Python(EnvName::Torch), self.op, &params)
        }))
    }
}

fn is_of_the_hub(weights: &Value) -> bool {
    weights["kind"] == "hub"
}

/// The Hub's client keeps what it fetches.
fn access(weights: &Value) -> Access {
    if !is_of_the_hub(weights) {
        return Access::default();
    }
    Access {
        network: true,
        write: Vec::new(),
        shared: vec![SharedFolder::HubCache],
        home: true,
    }
}
