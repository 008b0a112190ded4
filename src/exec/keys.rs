//! The key of a step, once what it reads is known. The table of what it holds is in `key.rs`.

use crate::base::Digest;
use crate::key::KeyDoc;
use crate::plan::Plan;
use crate::provision::Provision;
use crate::step::{Params, Source, StepId};
use crate::store::{FileDigests, StoreError};

/// What keys and reports say of this machine.
#[derive(Debug, Clone)]
pub struct HostFacts {
    /// Stands in the key of measurements; holds no host name.
    pub fingerprint: String,
    pub report: crate::report::Host,
}

pub(super) struct Keys<'a> {
    pub(super) plan: &'a Plan,
    pub(super) provision: &'a Provision,
    pub(super) files: FileDigests,
    pub(super) host: &'a HostFacts,
}

impl Keys<'_> {
    /// The key document. `output` gives the tree of a step that passed.
    pub(super) fn of(&self, id: StepId, output: impl Fn(StepId) -> Option<Digest>) -> Result<KeyDoc, StoreError> {
        let step = self.plan.step(id);
        let mut doc = KeyDoc::default();
        doc.set("kind", step.kind.name());
        doc.set("code", step.kind.code().short());
        step.params.describe(&mut doc);
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
        for tool in step.kind.tools(step) {
            doc.set(format!("tool.{}", tool.package), self.provision.identity(tool));
        }
        if step.kind.is_native() || step.kind.is_measured() {
            doc.set("target", format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS));
        }
        if step.kind.is_measured() {
            doc.set("host", &self.host.fingerprint);
        }
        if let Params::Program(program) = &step.params {
            for name in &program.env {
                doc.set(format!("env.{name}"), std::env::var(&**name).unwrap_or_else(|_| "absent".into()));
            }
        }
        Ok(doc)
    }
}
