//! Asks what makes a case wrong: the exporter, or which nodes in which pass of the runtime.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::base::{Bug, Precision};
use crate::catalogue::{Places, Worker, WorkerCall};
use crate::device::backends::CPU;
use crate::exec::alone::Bench;
use crate::spec::Tolerance;
use crate::step::Step;
use crate::toolchain::EnvName;

/// The name of the op, and of the file in which it leaves what it found.
const OP: &str = "blame";
const FINDING: &str = "finding.json";
const REPRO: &str = "repro";

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
    /// The largest absolute error of the model's outputs,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<f64>,
    /// and what it is if only these windows are wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub injected: Option<f64>,
    /// How many windows were tried.
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
    /// The runtime gives other outputs each time.
    Varies,
    /// The whole graph is wrong, and no part of it is when it is fed with right values.
    NoWindow,
    /// Nothing is wrong by these inputs.
    NotReproduced,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Its place in the graph.
    pub place: usize,
    pub operator: String,
    pub name: String,
    pub outputs: Vec<String>,
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

/// What of a runtime is wrong.
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

/// What cuts graphs into windows, and computes what is right.
pub const CUTTER: EnvName = EnvName::Ort;

/// The environment that runs windows for a run, or why none can.
pub fn environment(run: &Step) -> Result<EnvName, String> {
    let params = run.run();
    let is_cpu = params.device.eq_ignore_ascii_case(CPU.name);
    let name = params.runtime.name;
    let Some(env) = params.runtime.windows.filter(|_| is_cpu) else {
        return Err(format!(
            "orch cuts no windows for `{name}` on {} yet",
            params.device
        ));
    };
    // The conversion of the weights is not the file's: a window has those of the source.
    if env != CUTTER && params.precision != Precision::Fp32 {
        return Err(format!(
            "orch cuts windows for `{name}` in fp32 alone, and this case has {}",
            params.precision.word()
        ));
    }
    Ok(env)
}

impl Bench<'_> {
    /// Finds out what makes a run wrong. `graph` is the ONNX file that it loads or that what it loads was made of, `reference`
    /// the tree with the right outputs, and `env` the environment that runs windows. Gives the finding, and the folder that
    /// shows it without orch where there is one.
    pub fn blame(
        &self,
        run: &Step,
        env: EnvName,
        (graph, reference): (&Path, &Path),
        tolerance: &Tolerance,
    ) -> anyhow::Result<(Finding, Option<PathBuf>)> {
        let [out, scratch] = self.folders(["out", "work"])?;
        let inputs = [("artefact", graph), ("reference", reference)];
        let places = Places {
            inputs: BTreeMap::from(inputs.map(|(name, path)| (name.to_owned(), path.to_owned()))),
            out: out.clone(),
            scratch,
            ..Places::default()
        };
        // The cutter's own runtime needs no other process.
        let interpreter = (env != CUTTER)
            .then(|| self.provision.env(env))
            .transpose()?
            .map(|env| env.python);
        let call = WorkerCall::of(
            Worker::Python(CUTTER),
            OP,
            &json!({"tolerance": tolerance, "interpreter": interpreter}),
        );
        self.succeed(&call, places, run.run(), run.timeout_seconds)?;
        let left = || Bug::new("a worker that succeeded left no finding");
        let text = std::fs::read(out.join(FINDING)).with_context(left)?;
        let finding = serde_json::from_slice(&text).with_context(left)?;
        let repro = out.join(REPRO);
        Ok((finding, repro.is_dir().then_some(repro)))
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
            nodes: vec![],
            places: vec![],
            cleared: vec![],
            difference: None,
            pass: None,
            observed: Some(observed),
            injected,
            tries: None,
            signature: None,
        };
        assert!(finding(0.0165, Some(0.0164)).is_proven());
        assert!(!finding(0.0165, Some(1e-7)).is_proven());
        assert!(!finding(0.0165, None).is_proven());
    }
}
