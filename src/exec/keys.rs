//! The key of a step, once what it reads is known. The table of what it holds is in `key.rs`.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use crate::base::Digest;
use crate::key::KeyDoc;
use crate::plan::Plan;
use crate::provision::Provision;
use crate::step::{Params, Source, StepId};
use crate::store::{FileDigests, StoreError};
use crate::toolchain::Tool;

/// What keys and reports say of this machine.
#[derive(Debug, Clone)]
pub struct HostFacts {
    /// Stands in the key of measurements; holds no host name.
    pub fingerprint: String,
    pub report: crate::report::Host,
}

pub(super) struct Keys<'a> {
    plan: &'a Plan,
    provision: &'a Provision,
    pub(super) files: FileDigests,
    host: &'a HostFacts,
    /// The machine that native code is for.
    target: String,
    known: RefCell<Known>,
}

/// What many steps have in common, and is asked for once.
#[derive(Default)]
struct Known {
    /// Digests of the kinds' code.
    codes: HashMap<&'static str, String>,
    tools: HashMap<Tool, String>,
    variables: HashMap<Arc<str>, String>,
}

impl<'a> Keys<'a> {
    pub(super) fn new(plan: &'a Plan, provision: &'a Provision, files: FileDigests, host: &'a HostFacts) -> Self {
        let target = format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS);
        Self { plan, provision, files, host, target, known: RefCell::default() }
    }

    /// The key document. `output` gives the tree of a step that passed.
    ///
    /// Its lines are added in the order in which they stand, because that is cheapest.
    pub(super) fn of(&self, id: StepId, output: impl Fn(StepId) -> Option<Digest>) -> Result<KeyDoc, StoreError> {
        let step = self.plan.step(id);
        let known = &mut *self.known.borrow_mut();
        let mut doc = KeyDoc::with_capacity(256 + 88 * step.inputs.len());
        doc.set("code", known.codes.entry(step.kind.name()).or_insert_with(|| step.kind.code().short()));
        if let Params::Program(program) = &step.params {
            for name in &program.env {
                let variable = known.variables.entry(name.clone());
                let value = variable.or_insert_with(|| std::env::var(&**name).unwrap_or_else(|_| "absent".into()));
                doc.set_parts(&["env.", name], value);
            }
        }
        if step.kind.is_measured() {
            doc.set("host", &self.host.fingerprint);
        }
        for (name, source) in by_name(&step.inputs) {
            let digest = match source {
                Source::Step(from) => {
                    output(*from).unwrap_or_else(|| panic!("BUG: {} is keyed before its input", step.name))
                }
                Source::File(path) => self.files.digest(path)?,
                Source::Record(_) => continue, // the report's key is made of what it shows
            };
            doc.set_parts(&["input.", name], digest);
        }
        doc.set("kind", step.kind.name());
        step.params.describe(&mut doc);
        if step.kind.is_native() || step.kind.is_measured() {
            doc.set("target", &self.target);
        }
        for tool in step.kind.tools(step) {
            let identity = known.tools.entry(tool).or_insert_with(|| self.provision.identity(tool));
            doc.set_parts(&["tool.", tool.package], identity);
        }
        Ok(doc)
    }
}

fn by_name(inputs: &[(Arc<str>, Source)]) -> Vec<&(Arc<str>, Source)> {
    let mut inputs: Vec<_> = inputs.iter().collect();
    inputs.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    inputs
}
