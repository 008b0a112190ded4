//! The part of a settlement that changes with the sources: what guards it, and what differs from the plan file.
//!
//! Small, so that a run of one step writes little: rows of the plan file that are no longer right are listed here.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::base::Digest;
use crate::exec::{Context, StepResult};
use crate::spec::SourceFile;
use crate::store::sealed::{Sealed, SealedWriter, damaged};
use crate::store::stat::{Moment, Stamp, now, stamp_clock};
use crate::store::table::Table;

const KIND: &str = "orch settled state 1";

const HEAD: usize = 0;
const FANS: usize = 1;
const KEPT: usize = FANS + Table::SECTIONS;
const SPECS: usize = KEPT + Table::SECTIONS;
const SPEC_DIGESTS: usize = SPECS + Table::SECTIONS;
const INPUTS: usize = SPEC_DIGESTS + 1;
const INSIDE: usize = INPUTS + 1;
const OUTPUTS: usize = INSIDE + 1;

/// How long to wait until the clock of stamps has moved on. It moves at least a hundred times a second.
const PATIENCE: u32 = 30;

#[derive(Serialize, Deserialize)]
struct Head {
    /// The seal of the plan file that this belongs to.
    plan: Digest,
    /// When the specs were stamped.
    at: Moment,
}

/// The spec files, with the stamps under which their content was as it was read.
pub(super) struct Specs {
    pub(super) table: Table,
    pub(super) digests: Vec<Digest>,
    pub(super) at: Moment,
}

impl Specs {
    /// None if one is no longer as it was read.
    pub(super) fn of(files: &[SourceFile]) -> io::Result<Option<Self>> {
        let by_path: BTreeMap<PathBuf, Digest> =
            files.iter().map(|file| Ok((std::path::absolute(&file.path)?, file.digest))).collect::<io::Result<_>>()?;
        let at = now();
        let mut table = Table::of(by_path.keys().map(PathBuf::as_path));
        table.stamp_all();
        let mut digests = vec![Digest::NONE; table.len()];
        for (path, digest) in by_path {
            match table.find(&path) {
                Some(row) if Digest::of_file(&path)? == digest => digests[row as usize] = digest,
                _ => return Ok(None),
            }
        }
        Ok(Some(Self { table, digests, at }))
    }
}

/// What shows by its stamps that the store and the folder with the pages are as the run left them.
pub(super) struct Guards {
    /// Folders of the store.
    pub(super) fans: Table,
    /// Pages, generated tests, links, their originals in the store, and the note of what was taken out.
    pub(super) kept: Table,
}

impl Guards {
    /// None if they change so fast that their stamps cannot tell.
    pub(super) fn of(context: &Context<'_>, results: &[StepResult], out: &[PathBuf]) -> io::Result<Option<Self>> {
        let (plan, store) = (context.plan, context.store);
        let fans: Vec<_> = store.fans().collect();
        let mut kept = vec![store.removals()];
        for path in out {
            kept.push(std::path::absolute(path)?);
        }
        let copied = plan.cases.iter().map(|planned| planned.test).chain([plan.report]);
        for digest in copied.filter_map(|id| results[id.0 as usize].output()) {
            kept.extend(store.files_of(&digest).map_err(|e| io::Error::other(e.to_string()))?);
        }
        let table = |paths: &[PathBuf]| Table::of(paths.iter().map(PathBuf::as_path));
        let mut guards = Self { fans: table(&fans), kept: table(&kept) };
        Ok((stamp(&mut guards.fans) && stamp(&mut guards.kept)).then_some(guards))
    }
}

/// Takes the stamps of a table; false if a later change could leave the same.
pub(super) fn stamp(table: &mut Table) -> bool {
    for _ in 0..PATIENCE {
        let clock = stamp_clock();
        table.stamp_all();
        if (0..table.len() as u32).all(|row| table.stamp(row).is_before(clock)) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    false
}

/// Whether everything in a table is as its stamps say; where nothing was, nothing may be.
pub(super) fn is_unchanged(table: &Table) -> bool {
    table.ask(|found| (found.stamp.unwrap_or(Stamp::ABSENT) != table.stamp(found.row)).then_some(())).is_empty()
}

/// A row whose stamp in the plan file is no longer right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Patch {
    pub(super) stamp: Stamp,
    /// The stamp is too young to be believed.
    pub(super) is_racy: bool,
    /// Of an input's content; none for what stands inside of one.
    pub(super) digest: Digest,
}

const PATCH: usize = 4 + Stamp::BYTES + 1 + 32;

pub(super) type Patches = BTreeMap<u32, Patch>;

pub(super) struct State {
    plan: Digest,
    pub(super) guards: Guards,
    pub(super) specs: Specs,
    pub(super) inputs: Patches,
    pub(super) inside: Patches,
    pub(super) outputs: BTreeMap<u32, Digest>,
}

impl State {
    pub(super) fn new(plan: Digest, guards: Guards, specs: Specs) -> Self {
        Self { plan, guards, specs, inputs: Patches::new(), inside: Patches::new(), outputs: BTreeMap::new() }
    }

    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
        let mut writer = SealedWriter::create(path.parent().unwrap_or(Path::new(".")), KIND)?;
        writer.section(&serde_json::to_vec(&Head { plan: self.plan, at: self.specs.at })?)?;
        self.guards.fans.write(&mut writer)?;
        self.guards.kept.write(&mut writer)?;
        self.specs.table.write(&mut writer)?;
        let digests: Vec<u8> = self.specs.digests.iter().flat_map(|digest| *digest.bytes()).collect();
        writer.section(&digests)?;
        for patches in [&self.inputs, &self.inside] {
            writer.begin();
            for (row, patch) in patches {
                writer.write(&row.to_le_bytes())?;
                writer.write(&patch.stamp.bytes())?;
                writer.write(&[u8::from(patch.is_racy)])?;
                writer.write(patch.digest.bytes())?;
            }
        }
        writer.begin();
        for (row, digest) in &self.outputs {
            writer.write(&row.to_le_bytes())?;
            writer.write(digest.bytes())?;
        }
        writer.finish(path).map(drop)
    }

    /// The state of the plan file with this seal.
    pub(super) fn read(path: &Path, plan: Digest) -> io::Result<Self> {
        let sealed = Sealed::open(path, KIND)?;
        let head: Head = serde_json::from_slice(&sealed.section(HEAD)?)?;
        if head.plan != plan {
            return Err(damaged("it belongs to another plan file"));
        }
        let specs = Specs {
            table: Table::read(&sealed, SPECS)?,
            digests: sealed.section(SPEC_DIGESTS)?.chunks_exact(32).map(digest).collect(),
            at: head.at,
        };
        if specs.digests.len() != specs.table.len() {
            return Err(damaged("not every spec has a digest"));
        }
        let patches = |section: usize| -> io::Result<Patches> {
            let patch = |row: &[u8]| {
                let patch =
                    Patch { stamp: Stamp::from_bytes(&row[4..]), is_racy: row[36] != 0, digest: digest(&row[37..]) };
                (number(row), patch)
            };
            Ok(sealed.section(section)?.chunks_exact(PATCH).map(patch).collect())
        };
        Ok(Self {
            plan,
            guards: Guards { fans: Table::read(&sealed, FANS)?, kept: Table::read(&sealed, KEPT)? },
            specs,
            inputs: patches(INPUTS)?,
            inside: patches(INSIDE)?,
            outputs: sealed.section(OUTPUTS)?.chunks_exact(36).map(|row| (number(row), digest(&row[4..]))).collect(),
        })
    }
}

fn number(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes[..4].try_into().expect("BUG: four bytes"))
}

fn digest(bytes: &[u8]) -> Digest {
    Digest::from_bytes(bytes[..32].try_into().expect("BUG: 32 bytes"))
}
