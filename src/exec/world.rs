//! The part of a run that keys and the scheduler read.

use crate::base::Digest;
use crate::device::Backend;
use crate::exec::host::HostFacts;
use crate::exec::options::Options;
use crate::plan::Plan;
use crate::provision::Provision;
use crate::step::Step;
use crate::store::DiskStore;
use crate::store::remote::Remote;

/// What keys are made of, and what a scheduler decides by.
#[derive(Clone, Copy)]
pub(in crate::exec) struct World<'a> {
    pub(in crate::exec) plan: &'a Plan,
    pub(in crate::exec) store: &'a DiskStore,
    pub(in crate::exec) provision: &'a Provision,
    pub(in crate::exec) inventory: &'a [Backend],
    pub(in crate::exec) host: &'a HostFacts,
    pub(in crate::exec) options: &'a Options,
    /// The store that is shared with other machines.
    pub(in crate::exec) remote: Option<&'a dyn Remote>,
}

impl World<'_> {
    /// The size in bytes of what a step made, whether it is here or stayed on the remote store. None if it is in neither,
    /// or cannot be read.
    pub(in crate::exec) fn tree_bytes(&self, tree: &Digest) -> Option<u64> {
        let stayed = || self.remote?.left(tree);
        let manifest = self.store.manifest(tree).ok().or_else(stayed);
        Some(manifest?.size())
    }

    /// Whether a step executes elsewhere.
    pub(in crate::exec) fn sends(&self, step: &Step) -> bool {
        self.options
            .routing
            .as_ref()
            .is_some_and(|routing| routing.sends(step, self.inventory))
    }
}
