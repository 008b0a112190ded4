//! A step that is handed to a job thread: its key, where its inputs are, and its lease.

use std::path::PathBuf;

use crate::base::Digest;
use crate::device::Lease;
use crate::exec::perform::outcome::{Judged, set_fact};
use crate::key::{KeyDoc, MissReason};
use crate::record::Attempt;
use crate::runtime::Order;
use crate::step::{Step, StepId};
use crate::store::stat::Stamp;

/// What was chosen, and why: names of facts and their text.
pub(in crate::exec) type Choices = Vec<(&'static str, String)>;

/// Whether a step is executed for the sake of another result, so that none that is held anywhere will do.
pub(in crate::exec) fn wants_another(why: &MissReason) -> bool {
    matches!(
        why,
        MissReason::Requested | MissReason::TooOld { .. } | MissReason::NotQuiet { .. }
    )
}

/// One step with its key and the digests or paths of what it reads.
pub(in crate::exec) struct Task<'a> {
    pub(in crate::exec) id: StepId,
    pub(in crate::exec) step: &'a Step,
    pub(in crate::exec) key: KeyDoc,
    pub(in crate::exec) inputs: Vec<(String, InputAt)>,
    pub(in crate::exec) why: MissReason,
    /// Attempts before this one.
    pub(in crate::exec) attempts: Vec<Attempt>,
    /// The device that it holds.
    pub(in crate::exec) lease: Option<Lease>,
    /// What orch chose for it, if that was requested.
    pub(in crate::exec) chosen: Option<Choices>,
    /// No other step reads what it makes, or it was requested by name.
    pub(in crate::exec) is_top: bool,
    /// The round's place in the order of several, when it runs among them.
    pub(in crate::exec) order: Option<Order>,
}

impl Task<'_> {
    /// The tree that an input is, and who made it.
    pub(in crate::exec) fn tree(&self, name: &str) -> Option<(StepId, Digest)> {
        self.inputs.iter().find_map(|(known, at)| match at {
            InputAt::Tree { from, digest } if known == name => Some((*from, *digest)),
            _ => None,
        })
    }

    /// An error if a source file changed while the step read it: then its content is not the one in the key.
    pub(in crate::exec) fn files_are_the_same(&self) -> anyhow::Result<()> {
        for (name, at) in &self.inputs {
            if let InputAt::File(path, stamp) = at
                && Stamp::of(path).ok() != *stamp
            {
                anyhow::bail!(
                    "its input `{name}` ({}) changed while it ran; run again",
                    path.display()
                );
            }
        }
        Ok(())
    }
}

pub(in crate::exec) enum InputAt {
    Tree {
        from: StepId,
        digest: Digest,
    },
    /// A file, with its stamp when the step was handed out.
    File(PathBuf, Option<Stamp>),
}

/// The record names the device that the step was given, and why its target or precision was chosen.
pub(in crate::exec) fn placed(mut judged: Judged, task: &Task<'_>) -> Judged {
    let lease = task.lease.as_ref().map(|lease| ("lease", lease.facts()));
    let chosen = task
        .chosen
        .iter()
        .flatten()
        .map(|(name, why)| (*name, why.as_str().into()));
    lease
        .into_iter()
        .chain(chosen)
        .for_each(|(name, value)| set_fact(&mut judged.facts, name, value));
    judged
}
