//! The paths that count: files of the project that nobody declared. Does not know how the paths became known.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// What the system consists of, unless the project itself lies there.
const SYSTEM: [&str; 11] = [
    "/usr/", "/lib/", "/lib64/", "/etc/", "/proc/", "/sys/", "/dev/", "/bin/", "/sbin/", "/run/",
    "/opt/",
];
/// A program that reads more files than these of the project has made its point.
const MOST: usize = 10_000;

/// The user's folder, and the folders in it that orch itself keeps.
#[derive(Debug)]
pub struct Project {
    root: PathBuf,
    exempt: Vec<PathBuf>,
    /// Prefixes of paths that cannot be in the project.
    outside: Vec<&'static str>,
}

impl Project {
    /// `exempt` are folders whose files are nobody's input: the store, environments, pages.
    pub fn new(root: &Path, exempt: &[&Path]) -> Self {
        // Programs are seen to open real paths. What does not exist yet is taken as it is named.
        let real = |path: &Path| {
            path.canonicalize()
                .or_else(|_| std::path::absolute(path))
                .unwrap_or(path.into())
        };
        let root = real(root);
        let outside = SYSTEM
            .into_iter()
            .filter(|system| !root.join("x").starts_with(system))
            .collect();
        Self {
            root,
            exempt: exempt.iter().map(|path| real(path)).collect(),
            outside,
        }
    }
}

/// What one program was seen to read.
pub(in crate::worker) struct Reads<'a> {
    project: &'a Project,
    inputs: &'a BTreeMap<String, PathBuf>,
    /// Its working folder. What lies right in it is nobody's source.
    cwd: &'a Path,
    /// One of its processes has gone to another folder.
    has_moved: bool,
    /// Relative to the project.
    found: BTreeSet<String>,
    /// Folders by the names under which they were seen.
    real: HashMap<PathBuf, Option<PathBuf>>,
}

impl<'a> Reads<'a> {
    pub(in crate::worker) fn new(
        project: &'a Project,
        inputs: &'a BTreeMap<String, PathBuf>,
        cwd: &'a Path,
    ) -> Self {
        Self {
            project,
            inputs,
            cwd,
            has_moved: false,
            found: BTreeSet::new(),
            real: HashMap::new(),
        }
    }

    pub(in crate::worker) fn found(&self) -> &BTreeSet<String> {
        &self.found
    }

    pub(in crate::worker) fn moves(&mut self) {
        self.has_moved = true;
    }

    /// The folder at which relative paths begin, as long as that is the same for all.
    pub(in crate::worker) fn start(&self) -> Option<&Path> {
        (!self.has_moved).then_some(self.cwd)
    }

    /// Whether an absolute path is at a glance of no interest. Most are: libraries, locales, `/proc`.
    pub(in crate::worker) fn is_system(&self, path: &[u8]) -> bool {
        self.project
            .outside
            .iter()
            .any(|system| path.starts_with(system.as_bytes()))
            && !path.windows(3).any(|part| part == b"/..")
    }

    /// Takes note of an absolute path that is about to be opened.
    pub(in crate::worker) fn note(&mut self, path: &[u8]) {
        if self.is_system(path) {
            return;
        }
        let path = Path::new(OsStr::from_bytes(path));
        let Some(Component::Normal(name)) = path.components().next_back() else {
            return;
        };
        let Some(folder) = path.parent().filter(|folder| *folder != self.cwd) else {
            return;
        };
        let Some(folder) = self.real_folder(folder) else {
            return;
        };
        let file = folder.join(name);
        let Ok(relative) = file.strip_prefix(&self.project.root) else {
            return;
        };
        let relative = relative.to_string_lossy();
        if self.found.len() >= MOST || self.found.contains(&*relative) {
            return;
        }
        let is_file = file.metadata().is_ok_and(|meta| meta.is_file());
        if is_file && !self.is_declared(&file) {
            let relative = relative.into_owned();
            self.found.insert(relative);
        }
    }

    /// The folder without symbolic links and `..`; None if it can hold nothing of interest.
    fn real_folder(&mut self, folder: &Path) -> Option<PathBuf> {
        if let Some(known) = self.real.get(folder) {
            return known.clone();
        }
        if self.is_own(folder) {
            return None;
        }
        let Project { root, exempt, .. } = self.project;
        let real = folder.canonicalize().ok();
        let real = real.filter(|real| {
            real.starts_with(root) && !exempt.iter().any(|folder| real.starts_with(folder))
        });
        self.real.insert(folder.to_owned(), real.clone());
        real
    }

    /// Whether it lies in the working folder itself, which holds nobody's sources, and not only by a link's name.
    fn is_own(&self, folder: &Path) -> bool {
        let Ok(inside) = folder.strip_prefix(self.cwd) else {
            return false;
        };
        let mut at = self.cwd.to_owned();
        inside.components().all(|part| {
            at.push(part);
            matches!(part, Component::Normal(_))
                && at.symlink_metadata().is_ok_and(|meta| meta.is_dir())
        })
    }

    /// An input is copied, but a program may know where its original lies; that one's changes are seen as well.
    fn is_declared(&self, file: &Path) -> bool {
        self.inputs.values().any(|input| {
            input
                .canonicalize()
                .is_ok_and(|input| file.starts_with(input))
        }) || self
            .inputs
            .values()
            .any(|input| std::path::absolute(input).is_ok_and(|input| file == input))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_undeclared_files_of_the_project_count() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for name in [
            "p/conf/x",
            "p/data/in",
            "p/data/more/in",
            "p/cache/blob",
            "outside/y",
            "p/one",
        ] {
            std::fs::create_dir_all(at(name).parent().unwrap()).unwrap();
            std::fs::write(at(name), "x").unwrap();
        }
        std::os::unix::fs::symlink(at("p"), at("alias")).unwrap();
        let project = Project::new(&at("alias"), &[&at("p/cache")]);
        let inputs = BTreeMap::from([
            ("in".to_owned(), at("alias/data")),
            ("one".to_owned(), at("p/one")),
        ]);
        let mut reads = Reads::new(&project, &inputs, Path::new("/none"));
        let note = |reads: &mut Reads<'_>, name: &str| reads.note(at(name).as_os_str().as_bytes());
        for name in [
            "p/data/in",
            "p/data/more/in",
            "p/one",
            "p/cache/blob",
            "outside/y",
            "p/nothing",
            "p/conf",
            "p",
        ] {
            note(&mut reads, name);
            assert!(reads.found().is_empty(), "{name}: {:?}", reads.found());
        }
        for name in [
            "p/conf/x",
            "alias/conf/x",
            "p/cache/../conf/x",
            "outside/../p/./conf/x",
        ] {
            reads.found.clear();
            note(&mut reads, name);
            assert!(
                reads.found().iter().eq(["conf/x"]),
                "{name}: {:?}",
                reads.found()
            );
        }
    }

    #[test]
    fn a_project_below_a_system_folder_is_seen() {
        let inputs = BTreeMap::new();
        let project = Project {
            root: "/opt/p".into(),
            ..Project::new(Path::new("/opt/p"), &[])
        };
        let reads = Reads::new(&project, &inputs, Path::new("/none"));
        assert!(
            reads.is_system(b"/usr/lib/x")
                && !reads.is_system(b"/opt/p/x")
                && !reads.is_system(b"/usr/../opt/p")
        );
    }
}
