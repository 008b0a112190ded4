//! The choice of the records that stay. A pure function of what the log holds, of the limits and of the time.
//!
//! A record was last used when it was executed, or when a record that read its output was: what a new measurement was made
//! of is as new as the measurement. That a run found it unchanged is written nowhere (such a run writes nothing), so it does not
//! count; `keep` is for what the present specs take.

use std::collections::{BinaryHeap, HashMap, HashSet};
use std::time::Duration;

use serde::Serialize;

use crate::base::Digest;
use crate::store::gc::survey::{RecordEntry, Survey};
use crate::store::tree::Blob;

/// What must hold afterwards. Each limit is met, whatever the others allow.
#[derive(Debug, Clone, Default)]
pub struct Limits {
    /// The size of what steps made.
    pub max_bytes: Option<u64>,
    /// The longest time since the last use.
    pub max_age: Option<Duration>,
    /// How many records of one step may answer, each for a key of its own.
    pub keep_last: Option<u32>,
    /// Keys whose records stay, whatever the limits say.
    pub keep: HashSet<Digest>,
}

/// Why records go.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Gone {
    /// Older generations of a step (`--keep-last`).
    pub generations: u64,
    /// Not used for too long (`--max-age`).
    pub old: u64,
    /// The longest not used, for the size (`--max-size`).
    pub large: u64,
    /// Failures, and executions that were done again since.
    pub history: u64,
}

impl Gone {
    pub fn all(&self) -> u64 {
        self.generations + self.old + self.large + self.history
    }
}

/// The clock of a choice, in seconds since 1970, and what processes that are running count on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock<'a> {
    pub(super) now: i64,
    /// What was executed since then stays: the process that did it is still running.
    pub(super) running_since: Option<i64>,
    /// Trees that those processes found up to date and are going to read.
    pub(super) read: Option<&'a HashSet<Digest>>,
}

pub(super) struct Chosen {
    /// Whether each record stays.
    pub(super) stays: Vec<bool>,
    pub(super) blobs: HashSet<Blob>,
    pub(super) bytes: u64,
    pub(super) gone: Gone,
}

pub(super) fn choose(survey: &Survey, limits: &Limits, clock: Clock<'_>) -> Chosen {
    let used = last_uses(survey, clock.now);
    let records = &survey.records;
    let is_running = |record: &RecordEntry| {
        let is_young = clock
            .running_since
            .is_some_and(|since| record.started >= since);
        let is_read = || {
            let output = record.output.as_ref().filter(|_| record.answers);
            output.is_some_and(|output| clock.read.is_some_and(|read| read.contains(output)))
        };
        is_young || is_read()
    };
    let is_pinned = |record: &RecordEntry| {
        is_running(record) || (record.answers && limits.keep.contains(&record.key))
    };
    let oldest = limits.max_age.map(|age| {
        clock
            .now
            .saturating_sub(i64::try_from(age.as_secs()).unwrap_or(i64::MAX))
    });
    let mut chosen = Chosen {
        stays: vec![false; records.len()],
        blobs: HashSet::new(),
        bytes: 0,
        gone: Gone::default(),
    };
    let mut in_question = Vec::new();
    let mut generations: HashMap<_, u32> = HashMap::new();
    let mut has_history = HashSet::new();
    let mut order: Vec<usize> = (0..records.len()).collect();
    order.sort_unstable_by_key(|at| std::cmp::Reverse((used[*at], *at)));
    for at in order {
        let record = &records[at];
        if !record.answers {
            // The log's order counts here, not the clock's: `order` goes by use, which history has none of.
            continue;
        }
        let generation = generations.entry(record.step).or_default();
        *generation += 1;
        if is_pinned(record) {
            chosen.keep(survey, at);
        } else if limits.keep_last.is_some_and(|most| *generation > most) {
            chosen.gone.generations += 1;
        } else if oldest.is_some_and(|oldest| used[at] < oldest) {
            chosen.gone.old += 1;
        } else {
            in_question.push(at);
        }
    }
    for (at, record) in records
        .iter()
        .enumerate()
        .rev()
        .filter(|(_, record)| !record.answers)
    {
        let is_newest = has_history.insert(record.step);
        let is_young = oldest.is_none_or(|oldest| record.started >= oldest);
        chosen.stays[at] = is_running(record) || (is_newest && is_young);
        chosen.gone.history += u64::from(!chosen.stays[at]);
    }
    // Of what was used last at the same time, that which others were made of goes last.
    in_question.sort_by_key(|at| (std::cmp::Reverse(used[*at]), *at));
    let mut is_full = false;
    for at in in_question {
        let more = chosen.more(survey, at);
        is_full |= more > 0
            && limits
                .max_bytes
                .is_some_and(|most| chosen.bytes + more > most);
        if is_full && more > 0 {
            chosen.gone.large += 1;
        } else {
            chosen.keep(survey, at);
        }
    }
    chosen
}

impl Chosen {
    /// The blobs of a record's tree that are not kept yet.
    fn fresh<'a>(&'a self, survey: &'a Survey, at: usize) -> impl Iterator<Item = Blob> + 'a {
        let tree = survey.records[at]
            .output
            .and_then(|digest| survey.trees.get(&digest));
        let mut seen = HashSet::new();
        let blobs = tree.into_iter().flat_map(|tree| tree.blobs.iter().copied());
        blobs.filter(move |blob| !self.blobs.contains(blob) && seen.insert(*blob))
    }

    fn more(&self, survey: &Survey, at: usize) -> u64 {
        self.fresh(survey, at).map(|blob| survey.blobs[&blob]).sum()
    }

    fn keep(&mut self, survey: &Survey, at: usize) {
        self.stays[at] = true;
        let fresh: Vec<Blob> = self.fresh(survey, at).collect();
        self.bytes += fresh.iter().map(|blob| survey.blobs[blob]).sum::<u64>();
        self.blobs.extend(fresh);
    }
}

/// The moments when the records were last used. What has the latest use is decided first and passes its use on to what
/// it read.
fn last_uses(survey: &Survey, now: i64) -> Vec<i64> {
    let records = &survey.records;
    // A date in the future proves nothing.
    let mut used: Vec<i64> = records
        .iter()
        .map(|record| record.started.min(now))
        .collect();
    // Of several that made the same, the newest was read.
    let makers: HashMap<Digest, usize> = records
        .iter()
        .enumerate()
        .filter(|(_, record)| record.answers)
        .filter_map(|(at, record)| Some((record.output?, at)))
        .collect();
    let mut open: BinaryHeap<(i64, usize)> = records
        .iter()
        .enumerate()
        .filter(|(_, record)| record.answers)
        .map(|(at, _)| (used[at], at))
        .collect();
    while let Some((use_, at)) = open.pop() {
        if use_ < used[at] {
            continue; // it was raised since, and is settled
        }
        for maker in records[at]
            .inputs
            .iter()
            .filter_map(|digest| makers.get(digest))
        {
            if used[*maker] < use_ {
                used[*maker] = use_;
                open.push((use_, *maker));
            }
        }
    }
    used
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::entry::step_id;
    use crate::store::gc::survey::Tree;

    fn digest(name: &str) -> Digest {
        Digest::of(name.as_bytes())
    }

    /// `step made from inputs at a time`; each tree is one blob of ten bytes.
    fn survey(records: &[(&str, &str, &[&str], i64)]) -> Survey {
        let mut survey = Survey::default();
        for (at, (step, made, inputs, started)) in records.iter().enumerate() {
            let blob = (digest(&format!("blob {made}")), false);
            let answers = !made.is_empty();
            if answers {
                survey.blobs.insert(blob, 10);
                survey.trees.insert(
                    digest(made),
                    Tree {
                        at: 0,
                        blobs: [blob].into(),
                    },
                );
            }
            survey.records.push(RecordEntry {
                at: at as u64,
                key: digest(&format!("{step} {made} {started}")),
                step: step_id(step),
                answers,
                output: answers.then(|| digest(made)),
                inputs: inputs.iter().map(|name| digest(name)).collect(),
                started: *started,
            });
        }
        survey
    }

    fn stays(survey: &Survey, limits: &Limits, clock: Clock<'_>) -> String {
        let chosen = choose(survey, limits, clock);
        assert_eq!(chosen.bytes, 10 * chosen.blobs.len() as u64);
        assert_eq!(
            chosen.gone.all(),
            chosen.stays.iter().filter(|stays| !**stays).count() as u64
        );
        chosen
            .stays
            .iter()
            .map(|stays| if *stays { '#' } else { '.' })
            .collect()
    }

    const NOW: Clock<'static> = Clock {
        now: 1000,
        running_since: None,
        read: None,
    };

    #[test]
    fn what_a_running_process_is_going_to_read_stays() {
        let survey = survey(&[("a", "A", &[], 10), ("b", "B", &["A"], 20)]);
        let nothing = Limits {
            max_bytes: Some(0),
            ..Limits::default()
        };
        let read = [digest("A")].into();
        let clock = Clock {
            read: Some(&read),
            ..NOW
        };
        assert_eq!(stays(&survey, &nothing, NOW), "..");
        assert_eq!(stays(&survey, &nothing, clock), "#.");
    }

    #[test]
    fn what_a_new_result_was_made_of_is_as_new_as_the_result() {
        // a → b → c: only c is new. x is newer than a and b, and nothing reads it.
        let survey = survey(&[
            ("a", "A", &[], 10),
            ("b", "B", &["A"], 20),
            ("x", "X", &[], 500),
            ("c", "C", &["B"], 900),
        ]);
        let sized = |bytes| Limits {
            max_bytes: Some(bytes),
            ..Limits::default()
        };
        assert_eq!(stays(&survey, &sized(40), NOW), "####");
        assert_eq!(stays(&survey, &sized(39), NOW), "##.#");
        assert_eq!(
            stays(&survey, &sized(20), NOW),
            "##..",
            "what was made of others goes before them"
        );
        assert_eq!(stays(&survey, &sized(0), NOW), "....");
        let aged = |seconds| Limits {
            max_age: Some(Duration::from_secs(seconds)),
            ..Limits::default()
        };
        assert_eq!(stays(&survey, &aged(200), NOW), "##.#");
        assert_eq!(stays(&survey, &aged(99), NOW), "....");
    }

    #[test]
    fn a_use_is_handed_on_through_what_was_made_again_later() {
        // b was made again after c, which reads it and is read by the newest, d.
        let survey = survey(&[
            ("a", "A", &[], 1),
            ("c", "C", &["B"], 5),
            ("b", "B", &["A"], 7),
            ("d", "D", &["C"], 9),
        ]);
        assert_eq!(last_uses(&survey, 1000), [9, 9, 9, 9]);
        assert_eq!(
            last_uses(&survey, 6),
            [6, 6, 6, 6],
            "the future counts as now"
        );
    }

    #[test]
    fn the_newest_generations_of_each_step_stay() {
        let survey = survey(&[
            ("a", "1", &[], 1),
            ("a", "2", &[], 2),
            ("b", "3", &[], 1),
            ("a", "4", &[], 3),
            ("a", "", &[], 4),
        ]);
        let last = |most| Limits {
            keep_last: Some(most),
            ..Limits::default()
        };
        assert_eq!(stays(&survey, &last(1), NOW), "..###");
        assert_eq!(stays(&survey, &last(2), NOW), ".####");
        // The limits do not excuse one another.
        let both = Limits {
            max_bytes: Some(20),
            ..last(2)
        };
        assert_eq!(stays(&survey, &both, NOW), ".#.##");
    }

    #[test]
    fn of_history_the_newest_stays_while_it_is_young() {
        let survey = survey(&[
            ("a", "", &[], 1),
            ("a", "", &[], 500),
            ("a", "1", &[], 600),
            ("b", "", &[], 2),
        ]);
        assert_eq!(stays(&survey, &Limits::default(), NOW), ".###");
        let aged = Limits {
            max_age: Some(Duration::from_secs(600)),
            ..Limits::default()
        };
        assert_eq!(stays(&survey, &aged, NOW), ".##.");
    }

    #[test]
    fn what_is_requested_and_what_a_running_process_made_stays() {
        let survey = survey(&[
            ("a", "1", &[], 1),
            ("b", "2", &[], 2),
            ("c", "3", &[], 900),
            ("c", "", &[], 901),
            ("c", "", &[], 902),
        ]);
        let none = Limits {
            max_bytes: Some(0),
            max_age: Some(Duration::ZERO),
            keep_last: Some(0),
            ..Limits::default()
        };
        assert_eq!(stays(&survey, &none, NOW), ".....");
        let running = Clock {
            running_since: Some(900),
            ..NOW
        };
        assert_eq!(stays(&survey, &none, running), "..###");
        let kept = Limits {
            keep: [survey.records[1].key].into(),
            ..none
        };
        assert_eq!(stays(&survey, &kept, NOW), ".#...");
    }
}
