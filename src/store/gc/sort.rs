//! A choice of records, carried out on the entries of the log: which places stay, and what content these name.

use std::collections::{HashMap, HashSet};

use crate::base::Digest;
use crate::store::Manifest;
use crate::store::entry::{Entry, Kind};
use crate::store::gc::choose::Chosen;
use crate::store::gc::survey::{RecordPart, Survey};
use crate::store::log::Choice;
use crate::store::tree::Blob;

pub(super) struct Sorting<'a> {
    survey: &'a Survey,
    /// Places of the records that stay.
    records: HashSet<u64>,
    trees: HashSet<Digest>,
    /// What others appended since the log was read.
    late: Kept,
}

/// What stays.
#[derive(Default)]
pub(super) struct Kept {
    pub(super) records: u64,
    /// The blobs with their sizes.
    pub(super) blobs: HashMap<Blob, u64>,
    /// Names of steps that have records.
    pub(super) steps: HashSet<String>,
}

impl<'a> Sorting<'a> {
    /// `is_new` recognises content that may be on its way into a record.
    pub(super) fn of(survey: &'a Survey, chosen: Chosen, is_new: impl Fn(&Blob) -> bool) -> Self {
        let mut sorting = Self {
            survey,
            records: HashSet::new(),
            trees: HashSet::new(),
            late: Kept::default(),
        };
        let mut known = HashSet::new();
        for (record, stays) in survey.records.iter().zip(chosen.stays) {
            known.extend(record.output);
            if stays {
                sorting.records.insert(record.at);
                // The tree of an execution that was done again since answers for nothing.
                sorting
                    .trees
                    .extend(record.output.filter(|_| record.answers));
            }
        }
        // A tree that no record ever named was published a moment ago, or by a process that was killed then.
        let unknown = survey
            .trees
            .iter()
            .filter(|(digest, _)| !known.contains(digest));
        let new = unknown.filter(|(_, tree)| tree.blobs.iter().any(&is_new));
        sorting.trees.extend(new.map(|(digest, _)| *digest));
        sorting
    }

    pub(super) fn trees_gone(&self) -> u64 {
        self.survey
            .trees
            .keys()
            .filter(|digest| !self.trees.contains(digest))
            .count() as u64
    }

    pub(super) fn done(self) -> Kept {
        let Self {
            survey,
            records,
            trees,
            late: mut kept,
        } = self;
        let blobs = trees
            .iter()
            .filter_map(|digest| survey.trees.get(digest))
            .flat_map(|tree| &tree.blobs);
        kept.blobs
            .extend(blobs.map(|blob| (*blob, survey.blobs[blob])));
        let staying = survey
            .records
            .iter()
            .filter(|record| records.contains(&record.at));
        kept.steps.extend(
            staying
                .filter_map(|record| survey.steps.get(&record.step))
                .map(|name| name.to_string()),
        );
        kept.records += records.len() as u64;
        kept
    }
}

impl Choice for Sorting<'_> {
    fn late(&mut self, entry: &Entry) {
        match entry.header.kind {
            Kind::Record => {
                self.late.records += 1;
                // Its tree may have been known before, so that only the record was appended.
                self.trees.extend(entry.header.output);
                self.late.steps.extend(
                    RecordPart::parse(&entry.payload).map(|record| record.step.into_owned()),
                );
            }
            Kind::Tree => {
                let files = Manifest::parse(&entry.payload)
                    .map(|manifest| manifest.files)
                    .unwrap_or_default();
                self.late
                    .blobs
                    .extend(files.into_iter().map(|file| (file.blob(), file.size)));
            }
            Kind::Dropped => {}
        }
    }

    fn keeps(&mut self, at: u64, entry: &Entry) -> bool {
        match entry.header.kind {
            Kind::Record => self.records.contains(&at),
            Kind::Tree => {
                let is_live = self
                    .survey
                    .trees
                    .get(&entry.header.id)
                    .is_some_and(|tree| tree.at == at);
                is_live && self.trees.contains(&entry.header.id)
            }
            Kind::Dropped => false,
        }
    }
}
