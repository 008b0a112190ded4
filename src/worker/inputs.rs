//! What a program is given: its inputs, in its working folder, by their names.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::base::fs as bfs;
use crate::step::{CommandCall, StoredFile};

/// Lays the inputs of `call` into its working folder.
///
/// A program may write to what it finds there, so files are copies. Large ones of the store are links to where the
/// sandbox lets nobody write ([`StoredFile::is_shared`]).
pub(super) fn lay_in(call: &CommandCall, cwd: &Path) -> Result<(), NotLaid> {
    for (name, from) in &call.inputs {
        if from.is_dir() {
            fs::create_dir_all(cwd.join(name))?;
            for file in bfs::files_below(from)? {
                copy(&from.join(&file), &free(cwd, &format!("{name}/{file}"))?)?;
            }
        } else {
            copy(from, &free(cwd, name)?)?;
        }
    }
    for (name, files) in &call.trees {
        fs::create_dir_all(cwd.join(name))?;
        for StoredFile {
            path,
            at,
            is_shared,
        } in files
        {
            let to = free(cwd, &format!("{name}/{path}"))?;
            let gone = |e: io::Error| match e.kind() {
                io::ErrorKind::NotFound => NotLaid::Gone(Gone {
                    input: name.clone(),
                    path: at.clone(),
                }),
                _ => NotLaid::Io(e),
            };
            match is_shared {
                true => fs::metadata(at)
                    .and_then(|_| symlink(at, to))
                    .map_err(gone)?,
                false => copy(at, &to).map_err(gone)?,
            }
        }
    }
    Ok(())
}

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

/// Where `path` lies in the working folder, with a folder around it; an error if another input lies there.
fn free(cwd: &Path, path: &str) -> io::Result<PathBuf> {
    let to = cwd.join(path);
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)
            .map_err(|e| io::Error::new(e.kind(), format!("`{path}`: {e}")))?;
    }
    match to.symlink_metadata() {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(to),
        Err(e) => Err(e),
        Ok(_) => Err(io::Error::other(format!(
            "two inputs are to lie at `{path}`"
        ))),
    }
}

/// A reflink where the file system has them.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::copy(from, to)
        .map(drop)
        .map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", from.display())))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn files_are_copies_and_shared_ones_links() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for folder in ["cwd", "store/sub", "users/deep"] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        for file in ["store/small", "store/sub/large", "users/deep/file"] {
            fs::write(at(file), file).unwrap();
        }
        let stored = |path: &str, is_shared| StoredFile {
            path: path.into(),
            at: at("store").join(path),
            is_shared,
        };
        let call = |files: Vec<StoredFile>, name: &str| CommandCall {
            inputs: BTreeMap::from([(name.to_owned(), at("users"))]),
            trees: BTreeMap::from([("in".to_owned(), files)]),
            ..CommandCall::default()
        };
        let files = || vec![stored("small", false), stored("sub/large", true)];
        assert!(lay_in(&call(files(), "own"), &at("cwd")).is_ok());
        for (name, content) in [
            ("in/small", "store/small"),
            ("in/sub/large", "store/sub/large"),
            ("own/deep/file", "users/deep/file"),
        ] {
            assert_eq!(fs::read_to_string(at("cwd").join(name)).unwrap(), content);
            assert_eq!(
                at("cwd").join(name).is_symlink(),
                name == "in/sub/large",
                "{name}"
            );
        }
        fs::write(at("cwd/in/small"), "y").unwrap();
        assert_eq!(
            fs::read_to_string(at("store/small")).unwrap(),
            "store/small"
        );

        fs::remove_file(at("store/sub/large")).unwrap();
        fs::create_dir(at("again")).unwrap();
        let laid = lay_in(&call(files(), "own"), &at("again"));
        assert!(matches!(laid, Err(NotLaid::Gone(gone)) if gone.input == "in"));
    }

    #[test]
    fn two_inputs_at_one_place_are_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "x").unwrap();
        let call = CommandCall {
            inputs: BTreeMap::from([("a/x".to_owned(), file.clone())]),
            trees: BTreeMap::from([(
                "a".to_owned(),
                vec![StoredFile {
                    path: "x".into(),
                    at: file,
                    is_shared: false,
                }],
            )]),
            ..CommandCall::default()
        };
        let laid = lay_in(&call, &dir.path().join("cwd"));
        assert!(
            matches!(laid, Err(NotLaid::Io(e)) if e.to_string().contains("two inputs are to lie at `a/x`"))
        );
    }
}
