//! What a scheduler may look at, the messages it gets, and the effects it wants.

use std::path::PathBuf;

use crate::base::Digest;
use crate::device::Backend;
use crate::event::{Event, Span};
use crate::exec::keys::HostFacts;
use crate::exec::perform::Performed;
use crate::exec::task::Task;
use crate::exec::{Context, Options};
use crate::key::{KeyDoc, MissReason};
use crate::plan::Plan;
use crate::provision::Provision;
use crate::record::Record;
use crate::step::{Requirement, Step, StepId};
use crate::store::DiskStore;
use crate::store::remote::Remote;

/// What a scheduler may look at.
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
    pub(in crate::exec) fn size(&self, tree: &Digest) -> Option<u64> {
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

impl<'a> Context<'a> {
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

/// A message to a scheduler.
pub(in crate::exec) enum Message {
    /// How an execution ended, and its log if it failed and left one.
    Performed(StepId, Performed, Option<String>, Span),
    /// A step did not start. With what it was handed, why, and when that was (RFC 3339).
    NotStarted {
        id: StepId,
        key: KeyDoc,
        reason: MissReason,
        why: String,
        at: String,
    },
    /// What a remote answered about a step.
    Answered(StepId, Option<Box<Record>>),
    Installed(Requirement, Result<(), String>),
    /// How much memory the devices have, by their drivers.
    Sized(Vec<Backend>),
    /// The user wants no more.
    Interrupted,
}

/// What is to be done.
pub(in crate::exec) enum Effect<'a> {
    Tell(Event),
    /// A task to start, and the event to report once it has started.
    Start(Box<Task<'a>>, Event),
    /// Asks whether another machine has the result of this key.
    Ask(StepId, Digest),
    Install(Requirement),
    /// Asks drivers how much memory those devices have whose files do not say it.
    AskSizes,
    /// Keeps the log of an attempt from the next one.
    KeepLog {
        log: PathBuf,
        of_attempt: PathBuf,
    },
}
