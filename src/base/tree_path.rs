//! Paths inside a tree: the one judge of them, for specs, for what programs leave, and for what other machines send.

use std::io;
use std::path::{Path, PathBuf};

/// Common file systems take no longer name; the path must also fit behind that of a folder.
const LONGEST_NAME: usize = 255;
const LONGEST_PATH: usize = 1024;

/// What is wrong with a path inside a tree; None where it is spelt as a store spells it, and means the same on every system.
pub fn fault(path: &str) -> Option<&'static str> {
    if path.is_empty() {
        return Some("it is empty");
    }
    if path.len() > LONGEST_PATH {
        return Some("it is longer than 1024 bytes");
    }
    if path.starts_with('/') {
        return Some("it begins with `/`");
    }
    if path.contains(|c: char| c == '\\' || c.is_control()) {
        return Some("it holds a backslash or a control character");
    }
    path.split('/').find_map(|name| match name {
        "" => Some("it has a `/` too many"),
        "." | ".." => Some("it has `.` or `..` as a part"),
        name if name.len() > LONGEST_NAME => Some("a name in it is longer than 255 bytes"),
        _ => None,
    })
}

/// The place of a path inside a folder, if it leads there: a spelling that leaves the folder is an error, and so is one
/// that passes through a symbolic link or is one.
pub fn inside(folder: &Path, path: &str) -> io::Result<PathBuf> {
    let refused = |why: &str| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("`{path}` is no path inside `{}`: {why}", folder.display()),
        )
    };
    if let Some(why) = fault(path) {
        return Err(refused(why));
    }
    let mut found = folder.to_owned();
    for name in path.split('/') {
        found.push(name);
        if found.is_symlink() {
            return Err(refused("it leads through a symbolic link"));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_path_leaves_its_folder() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("in");
        std::fs::create_dir_all(folder.join("a")).unwrap();
        std::os::unix::fs::symlink(dir.path(), folder.join("out")).unwrap();
        assert_eq!(inside(&folder, "a/b").unwrap(), folder.join("a/b"));
        for bad in ["../x", "/x", "a/../../x", "out/x", "out"] {
            assert!(inside(&folder, bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_path_has_one_spelling_and_stays_inside() {
        let name = "a".repeat(255);
        let path = "a/".repeat(511) + "aa";
        for good in [
            "a",
            "a-b",
            "a/c/d",
            "..a",
            "b..",
            "c.d",
            "ä \"'",
            ".hidden",
            name.as_str(),
            path.as_str(),
        ] {
            assert_eq!(fault(good), None, "{good}");
        }
        let name = "a".repeat(256);
        let path = "a/".repeat(512) + "a";
        for (bad, why) in [
            ("", "empty"),
            ("/a", "begins with"),
            ("a//b", "too many"),
            ("a/", "too many"),
            (".", "as a part"),
            ("./a", "as a part"),
            ("a/./b", "as a part"),
            ("../a", "as a part"),
            ("a/..", "as a part"),
            ("a\0b", "control"),
            ("a\nb", "control"),
            ("a\\b", "backslash"),
            (name.as_str(), "255"),
            (path.as_str(), "1024"),
        ] {
            assert!(
                fault(bad).is_some_and(|what| what.contains(why)),
                "{bad}: {:?}",
                fault(bad)
            );
        }
    }
}
