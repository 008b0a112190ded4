//! The keys whose results are not on a remote yet: one per line of a file, kept over runs and crashes, and shared by
//! processes. A key that stands there twice, or is there already, costs a look and no more.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::PathBuf;

use crate::base::Digest;

#[derive(Debug)]
pub(super) struct Pending {
    path: PathBuf,
}

impl Pending {
    /// Each remote has its own: what one lacks, another may hold.
    pub(super) fn of(store: &std::path::Path, remote: &str) -> Self {
        Self {
            path: store
                .join("remote")
                .join(format!("{}.pending", Digest::of(remote.as_bytes()).short())),
        }
    }

    fn open(&self) -> io::Result<File> {
        fs::create_dir_all(self.path.parent().expect("BUG: the file lies in a folder"))?;
        let file = File::options()
            .read(true)
            .append(true)
            .create(true)
            .open(&self.path)?;
        file.lock()?;
        Ok(file)
    }

    pub(super) fn add(&self, key: &Digest) -> io::Result<()> {
        // One short write: a crash leaves at most one torn line, which names no key.
        self.open()?.write_all(format!("{key}\n").as_bytes())
    }

    pub(super) fn list(&self) -> io::Result<BTreeSet<Digest>> {
        match fs::read_to_string(&self.path) {
            Ok(text) => Ok(keys(&text)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(BTreeSet::new()),
            Err(e) => Err(e),
        }
    }

    /// Takes out what is done, and leaves what other processes have added.
    pub(super) fn remove(&self, done: &BTreeSet<Digest>) -> io::Result<()> {
        if done.is_empty() {
            return Ok(());
        }
        let mut file = self.open()?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        let left: String = keys(&text)
            .difference(done)
            .map(|key| format!("{key}\n"))
            .collect();
        file.set_len(0)?;
        file.rewind()?;
        file.write_all(left.as_bytes())
    }
}

fn keys(text: &str) -> BTreeSet<Digest> {
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_done_is_there_next_time() {
        let dir = tempfile::tempdir().unwrap();
        let [a, b, c] = [b"a", b"b", b"c"].map(|name| Digest::of(name));
        let ours = Pending::of(dir.path(), "s3://x");
        assert!(ours.list().unwrap().is_empty());
        ours.add(&a).unwrap();
        ours.add(&b).unwrap();
        Pending::of(dir.path(), "s3://x").add(&c).unwrap(); // another process
        ours.remove(&BTreeSet::from([a])).unwrap();
        assert_eq!(ours.list().unwrap(), BTreeSet::from([b, c]));
        assert!(Pending::of(dir.path(), "s3://y").list().unwrap().is_empty());
        // A torn line, and one after it.
        fs::OpenOptions::new()
            .append(true)
            .open(&ours.path)
            .unwrap()
            .write_all(b"0123\n")
            .unwrap();
        ours.add(&a).unwrap();
        assert_eq!(ours.list().unwrap(), BTreeSet::from([a, b, c]));
    }
}
