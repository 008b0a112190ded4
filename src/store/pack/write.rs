//! Writes an archive. What it holds is found first, so that its sizes are known; content is hashed as it is written.

#![expect(clippy::disallowed_methods, reason = "writes a pack")]

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use crate::base::{Digest, Hasher};
use crate::store::blobs;
use crate::store::gc::RecordPart;
use crate::store::log::Place;
use crate::store::pack::{
    BLOBS, Exported, FORMAT, HEAD, Head, List, RECORDS, TREES, Through, VERSION,
};
use crate::store::{Amount, DiskStore, Result, StoreError};

/// The records that go into an archive.
pub enum Which<'a> {
    All,
    /// Those that answer for these keys.
    Keys(&'a HashSet<Digest>),
}

/// The records that go into an archive, by date and key.
type Chosen = BTreeMap<(String, Digest), Place>;

/// Entries are the same whoever writes them and whenever. Some programs warn of a date of 0.
const DATE: u64 = 1;

impl DiskStore {
    /// Writes records and everything that they made to `out`, which `name` is the name of.
    pub fn export(&self, which: &Which<'_>, out: impl Write, name: &Path) -> Result<Exported> {
        let scratch = self.scratch()?;
        let dir = scratch.dir("export")?;
        let mut exported = Exported::default();
        let mut trees = BTreeSet::new();
        let records = self.chosen(which, &mut trees, &mut exported)?;
        let mut blobs = BTreeMap::new();
        let trees_at = dir.join(TREES);
        let tree_list = spool(&trees_at, trees.iter(), |tree| {
            let manifest = self.manifest(tree)?;
            blobs.extend(manifest.files.iter().map(|file| (file.blob(), file.size)));
            Ok(manifest.to_bytes())
        })?;
        let records_at = dir.join(RECORDS);
        let record_list = spool(&records_at, records.values(), |place| {
            self.log.entry(place).map(|entry| entry.payload)
        })?;
        (exported.records, exported.trees) = (record_list.lines, tree_list.lines);
        exported.blobs = Amount {
            count: blobs.len() as u64,
            bytes: blobs.values().sum(),
        };
        let head = Head {
            format: FORMAT.into(),
            version: VERSION,
            trees: tree_list,
            records: record_list,
            blobs: exported.blobs,
        };
        let mut archive = Archive {
            tar: tar::Builder::new(out),
            name,
        };
        let head = serde_json::to_vec_pretty(&head).expect("BUG: a head serialises");
        archive.add(HEAD, false, head.len() as u64, head.as_slice())?;
        for (entry, path) in [(TREES, &trees_at), (RECORDS, &records_at)] {
            let (file, size) = open(path)?;
            archive.add(entry, false, size, file)?;
        }
        for (blob, size) in blobs {
            let path = self.blobs.path(&blob);
            let (file, _) = open(&path)?;
            let mut file = Through::new(file);
            archive.add(
                &format!("{BLOBS}{}", blobs::name(&blob)),
                blob.1,
                size,
                (&mut file).take(size),
            )?;
            if (file.bytes, file.hasher.digest()) != (size, blob.0) {
                return Err(StoreError::Damaged {
                    path,
                    what: "it has other content than was published".into(),
                });
            }
        }
        archive
            .tar
            .finish()
            .and_then(|()| archive.tar.get_mut().flush())
            .map_err(StoreError::io("write", name))?;
        Ok(exported)
    }

    /// The records, and the trees that they made. Those whose trees are gone are counted only.
    fn chosen(
        &self,
        which: &Which<'_>,
        trees: &mut BTreeSet<Digest>,
        exported: &mut Exported,
    ) -> Result<Chosen> {
        let keys = match which {
            Which::Keys(wanted) => BTreeSet::from_iter((*wanted).clone()),
            Which::All => self.answered()?,
        };
        let mut chosen = Chosen::new();
        for key in keys {
            let held = self
                .log
                .held(&key)?
                .filter(|(_, header)| header.held.answers());
            let Some((place, header)) = held else {
                continue;
            };
            let entry = self.log.entry(&place).ok();
            let started = entry.and_then(|entry| {
                RecordPart::parse(&entry.payload).map(|record| record.started.into_owned())
            });
            // Older versions of orch kept trees that no other machine would take in.
            let is_sound = |tree: Digest| {
                self.manifest(&tree)
                    .is_ok_and(|manifest| manifest.fault().is_none())
            };
            let is_whole = header
                .output
                .is_none_or(|tree| self.has_tree(&tree) && is_sound(tree));
            let Some(started) = started.filter(|_| is_whole) else {
                exported.lost += 1;
                continue;
            };
            trees.extend(header.output);
            chosen.insert((started, key), place);
        }
        Ok(chosen)
    }
}

fn open(path: &Path) -> Result<(BufReader<File>, u64)> {
    let file = File::open(path).map_err(StoreError::io("read", path))?;
    let size = file.metadata().map_err(StoreError::io("read", path))?.len();
    Ok((BufReader::with_capacity(1 << 18, file), size))
}

/// Writes a list, a line for each item.
fn spool<T>(
    path: &PathBuf,
    items: impl Iterator<Item = T>,
    mut line: impl FnMut(T) -> Result<Vec<u8>>,
) -> Result<List> {
    let file = File::create(path).map_err(StoreError::io("write", path))?;
    let mut out = BufWriter::new(file);
    let mut hasher = Hasher::default();
    let mut lines = 0;
    let mut bytes = 0;
    for item in items {
        let mut line = line(item)?;
        line.push(b'\n');
        hasher.update(&line);
        out.write_all(&line)
            .map_err(StoreError::io("write", path))?;
        (lines, bytes) = (lines + 1, bytes + line.len() as u64);
    }
    out.flush().map_err(StoreError::io("write", path))?;
    Ok(List {
        lines,
        bytes,
        digest: hasher.digest(),
    })
}

struct Archive<'a, W: Write> {
    tar: tar::Builder<W>,
    name: &'a Path,
}

impl<W: Write> Archive<'_, W> {
    fn add(&mut self, entry: &str, executable: bool, size: u64, content: impl Read) -> Result<()> {
        let mut header = tar::Header::new_gnu();
        header.set_size(size);
        header.set_mode(if executable { 0o755 } else { 0o644 });
        header.set_mtime(DATE);
        header.set_uid(0);
        header.set_gid(0);
        self.tar
            .append_data(&mut header, entry, content)
            .map_err(StoreError::io("write", self.name))
    }
}
