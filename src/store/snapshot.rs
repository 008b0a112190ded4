//! Files and folders as they were at one moment, and which of them are no longer so.
//!
//! The one answer to "what changed since": of the memo of a run that left nothing to do, and of `--watch`. Stamps are
//! compared; where one says nothing and the content is known, the content is.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rayon::prelude::*;

use crate::base::Digest;
use crate::store::Hashed;
use crate::store::files;
use crate::store::sealed::{Sealed, SealedWriter, damaged};
use crate::store::stat::{Moment, Stamp, now, stamp_clock};
use crate::store::table::{Found, Table, TableBuilder};

/// How long to wait until the clock of stamps has moved on. It moves at least a hundred times a second.
const PATIENCE: u32 = 30;

/// What is known of a path besides its stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Known {
    /// Nothing: with another stamp it is another.
    Stamp = 0,
    /// A file's content.
    Content = 1,
    /// A folder's entries: each is a row of its own.
    Entries = 2,
}

/// A stamp that a later change could leave as it is is not believed.
const YOUNG: u8 = 4;

#[derive(Debug, Default)]
pub struct Snapshot {
    /// With stamps; those of nothing where nothing was.
    table: Table,
    /// By row: a [`Known`], and [`YOUNG`].
    marks: Vec<u8>,
    /// By row; none but of content.
    digests: Vec<Digest>,
    /// Not looked at, even in folders that are.
    ignored: Vec<PathBuf>,
}

/// What is not as it was.
#[derive(Debug, Default)]
pub struct Changes {
    /// Files that are gone, new, or others.
    pub paths: BTreeSet<PathBuf>,
    /// New folders without a file in them.
    pub new_folders: BTreeSet<PathBuf>,
    /// Whether stamps were brought up to date where the content is the same.
    pub refreshed: bool,
}

impl Changes {
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty() && self.new_folders.is_empty()
    }
}

impl Snapshot {
    pub const SECTIONS: usize = Table::SECTIONS + 2;

    /// Files by their stamps, and folders with all that is in them.
    pub fn of<'a>(roots: impl IntoIterator<Item = &'a PathBuf>, ignored: &[PathBuf]) -> Self {
        let paths: Vec<PathBuf> = roots.into_iter().flat_map(|root| below(root, ignored)).collect();
        let mut table = Table::of(paths.iter().map(PathBuf::as_path));
        let (folders, _) = table.stamp_all();
        let mut marks = vec![Known::Stamp as u8; table.len()];
        folders.into_iter().for_each(|row| marks[row as usize] = Known::Entries as u8);
        Self { digests: vec![Digest::NONE; marks.len()], table, marks, ignored: ignored.to_vec() }
    }

    /// What is no folder.
    pub fn files(&self) -> impl Iterator<Item = PathBuf> {
        let is_folder = |row: &u32| self.marks[*row as usize] & !YOUNG == Known::Entries as u8;
        (0..self.table.len() as u32).filter(move |row| !is_folder(row)).map(|row| self.table.path(row))
    }

    /// What is not as it was when the stamps were taken. Rows of which only the stamp differs get the new one.
    pub fn changes(&mut self) -> Changes {
        let at = now();
        let differing = self.table.ask(|found| {
            let is_young = self.marks[found.row as usize] & YOUNG != 0;
            (is_young || found.stamp.unwrap_or(Stamp::ABSENT) != self.table.stamp(found.row)).then_some(found)
        });
        let mut changes = Changes::default();
        let looked: Vec<_> = differing.par_iter().map(|found| self.look(found)).collect();
        for (found, mut now) in differing.into_iter().zip(looked) {
            if now.is_empty()
                && let Some(stamp) = found.stamp
            {
                self.table.set_stamp(found.row, stamp);
                let mark = &mut self.marks[found.row as usize];
                *mark = (*mark & !YOUNG) | if stamp.is_racy(at) { YOUNG } else { 0 };
                changes.refreshed = true;
            }
            changes.paths.append(&mut now.paths);
            changes.new_folders.append(&mut now.new_folders);
        }
        changes
    }

    /// What became of one row whose stamp does not say that it is as it was.
    fn look(&self, found: &Found) -> Changes {
        let mut changes = Changes::default();
        let path = self.table.path(found.row);
        let mark = self.marks[found.row as usize] & !YOUNG;
        let is_same = match found.stamp {
            Some(_) if mark == Known::Content as u8 && !found.is_folder => {
                files::of_file(&path).is_ok_and(|digest| digest == self.digests[found.row as usize])
            }
            Some(_) if mark == Known::Entries as u8 && found.is_folder => return self.new_in(&path),
            _ => false,
        };
        if !is_same {
            changes.paths.insert(path);
        }
        changes
    }

    /// What is in a folder and was not. What is no longer in it is missed by its own row.
    fn new_in(&self, folder: &Path) -> Changes {
        let mut changes = Changes::default();
        let Ok(entries) = std::fs::read_dir(folder) else {
            changes.paths.insert(folder.to_owned());
            return changes;
        };
        let own = folder.as_os_str().as_bytes();
        for entry in entries {
            let Ok(entry) = entry else {
                changes.paths.insert(folder.to_owned());
                continue;
            };
            if self.table.find_split(own, entry.file_name().as_bytes()).is_some() || is_in(&entry.path(), &self.ignored)
            {
                continue;
            }
            let below = below(&entry.path(), &self.ignored);
            let files: Vec<_> = below.into_iter().filter(|path| !path.is_dir()).collect();
            if files.is_empty() {
                changes.new_folders.insert(entry.path());
            }
            changes.paths.extend(files);
        }
        changes
    }

    /// Writes [`Snapshot::SECTIONS`] sections.
    pub fn write(&self, writer: &mut SealedWriter) -> io::Result<()> {
        self.table.write(writer)?;
        writer.section(&self.marks)?;
        writer.begin();
        self.digests.iter().try_for_each(|digest| writer.write(digest.bytes()))
    }

    pub fn read(sealed: &Sealed, first: usize) -> io::Result<Self> {
        let table = Table::read(sealed, first)?;
        let marks = sealed.section(first + Table::SECTIONS)?;
        let digests = sealed.section(first + Table::SECTIONS + 1)?;
        let digests: Vec<_> = digests.chunks_exact(32).map(files::digest).collect();
        if marks.len() != table.len() || digests.len() != table.len() {
            return Err(damaged("a snapshot's parts do not fit together"));
        }
        Ok(Self { table, marks, digests, ignored: Vec::new() })
    }
}

/// A path and, of a folder, all that is in it.
fn below(root: &Path, ignored: &[PathBuf]) -> Vec<PathBuf> {
    if !root.is_dir() {
        return vec![root.to_owned()];
    }
    let entries = walkdir::WalkDir::new(root).into_iter().filter_entry(|entry| !is_in(entry.path(), ignored));
    entries.flatten().map(walkdir::DirEntry::into_path).collect()
}

fn is_in(path: &Path, ignored: &[PathBuf]) -> bool {
    ignored.iter().any(|ignored| path.starts_with(ignored))
}

/// Makes a snapshot of what several looks found.
#[derive(Default)]
pub struct SnapshotBuilder<'a> {
    /// Tables with what is known of each row, and what is young in them.
    parts: Vec<(&'a Table, Vec<u8>, &'a [Digest])>,
}

type Row<'a> = (&'a [u8], &'a [u8], Stamp, u8, Digest);

impl<'a> SnapshotBuilder<'a> {
    /// What [`Hashed`] knows, with all that is in folders. False if it does not know something.
    pub fn add_hashed(&mut self, hashed: &'a Hashed) -> bool {
        let folders = |row: u32| hashed.inside.contains_key(&row);
        let mut is_whole = self.add(&hashed.table, &hashed.digests, hashed.at, folders);
        for inside in hashed.inside.values() {
            is_whole &=
                self.add(&inside.table, &inside.digests, inside.at, |row| inside.digests[row as usize].is_none());
        }
        is_whole
    }

    fn add(&mut self, table: &'a Table, digests: &'a [Digest], at: Moment, is_folder: impl Fn(u32) -> bool) -> bool {
        let mut is_whole = true;
        let marks = (0..table.len() as u32).map(|row| {
            let known = if is_folder(row) { Known::Entries } else { Known::Content };
            is_whole &= known == Known::Entries || !digests[row as usize].is_none();
            known as u8 | if table.stamp(row).is_racy(at) { YOUNG } else { 0 }
        });
        let marks = marks.collect();
        self.parts.push((table, marks, digests));
        is_whole
    }

    /// Files that are to stay as they are, by stamps which [`stamp`] has taken.
    pub fn add_stamped(&mut self, table: &'a Table) {
        self.parts.push((table, vec![Known::Stamp as u8; table.len()], &[]));
    }

    /// None if two looks found different things at one path.
    pub fn finish(self) -> Option<Snapshot> {
        let mut rows: Vec<Row<'_>> = Vec::new();
        for (table, marks, digests) in &self.parts {
            let known = table.rows().zip(marks).enumerate();
            rows.extend(known.map(|(row, ((folder, name), mark))| {
                let digest = if *mark & Known::Content as u8 != 0 { digests[row] } else { Digest::NONE };
                (folder, name, table.stamp(row as u32), *mark, digest)
            }));
        }
        // Of rows of one path the first stays, which believes least.
        rows.sort_unstable_by_key(|row| (row.0, row.1, row.3));
        let is_one = |one: &Row<'_>, other: &Row<'_>| {
            one.2 == other.2 && (one.4 == other.4 || one.4.is_none() || other.4.is_none())
        };
        let agrees = |pair: &[Row<'_>]| (pair[0].0, pair[0].1) != (pair[1].0, pair[1].1) || is_one(&pair[0], &pair[1]);
        if !rows.windows(2).all(agrees) {
            return None;
        }
        rows.dedup_by_key(|row| (row.0, row.1));
        let mut builder = TableBuilder::default();
        let mut stamps = Vec::with_capacity(rows.len() * Stamp::BYTES);
        for (folder, name, stamp, ..) in &rows {
            builder.push(folder, name);
            stamps.extend_from_slice(&stamp.bytes());
        }
        Some(Snapshot {
            table: builder.finish(stamps),
            marks: rows.iter().map(|row| row.3).collect(),
            digests: rows.iter().map(|row| row.4).collect(),
            ignored: Vec::new(),
        })
    }
}

/// Takes the stamps of a table; false if a later change could leave the same.
pub fn stamp(table: &mut Table) -> bool {
    for _ in 0..PATIENCE {
        let clock = stamp_clock();
        table.stamp_all();
        if (0..table.len() as u32).all(|row| table.stamp(row).is_before(clock)) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::FileDigests;
    use std::fs;

    struct Scene {
        dir: tempfile::TempDir,
    }

    impl Scene {
        fn new() -> Self {
            let scene = Self { dir: tempfile::tempdir().unwrap() };
            for name in ["a", "b", "in/one", "in/deep/two"] {
                scene.write(name, name);
            }
            scene
        }

        fn path(&self, name: &str) -> PathBuf {
            self.dir.path().join(name)
        }

        fn write(&self, name: &str, text: &str) {
            fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
            fs::write(self.path(name), text).unwrap();
        }

        /// `a` and `in` by content, `b` by its stamp; taken when all stamps may be believed, or at once.
        fn snapshot(&self, is_old: bool) -> Snapshot {
            if is_old {
                std::thread::sleep(Duration::from_millis(120));
            }
            let mut files = FileDigests::load(self.path("none"));
            let paths = [self.path("a"), self.path("in")];
            files.prefetch(paths.iter().map(PathBuf::as_path));
            let mut kept = Table::of([&*self.path("b"), &*self.path("absent")]);
            assert!(stamp(&mut kept));
            let mut builder = SnapshotBuilder::default();
            assert!(builder.add_hashed(files.found().unwrap()));
            builder.add_stamped(&kept);
            let snapshot = builder.finish().unwrap();
            // As another process reads it.
            let file = self.path("sealed");
            let mut writer = SealedWriter::create(self.dir.path(), "test").unwrap();
            snapshot.write(&mut writer).unwrap();
            writer.finish(&file).unwrap();
            Snapshot::read(&Sealed::open(&file, "test").unwrap(), 0).unwrap()
        }

        #[track_caller]
        fn differs(&self, snapshot: &mut Snapshot, names: &[&str]) {
            let changes = snapshot.changes();
            let paths: BTreeSet<_> = names.iter().map(|name| self.path(name)).collect();
            let found: BTreeSet<_> = changes.paths.into_iter().chain(changes.new_folders).collect();
            assert_eq!(found, paths);
        }
    }

    #[test]
    fn each_kind_of_change_is_told_by_its_path() {
        let scene = Scene::new();
        for is_old in [true, false] {
            let change = |names: &[&str], change: &dyn Fn()| {
                let mut snapshot = scene.snapshot(is_old);
                scene.differs(&mut snapshot, &[]);
                change();
                scene.differs(&mut snapshot, names);
            };
            change(&["a"], &|| scene.write("a", "A"));
            change(&["b"], &|| scene.write("b", "b"));
            change(&["in/deep/two"], &|| scene.write("in/deep/two", "TWO"));
            change(&["in/deep/more/three"], &|| scene.write("in/deep/more/three", "3"));
            change(&["in/deep/more", "in/deep/more/three"], &|| {
                fs::remove_dir_all(scene.path("in/deep/more")).unwrap();
            });
            change(&["in/empty"], &|| fs::create_dir(scene.path("in/empty")).unwrap());
            change(&["in/empty"], &|| fs::remove_dir(scene.path("in/empty")).unwrap());
            change(&["absent"], &|| scene.write("absent", ""));
            change(&["absent"], &|| fs::remove_file(scene.path("absent")).unwrap());
            change(&[], &|| scene.write("unread", "x"));
            scene.write("a", "a");
            scene.write("in/deep/two", "two");
        }
    }

    #[test]
    fn content_that_came_back_is_believed_by_its_new_stamp() {
        let scene = Scene::new();
        let mut snapshot = scene.snapshot(true);
        assert!(!snapshot.changes().refreshed);
        scene.write("a", "a");
        assert!(snapshot.changes().refreshed, "the stamp is another");
        std::thread::sleep(Duration::from_millis(120));
        assert!(snapshot.changes().refreshed, "a young stamp is not believed");
        assert!(!snapshot.changes().refreshed);
        scene.write("a", "other");
        scene.differs(&mut snapshot, &["a"]);
        scene.differs(&mut snapshot, &["a"]);
    }

    #[test]
    fn what_two_looks_found_otherwise_is_no_snapshot() {
        let scene = Scene::new();
        let table = |text: &str| {
            scene.write("a", text);
            let mut table = Table::of([&*scene.path("a")]);
            table.stamp_all();
            table
        };
        let (one, other) = (table("a"), table("longer"));
        for (second, agree) in [(&one, true), (&other, false)] {
            let mut builder = SnapshotBuilder::default();
            builder.add_stamped(&one);
            builder.add_stamped(second);
            assert_eq!(builder.finish().is_some(), agree);
        }
    }
}
