//! Single files in folders that may hold other people's, so each is known by its content: pages and generated tests.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::PathBuf;

use anyhow::Context as _;

use crate::base::{Digest, fs as bfs, mark, tree_path};
use crate::session::out_dir::{Handed, put_aside, whole};
use crate::step::generate;
use crate::store::DiskStore;

/// The first line of the list of what was handed out.
const TITLE: &str =
    "# What orch put here, with the digest (BLAKE3) of each. What differs by now was edited.\n";

/// A folder with a list of what orch put there.
pub(super) struct Listed {
    pub(super) folder: PathBuf,
    /// The digests by name. What is about to be replaced has two: whoever is killed leaves one or the other.
    known: BTreeMap<String, Vec<Digest>>,
    is_changed: bool,
}

impl Listed {
    pub(super) fn open(folder: PathBuf) -> Self {
        let text = fs::read_to_string(folder.join(mark::NAME)).unwrap_or_default();
        let mut known: BTreeMap<String, Vec<Digest>> = BTreeMap::new();
        let lines = text.lines().filter_map(|line| line.split_once("  "));
        // Anybody may have written the list: a name that leaves the folder is none of orch's.
        for (digest, name) in lines.filter(|(_, name)| tree_path::fault(name).is_none()) {
            known
                .entry(name.to_owned())
                .or_default()
                .extend(digest.parse::<Digest>());
        }
        Self {
            folder,
            known,
            is_changed: false,
        }
    }

    pub(super) fn knows(&self, name: &str, digest: &Digest) -> bool {
        self.known
            .get(name)
            .is_some_and(|known| known.contains(digest))
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.known.keys().map(String::as_str)
    }

    /// The digest of a file that is here. What a symbolic link leads to is not here.
    pub(super) fn digest(&self, name: &str) -> Option<Digest> {
        let path = tree_path::inside(&self.folder, name).ok()?;
        Digest::of_file(&path).ok()
    }

    /// Whether a file is here and as orch left it.
    pub(super) fn is_as_left(&self, name: &str) -> bool {
        self.digest(name)
            .is_some_and(|digest| self.knows(name, &digest))
    }

    /// Whether something of this name is here that orch did not put here.
    pub(super) fn is_foreign(&self, name: &str) -> bool {
        !self.known.contains_key(name) && fs::symlink_metadata(self.folder.join(name)).is_ok()
    }

    pub(super) fn set(&mut self, name: &str, digest: Option<Digest>) {
        let known = digest.map(|digest| vec![digest]);
        self.is_changed |= self.known.get(name) != known.as_ref();
        match known {
            Some(known) => drop(self.known.insert(name.to_owned(), known)),
            None => drop(self.known.remove(name)),
        }
    }

    /// Writes down what will lie here soon, besides what lies here now.
    pub(super) fn announce<'a>(
        &mut self,
        files: impl IntoIterator<Item = (&'a str, Digest)>,
    ) -> anyhow::Result<()> {
        for (name, digest) in files {
            self.known.entry(name.to_owned()).or_default().push(digest);
        }
        self.write()
    }

    /// Copies the files of a tree, each as `filled` makes it of the store's: people may edit them.
    pub(super) fn put_all(
        &mut self,
        store: &DiskStore,
        tree: &Digest,
        filled: impl Fn(Vec<u8>) -> Vec<u8>,
        handed: &mut Handed,
    ) -> anyhow::Result<()> {
        // What the store holds was made by orch, and can be had again.
        let is_held = |old: &[u8]| store.holds(&Digest::of(&generate::as_made(old)));
        for file in whole(store, tree, store.check_tree(tree))?.files {
            let bytes =
                filled(whole(store, tree, store.read_file(tree, &file.path))?.unwrap_or_default());
            self.put(&file.path, &bytes, is_held, handed)?;
        }
        Ok(())
    }

    /// `is_made`: whether orch made a content that is not on the list.
    pub(super) fn put(
        &mut self,
        name: &str,
        bytes: &[u8],
        is_made: impl FnOnce(&[u8]) -> bool,
        handed: &mut Handed,
    ) -> anyhow::Result<()> {
        let to = self.folder.join(name);
        let failed = || format!("failed to write `{}`", to.display());
        match fs::read(&to) {
            Ok(old) if old == bytes => {}
            Ok(old) => {
                if !self.knows(name, &Digest::of(&old)) && !is_made(&old) {
                    if !self.known.contains_key(name) {
                        handed.stays(&to);
                        return Ok(());
                    }
                    put_aside(&to, handed).with_context(failed)?;
                }
                bfs::write_atomic(&to, bytes).with_context(failed)?;
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                bfs::write_atomic(&to, bytes).with_context(failed)?
            }
            Err(_) => {
                handed.stays(&to);
                return Ok(());
            }
        }
        self.set(name, Some(Digest::of(bytes)));
        handed.placed.push(to);
        Ok(())
    }

    /// Writes down what lies here now.
    pub(super) fn close(self) -> anyhow::Result<()> {
        if self.is_changed {
            self.write()
        } else {
            Ok(())
        }
    }

    fn write(&self) -> anyhow::Result<()> {
        let mut text = TITLE.to_owned();
        for (name, digests) in &self.known {
            for digest in digests {
                let _ = writeln!(text, "{digest}  {name}");
            }
        }
        let list = self.folder.join(mark::NAME);
        bfs::write_atomic(&list, text.as_bytes())
            .with_context(|| format!("failed to write `{}`", list.display()))
    }
}
