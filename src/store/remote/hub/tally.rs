//! What a remote gave and cost, counted; and the decision to go on without it.

use std::collections::BTreeMap;
use std::sync::Mutex;

use crate::base::figures::{bytes, plural};
use crate::base::lock;
use crate::store::remote::hub::trouble::{Refusal, Trouble};

/// So many failures in a row, and a remote is left alone for the rest of the run.
const ENOUGH: u32 = 5;

#[derive(Debug, Default)]
pub(super) struct Tally(Mutex<Counts>);

#[derive(Debug, Default, Clone)]
pub(super) struct Counts {
    pub(super) hits: u32,
    pub(super) bytes_in: u64,
    pub(super) uploaded: u32,
    pub(super) bytes_out: u64,
    refused: BTreeMap<Refusal, u32>,
    timeouts: u32,
    failures: u32,
    local: u32,
    last: Option<String>,
    in_a_row: u32,
    broken: bool,
    news: Option<String>,
}

impl Tally {
    pub(super) fn now(&self) -> Counts {
        lock(&self.0).clone()
    }

    pub(super) fn hit(&self, bytes: u64) {
        let mut counts = lock(&self.0);
        counts.hits += 1;
        counts.bytes_in += bytes;
        counts.in_a_row = 0;
    }

    /// Counts contents of a result that was counted before without them.
    pub(super) fn received(&self, bytes: u64) {
        let mut counts = lock(&self.0);
        counts.bytes_in += bytes;
        counts.in_a_row = 0;
    }

    pub(super) fn miss(&self) {
        lock(&self.0).in_a_row = 0;
    }

    pub(super) fn uploaded(&self, bytes: u64) {
        let mut counts = lock(&self.0);
        counts.uploaded += 1;
        counts.bytes_out += bytes;
        counts.in_a_row = 0;
    }

    pub(super) fn trouble(&self, trouble: &Trouble) {
        let mut counts = lock(&self.0);
        // What this machine lacks is not the remote's failure.
        let blames = !matches!(trouble, Trouble::Local(_));
        match trouble {
            Trouble::Refused(refusal) => *counts.refused.entry(*refusal).or_default() += 1,
            Trouble::Timeout => counts.timeouts += 1,
            Trouble::Failed(_) => counts.failures += 1,
            Trouble::Local(_) => counts.local += 1,
        }
        counts.last = Some(trouble.to_string());
        if blames {
            counts.in_a_row += 1;
            if counts.in_a_row == ENOUGH && !std::mem::replace(&mut counts.broken, true) {
                counts.news = Some(format!(
                    "it failed {ENOUGH} times in a row (last: {trouble}); going on without it"
                ));
            }
        }
    }

    /// Whether the remote is to be left alone. It stays so: what was given up is not tried again in this run.
    pub(super) fn is_broken(&self) -> bool {
        lock(&self.0).broken
    }

    pub(super) fn take_news(&self) -> Option<String> {
        lock(&self.0).news.take()
    }
}

impl Counts {
    /// `3 hits (1.2 MB), 2 results refused (wrong content), 1 timeout`; nothing if nothing happened.
    pub(super) fn summary(&self) -> Option<String> {
        let mut parts = Vec::new();
        let mut part = |count: u32, one: &str, more: &str, rest: String| {
            if count > 0 {
                parts.push(format!("{count} {}{rest}", plural(count, one, more)));
            }
        };
        part(
            self.hits,
            "hit",
            "hits",
            format!(" ({})", bytes(self.bytes_in)),
        );
        part(
            self.uploaded,
            "upload",
            "uploads",
            format!(" ({})", bytes(self.bytes_out)),
        );
        for (why, count) in &self.refused {
            part(
                *count,
                "result refused",
                "results refused",
                format!(" ({})", why.word()),
            );
        }
        part(self.timeouts, "timeout", "timeouts", String::new());
        part(self.failures, "error", "errors", String::new());
        part(self.local, "error here", "errors here", String::new());
        if self.failures + self.local > 0
            && let Some(last) = &self.last
        {
            parts.push(format!("the last: {last}"));
        }
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    /// Whether something was wrong.
    pub(super) fn is_troubled(&self) -> bool {
        self.last.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_failures_in_a_row_are_enough_and_a_success_between_them_is_not() {
        let tally = Tally::default();
        for _ in 0..4 {
            tally.trouble(&Trouble::Timeout);
        }
        tally.miss();
        for _ in 0..4 {
            tally.trouble(&Refusal::WrongContent.into());
        }
        tally.trouble(&Trouble::Local("disk full".into()));
        assert!(!tally.is_broken() && tally.take_news().is_none());
        tally.trouble(&Trouble::Failed("503".into()));
        assert!(tally.is_broken());
        assert!(
            tally
                .take_news()
                .unwrap()
                .contains("5 times in a row (last: 503)")
        );
        assert!(tally.take_news().is_none(), "reported once");
    }

    #[test]
    fn everything_is_counted_by_its_kind() {
        let tally = Tally::default();
        assert_eq!(tally.now().summary(), None);
        tally.hit(10);
        tally.uploaded(20);
        tally.uploaded(20);
        tally.trouble(&Refusal::WrongContent.into());
        tally.trouble(&Refusal::Unsigned.into());
        tally.trouble(&Trouble::Timeout);
        assert_eq!(
            tally.now().summary().unwrap(),
            "1 hit (10 B), 2 uploads (40 B), 1 result refused (not signed), 1 result refused (wrong content), 1 timeout"
        );
    }
}
