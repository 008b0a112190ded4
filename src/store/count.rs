//! Counts what the store holds, in all and by step.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;

use serde::Serialize;

use crate::base::Digest;
use crate::store::entry::Kind;
use crate::store::gc::RecordPart;
use crate::store::{DiskStore, Result};

/// So many of the largest steps are named.
const MOST: usize = 10;

#[derive(Debug, Clone, Default, Serialize)]
pub struct Stats {
    /// Executions on record, and how many of them answer for their key.
    pub records: u64,
    pub held: u64,
    /// What steps made: trees, and the distinct files that they consist of.
    pub trees: u64,
    pub files: u64,
    /// Size of those files.
    pub bytes: u64,
    /// Size of the log of records and manifests.
    pub log_bytes: u64,
    /// The counts by the first word of the steps' names.
    pub stages: BTreeMap<String, OfSteps>,
    /// The steps that made most, largest first.
    pub largest: Vec<(String, OfSteps)>,
}

/// What the records of a step, or of a stage, hold. Content that several hold is counted for each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct OfSteps {
    pub records: u64,
    pub held: u64,
    pub bytes: u64,
}

impl DiskStore {
    pub fn stats(&self) -> Result<Stats> {
        let mut stats = Stats::default();
        let mut sizes: HashMap<Digest, u64> = HashMap::new();
        let mut steps: HashMap<String, (OfSteps, HashSet<Digest>)> = HashMap::new();
        self.log.each(|_, entry| {
            let Ok(entry) = entry else { return };
            match entry.header.kind {
                Kind::Record => {
                    let answers = entry.header.held.answers();
                    stats.records += 1;
                    stats.held += u64::from(answers);
                    let Some(record) = RecordPart::parse(&entry.payload) else {
                        return;
                    };
                    let (of, trees) = steps.entry(record.step.into_owned()).or_default();
                    of.records += 1;
                    of.held += u64::from(answers);
                    trees.extend(entry.header.output);
                }
                Kind::Tree => {
                    let manifest = crate::store::Manifest::parse(&entry.payload);
                    sizes.insert(
                        entry.header.id,
                        manifest.map(|manifest| manifest.size()).unwrap_or_default(),
                    );
                }
                Kind::Dropped => drop(sizes.remove(&entry.header.id)),
            }
        })?;
        stats.trees = sizes.len() as u64;
        for (step, (mut of, trees)) in steps {
            of.bytes = trees.iter().filter_map(|tree| sizes.get(tree)).sum();
            let stage = stats
                .stages
                .entry(step.split(':').next().unwrap_or_default().to_owned())
                .or_default();
            stage.records += of.records;
            stage.held += of.held;
            stage.bytes += of.bytes;
            stats.largest.push((step, of));
        }
        stats
            .largest
            .sort_by(|(a, x), (b, y)| y.bytes.cmp(&x.bytes).then_with(|| a.cmp(b)));
        stats.largest.truncate(MOST);
        for (path, _) in self.blobs.list()? {
            stats.files += 1;
            stats.bytes += fs::symlink_metadata(&path)
                .map(|meta| meta.len())
                .unwrap_or_default();
        }
        stats.log_bytes = fs::metadata(self.log.path())
            .map(|meta| meta.len())
            .unwrap_or_default();
        Ok(stats)
    }
}
