//! `blame:<case>` where the exported file is wrong, or none could be made: which module of the PyTorch model the exporter gets
//! wrong. No spec has such steps: `orch blame` adds them to a plan.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::catalogue::onnx;
use crate::spec::Tolerance;
use crate::step::{
    Code, MemoryGuess, Part, Places, Requirement, Step, StepKind, Work, Worker, WorkerCall,
};
use crate::toolchain::{EnvName, Tool};

/// The name of the op.
const OP: &str = "blame_export";

/// The parameters of a search among a model's modules, all of them in its key.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BlameExportParams {
    /// What the conversion was given: routes, opset, stand-ins.
    export: Value,
    tolerance: Tolerance,
    /// What of this machine can change what PyTorch computes.
    host: String,
}

/// Whether a step exports a PyTorch model.
pub fn is_export(step: &Step) -> bool {
    step.kind.name() == onnx::EXPORT.name
}

impl BlameExportParams {
    /// The parameters for what an export made, or did not make.
    pub fn of(export: &Step, tolerance: Tolerance, host: &str) -> Self {
        Self {
            export: export.params.json().clone(),
            tolerance,
            host: host.to_owned(),
        }
    }
}

pub struct BlameExport;
pub static BLAME_EXPORT: BlameExport = BlameExport;

impl StepKind for BlameExport {
    known_as!(
        "blame.export",
        [&[Part::Rust("step/blame_export.rs"), Part::Python(OP)]]
    );

    fn tools(&self, _: &Step) -> Vec<Tool> {
        let env = EnvName::Torch;
        (onnx::EXPORT.packages)(&Value::Null)
            .iter()
            .map(|package| Tool { env, package })
            .collect()
    }

    fn is_in_specs(&self) -> bool {
        false
    }

    fn memory(&self) -> Option<MemoryGuess> {
        // The model, what its modules take and give, and an exported file in ONNX Runtime.
        Some(MemoryGuess {
            base: 1 << 30,
            factor: 5,
        })
    }

    fn requires(&self, _: &Step) -> Vec<Requirement> {
        vec![Requirement::Env(EnvName::Torch)]
    }

    fn server(&self, _: &Step) -> Option<EnvName> {
        Some(EnvName::Torch)
    }

    fn lower(&self, step: &Step, _: &Places) -> anyhow::Result<Work> {
        let BlameExportParams {
            export, tolerance, ..
        } = step.params.parse()?;
        let mut given = export.as_object().cloned().unwrap_or_else(Map::new);
        given.insert("tolerance".to_owned(), json!(tolerance));
        Ok(Work::Worker(WorkerCall::of(
            Worker::Python(EnvName::Torch),
            OP,
            &Value::Object(given),
        )))
    }
}
