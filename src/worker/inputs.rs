//! What a program is given: its inputs, in its working folder, by their names.
//!
//! A program may write to what it finds there, so files are copies of its own, with modes that depend on nothing but whether
//! a file is executable: whatever else a program could tell one machine or store from another by would be in no key.

#![expect(
    clippy::disallowed_methods,
    reason = "copies inputs to where a job may write"
)]

use std::fs;
use std::io;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use crate::base::fs as bfs;
use crate::confine::Enforced;
use crate::step::{CommandCall, StoredFile};

/// Lays the inputs of `call` into its working folder.
///
/// Files that the spec lends ([`StoredFile::is_lent`]) are links: to where the sandbox lets nobody write, or, where there is
/// no sandbox, to copies beside the working folder.
pub(super) fn lay_in(call: &CommandCall, cwd: &Path) -> Result<(), NotLaid> {
    for (name, from) in &call.inputs {
        if from.is_dir() {
            make_folders(cwd, Path::new(name))?;
            for file in bfs::files_below(from)? {
                copy(&from.join(&file), &free(cwd, &format!("{name}/{file}"))?)?;
            }
        } else {
            copy(from, &free(cwd, name)?)?;
        }
    }
    for (name, files) in &call.trees {
        make_folders(cwd, Path::new(name))?;
        for StoredFile { path, at, is_lent } in files {
            let to = free(cwd, &format!("{name}/{path}"))?;
            let gone = |e: io::Error| match e.kind() {
                io::ErrorKind::NotFound => NotLaid::Gone(Gone {
                    input: name.clone(),
                    path: at.clone(),
                }),
                _ => NotLaid::Io(e),
            };
            if *is_lent && Enforced::here().is_some() {
                fs::metadata(at)
                    .and_then(|_| symlink(at, to))
                    .map_err(gone)?;
            } else if *is_lent {
                // A link to what other steps read too would let them read what this one writes.
                let beside = cwd.with_file_name("lent").join(name).join(path);
                fs::create_dir_all(bfs::parent(&beside))?;
                copy(at, &beside).map_err(gone)?;
                symlink(beside, to)?;
            } else {
                copy(at, &to).map_err(gone)?;
            }
        }
    }
    Ok(())
}

/// Makes `path` and the folders around it below `cwd`, with the same mode whatever the user's umask is.
fn make_folders(cwd: &Path, path: &Path) -> io::Result<()> {
    let mut folder = cwd.to_owned();
    for component in path.components() {
        folder.push(component);
        match fs::create_dir(&folder) {
            Ok(()) => fs::set_permissions(&folder, fs::Permissions::from_mode(0o755))?,
            Err(_) if folder.is_dir() => {}
            Err(e) => return Err(e),
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

/// The place of `path` in the working folder, with a folder around it; an error if another input lies there.
fn free(cwd: &Path, path: &str) -> io::Result<PathBuf> {
    let to = cwd.join(path);
    if let Some(folder) = Path::new(path).parent() {
        make_folders(cwd, folder)
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

/// Copies a regular file, as a reflink where the file system has them.
///
/// The mode is set on the open file, which costs no more calls than [`fs::copy`], whose mode is the source's.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let copied = || {
        let mut reader = fs::File::open(from)?;
        let metadata = reader.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::other("it is no regular file"));
        }
        let mode = match bfs::is_executable(&metadata) {
            true => 0o755,
            false => 0o644,
        };
        let mut writer = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(to)?;
        // The user's umask has taken bits from the mode.
        writer.set_permissions(fs::Permissions::from_mode(mode))?;
        io::copy(&mut reader, &mut writer).map(drop)
    };
    copied().map_err(|e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", from.display())))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn files_are_copies_and_lent_ones_links() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for folder in ["cwd", "store/sub", "users/deep"] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        for file in ["store/small", "store/sub/large", "users/deep/file"] {
            fs::write(at(file), file).unwrap();
        }
        for (file, mode) in [("store/small", 0o700), ("users/deep/file", 0o604)] {
            fs::set_permissions(at(file), fs::Permissions::from_mode(mode)).unwrap();
        }
        let stored = |path: &str, is_lent| StoredFile {
            path: path.into(),
            at: at("store").join(path),
            is_lent,
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
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode(&at("cwd/own/deep/file")), 0o644);
        assert_eq!(mode(&at("cwd/in/small")), 0o755);
        assert_eq!(mode(&at("cwd/own/deep")), 0o755);
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
                    is_lent: false,
                }],
            )]),
            ..CommandCall::default()
        };
        let cwd = dir.path().join("cwd");
        fs::create_dir(&cwd).unwrap();
        let laid = lay_in(&call, &cwd);
        assert!(
            matches!(laid, Err(NotLaid::Io(e)) if e.to_string().contains("two inputs are to lie at `a/x`"))
        );
    }
}
