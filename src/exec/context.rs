//! Everything that a run is given.

use std::path::PathBuf;

use crate::base::Digest;
use crate::device::Backend;
use crate::event::Listener;
use crate::exec::away::RemoteExecutor;
use crate::exec::host::HostFacts;
use crate::exec::options::Options;
use crate::exec::probe::Probe;
use crate::exec::world::World;
use crate::plan::Plan;
use crate::provision::Provision;
use crate::store::DiskStore;
use crate::store::remote::Remote;
use crate::worker::{Cancel, Project, Workplace};

/// Everything a run is given.
pub struct Context<'a> {
    pub plan: &'a Plan,
    pub store: &'a DiskStore,
    pub provision: &'a Provision,
    pub listener: &'a dyn Listener,
    /// The probers' answers about this host.
    pub inventory: &'a [Backend],
    /// Asks native libraries for what files do not say.
    pub probe: &'a dyn Probe,
    pub host: &'a HostFacts,
    pub options: &'a Options,
    pub cancel: &'a Cancel,
    /// The store that is shared with other machines.
    pub remote: Option<&'a dyn Remote>,
    /// The server that executes the steps which [`Options::routing`] sends away.
    pub away: Option<&'a dyn RemoteExecutor>,
}

impl Context<'_> {
    /// The places where commands work: in folders below `dir`, and with files of the project.
    pub(super) fn workplace(&self, dir: PathBuf) -> Workplace {
        let shown = [self.store.root(), self.provision.dir()];
        Workplace {
            sandboxes: dir.canonicalize().unwrap_or(dir),
            project: Project::new(&self.options.project, &shown),
        }
    }
}

impl<'a> Context<'a> {
    /// The size in bytes of a tree, whether it is here or stayed on the remote store. None if it is in neither, or cannot
    /// be read.
    pub(crate) fn tree_bytes(&self, tree: &Digest) -> Option<u64> {
        self.world().tree_bytes(tree)
    }

    pub(in crate::exec) fn world(&self) -> World<'a> {
        let Context {
            plan,
            store,
            provision,
            inventory,
            host,
            options,
            remote,
            ..
        } = *self;
        World {
            plan,
            store,
            provision,
            inventory,
            host,
            options,
            remote,
        }
    }
}
