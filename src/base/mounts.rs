//! What is mounted below a folder: files there are somebody else's, whoever mounted them.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Mount points at or below `folder`. A bind mount of the same disk is one too, and is seen nowhere else: its files have
/// the device number of the folder's own.
pub fn below(folder: &Path) -> io::Result<Vec<PathBuf>> {
    if !cfg!(target_os = "linux") {
        return Ok(Vec::new());
    }
    let folder = match folder.canonicalize() {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let table = std::fs::read("/proc/self/mountinfo")?;
    let points = table
        .split(|byte| *byte == b'\n')
        .filter_map(|line| line.split(|byte| *byte == b' ').nth(4));
    Ok(points
        .map(unescaped)
        .filter(|point| point.starts_with(&folder))
        .collect())
}

/// `\040` is a blank, and so on.
fn unescaped(text: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, tail)) = rest.split_first() {
        let octal = tail
            .get(..3)
            .and_then(|digits| std::str::from_utf8(digits).ok());
        let escaped = octal
            .filter(|_| *first == b'\\')
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &tail[3..] } else { tail };
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_are_found_by_their_written_names() {
        assert_eq!(unescaped(br"/a\040b\134c"), Path::new(r"/a b\c"));
        if cfg!(target_os = "linux") {
            assert!(
                below(Path::new("/"))
                    .unwrap()
                    .contains(&PathBuf::from("/proc"))
            );
            let dir = tempfile::tempdir().unwrap();
            assert!(below(dir.path()).unwrap().is_empty());
            assert!(below(&dir.path().join("gone")).unwrap().is_empty());
        }
    }
}
