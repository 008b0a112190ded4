//! Makes the key of a step whose inputs are known. `key.rs` has the table of what is in a key.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use crate::base::{Digest, lock};
use crate::device::BackendRow;
use crate::exec::host::variable_digest;
use crate::exec::world::World;
use crate::key::{Hidden, KeyDoc};
use crate::step::{Params, Source, StepId};
use crate::store::{FileDigests, StoreError};
use crate::toolchain::{EnvName, Toolchain};
use crate::worker::{ARITHMETIC, DIVISION, TIMING};

pub(super) struct Keys<'a> {
    world: World<'a>,
    pub(super) files: FileDigests,
    known: Mutex<Known>,
}

/// Values that many steps need, looked up once.
#[derive(Default)]
struct Known {
    tools: BTreeMap<(Option<Arc<Toolchain>>, &'static str, EnvName), String>,
    /// None for one that is not set.
    variables: HashMap<Arc<str>, Option<Digest>>,
}

impl<'a> Keys<'a> {
    pub(super) fn new(world: World<'a>, files: FileDigests) -> Self {
        Self {
            world,
            files,
            known: Mutex::default(),
        }
    }

    /// The key document. `output` gives the tree of a step that passed.
    ///
    /// Lines are added in sorted order, which is the cheapest.
    pub(super) fn of(
        &self,
        id: StepId,
        output: impl Fn(StepId) -> Option<Digest>,
    ) -> Result<KeyDoc, StoreError> {
        let World {
            plan,
            provision,
            host,
            inventory,
            options,
            ..
        } = self.world;
        let step = plan.step(id);
        let mut doc = KeyDoc::with_capacity(256 + 88 * step.inputs.len());
        doc.set("code", step.kind.code(step).digest().short());
        if let Params::Program(program) = &step.params {
            for name in &program.env {
                let variable = *lock(&self.known)
                    .variables
                    .entry(name.clone())
                    .or_insert_with(|| variable_digest(name));
                // A variable that is not set has no line: any placeholder could also be a value.
                if let Some(digest) = variable {
                    doc.set_parts(&["env.", name], Hidden(digest));
                }
            }
        }
        let away = options
            .routing
            .as_ref()
            .filter(|routing| routing.sends(step, inventory));
        if let Some(routing) = away.filter(|_| step.kind.runs_on_device()) {
            doc.set("host", routing.described(step));
        } else if step.kind.runs_on_device() {
            let is_timed = step.kind.is_timed(step);
            doc.set(
                "host",
                if is_timed {
                    &host.fingerprint
                } else {
                    &host.computing
                },
            );
            host.set_variables(DIVISION, &mut doc);
            if is_timed {
                host.set_variables(TIMING, &mut doc);
            }
            self.set_device(step.run().backend, &mut doc);
        }
        let mut inputs: Vec<_> = step.inputs.iter().collect();
        inputs.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        for (name, source) in inputs {
            let digest = match source {
                Source::Step(from) => output(*from)
                    .unwrap_or_else(|| panic!("BUG: {} is keyed before its input", step.name)),
                Source::File(path) => self.files.digest(path)?,
            };
            doc.set_parts(&["input.", name], digest);
        }
        doc.set("kind", step.kind.name());
        step.params.describe(&mut doc);
        if step.kind.is_native() || step.kind.runs_on_device() {
            doc.set("target", &host.target);
        }
        let tools = step.kind.tools(step);
        if !tools.is_empty() && away.is_none() {
            host.set_variables(ARITHMETIC, &mut doc);
        }
        for (name, value) in away
            .iter()
            .flat_map(|routing| &routing.env)
            .filter(|_| !tools.is_empty())
        {
            if ARITHMETIC.contains(&name.as_str()) {
                doc.set(format!("env.{name}"), value);
            }
        }
        for tool in tools {
            let known = &mut lock(&self.known).tools;
            let toolchain = step.toolchain_of(tool.env);
            let provision = provision.with(toolchain.as_ref());
            let identity = known
                .entry((toolchain.clone(), tool.package, tool.env))
                .or_insert_with(|| provision.identity(tool));
            doc.set_parts(&["tool.", tool.package], identity);
        }
        Ok(doc)
    }

    /// The devices on which a measurement may take place and their driver, where the fingerprint of the host does not
    /// tell them. Free memory and serial numbers are left out.
    fn set_device(&self, backend: &BackendRow, doc: &mut KeyDoc) {
        let found = self
            .world
            .inventory
            .iter()
            .find(|known| known.name == backend.name);
        let Some(found) = found.filter(|_| !backend.is_host) else {
            return;
        };
        for device in &found.devices {
            doc.set(format!("device.{}", device.id), device.known_as());
        }
        for fact in ["driver", "rocm"] {
            if let Some(version) = found.facts.get(fact) {
                doc.set(format!("device.{fact}"), version);
            }
        }
    }
}
