//! The catalogue: what orch can run models with, and in which forms. One file for each runtime holds its row, and what it
//! alone loads; the rows of backends stand beside their probers (`device/backends.rs`).
//!
//! A row says all that the rest of orch must know of a runtime or an artefact, so nothing else asks for its name
//! (`tests/architecture.rs`), and what a row does not say does not compile. Rows do nothing: what they lower to is done by
//! `exec`, and what runs in a worker stands in `runtime/`.

pub mod android;
mod artefact;
pub mod browser;
mod code;
pub mod litert;
pub mod onnx;
pub mod openvino;
pub mod onnxruntime;
pub mod python;
pub mod qnn;
mod run;
pub mod torch;
pub mod tract;
pub mod transformers_js;
mod work;

use crate::base::Precision;
use crate::base::words::rows;
use crate::device::{Backend, BackendRow};
use crate::runtime::Execute;
use crate::runtime::tensors::Element;
use crate::toolchain::{EnvName, Tool};

pub use artefact::{Artefact, Conversion, Converter, From, ReadyFormat, Wanted, with_tokens};
pub(crate) use code::parts;
pub use code::{Code, Part, Sources, WORKER};
pub use run::{RunParams, TestMeasure, Untimed};
use work::serialised;
pub use work::{
    Access, Library, MemoryGuess, Needs, Places, Requirement, SharedFolder, StoredFile, Wheel,
    Worker, WorkerCall,
};

/// All of them, in the order in which people read them.
pub static RUNTIMES: &[&Runtime] = &[
    &onnxruntime::RUNTIME,
    &openvino::RUNTIME,
    &litert::RUNTIME,
    &tract::RUNTIME,
    &torch::RUNTIME,
    &python::RUNTIME,
    &browser::RUNTIME,
    &transformers_js::RUNTIME,
    &android::RUNTIME,
];

/// All of them, in the order in which people read them.
pub static ARTEFACTS: &[&Artefact] = &[
    &onnx::ARTEFACT,
    &openvino::ARTEFACT,
    &qnn::ARTEFACT,
    &litert::ARTEFACT,
    &torch::ARTEFACT,
    &python::ARTEFACT,
    &transformers_js::ARTEFACT,
];

/// What runs windows of a graph, parts of it that are fed with right values, as a runtime would.
#[derive(Debug, Clone, Copy)]
pub struct Windows {
    pub env: EnvName,
    /// The package of that environment that computes them.
    pub package: &'static str,
}

/// What executes models.
pub struct Runtime {
    /// The name in YAML and in keys.
    pub name: &'static str,
    /// The backends on which it runs, and what it loads there.
    pub pairs: &'static [Pair],
    /// Why this build of orch does not have it; None where it does.
    pub absent: Option<&'static str>,
    /// What `orch worker` of this name does. None if orch starts something else for it.
    pub execute: Option<Execute>,
    /// What performs a run.
    pub code: Code,
    /// Packages whose versions can change what a run gives.
    pub tools: fn(&RunParams) -> Vec<Tool>,
    pub requires: fn(&RunParams) -> Vec<Requirement>,
    /// The environment whose Python server does the work, where one does.
    pub server: Option<EnvName>,
    /// Whether what it runs is the generated test itself.
    pub runs_the_test: bool,
    /// Whether its worker can tell what each operator takes.
    pub profiles: bool,
    /// How `orch blame` runs windows of its graphs on the CPU; None where it cannot.
    pub windows: Option<Windows>,
    /// Whether it can hold several models at once and run the loop that calls them.
    pub composes: bool,
    pub needs: fn(&RunParams) -> Needs,
    /// The runtime's word for what a model of this precision is computed in, on a target with `half` or without; None where
    /// the precision says it.
    pub computes: fn(Precision, bool) -> Option<&'static str>,
    /// Whether a failure would be the same another time: its devices do not come and go.
    pub failures_stand: bool,
    /// Facts of its worker that are versions of libraries.
    pub versions: &'static [&'static str],
    pub lower: fn(&RunRequest<'_>) -> anyhow::Result<WorkerCall>,
}

rows!(Runtime as "runtime" in RUNTIMES);

/// A runtime on a backend.
pub struct Pair {
    pub backend: &'static BackendRow,
    pub loads: &'static [&'static Artefact],
    /// A generated test is made from `templates/hardware/<this>.py.j2`, …
    pub template: &'static str,
    /// … and this environment's Python runs it by itself.
    pub test_env: EnvName,
    pub half: Half,
}

/// How it is known whether a device computes in half precision.
pub enum Half {
    /// A small computation on it shows that.
    Shown(&'static HalfProbe),
    /// The answer of another runtime, which has the same library under it.
    ProbedBy(&'static Runtime),
    /// No answer: the runtime does not give one. A sentence that says so.
    Unknown(&'static str),
    /// orch has no probe for it.
    Unprobed,
}

/// A small computation that shows in which precision a device computes.
pub struct HalfProbe {
    /// The precisions that `orch devices` asks for.
    pub precisions: &'static [Precision],
    /// The runtime's names of the devices that a backend was found to have.
    pub devices: fn(&Backend) -> Vec<String>,
    /// What the tensors are kept in.
    pub tensors: Element,
    pub lower: fn(&RunRequest<'_>) -> anyhow::Result<WorkerCall>,
}

/// One run, to be lowered.
pub struct RunRequest<'a> {
    pub run: &'a RunParams,
    pub timeout_seconds: u64,
    pub places: &'a Places,
}

impl Runtime {
    /// None where it does not run on the backend.
    pub fn on(&self, backend: &BackendRow) -> Option<&'static Pair> {
        self.pairs.iter().find(|pair| pair.backend == backend)
    }

    /// Whether it does on any of its backends.
    pub fn loads(&self, artefact: &Artefact) -> bool {
        self.pairs.iter().any(|pair| pair.loads.contains(&artefact))
    }
}

/// The device that goes by the backend's name.
fn one_device(found: &Backend) -> Vec<String> {
    vec![found.name.clone()]
}

/// Nothing besides the precision, which says all.
fn by_precision(_: Precision, _: bool) -> Option<&'static str> {
    None
}

#[cfg(test)]
mod joint_tests;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;
    use crate::template;
    use crate::toolchain::Locks;

    pub(super) fn run(
        runtime: &'static Runtime,
        pair: &'static Pair,
        measure: TestMeasure,
    ) -> RunParams {
        RunParams {
            runtime,
            backend: pair.backend,
            device: pair.backend.name.to_owned(),
            precision: Precision::Fp32,
            options: Default::default(),
            properties: Default::default(),
            measure,
            round: None,
            test: runtime.runs_the_test.then(|| "test_x.py".to_owned()),
            computes: None,
        }
    }

    pub(super) fn places() -> Places {
        let inputs = ["artefact", "model", "test"]
            .map(|name| (name.to_owned(), format!("/{name}").into()))
            .into();
        Places {
            inputs,
            out: "/out".into(),
            scratch: "/scratch".into(),
            ..Places::default()
        }
    }

    #[test]
    fn every_pair_has_all_that_a_run_takes() {
        let places = places();
        for runtime in RUNTIMES {
            assert!(!runtime.pairs.is_empty());
            for pair in runtime.pairs {
                let params = run(runtime, pair, TestMeasure::NONE);
                let name = format!("{} on {}", runtime.name, pair.backend.name);
                assert!(!pair.loads.is_empty(), "{name}");
                assert!(
                    template::source(&format!("hardware/{}.py.j2", pair.template)).is_some(),
                    "{name}"
                );
                for tool in (runtime.tools)(&params) {
                    Locks::default().identity(tool);
                }
                let request = RunRequest {
                    run: &params,
                    timeout_seconds: 1,
                    places: &places,
                };
                let call = (runtime.lower)(&request).unwrap();
                assert_eq!(
                    call.op,
                    if runtime.runs_the_test {
                        "script"
                    } else {
                        "run"
                    },
                    "{name}"
                );
                match call.worker {
                    Worker::Orch(worker) | Worker::Kept(worker) => {
                        assert!(
                            worker == runtime.name && runtime.execute.is_some(),
                            "{name}"
                        );
                    }
                    Worker::Torch => assert!(
                        (runtime.requires)(&params).contains(&Requirement::TorchWorker),
                        "{name}"
                    ),
                    Worker::Python(env) => assert_eq!(runtime.server, Some(env), "{name}"),
                }
                if let Half::Shown(probe) = &pair.half {
                    (probe.lower)(&request).unwrap();
                }
            }
        }
    }

    #[test]
    fn every_row_can_be_reached() {
        for artefact in ARTEFACTS {
            assert!(
                RUNTIMES.iter().any(|runtime| runtime.loads(artefact)),
                "nothing loads {artefact:?}"
            );
        }
        for backend in crate::device::BACKENDS {
            assert!(
                RUNTIMES.iter().any(|runtime| runtime.on(backend).is_some()),
                "nothing runs on {backend:?}"
            );
        }
    }

    #[test]
    fn names_are_unique_and_are_what_is_written() {
        let names: BTreeSet<_> = RUNTIMES.iter().map(|row| row.name).collect();
        assert_eq!(names.len(), RUNTIMES.len());
        let names: BTreeSet<_> = ARTEFACTS.iter().map(|row| row.name).collect();
        assert_eq!(names.len(), ARTEFACTS.len());
        for row in RUNTIMES {
            assert_eq!(
                serde_json::from_value::<&'static Runtime>(json!(row)).unwrap(),
                *row
            );
        }
        let unknown = serde_json::from_value::<&'static Runtime>(json!("ortt")).unwrap_err();
        assert_eq!(unknown.to_string(), "no runtime is called `ortt`");
    }
}
