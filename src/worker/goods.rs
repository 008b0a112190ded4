//! What a program is given and what is taken from it: inputs go in as copies or guarded links, outputs are moved out.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::base::fs as bfs;
use crate::step::CommandCall;
use crate::worker::leftovers::{LARGEST, LeftFile, Leftovers, remove_all};
use crate::worker::sandbox::Sandbox;

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

/// Lays inputs into a sandbox by their names; afterwards its working folder holds these and nothing else. Files of the
/// user's are always copied, so that a program that writes to them harms nothing; so are small ones of the store. Large
/// ones of the store are hard links, and [`Linked::complaint`] tells afterwards of a write.
pub(super) fn lay_in(call: &CommandCall, sandbox: &mut Sandbox) -> Result<Linked, NotLaid> {
    let mut goods = Folder::default();
    for (name, from) in &call.inputs {
        if from.is_dir() {
            goods.folder(name)?;
            for file in bfs::files_below(from)? {
                goods.add(&format!("{name}/{file}"), Good { from: from.join(&file), input: None })?;
            }
        } else {
            goods.add(name, Good { from: from.clone(), input: None })?;
        }
    }
    for (name, files) in &call.trees {
        goods.folder(name)?;
        for (path, from) in files {
            goods.add(&format!("{name}/{path}"), Good { from: from.clone(), input: Some(name) })?;
        }
    }
    let mut linked = Linked::default();
    goods.lay(std::mem::take(&mut sandbox.left), &sandbox.cwd, "", &mut linked)?;
    Ok(linked)
}

/// Why inputs could not be laid in.
pub(super) enum NotLaid {
    Gone(Gone),
    Io(io::Error),
}

impl From<io::Error> for NotLaid {
    fn from(e: io::Error) -> Self {
        Self::Io(e)
    }
}

/// A file of a tree went after it was verified: somebody collected garbage.
#[derive(Debug, thiserror::Error)]
#[error("{} is missing", path.display())]
pub struct Gone {
    /// The input that it is part of.
    pub input: String,
    path: PathBuf,
}

/// What a folder is to hold.
#[derive(Default)]
struct Folder<'a>(BTreeMap<String, Entry<'a>>);

enum Entry<'a> {
    File(Good<'a>),
    Folder(Folder<'a>),
}

struct Good<'a> {
    from: PathBuf,
    /// The tree that it is part of, if it lies in the store.
    input: Option<&'a str>,
}

impl<'a> Folder<'a> {
    fn folder(&mut self, path: &str) -> io::Result<&mut Self> {
        path.split('/').try_fold(self, |folder, part| {
            match folder.0.entry(part.to_owned()).or_insert_with(|| Entry::Folder(Self::default())) {
                Entry::Folder(inner) => Ok(inner),
                Entry::File(_) => Err(io::Error::other(format!("`{part}` of `{path}` is another input, a file"))),
            }
        })
    }

    fn add(&mut self, path: &str, good: Good<'a>) -> io::Result<()> {
        let (folder, name) = match path.rsplit_once('/') {
            Some((folder, name)) => (self.folder(folder)?, name),
            None => (self, path),
        };
        match folder.0.insert(name.to_owned(), Entry::File(good)) {
            None => Ok(()),
            Some(_) => Err(io::Error::other(format!("two inputs are to lie at `{path}`"))),
        }
    }

    /// Makes the folder `at` hold this, out of what it holds now. `inside` is its path in the working folder.
    fn lay(self, mut left: Leftovers, at: &Path, inside: &str, linked: &mut Linked) -> Result<(), NotLaid> {
        // By name first, so that what is taken for another name afterwards is in nobody's way.
        let mut found = Vec::with_capacity(self.0.len());
        for (name, entry) in self.0 {
            let (file, folder) = (left.file(name.as_ref()), left.folder(name.as_ref()));
            match (&entry, &file, &folder) {
                (Entry::File(_), _, Some(_)) => remove_all(&at.join(&name))?,
                (Entry::Folder(_), Some(_), _) => fs::remove_file(at.join(&name))?,
                _ => {}
            }
            found.push((name, entry, file, folder));
        }
        for (name, entry, file, folder) in found {
            let to = at.join(&name);
            let inside = format!("{inside}{name}");
            match entry {
                Entry::File(good) => good.lay(file, &mut left, at, &to, inside, linked)?,
                Entry::Folder(content) => {
                    let folder = match folder {
                        Some(folder) => folder,
                        None => make_folder(&mut left, at, &to)?,
                    };
                    content.lay(folder, &to, &format!("{inside}/"), linked)?;
                }
            }
        }
        Ok(left.remove(at)?)
    }
}

fn make_folder(left: &mut Leftovers, at: &Path, to: &Path) -> io::Result<Leftovers> {
    match left.any_folder() {
        Some((name, folder)) => fs::rename(at.join(name), to).map(|()| folder),
        None => fs::create_dir(to).map(|()| Leftovers::default()),
    }
}

fn any_file(left: &mut Leftovers, at: &Path, to: &Path) -> io::Result<Option<LeftFile>> {
    left.any_file().map(|(name, file)| fs::rename(at.join(name), to).map(|()| file)).transpose()
}

impl Good<'_> {
    /// Lays it at `to`, where `file` lies; if none does, another one that was left in the folder `at` will do.
    fn lay(
        self,
        file: Option<LeftFile>,
        left: &mut Leftovers,
        at: &Path,
        to: &Path,
        inside: String,
        linked: &mut Linked,
    ) -> Result<(), NotLaid> {
        let Self { from, input } = self;
        let mut source = File::open(&from).map_err(|e| match (e.kind(), input) {
            (io::ErrorKind::NotFound, Some(input)) => {
                NotLaid::Gone(Gone { input: input.to_owned(), path: from.clone() })
            }
            _ => NotLaid::Io(io::Error::new(e.kind(), format!("{}: {e}", from.display()))),
        })?;
        let meta = source.metadata()?;
        // A large one is no leftover, and nothing written would leave the old time.
        if !(1..=LARGEST).contains(&meta.len()) {
            file.map(|_| fs::remove_file(to)).transpose()?;
        } else if let Some(file) = file.map_or_else(|| any_file(left, at, to), |file| Ok(Some(file)))? {
            let mut bytes = Vec::with_capacity(meta.len() as usize + 1);
            source.read_to_end(&mut bytes)?;
            return Ok(file.fill(to, &bytes, meta.mode() & 0o7777)?);
        }
        let may_link =
            input.is_some() && meta.len() >= LARGE && meta.modified()?.elapsed().is_ok_and(|age| age >= YOUNG);
        // Not where it is another file system, or one without links.
        if may_link && fs::hard_link(&from, to).is_ok() {
            linked.0.push((inside, from, Stamp::of(&meta)));
            return Ok(());
        }
        Ok(fs::copy(&from, to).map(drop)?)
    }
}

impl Linked {
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

/// The files of the output `name`, by their paths in the step's tree. `is_over` says that nobody is left who could write
/// to it later; as long as somebody is, or another name of the same file exists, it is copied to `out`.
pub(super) fn take_out(name: &str, cwd: &Path, out: &Path, is_over: bool) -> Result<Vec<(String, PathBuf)>, Refused> {
    let failed = |e: io::Error| Refused::Io(format!("failed to take the output `{name}`: {e}"));
    let at = cwd.join(name);
    // Through a link, a file that is somebody else's would be moved away.
    let mut folder = cwd.to_owned();
    for part in Path::new(name).parent().into_iter().flat_map(Path::components) {
        folder.push(part);
        if folder.is_symlink() {
            let folder = folder.strip_prefix(cwd).unwrap_or(&folder).display();
            return Err(Refused::Output(format!(
                "made `{folder}`, where its output `{name}` lies, a symbolic link; hint: make it a folder"
            )));
        }
    }
    // The usual case, without a walk.
    if is_over && fs::symlink_metadata(&at).is_ok_and(|meta| meta.is_file() && meta.nlink() == 1) {
        return Ok(vec![(name.to_owned(), at)]);
    }
    let mut is_sole = is_over;
    let mut files = Vec::new();
    for entry in walkdir::WalkDir::new(at) {
        let entry = match entry {
            Err(e) if e.depth() == 0 && e.io_error().is_some_and(|e| e.kind() == io::ErrorKind::NotFound) => {
                return Err(Refused::Output(format!("did not make its declared output `{name}`")));
            }
            other => other.map_err(|e| failed(e.into()))?,
        };
        let kind = entry.file_type();
        let inside = entry.path().strip_prefix(cwd).unwrap_or(entry.path());
        if kind.is_file() {
            let inside = inside.to_str().ok_or_else(|| {
                Refused::Output(format!("made `{}`, a name that is not valid UTF-8", inside.display()))
            })?;
            files.push((inside.to_owned(), entry.path().to_owned()));
            is_sole = is_sole && entry.metadata().is_ok_and(|meta| meta.nlink() == 1);
        } else if !kind.is_dir() {
            let what = if kind.is_symlink() { "a symbolic link" } else { "neither a file nor a folder" };
            let whose = if entry.depth() == 0 { "its output".to_owned() } else { format!("in its output `{name}`,") };
            return Err(Refused::Output(format!(
                "made {whose} `{}` {what}; hint: make it a regular file",
                inside.display()
            )));
        }
    }
    if !is_sole {
        for (name, at) in &mut files {
            let to = out.join(&*name);
            bfs::copy_file(at, &to).map_err(failed)?;
            *at = to;
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::sandbox::Sandboxes;

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

        fn take(&self, name: &str, is_over: bool) -> Result<Vec<(String, PathBuf)>, String> {
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
            let taken = place.take(name, is_over).unwrap();
            let [(path, at)] = &taken[..] else { panic!("{taken:?}") };
            assert_eq!((path.as_str(), fs::read_to_string(at).unwrap().as_str()), (name, name));
            assert_eq!(inode(at) == inode(&from), moved, "{name}");
        }
        fs::remove_file(place.at("other name")).unwrap();
        let mut names: Vec<_> = place.take("d", true).unwrap().into_iter().map(|(name, _)| name).collect();
        names.sort();
        assert_eq!(names, ["d/a", "d/b", "d/c"]);
    }

    #[test]
    fn an_output_that_is_no_file_is_refused_by_name() {
        let place = Place::new();
        std::os::unix::fs::symlink("/etc/hostname", place.at("cwd/link")).unwrap();
        std::os::unix::fs::symlink("gone", place.at("cwd/d/dangling")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(place.at("cwd/socket")).unwrap();
        let why = |name: &str| place.take(name, true).unwrap_err();
        std::os::unix::fs::symlink(place.at("store"), place.at("cwd/elsewhere")).unwrap();
        fs::write(place.at("store/theirs"), "x").unwrap();
        assert!(why("elsewhere/theirs").starts_with("made `elsewhere`, where its output `elsewhere/theirs` lies,"));
        assert!(place.at("store/theirs").is_file());
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
        let files = ["large", "small", "young"].map(|name| (name.to_owned(), place.at("store").join(name)));
        let call = CommandCall {
            argv: Vec::new(),
            inputs: BTreeMap::from([("users".to_owned(), place.at("users"))]),
            trees: BTreeMap::from([("in".to_owned(), files.to_vec())]),
            outputs: Vec::new(),
            env: Vec::new(),
        };
        let mut sandbox = Sandboxes::new(place.at("boxes"), place.at("attic")).lend(4).unwrap();
        let Ok(linked) = lay_in(&call, &mut sandbox) else { panic!("it was not laid in") };
        let cwd = &sandbox.cwd;
        let is_link = |name: &str, from: &str| inode(&cwd.join(name)) == inode(&place.at(from));
        assert!(is_link("in/large", "store/large"));
        assert!(
            !is_link("in/small", "store/small") && !is_link("in/young", "store/young") && !is_link("users", "users")
        );
        // Another step links it, and this one removes its own name: no write.
        fs::hard_link(place.at("store/large"), place.at("another")).unwrap();
        assert_eq!(linked.complaint(), None);
        fs::write(cwd.join("in/large"), "x").unwrap();
        assert!(linked.complaint().unwrap().contains("its input `in/large`"), "{:?}", linked.complaint());
    }
}
