//! Many paths with their stamps, by folder: compact in memory, the same on disk, and compared with the disk in bulk.
//!
//! A folder is opened once and its files are asked for by bare name, so that the kernel resolves short paths; several
//! threads ask, because a call costs more than what is done with its answer.

use std::ffi::{CStr, OsStr};
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::store::sealed::{Sealed, SealedWriter, damaged};
use crate::store::stat::Stamp;

/// Rows that a thread takes at a time.
const BATCH: usize = 1024;
/// More threads than this only wait for the same locks in the kernel.
const THREADS: usize = 8;
/// From so many files of one folder on, opening it is cheaper than repeating its path.
const WORTH_OPENING: usize = 3;

/// Sorted by folder, then by name. Texts end in NUL, as the kernel wants them.
#[derive(Debug, Default)]
pub struct Table {
    folders: Vec<u8>,
    /// Where a folder's path begins in `folders`, and its first row; and one more of each, for the end.
    folder_at: Vec<u32>,
    folder_rows: Vec<u32>,
    names: Vec<u8>,
    name_at: Vec<u32>,
    stamps: Vec<u8>,
}

/// What is there now in place of a row.
pub struct Found {
    pub row: u32,
    /// None if nothing is there.
    pub stamp: Option<Stamp>,
    pub is_folder: bool,
}

impl Table {
    /// How many sections a table takes in a sealed file.
    pub const SECTIONS: usize = 6;

    /// A table of these paths without stamps; equal ones once. Paths that the kernel cannot take are left out.
    pub fn of<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Self {
        let mut rows: Vec<_> =
            paths.into_iter().map(split).filter(|(dir, name)| !dir.contains(&0) && !name.contains(&0)).collect();
        rows.sort_unstable();
        rows.dedup();
        let mut builder = TableBuilder::default();
        rows.into_iter().for_each(|(folder, name)| builder.push(folder, name));
        builder.finish(Vec::new())
    }

    pub fn len(&self) -> usize {
        self.name_at.len().saturating_sub(1)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn stamp(&self, row: u32) -> Stamp {
        Stamp::from_bytes(&self.stamps[row as usize * Stamp::BYTES..][..Stamp::BYTES])
    }

    pub fn set_stamp(&mut self, row: u32, stamp: Stamp) {
        self.stamps[row as usize * Stamp::BYTES..][..Stamp::BYTES].copy_from_slice(&stamp.bytes());
    }

    pub fn path(&self, row: u32) -> PathBuf {
        let (folder, name) = self.row(row);
        PathBuf::from(OsStr::from_bytes(folder)).join(OsStr::from_bytes(name))
    }

    pub fn find(&self, path: &Path) -> Option<u32> {
        let (folder, name) = split(path);
        self.find_split(folder, name)
    }

    pub fn find_split(&self, folder: &[u8], name: &[u8]) -> Option<u32> {
        let folders = self.folder_rows.len().saturating_sub(1);
        let at = search(0..folders, |at| self.folder(at).cmp(folder))?;
        let rows = self.folder_rows[at] as usize..self.folder_rows[at + 1] as usize;
        search(rows, |row| self.name(row).cmp(name)).map(|row| row as u32)
    }

    /// A row's folder and name.
    pub fn row(&self, row: u32) -> (&[u8], &[u8]) {
        let folder = self.folder_rows.partition_point(|first| *first <= row) - 1;
        (self.folder(folder), self.name(row as usize))
    }

    /// Every row's folder and name, in order.
    pub fn rows(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        (0..self.folder_rows.len().saturating_sub(1)).flat_map(move |folder| {
            let rows = self.folder_rows[folder]..self.folder_rows[folder + 1];
            rows.map(move |row| (self.folder(folder), self.name(row as usize)))
        })
    }

    fn folder(&self, folder: usize) -> &[u8] {
        &self.folders[self.folder_at[folder] as usize..self.folder_at[folder + 1] as usize - 1]
    }

    fn name(&self, row: usize) -> &[u8] {
        &self.names[self.name_at[row] as usize..self.name_at[row + 1] as usize - 1]
    }

    /// Takes the stamps of everything. Gives the rows that are folders, and those where nothing is: their stamps are void.
    pub fn stamp_all(&mut self) -> (Vec<u32>, Vec<u32>) {
        let found = self.ask(Some);
        let mut stamps = vec![0; self.len() * Stamp::BYTES];
        let (mut folders, mut absent) = (Vec::new(), Vec::new());
        for Found { row, stamp, is_folder } in found {
            match stamp {
                Some(stamp) => {
                    stamps[row as usize * Stamp::BYTES..][..Stamp::BYTES].copy_from_slice(&stamp.bytes());
                }
                None => absent.push(row),
            }
            if is_folder {
                folders.push(row);
            }
        }
        self.stamps = stamps;
        (folders, absent)
    }

    /// Asks the kernel for every row, on several threads; gives what `keep` keeps, in the order of rows.
    pub fn ask<T: Send>(&self, keep: impl Fn(Found) -> Option<T> + Sync) -> Vec<T> {
        let batches = self.len().div_ceil(BATCH);
        let threads = match batches {
            // To ask how many cores there are costs more than to ask for a few files.
            0 | 1 => 1,
            _ => std::thread::available_parallelism().map_or(1, usize::from).min(THREADS).min(batches),
        };
        let next = AtomicUsize::new(0);
        let work = || {
            let mut kept = Vec::new();
            loop {
                let batch = next.fetch_add(1, Ordering::Relaxed);
                if batch >= batches {
                    return kept;
                }
                let rows = batch * BATCH..self.len().min((batch + 1) * BATCH);
                let mut of_batch = Vec::new();
                self.ask_rows(rows, &mut |found| of_batch.extend(keep(found)));
                if !of_batch.is_empty() {
                    kept.push((batch, of_batch));
                }
            }
        };
        let mut kept = std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            let mut kept = work();
            for other in others {
                kept.extend(other.join().expect("BUG: a thread panicked while it asked for stamps"));
            }
            kept
        });
        kept.sort_unstable_by_key(|(batch, _)| *batch);
        kept.into_iter().flat_map(|(_, of_batch)| of_batch).collect()
    }

    fn ask_rows(&self, rows: Range<usize>, tell: &mut dyn FnMut(Found)) {
        let mut folder = self.folder_rows.partition_point(|first| *first as usize <= rows.start) - 1;
        let mut row = rows.start;
        while row < rows.end {
            let end = rows.end.min(self.folder_rows[folder + 1] as usize);
            let begin = self.folder_at[folder] as usize;
            let path = c_str(&self.folders[begin..self.folder_at[folder + 1] as usize]);
            let open = (end - row >= WORTH_OPENING).then(|| Folder::open(path)).flatten();
            for row in row..end {
                let name = c_str(&self.names[self.name_at[row] as usize..self.name_at[row + 1] as usize]);
                let stat = match &open {
                    Some(open) => open.stat(name),
                    None => Folder::CURRENT.stat(c_str(&joined(path, name))),
                };
                let is_folder = stat.is_some_and(|stat| stat.st_mode & libc::S_IFMT == libc::S_IFDIR);
                tell(Found { row: row as u32, stamp: stat.as_ref().map(Stamp::from), is_folder });
            }
            row = end;
            folder += 1;
        }
    }

    /// Writes [`Table::SECTIONS`] sections.
    pub fn write(&self, writer: &mut SealedWriter) -> io::Result<()> {
        writer.section(&self.folders)?;
        writer.numbers(self.folder_at.iter().copied())?;
        writer.numbers(self.folder_rows.iter().copied())?;
        writer.section(&self.names)?;
        writer.numbers(self.name_at.iter().copied())?;
        writer.section(&self.stamps)
    }

    pub fn read(sealed: &Sealed, first: usize) -> io::Result<Self> {
        let table = Self {
            folders: sealed.section(first)?,
            folder_at: sealed.numbers(first + 1)?,
            folder_rows: sealed.numbers(first + 2)?,
            names: sealed.section(first + 3)?,
            name_at: sealed.numbers(first + 4)?,
            stamps: sealed.section(first + 5)?,
        };
        let fits = table.folder_at.len() == table.folder_rows.len()
            && table.folder_rows.last().copied().unwrap_or(0) as usize == table.len()
            && table.stamps.len() == table.len() * Stamp::BYTES;
        if fits { Ok(table) } else { Err(damaged("a table's parts do not fit together")) }
    }
}

/// Makes a table of rows that come in order.
#[derive(Debug, Default)]
pub struct TableBuilder {
    folders: Vec<u8>,
    folder_at: Vec<u32>,
    folder_rows: Vec<u32>,
    names: Vec<u8>,
    name_at: Vec<u32>,
}

impl TableBuilder {
    pub fn push(&mut self, folder: &[u8], name: &[u8]) {
        let last = self.folder_at.last().map(|at| &self.folders[*at as usize..self.folders.len() - 1]);
        if last != Some(folder) {
            self.folder_at.push(self.folders.len() as u32);
            self.folder_rows.push(self.name_at.len() as u32);
            self.folders.extend_from_slice(folder);
            self.folders.push(0);
        }
        self.name_at.push(self.names.len() as u32);
        self.names.extend_from_slice(name);
        self.names.push(0);
    }

    /// `stamps` are the rows' own, one after another, or empty.
    pub fn finish(mut self, stamps: Vec<u8>) -> Table {
        if !self.name_at.is_empty() {
            self.folder_at.push(self.folders.len() as u32);
            self.folder_rows.push(self.name_at.len() as u32);
            self.name_at.push(self.names.len() as u32);
        }
        Table {
            folders: self.folders,
            folder_at: self.folder_at,
            folder_rows: self.folder_rows,
            names: self.names,
            name_at: self.name_at,
            stamps,
        }
    }
}

/// Folder and bare name.
pub fn split(path: &Path) -> (&[u8], &[u8]) {
    let mut bytes = path.as_os_str().as_bytes();
    while let [shorter @ .., b'/'] = bytes
        && !shorter.is_empty()
    {
        bytes = shorter;
    }
    match bytes.iter().rposition(|byte| *byte == b'/') {
        Some(0) => (b"/", &bytes[1..]),
        Some(at) => (&bytes[..at], &bytes[at + 1..]),
        None => (b".", bytes),
    }
}

fn search(rows: Range<usize>, compare: impl Fn(usize) -> std::cmp::Ordering) -> Option<usize> {
    let (mut low, mut high) = (rows.start, rows.end);
    while low < high {
        let middle = low + (high - low) / 2;
        match compare(middle) {
            std::cmp::Ordering::Equal => return Some(middle),
            std::cmp::Ordering::Less => low = middle + 1,
            std::cmp::Ordering::Greater => high = middle,
        }
    }
    None
}

fn c_str(bytes: &[u8]) -> &CStr {
    CStr::from_bytes_with_nul(bytes).expect("BUG: a table's text ends in its only NUL")
}

fn joined(folder: &CStr, name: &CStr) -> Vec<u8> {
    [folder.to_bytes(), b"/", name.to_bytes_with_nul()].concat()
}

/// An open folder.
struct Folder(libc::c_int);

impl Folder {
    const CURRENT: Self = Self(libc::AT_FDCWD);

    fn open(path: &CStr) -> Option<Self> {
        #[cfg(target_os = "linux")]
        let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;
        #[cfg(not(target_os = "linux"))]
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
        // SAFETY: the path ends in NUL.
        let fd = unsafe { libc::open(path.as_ptr(), flags) };
        (fd >= 0).then_some(Self(fd))
    }

    /// Follows links, as everyone does who reads the file.
    fn stat(&self, name: &CStr) -> Option<libc::stat> {
        let mut stat = std::mem::MaybeUninit::uninit();
        // SAFETY: the name ends in NUL and the buffer is ours; it is read only after the kernel has filled it.
        unsafe { (libc::fstatat(self.0, name.as_ptr(), stat.as_mut_ptr(), 0) == 0).then(|| stat.assume_init()) }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.0 >= 0 {
            // SAFETY: the descriptor is ours, and closed once.
            unsafe { libc::close(self.0) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_and_stamped_as_the_files_are() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let names: Vec<_> =
            (0..3000).map(|n| format!("{}/{n}.txt", n % 7)).chain(["a/b/one".into(), "top".into()]).collect();
        for name in &names {
            std::fs::create_dir_all(path(name).parent().unwrap()).unwrap();
            std::fs::write(path(name), name).unwrap();
        }
        let all: Vec<_> = names.iter().map(|name| path(name)).chain([path("gone"), path("3")]).collect();
        let mut table = Table::of(all.iter().chain(&all).map(PathBuf::as_path));
        assert_eq!(table.len(), all.len());
        let (folders, absent) = table.stamp_all();
        assert_eq!(folders, [table.find(&path("3")).unwrap()]);
        assert_eq!(absent, [table.find(&path("gone")).unwrap()]);
        for name in &names {
            let row = table.find(&path(name)).unwrap();
            assert_eq!((table.path(row), table.stamp(row)), (path(name), Stamp::of(&path(name)).unwrap()));
        }
        assert_eq!(table.find(&path("7/1.txt")), None);
        assert_eq!(table.find(&path("0/1.txt")), None);

        std::fs::write(path("5/12.txt"), "other").unwrap();
        std::fs::remove_file(path("top")).unwrap();
        let known = table.stamp(table.find(&path("top")).unwrap());
        assert_eq!(known.size, 3);
        let expected = [path("5/12.txt"), path("top")].map(|path| table.find(&path).unwrap());
        let changed = table.ask(|found| {
            let there = !absent.contains(&found.row);
            (there && found.stamp != Some(table.stamp(found.row))).then_some(found.row)
        });
        assert_eq!(changed.len(), 2);
        assert!(expected.iter().all(|row| changed.contains(row)));
    }

    #[test]
    fn an_empty_table_is_one() {
        let mut table = Table::of([]);
        assert_eq!((table.len(), table.find(Path::new("/x"))), (0, None));
        assert_eq!(table.stamp_all(), (vec![], vec![]));
    }

    #[test]
    fn a_path_is_split_where_its_folder_ends() {
        for (path, folder, name) in [("/a/b", "/a", "b"), ("/a", "/", "a"), ("a", ".", "a"), ("/a/b/", "/a", "b")] {
            assert_eq!(split(Path::new(path)), (folder.as_bytes(), name.as_bytes()), "{path}");
        }
    }
}
