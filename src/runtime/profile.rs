//! The time of an inference by operator, from a runtime's own counters. What is counted costs time of its own, so the sum says how
//! operators compare and is no latency.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::JobStatus;
use super::loops::Loop;
use super::refusal::Refusal;

use crate::base::fs as bfs;

const FILE: &str = "profile.json";
/// Inferences before any is looked at.
pub const WARMUP: u32 = 3;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// The owner of the counters.
    pub by: String,
    /// How many inferences were looked at; times are means over them.
    pub inferences: u32,
    /// Wall time of one inference while it is counted, ms.
    pub wall_ms: f64,
    /// The slowest first.
    pub operators: Vec<Operator>,
}

/// One operator of the model as the runtime executes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Operator {
    pub name: String,
    /// Its type, such as `MatMul`.
    pub kind: String,
    /// The provider, device or kernel that executed it.
    pub place: String,
    /// The time of one inference.
    pub ms: f64,
    /// How often it ran in one inference.
    pub calls: f64,
}

/// Sums what was counted over several inferences.
#[derive(Default)]
pub struct Counted(BTreeMap<(String, String, String), (f64, f64)>);

impl Counted {
    /// What an operator took together, ms, in so many calls.
    pub fn add(&mut self, name: &str, kind: &str, place: &str, (ms, calls): (f64, f64)) {
        let sum = self
            .0
            .entry((name.to_owned(), kind.to_owned(), place.to_owned()))
            .or_default();
        *sum = (sum.0 + ms, sum.1 + calls);
    }

    pub fn over(self, inferences: u32, wall_ms: f64, by: impl Into<String>) -> Profile {
        let of_one = |sum: f64| sum / f64::from(inferences.max(1));
        let operator = |((name, kind, place), (ms, calls)): (_, (f64, f64))| {
            let ms = of_one(ms.max(0.0));
            let calls = of_one(calls);
            Operator {
                name,
                kind,
                place,
                ms,
                calls,
            }
        };
        let mut operators: Vec<_> = self.0.into_iter().map(operator).collect();
        operators.sort_by(|a, b| b.ms.total_cmp(&a.ms));
        Profile {
            by: by.into(),
            inferences,
            wall_ms: of_one(wall_ms),
            operators,
        }
    }
}

/// A model of several has no operators of its own.
pub(super) fn refuse_loop(tree: &Path) -> anyhow::Result<()> {
    let several = "a model of several is not profiled as a whole: name a component";
    Loop::read(tree)?.map_or(Ok(()), |_| {
        Err(Refusal::because(JobStatus::Unsupported, several))
    })
}

impl Profile {
    pub fn write(&self, folder: &Path) -> anyhow::Result<()> {
        let path = folder.join(FILE);
        bfs::write_new(&path, serde_json::to_vec(self)?)
            .with_context(|| format!("failed to write `{}`", path.display()))
    }

    pub fn read(folder: &Path) -> anyhow::Result<Self> {
        let path = folder.join(FILE);
        let bytes =
            std::fs::read(&path).with_context(|| format!("failed to read `{}`", path.display()))?;
        serde_json::from_slice(&bytes)
            .with_context(|| format!("`{}` is no profile", path.display()))
    }

    /// Time and number of operators, by a word of each; the slowest first.
    pub fn by<'a>(&'a self, word: impl Fn(&'a Operator) -> &'a str) -> Vec<(&'a str, f64, usize)> {
        let mut found: BTreeMap<&str, (f64, usize)> = BTreeMap::new();
        for operator in &self.operators {
            let (ms, count) = found.entry(word(operator)).or_default();
            *ms += operator.ms;
            *count += 1;
        }
        let mut found: Vec<_> = found
            .into_iter()
            .map(|(word, (ms, count))| (word, ms, count))
            .collect();
        found.sort_by(|a, b| b.1.total_cmp(&a.1));
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_one_inference() {
        let mut counted = Counted::default();
        for _ in 0..2 {
            counted.add("a", "MatMul", "CPU", (2.0, 1.0));
            counted.add("b", "Relu", "CPU", (0.5, 1.0));
            counted.add("b", "Relu", "CPU", (0.5, 1.0));
        }
        let profile = counted.over(2, 8.0, "test");
        assert_eq!(
            (
                profile.wall_ms,
                profile.operators[0].ms,
                profile.operators[0].calls
            ),
            (4.0, 2.0, 1.0)
        );
        assert_eq!(
            (profile.operators[1].ms, profile.operators[1].calls),
            (1.0, 2.0)
        );
        assert_eq!(profile.by(|operator| &operator.place), [("CPU", 3.0, 2)]);
        let folder = tempfile::tempdir().unwrap();
        profile.write(folder.path()).unwrap();
        assert_eq!(Profile::read(folder.path()).unwrap(), profile);
    }
}
