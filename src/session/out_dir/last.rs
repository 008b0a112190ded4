//! The report in a folder of results that is the last run's: the one question, and the one answer, of all commands that read a report
//! which nobody named.
//!
//! A run notes in the folder that it began, and at its end where its report is. Pages that would show nothing new stay as they
//! are, so that neither they nor their times say which run was the last.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::base::Bug;
use crate::base::fs::write_atomic;
use crate::report::{RunOrigin, format};
use crate::session::out_dir::pages;
use crate::session::{UsageError, usage};

/// The note in a folder of results.
const NAME: &str = "last-run.json";
/// The report for programs, in each folder of pages.
const REPORT: &str = "matrix.json";

/// The run that began last in a folder of results.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::session) struct LastRun {
    /// The moment when it began, RFC 3339 UTC.
    began: String,
    /// Its folder of pages; None as long as it has none.
    report: Option<String>,
    #[serde(skip)]
    out_dir: PathBuf,
}

impl LastRun {
    /// Notes that a run began.
    pub(in crate::session) fn begin(out_dir: &Path, began: &str) -> anyhow::Result<Self> {
        let last = Self {
            began: began.to_owned(),
            report: None,
            out_dir: out_dir.to_owned(),
        };
        last.write()?;
        Ok(last)
    }

    /// Notes where its report is.
    pub(in crate::session) fn ended(mut self, is_part: bool) -> anyhow::Result<()> {
        self.report = Some(pages::folder(&self.out_dir, is_part).to_owned());
        self.write()
    }

    fn read(out_dir: &Path) -> Option<Self> {
        let text = fs::read(out_dir.join(NAME)).ok()?;
        let last: Self = serde_json::from_slice(&text).ok()?;
        Some(Self {
            out_dir: out_dir.to_owned(),
            ..last
        })
    }

    fn write(&self) -> anyhow::Result<()> {
        let path = self.out_dir.join(NAME);
        let text =
            serde_json::to_vec_pretty(self).context(Bug::new("a note of strings serialises"))?;
        write_atomic(&path, &text).with_context(|| format!("failed to write `{}`", path.display()))
    }
}

/// The report of a run.
#[derive(Debug, Clone)]
pub struct LastReport {
    pub path: PathBuf,
    /// The moment when the run began, RFC 3339 UTC; None of a report that no run made.
    pub began: Option<String>,
    /// The part of the spec that it is of; None of the whole.
    pub part: Option<String>,
}

/// What is read of a report to learn which run it is of.
#[derive(Default, Deserialize)]
struct Head {
    #[serde(default)]
    run: Option<RunOrigin>,
    #[serde(default)]
    scope: Option<String>,
}

impl LastReport {
    fn open(path: PathBuf) -> Option<Self> {
        let text = fs::read(&path).ok()?;
        // What is damaged is reported by whoever reads all of it.
        let Head { run, scope } = serde_json::from_slice(&text).unwrap_or_default();
        Some(Self {
            path,
            began: run.map(|run| run.started),
            part: scope,
        })
    }

    /// `orch-out/part/matrix.json, the run of 2026-01-31 08:00:00 UTC (target:cpu)`
    pub fn description(&self) -> String {
        let began = self
            .began
            .as_ref()
            .map(|began| format!(", the run of {}", format::moment(began)));
        let part = self.part.as_ref().map(|part| format!(" ({part})"));
        let began = began.unwrap_or_default();
        let part = part.unwrap_or_default();
        format!("{}{began}{part}", self.path.display())
    }
}

/// The last run's report in a folder of results.
pub fn last_report(out_dir: &Path) -> anyhow::Result<LastReport> {
    let noted = LastRun::read(out_dir);
    let open = |folder: &str| {
        let mut found = LastReport::open(out_dir.join(folder).join(REPORT))?;
        // What a later run found no different is its report, too.
        if let Some(last) = noted
            .as_ref()
            .filter(|last| last.report.as_deref() == Some(folder))
        {
            found.began = found.began.max(Some(last.began.clone()));
        }
        Some(found)
    };
    let newest = pages::FOLDERS
        .iter()
        .filter_map(|folder| open(folder))
        .max_by(|a, b| a.began.cmp(&b.began));
    if let Some(last) = noted.filter(|last| last.report.is_none())
        && newest
            .as_ref()
            .is_none_or(|newest| newest.began.as_ref() < Some(&last.began))
    {
        let hint = newest.map(|newest| {
            format!(
                "; the last report is `{}`, and can be named",
                newest.path.display()
            )
        });
        usage!(
            "the last run, of {}, left no report in `{}`: it failed, was interrupted, or goes on\n  hint: run it to its end{}",
            format::moment(&last.began),
            out_dir.display(),
            hint.unwrap_or_default()
        );
    }
    let none = || {
        let hint = "`orch run` leaves one; a report elsewhere can be named";
        UsageError(format!(
            "no run has left a report in `{}`\n  hint: {hint}",
            out_dir.display()
        ))
    };
    Ok(newest.ok_or_else(none)?)
}

/// What ran after the run of a report that somebody named, where the report is in a folder of results.
pub fn newer_than(named: &Path) -> Option<String> {
    let folder = named.parent()?;
    let is_of_pages = pages::FOLDERS.iter().any(|name| folder.ends_with(name));
    let out_dir = folder
        .parent()
        .filter(|_| is_of_pages && named.ends_with(REPORT))?;
    match last_report(out_dir) {
        Ok(last) if last.path == named => None,
        Ok(last) => {
            let description = last.description();
            let rest = description
                .strip_prefix(&*last.path.display().to_string())
                .unwrap_or_default();
            Some(format!(
                "`{}` is newer: {}",
                last.path.display(),
                rest.trim_start_matches(", ")
            ))
        }
        Err(why) => why.to_string().lines().next().map(str::to_owned),
    }
}
