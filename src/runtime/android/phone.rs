//! orch's folder on a phone: content that stays there, and the folder of one run, which does not.
//!
//! Content lies under its SHA-256, which the phone's own `sha256sum` computes again before each use: a push that was cut
//! off or a bit that flipped is pushed anew. The folder of a run is removed when the run ends, however it ends; should
//! the cable be pulled or this process be killed, the phone removes it by itself.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::adb::Adb;
use crate::base::Bug;
use crate::base::digest;
use crate::base::shell::quoted;

/// The one place on a phone where its shell's user may write and execute.
const ROOT: &str = "/data/local/tmp/orch";
/// How long cleaning up may take, whatever time the run itself has left.
const CLEANING: Duration = Duration::from_secs(5);
/// How much longer than the run the phone keeps its folder.
const SLACK: u64 = 60;

/// A file to be on the phone.
pub(super) struct Item {
    pub(super) from: PathBuf,
    /// The path on the phone.
    pub(super) to: String,
    pub(super) sha256: String,
}

impl Item {
    /// A file that lies there under its digest alone.
    pub(super) fn content(from: &Path) -> Result<Self> {
        let sha256 = sha256(from)?;
        Ok(Self {
            from: from.to_owned(),
            to: format!("{ROOT}/content/{sha256}"),
            sha256,
        })
    }
}

/// Files that must lie in one folder under their own names. The folder is called after all of them.
pub(super) fn bundle(files: &[PathBuf]) -> Result<(String, Vec<Item>)> {
    let mut all = String::new();
    let mut items = Vec::with_capacity(files.len());
    for from in files {
        let name = from
            .file_name()
            .and_then(|name| name.to_str())
            .context(Bug::new("a file of the SDK has a name"))?;
        let sha256 = sha256(from)?;
        all.push_str(&format!("{name} {sha256}\n"));
        items.push(Item {
            from: from.clone(),
            to: name.to_owned(),
            sha256,
        });
    }
    let folder = format!("{ROOT}/sdk/{}", &digest::sha256(all.as_bytes())?[..16]);
    items
        .iter_mut()
        .for_each(|item| item.to = format!("{folder}/{}", item.to));
    Ok((folder, items))
}

fn sha256(path: &Path) -> Result<String> {
    let failed = || format!("failed to read `{}`", path.display());
    digest::sha256(std::fs::File::open(path).with_context(failed)?).with_context(failed)
}

/// The folder of one run; it is gone when this is dropped.
pub(super) struct Run<'a> {
    adb: &'a Adb,
    pub(super) folder: String,
    is_open: bool,
}

impl<'a> Run<'a> {
    /// Makes the folder, and starts a process on the phone that removes it if nobody else does. `name` must be unique.
    pub(super) fn open(adb: &'a Adb, name: &str) -> Result<Self> {
        let folder = format!("{ROOT}/run/{name}");
        let seconds = adb
            .deadline
            .saturating_duration_since(Instant::now())
            .as_secs()
            + SLACK;
        let janitor = format!("sleep {seconds}; rm -rf {}", quoted(&folder));
        let run = Self {
            adb,
            folder,
            is_open: true,
        };
        let folder = quoted(&run.folder);
        adb.do_shell(&format!(
            "mkdir -p {folder} && {{ setsid sh -c {} </dev/null >/dev/null 2>&1 & echo $! >{folder}/janitor; }}",
            quoted(&janitor)
        ))
        .context("failed to make a folder on the phone")?;
        Ok(run)
    }

    /// Brings what the phone does not hold yet; gives how many files that were.
    pub(super) fn put(&self, items: &[Item]) -> Result<usize> {
        let missing = self.missing(items)?;
        for item in &missing {
            // Pushed under another name and renamed, so that no file is there by halves.
            let aside = format!("{}/part", self.folder);
            self.adb
                .push(&item.from, &aside)
                .with_context(|| format!("failed to push `{}`", item.from.display()))?;
            let parent = item.to.rsplit_once('/').map_or(ROOT, |(parent, _)| parent);
            let aside = quoted(&aside);
            let to = quoted(&item.to);
            let parent = quoted(parent);
            self.adb.do_shell(&format!(
                "mkdir -p {parent} && chmod 755 {aside} && mv -f {aside} {to}"
            ))?;
        }
        if !missing.is_empty() {
            let lost = self.missing(items)?;
            let lost: Vec<_> = lost.iter().map(|item| item.to.as_str()).collect();
            ensure!(
                lost.is_empty(),
                "the phone does not hold what was pushed to it: {}",
                lost.join(", ")
            );
        }
        Ok(missing.len())
    }

    fn missing<'i>(&self, items: &'i [Item]) -> Result<Vec<&'i Item>> {
        let paths: Vec<_> = items.iter().map(|item| quoted(&item.to)).collect();
        // Its code is that of the last file; what matters is which lines come.
        let listing = self
            .adb
            .shell(&format!("sha256sum {} 2>/dev/null", paths.join(" ")))?;
        let lines = listing
            .text
            .lines()
            .filter_map(|line| line.split_once(char::is_whitespace));
        let held: BTreeSet<_> = lines.map(|(digest, path)| (digest, path.trim())).collect();
        let is_missing = |item: &&Item| !held.contains(&(item.sha256.as_str(), item.to.as_str()));
        let mut found: Vec<_> = items.iter().filter(is_missing).collect();
        found.dedup_by(|one, other| one.to == other.to);
        Ok(found)
    }

    /// Removes the folder now, or says why it is still there.
    pub(super) fn close(mut self) -> Result<()> {
        self.remove()
    }

    fn remove(&mut self) -> Result<()> {
        self.is_open = false;
        let folder = quoted(&self.folder);
        let adb = Adb {
            deadline: Instant::now() + CLEANING,
            ..self.adb.clone()
        };
        let janitor = format!("kill -KILL -$(cat {folder}/janitor) 2>/dev/null");
        adb.do_shell(&format!("{janitor}; rm -rf {folder}"))
            .map(drop)
            .context("failed to clean up on the phone")
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        if self.is_open {
            // If the phone is gone it removes the folder by itself; the earlier failure is the one to report.
            let _ = self.remove();
        }
    }
}
