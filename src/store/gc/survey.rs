//! Everything that the log names, in the form that a choice is made of: what answers for which key, what it made, what it
//! read, when. Decides nothing.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{IgnoredAny, MapAccess, Visitor};

use crate::base::Digest;
use crate::store::entry::{Entry, Kind, Short};
use crate::store::log::{Log, Place};
use crate::store::tree::Blob;
use crate::store::{Manifest, Result};

#[derive(Debug, Default)]
pub(super) struct Survey {
    /// The records in the order of the log.
    pub(super) records: Vec<RecordEntry>,
    pub(super) trees: HashMap<Digest, Tree>,
    /// Size by blob.
    pub(super) blobs: HashMap<Blob, u64>,
    /// Names of steps that have records, with their short names.
    pub(super) steps: HashMap<Short, Box<str>>,
    /// Entries that hold nothing any more: damaged, dropped, or written twice.
    pub(super) spent: u64,
}

#[derive(Debug)]
pub(super) struct Tree {
    /// The place of its entry.
    pub(super) at: u64,
    pub(super) blobs: Box<[Blob]>,
}

/// A record, by its entry in the log.
#[derive(Debug)]
pub(super) struct RecordEntry {
    pub(super) at: u64,
    pub(super) key: Digest,
    pub(super) step: Short,
    /// It is the one that answers for its key.
    pub(super) answers: bool,
    pub(super) output: Option<Digest>,
    /// Content that its key names as read; trees among it.
    pub(super) inputs: Box<[Digest]>,
    /// Seconds since 1970.
    pub(super) started: i64,
}

impl Survey {
    pub(super) fn of(log: &Log) -> Result<(Self, Place)> {
        let mut survey = Self::default();
        let mut answering: HashMap<Digest, usize> = HashMap::new();
        let seen = log.each(|at, entry| match entry {
            Ok(entry) => match entry.header.kind {
                Kind::Record => match RecordPart::parse(&entry.payload) {
                    Some(record) => survey.note(at, &entry, record, &mut answering),
                    None => survey.spent += 1,
                },
                Kind::Tree => survey.note_tree(at, &entry),
                Kind::Dropped => {
                    survey.spent += 1 + u64::from(survey.trees.remove(&entry.header.id).is_some());
                }
            },
            Err(_) => survey.spent += 1,
        })?;
        Ok((survey, seen))
    }

    fn note(
        &mut self,
        at: u64,
        entry: &Entry,
        record: RecordPart<'_>,
        answering: &mut HashMap<Digest, usize>,
    ) {
        let header = &entry.header;
        let answers = header.held.answers();
        if answers && let Some(earlier) = answering.insert(header.id, self.records.len()) {
            self.records[earlier].answers = false;
        }
        self.steps
            .entry(header.step)
            .or_insert_with(|| record.step.as_ref().into());
        // A date that cannot be read makes it the oldest of all.
        let started = record
            .started
            .parse::<jiff::Timestamp>()
            .map_or(0, jiff::Timestamp::as_second);
        let inputs = record.key.0.into();
        let key = header.id;
        let step = header.step;
        let output = header.output;
        self.records.push(RecordEntry {
            at,
            key,
            step,
            answers,
            output,
            inputs,
            started,
        });
    }

    fn note_tree(&mut self, at: u64, entry: &Entry) {
        let id = entry.header.id;
        let Ok(manifest) = Manifest::parse(&entry.payload) else {
            self.spent += 1;
            return;
        };
        let blobs = manifest.files.iter().map(|file| {
            self.blobs.insert(file.blob(), file.size);
            file.blob()
        });
        let tree = Tree {
            at,
            blobs: blobs.collect(),
        };
        self.spent += u64::from(self.trees.insert(id, tree).is_some());
    }
}

/// The part of a record that is needed here; the rest is passed over, which is several times faster.
#[derive(Deserialize)]
pub(in crate::store) struct RecordPart<'a> {
    #[serde(borrow)]
    pub(in crate::store) step: Cow<'a, str>,
    #[serde(borrow)]
    pub(in crate::store) started: Cow<'a, str>,
    key: Inputs,
}

impl<'a> RecordPart<'a> {
    pub(in crate::store) fn parse(payload: &'a [u8]) -> Option<Self> {
        serde_json::from_slice(payload).ok()
    }
}

/// The digests of a key document's inputs.
struct Inputs(Vec<Digest>);

impl<'de> Deserialize<'de> for Inputs {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Lines;
        impl<'de> Visitor<'de> for Lines {
            type Value = Inputs;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key document")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Inputs, A::Error> {
                let mut found = Vec::new();
                while let Some(name) = map.next_key::<Cow<'de, str>>()? {
                    if name.starts_with("input.") {
                        found.extend(map.next_value::<Cow<'de, str>>()?.parse::<Digest>());
                    } else {
                        map.next_value::<IgnoredAny>()?;
                    }
                }
                Ok(Inputs(found))
            }
        }
        deserializer.deserialize_map(Lines)
    }
}
