//! Collects garbage: records by the user's limits, then everything that no record needs. Safe beside running processes and
//! against being killed; why, stands in docs/design/store.md, "Collecting garbage".

mod choose;
mod sort;
mod survey;
mod sweep;

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::base::figures::moment;
use crate::store::log::Place;
use crate::store::{Amount, DiskStore, Result, scratch};

pub(in crate::store) use survey::RecordPart;

pub use choose::{Gone, Limits};

use choose::{Clock, choose};
use sort::Sorting;
use survey::Survey;

/// Content that no tree names may be on its way into one. It is left alone for this long, though nothing needs as long.
const GRACE: Duration = Duration::from_secs(600);

/// What was, or in a dry run would be, removed; and what stays.
#[derive(Debug, Default, Serialize)]
pub struct Collected {
    pub dry_run: bool,
    /// Records that went, by why.
    pub records: Gone,
    pub trees: u64,
    pub blobs: Amount,
    /// Content that nothing needs and that is too new to be sure.
    pub too_new: Amount,
    pub logs: Amount,
    /// Working folders of killed processes.
    pub scratch: Amount,
    /// Files that such processes did not finish.
    pub unfinished: Amount,
    /// Stores of earlier versions of orch.
    pub layouts: Vec<Layout>,
    /// Folders named like one, without a mark of orch's: they stay.
    pub unmarked: Vec<PathBuf>,
    /// The log before and after; in a dry run it is not written, so its new size is not known.
    pub log_bytes_before: u64,
    pub log_bytes_after: Option<u64>,
    pub kept_records: u64,
    pub kept: Amount,
    /// The moment when the oldest of the other running processes began, RFC 3339; what was made since then stays.
    pub running_since: Option<String>,
}

#[derive(Debug, Serialize)]
pub struct Layout {
    pub path: PathBuf,
    pub bytes: u64,
}

/// What is newer than this stays.
#[derive(Debug, Clone, Copy)]
struct Horizon {
    /// The age limit of content that the log named.
    named: SystemTime,
    /// The age limit of content that it does not name.
    unnamed: SystemTime,
}

impl DiskStore {
    /// Removes what the limits let go and what nothing needs. With `dry_run`, only says so.
    pub fn collect(&self, limits: &Limits, dry_run: bool) -> Result<Collected> {
        if !dry_run {
            self.must_be_writable("nothing can be collected")?;
        }
        let mut done = Collected {
            dry_run,
            ..Collected::default()
        };
        let folders = self.root().join("tmp");
        done.scratch = scratch::sweep(&folders, !dry_run);
        // From here on, other processes can see that this one runs, and its age shows which changes came later.
        let own_folder = if dry_run { None } else { Some(self.scratch()?) };
        let born = own_folder
            .as_ref()
            .map_or(Ok(SystemTime::now()), scratch::Scratch::born)?;
        done.log_bytes_before = self.log_bytes();
        let mut survey;
        let (kept, horizon) = loop {
            let seen;
            (survey, seen) = Survey::of(&self.log)?;
            // Looked up after the log was read: whoever ended before that has nothing left that the log does not name.
            let running = scratch::oldest_running(&folders, own_folder.as_ref());
            let read = scratch::read_by_running(&folders, own_folder.as_ref());
            done.running_since = running.map(shown);
            let named = running.map_or(born, |running| running.min(born));
            let horizon = Horizon {
                named,
                unnamed: named.min(born - GRACE),
            };
            let clock = Clock {
                now: seconds(SystemTime::now()),
                running_since: running.map(seconds),
                read: Some(&read),
            };
            let chosen = choose(&survey, limits, clock);
            done.records = chosen.gone;
            let mut sorting =
                Sorting::of(&survey, chosen, |blob| self.is_newer(blob, horizon.unnamed));
            done.trees = sorting.trees_gone();
            let is_spent = done.records.all() + done.trees + survey.spent > 0;
            if dry_run || !is_spent || self.forget(&seen, &mut sorting)? {
                break (sorting.done(), horizon);
            }
        };
        done.kept_records = kept.records;
        done.kept = Amount {
            count: kept.blobs.len() as u64,
            bytes: kept.blobs.values().sum(),
        };
        let swept = self.sweep_blobs(&kept.blobs, &survey.blobs, horizon, dry_run)?;
        (done.blobs, done.too_new) = (swept.gone, swept.too_new);
        done.logs = self.sweep_logs(&kept.steps, horizon, dry_run)?;
        done.unfinished = self.sweep_unfinished(dry_run)?;
        (done.layouts, done.unmarked) = self.sweep_layouts(dry_run)?;
        done.log_bytes_after = (!dry_run).then(|| self.log_bytes());
        Ok(done)
    }

    /// Takes entries out of the log. False if another process did so since it was read: then it is to be read again.
    fn forget(&self, seen: &Place, sorting: &mut Sorting<'_>) -> Result<bool> {
        self.forget_memos()?;
        let is_done = self.log.compact(seen, sorting)?;
        // Once more, for those that were written while the old log was still there.
        self.forget_memos()?;
        Ok(is_done)
    }

    fn log_bytes(&self) -> u64 {
        std::fs::metadata(self.log.path())
            .map(|meta| meta.len())
            .unwrap_or_default()
    }
}

fn seconds(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs() as i64)
}

fn shown(time: SystemTime) -> String {
    moment(jiff::Timestamp::from_second(seconds(time)).unwrap_or_default())
}

#[cfg(test)]
mod tests;
