//! A folder for one tree that generated tests load. Its `orch.json` is the mark that orch made it, and says what is in it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::base::digest::sha256;
use crate::base::{Digest, fs as bfs, temporary};
use crate::session::out_dir::{Handed, put_aside, whole};
use crate::store::remote::Remote;
use crate::store::stat::Stamp;
use crate::store::{DiskStore, Manifest, ManifestFile};

/// Generated tests read it (`templates/test.py.j2`).
pub(super) const LABEL: &str = "orch.json";
/// What the folder of a model itself is called, beside those of its artefacts.
pub(super) const MODEL: &str = "model";
/// The ends of the names of the files of a model's tree that tests of its artefacts read.
const COMPARED: [&str; 4] = [
    "generation.safetensors",
    "inputs.safetensors",
    "manifest.json",
    "reference.safetensors",
];

/// The owner of a folder, for the tests that load it: each takes its own only. Of the store's trees none says so, because equal
/// ones are one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Named {
    /// The model at its sizes: `bert@b4`.
    pub model: String,
    pub artefact: String,
}

impl Named {
    pub fn below(&self, out_dir: &Path) -> PathBuf {
        out_dir
            .join("artefacts")
            .join(&self.model)
            .join(&self.artefact)
    }
}

#[derive(PartialEq, Serialize, Deserialize)]
pub(super) struct Label {
    #[serde(flatten)]
    named: Named,
    tree: Digest,
    /// None while it is being filled. Orchs that linked what they handed out wrote none either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    files: Option<BTreeMap<String, Laid>>,
    /// The command that gets what is too large to be copied by every run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    get: Option<String>,
    /// Its files that are not there for that reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    lacks: Vec<String>,
}

/// A file as orch put it there.
#[derive(PartialEq, Serialize, Deserialize)]
struct Laid {
    digest: Digest,
    /// The digest for the generated tests: no Python computes a BLAKE3 digest by itself.
    sha256: String,
    stamp: Stamp,
}

/// What lies where a tree is to be.
enum Found {
    Nothing,
    /// Orch's, as orch left it.
    Ours(Label),
    /// Orch's, begun and not finished, or of an orch that linked: nothing in it is anybody's.
    Begun,
    /// Orch's, and changed since.
    Edited,
    Foreign,
}

/// A tree, and the folder that it is for.
pub struct Spot<'a> {
    pub store: &'a DiskStore,
    pub tree: Digest,
    pub folder: &'a Path,
    pub named: Named,
}

impl Spot<'_> {
    /// Hands out the tree, or says how to get it if it has more bytes than `most`. Of such a model, those files are handed out
    /// that are smaller than its weights: tests of its artefacts read no others. Copies: a program that rewrites them must
    /// not reach the store.
    pub(super) fn hand_out(
        self,
        most: u64,
        get: impl FnOnce() -> String,
        handed: &mut Handed,
    ) -> anyhow::Result<()> {
        let Self {
            store,
            tree,
            folder,
            ..
        } = self;
        // What was not copied for another reason than its size may be by now.
        let stays = |get: &Option<String>| {
            get.is_none() || store.manifest(&tree).is_ok_and(|tree| tree.size() > most)
        };
        if !self.make_room(stays, handed)? {
            return Ok(());
        }
        let manifest = whole(store, &tree, store.manifest(&tree))?;
        if manifest.size() > most {
            handed.large += 1;
            let is_model = self.named.artefact == MODEL;
            let (laid, lacks) = divided(manifest.files, if is_model { most } else { 0 });
            let lacks = lacks.into_iter().map(|file| file.path).collect();
            self.lay(laid, Some(get()), lacks)?;
        } else {
            self.lay(manifest.files, None, Vec::new())?;
        }
        placed(folder, handed)
    }

    /// Hands out those files of a model's tree that its tests compare with, of a tree that stays on a remote store, and
    /// says in the folder how to get the others.
    pub(super) fn hand_out_left(
        self,
        remote: &dyn Remote,
        left: Manifest,
        get: String,
        handed: &mut Handed,
    ) -> anyhow::Result<()> {
        if self.named.artefact != MODEL {
            return self.leave(get, handed);
        }
        let folder = self.folder;
        if !self.make_room(|_| true, handed)? {
            return Ok(());
        }
        let is_compared = |file: &ManifestFile| COMPARED.iter().any(|end| file.path.ends_with(end));
        let (small, large): (Vec<_>, Vec<_>) = left.files.into_iter().partition(is_compared);
        if let Err(why) = remote.bring_files(&self.tree, &small) {
            let at = folder.display();
            handed
                .notes
                .push(format!("{at} is empty: its files cannot be fetched: {why}"));
            self.note_how(get)?;
        } else {
            let lacks = large.into_iter().map(|file| file.path).collect();
            self.lay(small, Some(get), lacks)?;
        }
        placed(folder, handed)
    }

    /// Says in the folder of a tree that is not here how to get it.
    pub(super) fn leave(self, get: String, handed: &mut Handed) -> anyhow::Result<()> {
        let folder = self.folder;
        if self.make_room(|_| true, handed)? {
            self.note_how(get)?;
            placed(folder, handed)?;
        }
        Ok(())
    }

    /// False if nothing is to be put there: it is as it should be, or somebody else's.
    fn make_room(
        &self,
        stays: impl FnOnce(&Option<String>) -> bool,
        handed: &mut Handed,
    ) -> anyhow::Result<bool> {
        match look(self.store, self.folder)? {
            Found::Ours(label) if self.is_labelled(&label) && stays(&label.get) => {
                placed(self.folder, handed)?
            }
            Found::Foreign => handed.stays(self.folder),
            found => {
                clear(self.folder, &found, handed)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn is_labelled(&self, label: &Label) -> bool {
        label.tree == self.tree && label.named == self.named
    }

    fn note_how(self, get: String) -> anyhow::Result<()> {
        fs::create_dir_all(self.folder)?;
        let label = Label {
            named: self.named,
            tree: self.tree,
            files: Some(BTreeMap::new()),
            get: Some(get),
            lacks: Vec::new(),
        };
        Ok(write_label(self.folder, &label)?)
    }

    /// Fills the folder with a tree of any size. False if there is something of somebody else's in it.
    pub fn fill(self, handed: &mut Handed) -> anyhow::Result<bool> {
        match look(self.store, self.folder)? {
            Found::Foreign => return Ok(false),
            Found::Ours(label) if self.is_labelled(&label) && label.get.is_none() => {
                return Ok(true);
            }
            found => clear(self.folder, &found, handed)?,
        }
        let manifest = whole(self.store, &self.tree, self.store.manifest(&self.tree))?;
        self.lay(manifest.files, None, Vec::new())?;
        Ok(true)
    }

    /// The mark comes first, so that a killed process leaves nothing that looks like somebody else's.
    fn lay(
        self,
        files: Vec<ManifestFile>,
        get: Option<String>,
        lacks: Vec<String>,
    ) -> anyhow::Result<()> {
        let Self {
            store,
            tree,
            folder,
            named,
        } = self;
        fs::create_dir_all(folder)?;
        let mut label = Label {
            named,
            tree,
            files: None,
            get,
            lacks,
        };
        bfs::write_new(folder.join(LABEL), serde_json::to_vec(&label)?)?;
        whole(store, &tree, store.copy_files(&files, folder))?;
        let laid = |file: ManifestFile| -> io::Result<_> {
            let at = folder.join(&file.path);
            let sha256 = sha256(fs::File::open(&at)?)?;
            Ok((
                file.path,
                Laid {
                    digest: file.digest,
                    sha256,
                    stamp: Stamp::of(&at)?,
                },
            ))
        };
        label.files = Some(files.into_iter().map(laid).collect::<io::Result<_>>()?);
        Ok(write_label(folder, &label)?)
    }
}

/// The smallest files, of no more bytes than `most` together, and all others.
fn divided(mut files: Vec<ManifestFile>, most: u64) -> (Vec<ManifestFile>, Vec<ManifestFile>) {
    files.sort_by_key(|file| file.size);
    let mut bytes = 0;
    let count = files
        .iter()
        .take_while(|file| {
            bytes += file.size;
            bytes <= most
        })
        .count();
    let rest = files.split_off(count);
    (files, rest)
}

fn placed(folder: &Path, handed: &mut Handed) -> anyhow::Result<()> {
    handed.placed.extend(bfs::folders_below(folder)?);
    handed
        .placed
        .extend([folder.join(LABEL), folder.to_owned()]);
    Ok(())
}

fn clear(folder: &Path, found: &Found, handed: &mut Handed) -> io::Result<()> {
    match found {
        Found::Nothing | Found::Foreign => Ok(()),
        Found::Ours(_) | Found::Begun => bfs::remove_dir(folder),
        Found::Edited => put_aside(folder, handed),
    }
}

fn write_label(folder: &Path, label: &Label) -> io::Result<()> {
    bfs::write_atomic(&folder.join(LABEL), &serde_json::to_vec(label)?)
}

fn look(store: &DiskStore, folder: &Path) -> io::Result<Found> {
    match fs::symlink_metadata(folder) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
        Ok(meta) if meta.is_dir() => {}
        _ => return Ok(Found::Foreign),
    }
    if fs::read_dir(folder)?.next().is_none() {
        return Ok(Found::Nothing);
    }
    let files: Vec<_> = walkdir::WalkDir::new(folder)
        .into_iter()
        .filter(|entry| {
            let is_own = |name: &OsStr| name == LABEL || temporary::is_named(name);
            let is_passed = |entry: &walkdir::DirEntry| {
                entry.file_type().is_dir() || (entry.depth() == 1 && is_own(entry.file_name()))
            };
            !entry.as_ref().is_ok_and(is_passed)
        })
        .collect::<Result<_, _>>()?;
    let label = fs::read(folder.join(LABEL))
        .ok()
        .and_then(|text| serde_json::from_slice::<Label>(&text).ok());
    let Some(mut label) = label else {
        // The label of another orch, or none any more: what the store holds can be had again.
        let is_held = |entry: &walkdir::DirEntry| {
            entry.file_type().is_file()
                && Digest::of_file(entry.path()).is_ok_and(|digest| store.holds(&digest))
        };
        return Ok(if files.iter().all(is_held) {
            Found::Begun
        } else {
            Found::Foreign
        });
    };
    let Some(laid) = &mut label.files else {
        // What orch lays out is read-only from the first byte on, and so was what it linked.
        let is_ours = |entry: &walkdir::DirEntry| {
            entry
                .metadata()
                .is_ok_and(|meta| meta.permissions().readonly())
        };
        return Ok(if files.iter().all(is_ours) {
            Found::Begun
        } else {
            Found::Edited
        });
    };
    let mut is_moved = false;
    for entry in &files {
        let name = entry
            .path()
            .strip_prefix(folder)
            .unwrap_or(entry.path())
            .to_string_lossy();
        let Some(laid) = laid.get_mut(&*name).filter(|_| entry.file_type().is_file()) else {
            return Ok(Found::Edited);
        };
        let stamp = Stamp::from(&entry.metadata()?);
        if laid.stamp != stamp {
            if Digest::of_file(entry.path())? != laid.digest {
                return Ok(Found::Edited);
            }
            (laid.stamp, is_moved) = (stamp, true);
        }
    }
    // Somebody took one away: the rest is as it was.
    if files.len() < laid.len() {
        return Ok(Found::Begun);
    }
    if is_moved {
        write_label(folder, &label)?;
    }
    Ok(Found::Ours(label))
}
