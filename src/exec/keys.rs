//! The key of a step, once what it reads is known. The table of what it holds is in `key.rs`.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use crate::base::Digest;
use crate::device::Backend;
use crate::key::KeyDoc;
use crate::plan::Plan;
use crate::provision::Provision;
use crate::step::{RunParams, Source, StepId};
use crate::store::{FileDigests, StoreError};

/// What keys and reports say of this machine.
#[derive(Debug, Clone)]
pub struct HostFacts {
    /// Stands in the key of measurements; holds no host name.
    pub fingerprint: String,
    /// Architecture and operating system, in the keys of native artefacts.
    pub target: String,
    /// Variables that are set and change what libraries compute or how fast ([`ARITHMETIC`], [`TIMING`]).
    pub variables: BTreeMap<String, String>,
    pub report: crate::report::Host,
}

/// Variables that every worker inherits and that change the results of the libraries in it.
const ARITHMETIC: &[&str] = &[
    "ATEN_CPU_CAPABILITY",
    "DNNL_DEFAULT_FPMATH_MODE",
    "DNNL_MAX_CPU_ISA",
    "MKL_CBWR",
    "MKL_ENABLE_INSTRUCTIONS",
    "NVIDIA_TF32_OVERRIDE",
    "ONEDNN_DEFAULT_FPMATH_MODE",
    "ONEDNN_MAX_CPU_ISA",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
];

/// Variables that change how long they take.
const TIMING: &[&str] = &[
    "GOMP_CPU_AFFINITY",
    "KMP_AFFINITY",
    "KMP_BLOCKTIME",
    "LD_PRELOAD",
    "MKL_DYNAMIC",
    "MKL_NUM_THREADS",
    "OMP_DYNAMIC",
    "OMP_NUM_THREADS",
    "OMP_PLACES",
    "OMP_PROC_BIND",
    "OMP_SCHEDULE",
    "OMP_THREAD_LIMIT",
];

impl HostFacts {
    /// This machine. `variable` reads the environment.
    pub fn new(fingerprint: String, report: crate::report::Host, variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let names = ARITHMETIC.iter().chain(TIMING);
        let set = names.filter_map(|name| Some(((*name).to_owned(), text(&variable(name)?))));
        let target = format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS);
        Self { fingerprint, target, variables: set.collect(), report }
    }

    fn set_variables(&self, names: &[&str], doc: &mut KeyDoc) {
        for name in names {
            if let Some(value) = self.variables.get(*name) {
                doc.set(format!("env.{name}"), value);
            }
        }
    }
}

/// The value of a variable as a line of a key; bytes that are no text stand there as a digest of them.
fn text(value: &OsStr) -> String {
    value.to_str().map_or_else(|| format!("bytes {}", Digest::of(value.as_encoded_bytes())), str::to_owned)
}

pub(super) struct Keys<'a> {
    pub(super) plan: &'a Plan,
    pub(super) provision: &'a Provision,
    pub(super) files: FileDigests,
    pub(super) host: &'a HostFacts,
    pub(super) inventory: &'a [Backend],
}

impl Keys<'_> {
    /// The key document. `output` gives the tree of a step that passed.
    pub(super) fn of(&self, id: StepId, output: impl Fn(StepId) -> Option<Digest>) -> Result<KeyDoc, StoreError> {
        let step = self.plan.step(id);
        let mut doc = KeyDoc::default();
        doc.set("kind", step.kind.name());
        doc.set("code", step.kind.code(step).digest().short());
        doc.set_json("param", &step.params);
        for (name, source) in &step.inputs {
            match source {
                Source::Step(from) => {
                    let digest =
                        output(*from).unwrap_or_else(|| panic!("BUG: {} is keyed before its input", step.name));
                    doc.set(format!("input.{name}"), digest);
                }
                Source::File(path) => doc.set(format!("input.{name}"), self.files.digest(path)?),
                Source::Record(_) => {} // the report's key is made of what it shows
            }
        }
        let tools = step.kind.tools(step);
        for tool in &tools {
            doc.set(format!("tool.{}", tool.package), self.provision.identity(*tool));
        }
        if !tools.is_empty() {
            self.host.set_variables(ARITHMETIC, &mut doc);
        }
        if step.kind.is_native() || step.kind.is_measured() {
            doc.set("target", &self.host.target);
        }
        if step.kind.is_measured() {
            doc.set("host", &self.host.fingerprint);
            self.host.set_variables(TIMING, &mut doc);
            self.set_device(&RunParams::of(step).backend, &mut doc);
        }
        if step.kind.name() == "command" {
            for name in step.params["env"].as_array().into_iter().flatten().filter_map(|name| name.as_str()) {
                // One that is not set has no line: any text that stood for it could also be a value.
                if let Some(value) = std::env::var_os(name) {
                    doc.set(format!("env.{name}"), text(&value));
                }
            }
        }
        Ok(doc)
    }

    /// The devices on which a measurement may take place and their driver, where the fingerprint of the host does not
    /// tell them. Not which of their memory is free, nor serial numbers.
    fn set_device(&self, backend: &str, doc: &mut KeyDoc) {
        let Some(found) = self.inventory.iter().find(|known| known.name == backend && backend != "cpu") else { return };
        for device in &found.devices {
            doc.set(format!("device.{}", device.id), &device.name);
        }
        for fact in ["driver", "rocm"] {
            if let Some(version) = found.facts.get(fact) {
                doc.set(format!("device.{fact}"), version);
            }
        }
    }
}
