//! Reads a settlement and compares it with the disk: nothing changed, only sources changed, or it cannot tell.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use crate::base::{Digest, fs as bfs};
use crate::exec::variable_digest;
use crate::plan::Plan;
use crate::report::{ReportDoc, RunPath};
use crate::settled::cone::Cone;
use crate::settled::plan_file::{self, Head};
use crate::settled::state_file::{Patch, Patches, State, is_unchanged};
use crate::settled::{Here, Place};
use crate::store::sealed::Sealed;
use crate::store::stat::{Moment, Stamp, now};
use crate::store::table::{Found, Table};
use crate::store::{DiskStore, FileDigests, Hashed};

pub enum Look {
    /// All is as it was.
    Unchanged(Box<Settled>),
    /// Sources changed that only commands read. With what must be looked up: these commands, the steps that they read, and
    /// a stand-in for the report.
    Changed(Box<Cone>, Box<Plan>),
}

/// A settlement, read and not yet compared with anything.
pub struct Settled {
    pub(super) plan: Sealed,
    pub(super) head: Head,
    pub(super) state: State,
    pub(super) doc: ReportDoc,
    /// The stamps of the plan file.
    pub(super) inputs: Table,
}

/// What became of the source files.
#[derive(Default)]
pub(super) struct Changes {
    /// Inputs with other content.
    pub(super) inputs: Vec<u32>,
    /// Rows whose stamps are no longer right, and those with other content.
    pub(super) input_patches: Patches,
    pub(super) inside_patches: Patches,
}

impl Place {
    /// The settlement of this command line. None if there is none, or none that can be read: then nothing is known.
    pub fn open(&self) -> Option<Settled> {
        let read = || -> io::Result<Settled> {
            let plan = Sealed::open(&self.plan, plan_file::KIND)?;
            let state = State::read(&self.state, plan.seal())?;
            let head = serde_json::from_slice(&plan.section(plan_file::HEAD)?)?;
            let mut doc: ReportDoc = serde_json::from_slice(&plan.section(plan_file::DOC)?)?;
            doc.summary.path = RunPath::Settled;
            doc.summary.fetched = 0;
            let inputs = Table::read(&plan, plan_file::INPUTS)?;
            Ok(Settled { plan, head, state, doc, inputs })
        };
        read().ok()
    }
}

impl Settled {
    /// Whether devices must be looked for before [`Settled::look`].
    pub fn has_cases(&self) -> bool {
        self.head.has_cases
    }

    /// What an ordinary run would print now; its seconds are the caller's.
    pub fn into_doc(self) -> ReportDoc {
        self.doc
    }

    pub fn has_report(&self) -> bool {
        self.head.has_report
    }

    /// Compares it with the disk. None where only the ordinary path can tell what is to be done.
    pub fn look(mut self, place: &Place, here: Here<'_>) -> Option<Look> {
        self.compare(place, here).ok().flatten().and_then(|changes| {
            self.doc.host = here.host.report.clone();
            self.doc.backends = here.inventory.to_vec();
            if changes.inputs.is_empty() {
                return Some(Look::Unchanged(Box::new(self)));
            }
            Cone::new(self, changes).ok().flatten().map(|(cone, plan)| Look::Changed(Box::new(cone), Box::new(plan)))
        })
    }

    fn compare(&mut self, place: &Place, here: Here<'_>) -> io::Result<Option<Changes>> {
        let log = DiskStore::log_extent(place.root());
        let is_as_it_was = log.zip(self.head.log).is_some_and(|(now, then)| now.continues(&then))
            && self.head.variables.iter().all(|(name, value)| variable_digest(name) == *value)
            && self.head.here == here.digest()
            && is_unchanged(&self.state.guards.fans)
            && is_unchanged(&self.state.guards.kept);
        if !is_as_it_was {
            return Ok(None);
        }
        let Some(is_newer) = self.compare_specs()? else { return Ok(None) };
        let Some(changes) = self.compare_inputs()? else { return Ok(None) };
        if changes.inputs.is_empty() {
            let before = (self.state.inputs.clone(), self.state.inside.clone());
            self.state.inputs.extend(&changes.input_patches);
            self.state.inside.extend(&changes.inside_patches);
            if is_newer || before != (self.state.inputs.clone(), self.state.inside.clone()) {
                // Only speed is lost if it cannot be written: these files are hashed again next time.
                let _ = self.state.write(&place.state);
            }
        }
        Ok(Some(changes))
    }

    /// Whether the specs got new stamps. None if one has other content.
    fn compare_specs(&mut self) -> io::Result<Option<bool>> {
        let specs = &mut self.state.specs;
        if differing(&specs.table, specs.at, &Patches::new()).is_empty() {
            return Ok(Some(false));
        }
        let at = now();
        specs.table.stamp_all();
        for row in 0..specs.table.len() as u32 {
            if Digest::of_file(&specs.table.path(row))? != specs.digests[row as usize] {
                return Ok(None);
            }
        }
        specs.at = at;
        Ok(Some(true))
    }

    /// None if a file is gone, or a folder changed: what is in it is not known then.
    fn compare_inputs(&self) -> io::Result<Option<Changes>> {
        let at = now();
        let inputs = differing(&self.inputs, self.head.at, &self.state.inputs);
        let content = Table::read(&self.plan, plan_file::INSIDE)?;
        let inside = differing(&content, self.head.at, &self.state.inside);
        let owner = |row: u32| self.plan.numbers_at(plan_file::INSIDE_OF, row..row + 1).map(|rows| rows[0]);
        let mut listed = BTreeSet::new();
        for found in &inputs {
            let is_gone = found.stamp.is_none();
            if is_gone || (found.is_folder && found.stamp != Some(self.stamp(found.row))) {
                return Ok(None);
            }
            listed.extend(found.is_folder.then_some(found.row));
        }
        for found in &inside {
            let known = self.state.inside.get(&found.row).map_or_else(|| content.stamp(found.row), |patch| patch.stamp);
            if found.stamp.is_none() || (found.is_folder && found.stamp != Some(known)) {
                return Ok(None);
            }
            if found.is_folder {
                listed.insert(owner(found.row)?);
            }
        }
        if !listed.is_empty() && !self.has_the_same_folders(&listed, &content)? {
            return Ok(None);
        }
        let patch = |found: &Found| {
            let stamp = found.stamp.unwrap_or(Stamp::ABSENT);
            (found.row, Patch { stamp, is_racy: stamp.is_racy(at), digest: Digest::NONE })
        };
        let mut input_patches: Patches = inputs.iter().map(patch).collect();
        for found in &inside {
            let owner = owner(found.row)?;
            let as_it_was = Patch { stamp: self.stamp(owner), is_racy: false, digest: Digest::NONE };
            input_patches.entry(owner).or_insert(as_it_was);
        }
        let paths: Vec<_> = input_patches.keys().map(|row| self.inputs.path(*row)).collect();
        let digests = FileDigests::of(Default::default(), Hashed::default()).look_at_all(&paths);
        let mut changed = Vec::new();
        for ((row, patch), digest) in input_patches.iter_mut().zip(digests) {
            let Ok(digest) = digest else { return Ok(None) };
            if digest != self.digest(*row)? {
                // What is new in it is in no table.
                if listed.contains(row) {
                    return Ok(None);
                }
                changed.push(*row);
            }
            patch.digest = digest;
        }
        let inside_patches = inside.iter().map(patch).collect();
        Ok(Some(Changes { inputs: changed, input_patches, inside_patches }))
    }

    /// Whether folders whose stamps are too young to be believed have no folder in them that was not there, and none less.
    /// Their files are in their digests.
    fn has_the_same_folders(&self, listed: &BTreeSet<u32>, content: &Table) -> io::Result<bool> {
        let owners = self.plan.numbers(plan_file::INSIDE_OF)?;
        for row in listed {
            let folder = self.inputs.path(*row);
            let (files, folders) = bfs::below(&folder)?;
            let known = owners.iter().filter(|owner| *owner == row).count();
            let is_new = |name: &String| content.find(&folder.join(name)).is_none();
            if files.len() + folders.len() != known || folders.iter().any(is_new) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Of an input, as the settlement knows it.
    pub(super) fn stamp(&self, row: u32) -> Stamp {
        self.state.inputs.get(&row).map_or_else(|| self.inputs.stamp(row), |patch| patch.stamp)
    }

    pub(super) fn digest(&self, row: u32) -> io::Result<Digest> {
        match self.state.inputs.get(&row) {
            Some(patch) => Ok(patch.digest),
            None => plan_file::digest(&self.plan, plan_file::DIGESTS, row),
        }
    }

    pub(super) fn output(&self, step: u32) -> io::Result<Digest> {
        match self.state.outputs.get(&step) {
            Some(digest) => Ok(*digest),
            None => plan_file::digest(&self.plan, plan_file::OUTPUTS, step),
        }
    }
}

/// The rows of a table that was stamped at `at` whose stamps are not as they were, or cannot be believed.
fn differing(table: &Table, at: Moment, patches: &BTreeMap<u32, Patch>) -> Vec<Found> {
    table.ask(|found| {
        let (stamp, is_racy) = match patches.get(&found.row) {
            Some(patch) => (patch.stamp, patch.is_racy),
            None => {
                let stamp = table.stamp(found.row);
                (stamp, stamp.is_racy(at))
            }
        };
        (is_racy || found.stamp != Some(stamp)).then_some(found)
    })
}
