//! `generate:<model>:reference`: a ready model with the outputs that nobody gave, and with a control that it takes.
//!
//! ONNX Runtime answers for ONNX files. What an IR or a TorchScript module gives only the runtime that is tested can say:
//! good enough to see whether the outputs depend on the inputs, and no second opinion.

use serde_json::json;

use crate::catalogue::{
    Code, Library, Part, Places, ReadyFormat, Requirement, WORKER, Worker, WorkerCall, onnxruntime,
    openvino, torch,
};
use crate::step::{Step, StepKind, Work};
use crate::toolchain::{EnvName, Tool};

pub struct Reference;
pub static REFERENCE: Reference = Reference;

fn format(step: &Step) -> ReadyFormat {
    let format = serde_json::from_value(step.params.json()["format"].clone());
    format.expect("BUG: a ready model has a format")
}

impl StepKind for Reference {
    fn name(&self) -> &'static str {
        "reference"
    }

    fn code(&self, step: &Step) -> &Code {
        static ONNX: Code = Code::of(&[&[Part::Rust("step/ready")], WORKER, onnxruntime::CODE]);
        static IR: Code = Code::of(&[&[Part::Rust("step/ready")], WORKER, openvino::CODE]);
        static MODULE: Code = Code::of(&[&[Part::Rust("step/ready")], WORKER, torch::CODE]);
        match format(step) {
            ReadyFormat::Onnx => &ONNX,
            ReadyFormat::Openvino => &IR,
            ReadyFormat::Torchscript => &MODULE,
        }
    }

    fn tools(&self, step: &Step) -> Vec<Tool> {
        let (env, package) = match format(step) {
            ReadyFormat::Onnx => (EnvName::Ort, "onnxruntime"),
            ReadyFormat::Openvino => (EnvName::Openvino, "openvino"),
            ReadyFormat::Torchscript => (EnvName::Torch, "torch"),
        };
        vec![Tool { env, package }]
    }

    fn is_native(&self) -> bool {
        true
    }

    fn requires(&self, step: &Step) -> Vec<Requirement> {
        vec![match format(step) {
            ReadyFormat::Onnx => Requirement::Env(EnvName::Ort),
            ReadyFormat::Openvino => Requirement::Env(EnvName::Openvino),
            ReadyFormat::Torchscript => Requirement::TorchWorker,
        }]
    }

    fn lower(&self, step: &Step, _: &Places) -> anyhow::Result<Work> {
        let (worker, library) = match format(step) {
            ReadyFormat::Onnx => (
                Worker::Orch(onnxruntime::RUNTIME.name),
                Some(&onnxruntime::LIBRARY),
            ),
            ReadyFormat::Openvino => (
                Worker::Orch(openvino::RUNTIME.name),
                Some(&openvino::LIBRARY),
            ),
            ReadyFormat::Torchscript => (Worker::Torch, None),
        };
        let libraries = library
            .into_iter()
            .map(|library| ("library", Library::Wheel(library)))
            .collect();
        Ok(Work::Worker(WorkerCall {
            libraries,
            ..WorkerCall::of(worker, "reference", &json!({}))
        }))
    }
}
