//! What is taken from a program: its declared outputs are moved out of its working folder.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::base::fs as bfs;

pub(super) enum Refused {
    /// The program's fault.
    Output(String),
    Io(String),
}

/// The files of the output `name`, by their paths in the step's tree. `is_over` says that nobody is left who could write
/// to it later; as long as somebody is, or another name of the same file exists, it is copied to `out`.
pub(super) fn take_out(
    name: &str,
    cwd: &Path,
    out: &Path,
    is_over: bool,
) -> Result<Vec<(String, PathBuf)>, Refused> {
    let failed = |e: io::Error| Refused::Io(format!("failed to take the output `{name}`: {e}"));
    let at = cwd.join(name);
    // Through a link, a file that is somebody else's would be moved away.
    let mut folder = cwd.to_owned();
    for part in Path::new(name)
        .parent()
        .into_iter()
        .flat_map(Path::components)
    {
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
            Err(e)
                if e.depth() == 0
                    && e.io_error()
                        .is_some_and(|e| e.kind() == io::ErrorKind::NotFound) =>
            {
                return Err(Refused::Output(format!(
                    "did not make its declared output `{name}`"
                )));
            }
            other => other.map_err(|e| failed(e.into()))?,
        };
        let kind = entry.file_type();
        let inside = entry.path().strip_prefix(cwd).unwrap_or(entry.path());
        if kind.is_file() {
            let inside = inside.to_str().ok_or_else(|| {
                Refused::Output(format!(
                    "made `{}`, a name that is not valid UTF-8",
                    inside.display()
                ))
            })?;
            files.push((inside.to_owned(), entry.path().to_owned()));
            is_sole = is_sole && entry.metadata().is_ok_and(|meta| meta.nlink() == 1);
        } else if !kind.is_dir() {
            let what = if kind.is_symlink() {
                "a symbolic link"
            } else {
                "neither a file nor a folder"
            };
            let whose = if entry.depth() == 0 {
                "its output".to_owned()
            } else {
                format!("in its output `{name}`,")
            };
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
    use std::os::unix::fs::MetadataExt;

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

        fn take(&self, name: &str, is_over: bool) -> Result<Vec<(String, PathBuf)>, String> {
            take_out(name, &self.at("cwd"), &self.at("out"), is_over).map_err(|refused| {
                match refused {
                    Refused::Output(why) | Refused::Io(why) => why,
                }
            })
        }
    }

    fn inode(path: &Path) -> u64 {
        fs::metadata(path).unwrap().ino()
    }

    #[test]
    fn an_output_is_moved_unless_somebody_else_could_change_it() {
        let place = Place::new();
        for (name, is_over, linked, moved) in [
            ("d/a", true, false, true),
            ("d/b", false, false, false),
            ("d/c", true, true, false),
        ] {
            let from = place.at("cwd").join(name);
            fs::write(&from, name).unwrap();
            if linked {
                fs::hard_link(&from, place.at("other name")).unwrap();
            }
            let taken = place.take(name, is_over).unwrap();
            let [(path, at)] = &taken[..] else {
                panic!("{taken:?}")
            };
            assert_eq!(
                (path.as_str(), fs::read_to_string(at).unwrap().as_str()),
                (name, name)
            );
            assert_eq!(inode(at) == inode(&from), moved, "{name}");
        }
        fs::remove_file(place.at("other name")).unwrap();
        let mut names: Vec<_> = place
            .take("d", true)
            .unwrap()
            .into_iter()
            .map(|(name, _)| name)
            .collect();
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
        assert!(
            why("elsewhere/theirs")
                .starts_with("made `elsewhere`, where its output `elsewhere/theirs` lies,")
        );
        assert!(place.at("store/theirs").is_file());
        assert!(
            why("link").starts_with("made its output `link` a symbolic link; hint:"),
            "{}",
            why("link")
        );
        assert!(
            why("d").starts_with("made in its output `d`, `d/dangling` a symbolic link"),
            "{}",
            why("d")
        );
        assert!(
            why("socket").contains("`socket` neither a file nor a folder"),
            "{}",
            why("socket")
        );
        assert_eq!(why("gone"), "did not make its declared output `gone`");
    }
}
