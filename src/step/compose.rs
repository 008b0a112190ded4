//! Models of several: `generate:<model>` makes the loop that calls the components, and what it is to give;
//! `convert:<model>:<artefact>` puts the loop and the components' artefacts into one tree.

use std::path::Path;

use anyhow::Context;
use serde_json::Map;

use crate::base::Bug;
use crate::base::fs as bfs;
use crate::runtime::loops;
use crate::runtime::manifest::Manifest;
use crate::runtime::tensors;
use crate::step::{
    Code, MemoryGuess, Places, Requirement, Step, StepKind, Work, Worker, WorkerCall,
};
use crate::toolchain::{EnvName, Tool};

/// The label under which both know a component's tree.
const LABEL: &str = "component.";

/// The label of the component that plays this part.
pub fn component(part: &str) -> String {
    format!("{LABEL}{part}")
}

pub struct Compose;
pub static COMPOSE: Compose = Compose;

impl StepKind for Compose {
    known_as!("compose": Rust "step/compose.rs"; Python "compose");

    in_python!(
        EnvName::Torch,
        ["torch", "transformers", "diffusers", "safetensors", "numpy"]
    );

    fn memory(&self) -> Option<MemoryGuess> {
        Some(MemoryGuess {
            base: 1 << 30,
            factor: 2,
        })
    }

    fn lower(&self, step: &Step, _: &Places) -> anyhow::Result<Work> {
        let params = step.params.json();
        Ok(Work::Worker(WorkerCall::of(
            Worker::Python(EnvName::Torch),
            "compose",
            params,
        )))
    }
}

pub struct Assemble;
pub static ASSEMBLE: Assemble = Assemble;

impl StepKind for Assemble {
    known_as!("assemble": Rust "step/compose.rs", "runtime/loops/mod.rs", "runtime/manifest.rs");

    fn lower(&self, _: &Step, places: &Places) -> anyhow::Result<Work> {
        let inputs = places.inputs.clone();
        let out = places.out.clone();
        Ok(Work::Pure(Box::new(move || {
            let model = inputs
                .get("model")
                .context(Bug::new("what is assembled has a model"))?;
            let components = inputs
                .iter()
                .filter_map(|(label, tree)| Some((label.strip_prefix(LABEL)?, tree.as_path())));
            assemble(model, components, &out)
        })))
    }
}

fn assemble<'c>(
    model: &Path,
    components: impl Iterator<Item = (&'c str, &'c Path)>,
    out: &Path,
) -> anyhow::Result<()> {
    for name in [
        loops::FILE,
        loops::CONSTANTS,
        tensors::INPUTS,
        tensors::CONTROL_INPUTS,
    ] {
        let from = model.join(name);
        if from.is_file() {
            bfs::copy_file(&from, &out.join(name))?;
        }
    }
    let mut rest = Map::new();
    for (part, tree) in components {
        for file in bfs::files_below(tree)? {
            let to = out.join(loops::COMPONENTS).join(part).join(&file);
            bfs::copy_file(&tree.join(&file), &to)?;
        }
        let manifest_fields = Manifest::read(tree)?.rest;
        rest.extend(
            manifest_fields
                .into_iter()
                .filter(|(key, _)| ["format", "precision"].contains(&key.as_str())),
        );
    }
    let Manifest {
        inputs, outputs, ..
    } = Manifest::read(model)?;
    Manifest {
        inputs,
        outputs,
        rest,
    }
    .write(out)
}
