//! `blame:<case>`: what makes a case wrong. No spec has such steps: `orch blame` adds them to a plan.
//!
//! The step reads what the case loads, what that was converted from, and the reference. It changes no record of the case.

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::catalogue::{Library, RUNTIMES, Windows, onnx};
use crate::device::backends::CPU;
use crate::spec::{Precision, Tolerance};
use crate::step::{
    Code, MemoryGuess, Part, Places, Requirement, Step, StepKind, Work, Worker, WorkerCall,
};
use crate::toolchain::{EnvName, Tool};

/// The name of the kind and of its op.
const OP: &str = "blame";
/// The file of a finding in the step's tree.
pub const FINDING: &str = "finding.json";
/// The folder in the step's tree that shows the fault without orch, where there is one.
pub const REPRO: &str = "repro";
/// The environment that cuts graphs into windows, and computes what is right.
const CUTTER: EnvName = EnvName::Ort;

/// The precisions of which the rounding is known: `blame/noise.py` makes it.
const ROUNDED: [Precision; 3] = [Precision::Fp16, Precision::Bf16, Precision::Int8];

/// The name of the step that searches for what makes a case wrong.
pub fn step_name(case: &str) -> String {
    format!("{OP}:{case}")
}

/// What is to blame for a wrong case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    pub verdict: Verdict,
    /// The runtime and its version, e.g. `onnxruntime` `1.31.1`.
    pub runtime: String,
    pub version: String,
    pub nodes_in_graph: usize,
    /// The file of the inputs that show it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<String>,
    /// How the exported file, computed node by node without optimisers, differs from the reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_is_wrong: Option<String>,
    /// The smallest module of which the exporter makes a wrong file, or none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub module: Option<Module>,
    /// The nodes of the smallest window that is wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<Node>,
    /// The operators of all such windows, in the order of the graph.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<Vec<String>>,
    /// The operators of windows that give another answer than the oracle, on which the outputs do not depend.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cleared: Vec<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difference: Option<Difference>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pass: Option<Pass>,
    /// The largest absolute error of the model's outputs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<f64>,
    /// The largest absolute error of the model's outputs if only these windows are wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub injected: Option<f64>,
    /// The nodes that chose another expert, box or code from scores that agree, the first of them first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<Choice>,
    /// How the error compares with what rounding alone makes, where the case has less than single precision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounding: Option<Rounding>,
    /// The error by which the runtime refuses the graph or ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RuntimeError>,
    /// What was made smaller in the window that shows the fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reduced: Option<Reduced>,
    /// Why the search ended before its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
    /// The number of windows that ended in another way than the graph, so that they answer nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unresolved: Option<u32>,
    /// The number of windows that were tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tries: Option<u32>,
    /// What cases with the same cause have in common.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The runtime computes some nodes wrongly.
    Runtime,
    /// The exported file is wrong, whoever computes it.
    File,
    /// The exporter makes a wrong file of a module.
    Exporter,
    /// The exporter ends with an error at a module.
    ExporterRefuses,
    /// The runtime gives other outputs each time.
    Varies,
    /// The whole graph is wrong, and no part of it is when it is fed with right values.
    NoWindow,
    /// Another expert, box or code was chosen, by less than rounding makes.
    Choice,
    /// The precision is the cause: rounding alone makes outputs as wrong.
    Rounding,
    /// The case has less than single precision, and is off by more than rounding makes.
    BeyondRounding,
    /// The runtime refuses some nodes.
    Refused,
    /// The runtime ends its process at some nodes.
    Crashed,
    /// Nothing is wrong by these inputs.
    NotReproduced,
}

/// A module of a PyTorch model of which an exporter makes a wrong file, or none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Module {
    /// Its path in the model, e.g. `encoder.layers.0.attention`; empty for the whole model.
    pub path: String,
    pub class: String,
    /// The number of its calls that were compared.
    pub calls: u32,
    /// Whether the file is right on the inputs that it was made with, and wrong on others.
    pub is_baked: bool,
    /// The number of modules in the model.
    pub modules: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Its place in the graph.
    pub place: usize,
    pub operator: String,
    pub name: String,
    pub outputs: Vec<String>,
}

/// A node that chose otherwise than the oracle.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    pub operator: String,
    pub name: String,
    /// The number of choices that differ, and that of all that the node made.
    pub changed: usize,
    pub of: usize,
    /// The largest gap between the right scores of both choices, as a share of the scale of the scores.
    pub margin: f64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuntimeError {
    /// Its first line without numbers, paths and addresses.
    pub class: String,
    pub message: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reduced {
    /// `sizes`, `constants`, or both.
    pub what: Vec<String>,
    /// Bytes of the model and its inputs.
    pub bytes_before: u64,
    pub bytes_after: u64,
}

/// How an output differs from the right one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    pub output: String,
    pub max_abs: Option<f64>,
    /// The largest ratio to the bound of a value; None where shapes or types differ.
    pub ratio: Option<f64>,
    pub why: String,
}

/// The error of a case, and what the same graph with rounded weights is off by.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rounding {
    pub precision: String,
    /// The wrong output with the largest ratio.
    pub output: String,
    /// The largest absolute error of that output; None where it is of another shape.
    pub observed: Option<f64>,
    /// The largest absolute error of that output that rounding made, over all seeds; None where it changes the shape.
    pub noise: Option<f64>,
    /// `observed / noise`; None where rounding does nothing of the kind.
    pub ratio: Option<f64>,
    pub seeds: u32,
    /// The node that makes most of a rounded input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amplifier: Option<Amplifier>,
    /// The nodes whose choice rounding changes: another expert, box or code.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Amplifier {
    pub operator: String,
    pub name: String,
    /// How much more its output moves than its inputs, each by its own scale.
    pub times: f64,
}

/// The part of a runtime that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pass {
    /// `graph optimisation from level basic on`, `front end`, `CPU plugin`.
    pub stage: String,
    /// The pass without which the window is right; None where no single one that can be switched off makes the difference.
    pub name: Option<String>,
}

impl Finding {
    /// Whether the windows explain what was observed: put into a right run, their values make its outputs as wrong.
    pub fn is_proven(&self) -> bool {
        self.observed
            .zip(self.injected)
            .is_some_and(|(observed, injected)| (0.5..=2.0).contains(&(injected / observed)))
    }
}

/// What a case failed by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Its outputs are wrong.
    Values,
    /// The runtime refuses the graph, or ends its process.
    Refusal,
}

/// The parameters of a search for what is to blame, all of them in its key.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BlameParams {
    /// The name of the case's runtime in the catalogue.
    runtime: String,
    tolerance: Tolerance,
    precision: Precision,
    /// Whether windows of the graph run as the case does. The conversion of a model at less than single precision is not that
    /// of a window, so all that can be said there is what rounding makes.
    has_windows: bool,
    mode: Mode,
    /// What of this machine can change what a runtime computes.
    host: String,
}

/// Whether orch searches for what makes cases of a runtime on a device wrong.
pub fn is_searched(runtime: &str, device: &str) -> bool {
    let known = RUNTIMES.iter().find(|known| known.name == runtime);
    known.is_some_and(|known| known.windows.is_some()) && device.eq_ignore_ascii_case(CPU.name)
}

impl BlameParams {
    /// The parameters for a run, or why nothing can be found out about it.
    pub fn of(run: &Step, mode: Mode, tolerance: Tolerance, host: &str) -> Result<Self, String> {
        let params = run.run();
        let name = params.runtime.name;
        let is_searched = is_searched(name, &params.device);
        let Some(windows) = params.runtime.windows.filter(|_| is_searched) else {
            return Err(format!(
                "orch cuts no windows for `{name}` on {} yet",
                params.device
            ));
        };
        let has_windows = windows.env == CUTTER || params.precision == Precision::Fp32;
        if !has_windows && mode == Mode::Refusal {
            return Err(format!("orch cuts windows for `{name}` in fp32 alone"));
        }
        if !has_windows && !ROUNDED.contains(&params.precision) {
            return Err(format!(
                "orch cuts windows for `{name}` in fp32 alone, and does not know what {} rounds",
                params.precision.word()
            ));
        }
        Ok(Self {
            runtime: name.to_owned(),
            tolerance,
            precision: params.precision,
            has_windows,
            mode,
            host: host.to_owned(),
        })
    }
}

fn params(step: &Step) -> BlameParams {
    step.params
        .parse()
        .expect("BUG: a search for what is to blame has its parameters")
}

fn windows(step: &Step) -> Windows {
    let name = params(step).runtime;
    let runtime = RUNTIMES.iter().find(|runtime| runtime.name == name);
    runtime
        .and_then(|runtime| runtime.windows)
        .expect("BUG: a runtime that runs no windows is to blame")
}

pub struct Blame;
pub static BLAME: Blame = Blame;

impl StepKind for Blame {
    known_as!(
        "blame",
        [&[
            Part::Rust("step/blame.rs"),
            Part::Python(OP),
            // It is started by its path.
            Part::PythonFile("blame/openvino_process.py"),
        ]]
    );

    fn tools(&self, step: &Step) -> Vec<Tool> {
        let accused = windows(step).env;
        let runtimes = RUNTIMES
            .iter()
            .filter_map(|runtime| runtime.windows)
            .filter(|windows| windows.env == CUTTER || windows.env == accused);
        runtimes
            .map(|Windows { env, package }| Tool { env, package })
            .chain(onnx::CUTS.map(|package| Tool {
                env: CUTTER,
                package,
            }))
            .collect()
    }

    fn is_in_specs(&self) -> bool {
        false
    }

    /// Windows of a graph, in the runtime.
    fn runs_models(&self) -> bool {
        true
    }

    fn memory(&self) -> Option<MemoryGuess> {
        // The graph, its values, and windows of it in a runtime.
        Some(MemoryGuess {
            base: 512 << 20,
            factor: 5,
        })
    }

    fn requires(&self, step: &Step) -> Vec<Requirement> {
        let mut needed = vec![CUTTER, windows(step).env];
        needed.dedup();
        needed.into_iter().map(Requirement::Env).collect()
    }

    fn server(&self, _: &Step) -> Option<EnvName> {
        Some(CUTTER)
    }

    fn lower(&self, step: &Step, _: &Places) -> anyhow::Result<Work> {
        let asked = params(step);
        // The cutter's own runtime needs no other process.
        let env = Some(windows(step).env).filter(|env| *env != CUTTER);
        let interpreter = env.map(|env| ("interpreter", Library::Interpreter(env)));
        Ok(Work::Worker(WorkerCall {
            libraries: interpreter.into_iter().collect(),
            ..WorkerCall::of(
                Worker::Python(CUTTER),
                OP,
                &json!({
                    "tolerance": asked.tolerance,
                    "precision": asked.precision,
                    "has_windows": asked.has_windows,
                    "mode": asked.mode,
                }),
            )
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_proven_by_what_its_values_do_to_the_outputs() {
        let finding = |observed, injected| Finding {
            verdict: Verdict::Runtime,
            runtime: "r".into(),
            version: "1".into(),
            nodes_in_graph: 3,
            inputs: None,
            file_is_wrong: None,
            module: None,
            nodes: vec![],
            places: vec![],
            cleared: vec![],
            difference: None,
            pass: None,
            observed: Some(observed),
            injected,
            choices: vec![],
            rounding: None,
            error: None,
            reduced: None,
            stopped: None,
            unresolved: None,
            tries: None,
            signature: None,
        };
        assert!(finding(0.0165, Some(0.0164)).is_proven());
        assert!(!finding(0.0165, Some(1e-7)).is_proven());
        assert!(!finding(0.0165, None).is_proven());
    }
}
