//! The part of a settlement that stays as it is while only sources change: what was planned, what it reads, what it made.
//!
//! A run in which nothing changed reads the first sections; the others are for the cone of a changed file.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::base::Digest;
use crate::exec::{Context, How, StepResult, variable_digest};
use crate::report::ReportDoc;
use crate::settled::{Here, step_form};
use crate::step::{Source, Stage, StepId};
use crate::store::Hashed;
use crate::store::sealed::{Sealed, SealedWriter, damaged};
use crate::store::stat::Moment;
use crate::store::table::Table;
use crate::store::{DiskStore, LogExtent};

pub(super) const KIND: &str = "orch settled plan 1";

pub(super) const HEAD: usize = 0;
pub(super) const DOC: usize = 1;
/// Source files and folders that steps read.
pub(super) const INPUTS: usize = 2;
/// What stands in those that are folders, and the input that each belongs to.
pub(super) const INSIDE: usize = INPUTS + Table::SECTIONS;
pub(super) const INSIDE_OF: usize = INSIDE + Table::SECTIONS;
/// By input.
pub(super) const DIGESTS: usize = INSIDE_OF + 1;
pub(super) const READERS_AT: usize = DIGESTS + 1;
pub(super) const READERS: usize = READERS_AT + 1;
/// By step.
pub(super) const DEPENDENTS_AT: usize = READERS + 1;
pub(super) const DEPENDENTS: usize = DEPENDENTS_AT + 1;
pub(super) const OUTPUTS: usize = DEPENDENTS + 1;
pub(super) const CLASSES: usize = OUTPUTS + 1;
pub(super) const NAMES: usize = CLASSES + 1;
pub(super) const STEPS: usize = NAMES + 2;

/// A command whose output the store holds: it can be performed as a part of the plan.
pub(super) const COMMAND: u8 = 0;
/// Anything else.
pub(super) const OTHER: u8 = 1;

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Head {
    /// Declared variables with digests of their values.
    pub(super) variables: Vec<(String, Option<Digest>)>,
    /// Whether the plan has cases, and with them devices.
    pub(super) has_cases: bool,
    pub(super) here: Digest,
    /// Before the first stamp was taken.
    pub(super) at: Moment,
    /// What the store's log was: it only grows, unless something was taken out of it.
    pub(super) log: Option<LogExtent>,
    pub(super) has_report: bool,
}

pub(super) struct Frozen<'a> {
    pub(super) context: &'a Context<'a>,
    pub(super) results: &'a [StepResult],
    pub(super) doc: &'a ReportDoc,
    pub(super) found: &'a Hashed,
    pub(super) here: Here<'a>,
}

impl Frozen<'_> {
    /// Gives the seal of the file. None if the plan cannot be frozen.
    pub(super) fn write(&self, path: &Path) -> io::Result<Option<Digest>> {
        let plan = self.context.plan;
        let Some(readers) = self.readers() else { return Ok(None) };
        let mut writer = SealedWriter::create(path.parent().unwrap_or(Path::new(".")), KIND)?;
        writer.section(&serde_json::to_vec(&self.head())?)?;
        writer.section(&serde_json::to_vec(self.doc)?)?;
        self.found.table.write(&mut writer)?;
        self.write_inside(&mut writer)?;
        writer.begin();
        self.found.digests.iter().try_for_each(|digest| writer.write(digest.bytes()))?;
        write_lists(&mut writer, &readers)?;
        let dependents: Vec<(u32, u32)> = plan
            .ids()
            .flat_map(|id| plan.dependents(id).iter().map(move |reader| (id.0, reader.0)))
            .filter(|(_, reader)| *reader != plan.report.0)
            .collect();
        write_lists(&mut writer, &Lists { rows: self.results.len(), pairs: dependents })?;
        writer.begin();
        let outputs = self.results.iter().map(|result| result.output().unwrap_or(Digest::NONE));
        outputs.into_iter().try_for_each(|digest| writer.write(digest.bytes()))?;
        writer.begin();
        plan.ids().try_for_each(|id| writer.write(&[self.class(id)]))?;
        write_texts(&mut writer, plan.steps.iter().map(|step| Some(step.name.as_bytes())))?;
        if !write_texts(&mut writer, plan.steps.iter().map(step_form::encode))? {
            return Ok(None);
        }
        writer.finish(path).map(Some)
    }

    fn head(&self) -> Head {
        let plan = self.context.plan;
        let names: std::collections::BTreeSet<_> = plan.steps.iter().flat_map(step_form::variables).collect();
        Head {
            variables: names.into_iter().map(|name| (name.to_owned(), variable_digest(name))).collect(),
            has_cases: !plan.cases.is_empty(),
            here: self.here.digest(),
            at: self.found.at,
            log: DiskStore::log_extent(self.context.store.root()),
            has_report: self.results[plan.report.0 as usize].output().is_some(),
        }
    }

    fn class(&self, id: StepId) -> u8 {
        let is_command = self.context.plan.step(id).stage == Stage::Command;
        let is_held = self.results[id.0 as usize].how == How::Hit;
        if is_command && is_held { COMMAND } else { OTHER }
    }

    /// Which steps read each input; None if one reads what was not found.
    fn readers(&self) -> Option<Lists> {
        let mut pairs = Vec::new();
        for id in self.context.plan.ids() {
            for (_, source) in &self.context.plan.step(id).inputs {
                if let Source::File(path) = source {
                    pairs.push((self.found.get(path)?.0, id.0));
                }
            }
        }
        pairs.sort_unstable();
        pairs.dedup();
        Some(Lists { rows: self.found.table.len(), pairs })
    }

    /// One table of all folders' contents. What stands in two of them, because one lies in the other, has two rows.
    fn write_inside(&self, writer: &mut SealedWriter) -> io::Result<()> {
        let mut rows: Vec<_> = Vec::new();
        for (input, Hashed { table, .. }) in &self.found.inside {
            rows.extend(
                (0..table.len() as u32)
                    .zip(table.rows())
                    .map(|(row, (folder, name))| (folder, name, *input, table.stamp(row))),
            );
        }
        rows.sort_unstable_by_key(|row| (row.0, row.1, row.2));
        let mut builder = crate::store::table::TableBuilder::default();
        let mut stamps = Vec::with_capacity(rows.len() * 32);
        for (folder, name, _, stamp) in &rows {
            builder.push(folder, name);
            stamps.extend_from_slice(&stamp.bytes());
        }
        builder.finish(stamps).write(writer)?;
        writer.numbers(rows.iter().map(|row| row.2))
    }
}

/// Lists of numbers by row: two sections, where each row's list begins and the lists.
pub(super) struct Lists {
    rows: usize,
    /// Sorted by row.
    pairs: Vec<(u32, u32)>,
}

fn write_lists(writer: &mut SealedWriter, lists: &Lists) -> io::Result<()> {
    let mut begin = 0;
    writer.begin();
    for row in 0..=lists.rows as u32 {
        while lists.pairs.get(begin).is_some_and(|pair| pair.0 < row) {
            begin += 1;
        }
        writer.write(&(begin as u32).to_le_bytes())?;
    }
    writer.numbers(lists.pairs.iter().map(|pair| pair.1))
}

/// Texts one after another, then where each begins. False if one is missing or they are too long together.
fn write_texts<T: AsRef<[u8]>>(writer: &mut SealedWriter, texts: impl Iterator<Item = Option<T>>) -> io::Result<bool> {
    let mut begins: Vec<u32> = vec![0];
    writer.begin();
    for text in texts {
        let Some(text) = text else { return Ok(false) };
        let text = text.as_ref();
        let Some(end) = begins.last().and_then(|begin| begin.checked_add(u32::try_from(text.len()).ok()?)) else {
            return Ok(false);
        };
        writer.write(text)?;
        begins.push(end);
    }
    writer.numbers(begins)?;
    Ok(true)
}

/// One row of what [`write_texts`] wrote.
pub(super) fn text(sealed: &Sealed, section: usize, row: u32) -> io::Result<Vec<u8>> {
    let next = row.checked_add(2).ok_or_else(|| damaged("a row is out of range"))?;
    let ends = sealed.numbers_at(section + 1, row..next)?;
    sealed.part(section, u64::from(ends[0])..u64::from(ends[1]))
}

pub(super) fn digest(sealed: &Sealed, section: usize, row: u32) -> io::Result<Digest> {
    let bytes = sealed.part(section, u64::from(row) * 32..(u64::from(row) + 1) * 32)?;
    Ok(Digest::from_bytes(bytes[..].try_into().expect("BUG: 32 bytes")))
}
