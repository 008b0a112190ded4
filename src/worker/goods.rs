//! What a program is given and what is taken from it: inputs go in as copies or guarded links, outputs are moved out.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::base::fs as bfs;

/// Below this size a copy costs less than the guarding of a link.
const LARGE: u64 = 1 << 20;
/// A write within one tick of the file system's clock leaves the same time behind, so younger files are copied.
const YOUNG: Duration = Duration::from_secs(1);

/// Large files of the store that a program was given without a copy.
#[derive(Default)]
pub(super) struct Linked(Vec<(String, PathBuf, Stamp)>);

/// Not the time of the inode's last change: that one moves when another step links the same file.
#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    size: u64,
    modified: (i64, i64),
    mode: u32,
}

impl Stamp {
    fn of(meta: &Metadata) -> Self {
        let modified = (meta.mtime(), meta.mtime_nsec());
        Self { inode: meta.ino(), size: meta.size(), modified, mode: meta.mode() }
    }
}

/// Lays inputs into `cwd` by their names. Files of the user's are always copied, so that a program that writes to them
/// harms nothing; large ones below `store` are hard links, and [`Linked::complaint`] tells afterwards of a write.
pub(super) fn lay_in(inputs: &BTreeMap<String, PathBuf>, cwd: &Path, store: &Path) -> io::Result<Linked> {
    let mut linked = Linked::default();
    for (name, from) in inputs {
        let to = cwd.join(name);
        if !from.starts_with(store) {
            bfs::copy_all(from, &to)?;
        } else if from.is_dir() {
            fs::create_dir_all(&to)?;
            for file in bfs::files_below(from)? {
                linked.lay(format!("{name}/{file}"), &from.join(&file), &to.join(&file))?;
            }
        } else {
            linked.lay(name.clone(), from, &to)?;
        }
    }
    Ok(linked)
}

impl Linked {
    fn lay(&mut self, name: String, from: &Path, to: &Path) -> io::Result<()> {
        let meta = fs::metadata(from)?;
        let is_young = meta.modified()?.elapsed().map_or(true, |age| age < YOUNG);
        if meta.len() < LARGE || is_young {
            return bfs::copy_file(from, to);
        }
        if let Some(folder) = to.parent() {
            fs::create_dir_all(folder)?;
        }
        // Another file system, or one without links.
        if fs::hard_link(from, to).is_err() {
            return bfs::copy_file(from, to);
        }
        self.0.push((name, from.to_owned(), Stamp::of(&meta)));
        Ok(())
    }

    /// Names an input that is not as it was.
    pub(super) fn complaint(&self) -> Option<String> {
        let changed = |from: &Path, stamp: &Stamp| fs::metadata(from).map_or(true, |meta| Stamp::of(&meta) != *stamp);
        let (name, ..) = self.0.iter().find(|(_, from, stamp)| changed(from, stamp))?;
        Some(format!(
            "it wrote to its input `{name}`, which other steps share and which is made again; hint: let it write to a \
             copy"
        ))
    }
}

/// Why an output was not taken.
pub(super) enum Refused {
    /// The program's fault.
    Output(String),
    Io(String),
}

/// Moves the output `name` from `cwd` to `out`. `is_over` says that nobody is left who could write to it later; as long
/// as somebody is, or another name of the same file exists, it is copied.
pub(super) fn take_out(name: &str, cwd: &Path, out: &Path, is_over: bool) -> Result<(), Refused> {
    let (from, to) = (cwd.join(name), out.join(name));
    let failed = |e: io::Error| Refused::Io(format!("failed to take the output `{name}`: {e}"));
    let mut is_sole = is_over;
    for entry in walkdir::WalkDir::new(&from) {
        let entry = match entry {
            Err(e) if e.depth() == 0 && e.io_error().is_some_and(|e| e.kind() == io::ErrorKind::NotFound) => {
                return Err(Refused::Output(format!("did not make its declared output `{name}`")));
            }
            other => other.map_err(|e| failed(e.into()))?,
        };
        let kind = entry.file_type();
        let what = if kind.is_symlink() { "a symbolic link" } else { "neither a file nor a folder" };
        if !kind.is_file() && !kind.is_dir() {
            let inside = entry.path().strip_prefix(cwd).unwrap_or(entry.path()).display();
            let whose = if entry.depth() == 0 { "its output".to_owned() } else { format!("in its output `{name}`,") };
            return Err(Refused::Output(format!("made {whose} `{inside}` {what}; hint: make it a regular file")));
        }
        is_sole = is_sole && (kind.is_dir() || entry.metadata().is_ok_and(|meta| meta.nlink() == 1));
    }
    if let Some(folder) = to.parent().filter(|folder| *folder != out) {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    match if is_sole { fs::rename(&from, &to) } else { Err(io::ErrorKind::CrossesDevices.into()) } {
        Err(e) if e.kind() == io::ErrorKind::CrossesDevices => bfs::copy_all(&from, &to).map_err(failed),
        other => other.map_err(failed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Place {
        dir: tempfile::TempDir,
    }

    impl Place {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            for name in ["cwd/d", "out", "store"] {
                fs::create_dir_all(dir.path().join(name)).unwrap();
            }
            Self { dir }
        }

        fn at(&self, name: &str) -> PathBuf {
            self.dir.path().join(name)
        }

        fn take(&self, name: &str, is_over: bool) -> Result<(), String> {
            take_out(name, &self.at("cwd"), &self.at("out"), is_over).map_err(|refused| match refused {
                Refused::Output(why) | Refused::Io(why) => why,
            })
        }
    }

    fn inode(path: &Path) -> u64 {
        fs::metadata(path).unwrap().ino()
    }

    #[test]
    fn an_output_is_moved_unless_somebody_else_could_change_it() {
        let place = Place::new();
        for (name, is_over, linked, moved) in
            [("d/a", true, false, true), ("d/b", false, false, false), ("d/c", true, true, false)]
        {
            let from = place.at("cwd").join(name);
            fs::write(&from, name).unwrap();
            if linked {
                fs::hard_link(&from, place.at("other name")).unwrap();
            }
            let before = inode(&from);
            place.take(name, is_over).unwrap();
            let to = place.at("out").join(name);
            assert_eq!(fs::read_to_string(&to).unwrap(), name);
            assert_eq!(inode(&to) == before, moved, "{name}");
        }
        let before = inode(&place.at("cwd/d"));
        fs::remove_dir_all(place.at("out/d")).unwrap();
        fs::remove_file(place.at("other name")).unwrap();
        place.take("d", true).unwrap();
        assert_eq!(inode(&place.at("out/d")), before);
    }

    #[test]
    fn an_output_that_is_no_file_is_refused_by_name() {
        let place = Place::new();
        std::os::unix::fs::symlink("/etc/hostname", place.at("cwd/link")).unwrap();
        std::os::unix::fs::symlink("gone", place.at("cwd/d/dangling")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(place.at("cwd/socket")).unwrap();
        let why = |name: &str| place.take(name, true).unwrap_err();
        assert!(why("link").starts_with("made its output `link` a symbolic link; hint:"), "{}", why("link"));
        assert!(why("d").starts_with("made in its output `d`, `d/dangling` a symbolic link"), "{}", why("d"));
        assert!(why("socket").contains("`socket` neither a file nor a folder"), "{}", why("socket"));
        assert_eq!(why("gone"), "did not make its declared output `gone`");
    }

    #[test]
    fn a_large_file_of_the_store_is_linked_and_a_write_to_it_is_found() {
        let place = Place::new();
        let large = vec![7_u8; LARGE as usize];
        let old = std::time::SystemTime::now() - 2 * YOUNG;
        for (name, bytes) in [("store/large", &large[..]), ("store/small", b"x"), ("users", &large[..])] {
            fs::write(place.at(name), bytes).unwrap();
            fs::File::open(place.at(name)).unwrap().set_modified(old).unwrap();
        }
        fs::write(place.at("store/young"), &large).unwrap();
        let inputs = ["store/large", "store/small", "store/young", "users"]
            .map(|name| (name.rsplit('/').next().unwrap().to_owned(), place.at(name)));
        let linked = lay_in(&BTreeMap::from(inputs), &place.at("cwd"), &place.at("store")).unwrap();
        let is_link = |name: &str, from: &str| inode(&place.at("cwd").join(name)) == inode(&place.at(from));
        assert!(is_link("large", "store/large"));
        assert!(!is_link("small", "store/small") && !is_link("young", "store/young") && !is_link("users", "users"));
        // Another step links it, and this one removes its own name: no write.
        fs::hard_link(place.at("store/large"), place.at("another")).unwrap();
        assert_eq!(linked.complaint(), None);
        fs::write(place.at("cwd/large"), "x").unwrap();
        assert!(linked.complaint().unwrap().contains("its input `large`"), "{:?}", linked.complaint());
    }
}
