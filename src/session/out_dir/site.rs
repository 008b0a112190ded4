//! A static site in a folder: pages that are as they should be stay untouched, and those that are no longer of it go.

#![expect(clippy::disallowed_methods, reason = "removes empty folders of a site")]

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::base::Digest;
use crate::base::fs as bfs;
use crate::report::ReportDoc;
use crate::report::site::{Files, VERSIONS};
use crate::session::out_dir::Handed;
use crate::session::out_dir::listed::Listed;

/// Gives how many files were written, how many stayed as they were and how many went.
pub fn place(files: &Files, folder: &Path, handed: &mut Handed) -> anyhow::Result<[usize; 3]> {
    fs::create_dir_all(folder).with_context(|| format!("failed to make `{}`", folder.display()))?;
    // Another orch may be at it.
    let _lock = File::open(folder).and_then(|file| file.lock().map(|()| file));
    let mut listed = Listed::open(folder.to_owned());
    // The list says what may lie here and whose it is. What does lie here, only the file itself says: whoever was killed
    // has announced pages that were never written.
    let is_new = |name: &str, text: &str| {
        let wanted = Digest::of(text.as_bytes());
        !(listed.knows(name, &wanted) && listed.digest(name) == Some(wanted))
    };
    let mut new: Vec<_> = Vec::new();
    for (name, text) in files {
        if listed.is_foreign(name) {
            handed.stays(&folder.join(name));
        } else if is_new(name, text) {
            new.push((name, text));
        }
    }
    // A reader who finds the first page finds all that it leads to.
    new.sort_by_key(|(name, _)| name.as_str() == INDEX);
    let gone: Vec<String> = listed
        .names()
        // What was once cited stays.
        .filter(|name| !files.contains_key(*name) && !name.starts_with(VERSIONS))
        .map(str::to_owned)
        .collect();
    if !new.is_empty() {
        listed.announce(
            new.iter()
                .map(|(name, text)| (name.as_str(), Digest::of(text.as_bytes()))),
        )?;
    }
    for (name, text) in &new {
        listed.put(name, text.as_bytes(), |_| false, handed)?;
    }
    for name in &gone {
        if listed.is_as_left(name) {
            let path = folder.join(name);
            bfs::remove_file(&path)
                .with_context(|| format!("failed to remove `{}`", path.display()))?;
            remove_empty(folder, path.parent().map(Path::to_owned));
        }
        listed.set(name, None);
    }
    listed.close()?;
    Ok([new.len(), files.len() - new.len(), gone.len()])
}

/// What the site in a folder shows of versions: reports of one case each. What somebody edited is no longer orch's.
pub fn earlier(folder: &Path) -> Vec<ReportDoc> {
    if !folder.is_dir() {
        return Vec::new();
    }
    let listed = Listed::open(folder.to_owned());
    let is_data = |name: &&str| name.starts_with(VERSIONS) && name.ends_with(".json");
    let read = |name: &str| {
        let text = fs::read(folder.join(name)).ok()?;
        serde_json::from_slice(&text).ok()
    };
    listed
        .names()
        .filter(is_data)
        .filter(|name| listed.is_as_left(name))
        .filter_map(read)
        .collect()
}

/// The page that leads to all others.
const INDEX: &str = "index.html";

/// Folders of pages of which nothing is left.
fn remove_empty(root: &Path, mut folder: Option<PathBuf>) {
    while let Some(path) = folder.filter(|path| path != root && fs::remove_dir(path).is_ok()) {
        folder = path.parent().map(Path::to_owned);
    }
}
