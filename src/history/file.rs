//! What one run leaves for the history: a file of its own, which appears when it is whole and is never changed.
//!
//! Runs beside each other so write nothing in common, and the database can be made again from these files. The report is
//! kept as it is: what a later version of orch makes of it needs no other file.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};

use crate::base::{Digest, figures, fs as bfs, tree_path};
use crate::journal;
use crate::report::{Git, ReportDoc, RunOrigin};

/// The version of the file's shape. An additional field that may be absent needs no other.
const VERSION: u32 = 1;
const ENDING: &str = ".json.gz";
/// What a file may unpack to, bytes: a report of 100,000 cases takes a fifth of it.
const LARGEST: u64 = 1 << 30;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunFile {
    version: u32,
    pub about: About,
    /// None where the run looked at nothing again, because nothing had changed since [`About::same_as`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doc: Option<ReportDoc>,
    /// What the report does not say of the execution whose figures it shows, by case.
    #[serde(default)]
    pub executions: BTreeMap<String, Execution>,
    /// The steps that this run executed.
    #[serde(default)]
    pub steps: Vec<Executed>,
}

/// A run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct About {
    /// The moment when it began, with what distinguishes it from other runs of that moment: the file's name.
    pub run: String,
    /// RFC 3339, UTC.
    pub started: String,
    pub seconds: Option<f64>,
    /// The command line, quoted for a shell.
    pub command: Option<String>,
    /// Digest of what kind of machine it ran on.
    pub fingerprint: Option<String>,
    pub git: Option<Git>,
    pub interrupted: bool,
    /// The run whose results were still valid, where this one had nothing to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same_as: Option<String>,
    /// The file that it was read from, where another machine wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Execution {
    /// The key of the step that ran.
    pub key: Digest,
    /// The name of the machine that executed it, which may be another where a remote store has its result.
    pub host: String,
    /// The tree that it loaded.
    pub artefact: Option<Digest>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Executed {
    pub step: String,
    pub key: Digest,
    pub state: String,
    pub output: Option<Digest>,
    pub started: String,
    pub seconds: f64,
}

impl RunFile {
    pub fn new(about: About, doc: Option<ReportDoc>) -> Self {
        Self {
            version: VERSION,
            about,
            doc,
            executions: BTreeMap::new(),
            steps: Vec::new(),
        }
    }

    /// A report that was written elsewhere. It is known by its content, so that it counts once however often it is read. Where it does
    /// not say when its run began, the last execution in it is taken for that.
    fn of_report(doc: ReportDoc, bytes: &[u8]) -> Result<Self> {
        let moments = doc
            .cases
            .iter()
            .filter_map(|case| case.measured.as_ref().max(case.ended.as_ref()));
        let last = moments
            .max()
            .context("it holds nothing that was executed")?
            .clone();
        let RunOrigin { started, git } = doc.run.clone().unwrap_or(RunOrigin {
            started: last,
            git: None,
        });
        let run = format!("{}-{}", compact(&started), Digest::of(bytes).short());
        let about = About {
            run,
            started,
            seconds: Some(doc.summary.seconds),
            git,
            ..About::default()
        };
        Ok(Self::new(about, Some(doc)))
    }

    /// Puts the file into the folder of runs, which is made if need be. One that is there stays.
    pub fn write(&self, dir: &Path) -> Result<PathBuf> {
        let path = path(dir, &self.about.run);
        if path.exists() {
            return Ok(path);
        }
        // In one piece: the encoder clears what is free of its buffer with every write, however small.
        let json =
            serde_json::to_vec(self).expect("BUG: a report of strings and numbers serialises");
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        let bytes = packed
            .write_all(&json)
            .and_then(|()| packed.finish())
            .expect("BUG: memory takes what is written");
        bfs::write_atomic(&path, &bytes)
            .with_context(|| format!("failed to write `{}`", path.display()))?;
        Ok(path)
    }

    /// A file of a run, or a report as `orch run --json` and `matrix.json` have it.
    pub fn read(path: &Path) -> Result<Self> {
        if let Some(run) = journal::name_of(path) {
            bail!(
                "`{}` is the journal of a run, without results\n  hint: those are in `{run}{ENDING}` beside it, once the run has \
                 ended and if it had cases",
                path.display()
            );
        }
        let bytes =
            fs::read(path).with_context(|| format!("failed to read `{}`", path.display()))?;
        Self::parse(&bytes)
            .with_context(|| format!("`{}` cannot be imported into the history", path.display()))
    }

    fn parse(bytes: &[u8]) -> Result<Self> {
        let mut unpacked = Vec::new();
        let text = if bytes.starts_with(&[0x1f, 0x8b]) {
            GzDecoder::new(bytes)
                .take(LARGEST + 1)
                .read_to_end(&mut unpacked)
                .context("it is damaged")?;
            ensure!(
                unpacked.len() as u64 <= LARGEST,
                "it unpacks to more than {}",
                figures::bytes(LARGEST)
            );
            &*unpacked
        } else {
            bytes
        };
        let Shape {
            version,
            about,
            cases,
        } = serde_json::from_slice(text).context("it is no JSON of a run")?;
        ensure!(
            version <= VERSION,
            "it has version {version}, and this orch reads up to {VERSION}: use a newer orch"
        );
        if about.is_some() {
            let file: Self = serde_json::from_slice(text).context("it is damaged")?;
            for run in std::iter::once(&file.about.run).chain(&file.about.same_as) {
                ensure!(is_name(run), "`{run}` is no name of a run");
            }
            return Ok(file);
        }
        ensure!(
            cases.is_some(),
            "it is neither a report of orch (`matrix.json`) nor the file of a run"
        );
        Self::of_report(
            serde_json::from_slice(text).context("it is not a report of orch")?,
            text,
        )
    }
}

/// What distinguishes the kinds of files.
#[derive(Deserialize)]
struct Shape {
    version: u32,
    about: Option<serde::de::IgnoredAny>,
    cases: Option<serde::de::IgnoredAny>,
}

/// Whether a text is a run's name, as [`name`] makes them: its file lies in the folder of runs, and in no other.
fn is_name(run: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    !run.starts_with('.') && run.chars().all(is_plain) && tree_path::fault(run).is_none()
}

/// The path of a run's file.
pub(super) fn path(dir: &Path, run: &str) -> PathBuf {
    dir.join(format!("{run}{ENDING}"))
}

/// The name of a run that begins now.
pub fn name(started: &str) -> String {
    let unique = format!("{started} {} {}", std::process::id(), rand::random::<u64>());
    format!(
        "{}-{}",
        compact(started),
        Digest::of(unique.as_bytes()).short()
    )
}

/// `20260131T080000.123Z`: names that sort as the moments do.
fn compact(moment: &str) -> String {
    moment
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || *c == '.')
        .collect()
}

/// The runs of a folder with their files, oldest first; none if there is no such folder.
pub(super) fn files(dir: &Path) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let named = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let is_shown = !name.starts_with('.');
        is_shown.then(|| Some((name.strip_suffix(ENDING)?.to_owned(), entry.path())))?
    });
    let mut found: Vec<_> = named.collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    fn about(run: &str, same_as: Option<&str>) -> About {
        let started = "2026-01-31T08:00:00.000Z".to_owned();
        About {
            run: run.to_owned(),
            started,
            same_as: same_as.map(str::to_owned),
            ..About::default()
        }
    }

    #[test]
    fn a_runs_report_is_read_back_also_by_way_of_a_run_that_had_nothing_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let runs = crate::history::runs_dir(dir.path());
        RunFile::new(about("a", None), Some(fixture()))
            .write(&runs)
            .unwrap();
        RunFile::new(about("b", Some("a")), None)
            .write(&runs)
            .unwrap();
        RunFile::new(about("c", Some("c")), None)
            .write(&runs)
            .unwrap();
        let report = |run: &str| crate::history::report(dir.path(), run);
        for run in ["a", "b"] {
            assert_eq!(
                serde_json::to_value(report(run).unwrap()).unwrap(),
                serde_json::to_value(fixture()).unwrap()
            );
        }
        assert!(report("c").is_err() && report("d").is_err());
        assert_eq!(
            files(&runs)
                .into_iter()
                .map(|(run, _)| run)
                .collect::<Vec<_>>(),
            ["a", "b", "c"]
        );
    }

    #[test]
    fn a_name_that_leaves_the_folder_of_runs_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        for run in ["../x", "/tmp/x", "a/b", "..", ".x", ""] {
            for (own, same) in [(run, None), ("a", Some(run))] {
                let json = serde_json::to_vec(&RunFile::new(about(own, same), None)).unwrap();
                let path = dir.path().join("run.json");
                fs::write(&path, json).unwrap();
                let error = format!("{:#}", RunFile::read(&path).unwrap_err());
                assert!(error.contains("is no name of a run"), "{run}: {error}");
            }
        }
    }

    #[test]
    fn a_file_is_never_changed_and_names_sort_by_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = RunFile::new(about("a", None), None)
            .write(dir.path())
            .unwrap();
        let before = fs::read(&path).unwrap();
        RunFile::new(about("a", Some("b")), None)
            .write(dir.path())
            .unwrap();
        assert_eq!(fs::read(&path).unwrap(), before);
        let moment = "2026-01-31T08:00:00.123Z";
        assert!(name(moment).starts_with("20260131T080000.123Z-") && name(moment) != name(moment));
    }
}
