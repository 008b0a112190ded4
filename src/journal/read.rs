//! Reading journals: of runs that ended, that were killed, and that go on.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::journal::{End, ExecutedStep, Head, Installed, Line};
use crate::record::Outcome;

const ENDING: &str = ".jsonl";

/// A run as its journal has it.
pub struct Run {
    pub head: Head,
    /// The steps in the order in which they ended.
    pub steps: Vec<ExecutedStep>,
    pub setups: Vec<Installed>,
    /// Steps that began and did not end, by name.
    pub cut_off: Vec<String>,
    /// None if the run was killed, or goes on.
    pub end: Option<End>,
    pub goes_on: bool,
    /// Lines that say nothing: the last one of a killed run, or a damaged one.
    pub unreadable: usize,
}

/// The journals of a folder, newest first.
pub fn files(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(dir) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let paths = entries.flatten().map(|entry| entry.path());
    let mut found: Vec<_> = paths.filter(|path| name_of(path).is_some()).collect();
    found.sort_by(|a, b| b.cmp(a));
    Ok(found)
}

/// The runs of a folder, newest first. One that was killed before its first line reached the disk counts for nothing.
pub fn runs(dir: &Path) -> anyhow::Result<impl Iterator<Item = anyhow::Result<Run>> + use<>> {
    let files = files(dir).with_context(|| format!("failed to list `{}`", dir.display()))?;
    Ok(files.into_iter().filter_map(|path| {
        let run = read(&path).with_context(|| format!("failed to read `{}`", path.display()));
        run.transpose()
    }))
}

/// The path of a run's journal.
pub fn path(dir: &Path, run: &str) -> PathBuf {
    dir.join(format!("{run}{ENDING}"))
}

/// The name of the run whose journal has this path; None if it is no journal. Names of runs begin with a year.
pub fn name_of(path: &Path) -> Option<&str> {
    let name = path.file_name()?.to_str()?.strip_suffix(ENDING)?;
    (name.starts_with(|c: char| c.is_ascii_digit()) && name.contains('-')).then_some(name)
}

/// None if there is no such file, or it does not even say which run it is of.
pub fn read(path: &Path) -> io::Result<Option<Run>> {
    let file = match File::open(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    let goes_on = matches!(file.try_lock_shared(), Err(fs::TryLockError::WouldBlock));
    let bytes = fs::read(path)?;
    let mut lines = bytes
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty());
    let Some(Ok(Line::Run(head))) = lines.next().map(serde_json::from_slice) else {
        return Ok(None);
    };
    let mut run = Run {
        head,
        steps: Vec::new(),
        setups: Vec::new(),
        cut_off: Vec::new(),
        end: None,
        goes_on,
        unreadable: 0,
    };
    let mut open = BTreeSet::new();
    for line in lines {
        match serde_json::from_slice(line) {
            Ok(Line::Began(step)) => drop(open.insert(step)),
            Ok(Line::Step(ran)) => {
                open.remove(&ran.step);
                // One that gave its slot back executed nothing: an equal step had its result, or an input was lost.
                if ran.key.is_some() || ran.outcome != Outcome::Incomplete {
                    run.steps.push(ran);
                }
            }
            Ok(Line::Setup(installed)) => run.setups.push(installed),
            Ok(Line::End(end)) => run.end = Some(end),
            Ok(Line::Run(_)) | Err(_) => run.unreadable += 1,
        }
    }
    run.cut_off = open.into_iter().collect();
    Ok(Some(run))
}
