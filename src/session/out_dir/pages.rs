//! The pages of a report: written when they would show something new, and put back when one is gone or was edited.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::base::Digest;
use crate::report::{self, PAGES, ReportDoc};
use crate::session::out_dir::Handed;
use crate::session::out_dir::listed::Listed;

/// The line of the folder's list that is of no file: the digest of what its pages show.
const SHOWN: &str = "(what the pages show)";

/// The line of that list which says that they are pages of all of a spec.
const WHOLE: &str = "(of a whole spec)";

/// The folders of pages, in a folder of results.
pub(super) const FOLDERS: [&str; 2] = ["part", "report"];

/// The folder of the pages. Those of all of a spec are replaced by such pages only: those of a part have a folder of
/// their own beside them.
pub(super) fn folder(out_dir: &Path, is_part: bool) -> &'static str {
    let [part, report] = FOLDERS;
    let has_whole = || {
        Listed::open(out_dir.join(report))
            .names()
            .any(|name| name == WHOLE)
    };
    if is_part && has_whole() { part } else { report }
}

pub(super) fn show(doc: &ReportDoc, folder: PathBuf, handed: &mut Handed) -> anyhow::Result<()> {
    fs::create_dir_all(&folder)
        .with_context(|| format!("failed to make `{}`", folder.display()))?;
    // Another orch may be at it. Where folders cannot be locked, the last one's pages stand.
    let _lock = File::open(&folder).and_then(|file| file.lock().map(|()| file));
    let mut listed = Listed::open(folder);
    let shown = report::shown(doc);
    let is_new = !listed.knows(SHOWN, &shown);
    let mut pages = Vec::new();
    for (name, render) in PAGES {
        if listed.is_foreign(name) {
            handed.stays(&listed.folder.join(name));
        } else if is_new || !listed.is_as_left(name) {
            pages.push((name, render(doc)?.into_bytes()));
        } else {
            handed.placed.push(listed.folder.join(name));
        }
    }
    if !pages.is_empty() {
        // Until all of them are written they show nothing that a later run may believe.
        listed.set(SHOWN, None);
        listed.announce(pages.iter().map(|(name, bytes)| (*name, Digest::of(bytes))))?;
    }
    for (name, bytes) in pages {
        listed.put(name, &bytes, |_| false, handed)?;
    }
    listed.set(SHOWN, Some(shown));
    listed.set(WHOLE, doc.scope.is_none().then_some(shown));
    listed.close()
}
