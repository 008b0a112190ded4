//! Pages and generated tests: single files in folders that may hold other people's, so each is known by its content.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::PathBuf;

use anyhow::Context as _;

use crate::base::{Digest, fs as bfs, mark};
use crate::session::handout::{Handed, put_aside, whole};
use crate::step::generate;
use crate::store::DiskStore;

/// The first line of the list of what was handed out.
const TITLE: &str = "# What orch put here, with the digest (BLAKE3) of each. What differs by now was edited.\n";

/// A folder for pages.
pub(super) struct Pages {
    folder: PathBuf,
    /// What orch put here last, by name.
    known: BTreeMap<String, Digest>,
    is_changed: bool,
}

impl Pages {
    pub(super) fn open(folder: PathBuf) -> Self {
        let text = fs::read_to_string(folder.join(mark::NAME)).unwrap_or_default();
        let lines = text.lines().filter_map(|line| line.split_once("  "));
        let known = lines.filter_map(|(digest, name)| Some((name.to_owned(), digest.parse().ok()?))).collect();
        Self { folder, known, is_changed: false }
    }

    /// Copies the files of a tree, each as `filled` makes it of the store's: people may edit them.
    pub(super) fn put_all(
        &mut self,
        store: &DiskStore,
        tree: &Digest,
        filled: impl Fn(Vec<u8>) -> Vec<u8>,
        handed: &mut Handed,
    ) -> anyhow::Result<()> {
        for file in whole(store, tree, store.check_tree(tree))?.files {
            let bytes = filled(whole(store, tree, store.read_file(tree, &file.path))?.unwrap_or_default());
            self.put(store, file.path, &bytes, handed)?;
        }
        Ok(())
    }

    fn put(&mut self, store: &DiskStore, path: String, bytes: &[u8], handed: &mut Handed) -> anyhow::Result<()> {
        let to = self.folder.join(&path);
        let failed = || format!("failed to write `{}`", to.display());
        let known = self.known.get(&path);
        match fs::read(&to) {
            Ok(old) if old == bytes => {}
            Ok(old) => {
                // What the store holds was made by orch, and can be had again.
                let is_held = || store.holds(&Digest::of(&generate::as_made(&old)));
                if known != Some(&Digest::of(&old)) && !is_held() {
                    if known.is_none() {
                        handed.stays(&to);
                        return Ok(());
                    }
                    put_aside(&to, handed).with_context(failed)?;
                }
                bfs::write_atomic(&to, bytes).with_context(failed)?;
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => bfs::write_atomic(&to, bytes).with_context(failed)?,
            Err(_) => {
                handed.stays(&to);
                return Ok(());
            }
        }
        let digest = Digest::of(bytes);
        if known != Some(&digest) {
            self.known.insert(path, digest);
            self.is_changed = true;
        }
        handed.placed.push(to);
        Ok(())
    }

    /// Writes down what lies here now.
    pub(super) fn close(self) -> anyhow::Result<()> {
        if !self.is_changed {
            return Ok(());
        }
        let mut text = TITLE.to_owned();
        for (name, digest) in &self.known {
            let _ = writeln!(text, "{digest}  {name}");
        }
        let list = self.folder.join(mark::NAME);
        bfs::write_atomic(&list, text.as_bytes()).with_context(|| format!("failed to write `{}`", list.display()))
    }
}
