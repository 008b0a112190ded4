//! Whether an environment is still as it was installed: a restored cache may lack files, and an interpreter may be gone
//! with the image that had it. A failure in such an environment says nothing about the step.
//!
//! The installation leaves a list of its files with their sizes, so that looking takes milliseconds. A file that was
//! written later has its content compared with the wheel's own list, where a wheel brought it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::Metadata;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use anyhow::Context;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rayon::prelude::*;
use walkdir::WalkDir;

use crate::base::digest::sha256;
use crate::base::figures::counted;
use crate::base::fs as bfs;
use crate::provision::env::{self, PythonEnv};

/// The list of files, in the environment's folder.
const FILES: &str = "orch-files.txt";
/// Stands in the place of a link's size.
const LINK: &str = "link";
/// What Python writes beside its sources when it runs them.
const BYTECODE: &str = "__pycache__";
/// Archives keep whole seconds.
const SLACK: Duration = Duration::from_secs(2);

/// Writes down what lies in an environment that was just installed.
pub(super) fn write_files(home: &Path) -> anyhow::Result<()> {
    let mut text = String::new();
    for entry in WalkDir::new(home).sort_by_file_name() {
        let entry = entry.with_context(|| format!("failed to list `{}`", home.display()))?;
        let below = entry.path().strip_prefix(home).unwrap_or(entry.path());
        let Some(path) = below.to_str().filter(|path| !is_made_later(path)) else {
            continue;
        };
        let kind = entry.file_type();
        if kind.is_file() {
            let size = entry.metadata().map(|meta| meta.len());
            let size = size.with_context(|| format!("failed to look at `{path}`"))?;
            let _ = writeln!(text, "{size}\t{path}");
        } else if kind.is_symlink() {
            let _ = writeln!(text, "{LINK}\t{path}");
        }
    }
    bfs::write_atomic(&home.join(FILES), text.as_bytes())
        .with_context(|| format!("failed to write `{}`", home.join(FILES).display()))
}

fn is_made_later(path: &str) -> bool {
    path == FILES || path == env::MARKER || path.split('/').any(|part| part == BYTECODE)
}

/// What is wrong with an environment, in words; None of one that is as it was installed.
pub(super) fn damage(home: &Path, python: Option<&PythonEnv>) -> Option<String> {
    if let Some(why) = python.and_then(|env| does_not_start(&env.python)) {
        return Some(why);
    }
    let hashes = python
        .map(|env| wheel_hashes(home, &env.site))
        .unwrap_or_default();
    let installed = [FILES, env::MARKER].into_iter().find_map(|name| {
        std::fs::metadata(home.join(name))
            .and_then(|meta| meta.modified())
            .ok()
    });
    let expected = match std::fs::read_to_string(home.join(FILES)) {
        Ok(text) => listed(&text),
        // Installed before there was a list: what the wheels say.
        Err(_) => hashes
            .iter()
            .map(|(path, wheel)| (path.clone(), Some(wheel.size)))
            .collect(),
    };
    let mut wrong: Vec<String> = expected
        .par_iter()
        .filter_map(|(path, size)| {
            let what = differs(home, path, *size, hashes.get(path), installed)?;
            Some(format!("`{path}` {what}"))
        })
        .collect();
    wrong.sort();
    let first = wrong.first()?;
    let more = wrong.len() - 1;
    Some(if more == 0 {
        first.clone()
    } else {
        format!("{first}, and {} like it", counted(more, "file"))
    })
}

fn does_not_start(python: &Path) -> Option<String> {
    let mut command = Command::new(python);
    command
        .args(["-I", "-c", "pass"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    match command.status() {
        Ok(status) if status.success() => None,
        Ok(status) => Some(format!(
            "its interpreter `{}` ends with {status}",
            python.display()
        )),
        Err(error) => Some(format!(
            "its interpreter `{}` does not start: {error}",
            python.display()
        )),
    }
}

/// Each path with its size; None of a link.
fn listed(text: &str) -> BTreeMap<String, Option<u64>> {
    text.lines()
        .filter_map(|line| line.split_once('\t'))
        .map(|(size, path)| (path.to_owned(), size.parse().ok()))
        .collect()
}

/// What is wrong with a file.
fn differs(
    home: &Path,
    path: &str,
    size: Option<u64>,
    wheel: Option<&Wheel>,
    installed: Option<SystemTime>,
) -> Option<String> {
    let at = home.join(path);
    // A link that leads nowhere is as good as none.
    let meta = match std::fs::metadata(&at) {
        Ok(meta) => meta,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Some("is missing".to_owned());
        }
        Err(error) => return Some(format!("cannot be read: {error}")),
    };
    let size = size?;
    if meta.len() != size {
        return Some(format!("has {} bytes instead of {size}", meta.len()));
    }
    let wheel = wheel.filter(|_| is_newer(&meta, installed))?;
    match std::fs::File::open(&at).and_then(sha256) {
        Ok(digest) if digest == wheel.sha256 => None,
        Ok(_) => Some("has another content".to_owned()),
        Err(error) => Some(format!("cannot be read: {error}")),
    }
}

fn is_newer(meta: &Metadata, installed: Option<SystemTime>) -> bool {
    let written = meta.modified().ok();
    written
        .zip(installed)
        .is_none_or(|(written, installed)| written > installed + SLACK)
}

/// What a wheel's own list says of a file.
struct Wheel {
    /// The digest in hexadecimal digits.
    sha256: String,
    size: u64,
}

/// The wheels in an environment with their hashes, by path below its folder.
fn wheel_hashes(home: &Path, site: &Path) -> BTreeMap<String, Wheel> {
    let Ok(below) = site.strip_prefix(home) else {
        return BTreeMap::new();
    };
    let infos = std::fs::read_dir(site)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|end| end == "dist-info"));
    infos
        .filter_map(|info| std::fs::read_to_string(info.join("RECORD")).ok())
        .flat_map(|text| {
            text.lines()
                .filter_map(|line| of_wheel(line, below))
                .collect::<Vec<_>>()
        })
        .collect()
}

/// A line of a wheel's list: `torch/nn/init.py,sha256=…,12345`. What lies outside of the site's folder is left out, and so
/// is a path with a comma, which the list quotes.
fn of_wheel(line: &str, below: &Path) -> Option<(String, Wheel)> {
    let mut parts = line.rsplitn(3, ',');
    let size = parts.next()?.trim().parse().ok()?;
    let sha256 = hex(parts.next()?.strip_prefix("sha256=")?)?;
    let path = parts.next()?;
    if path.starts_with(['"', '/']) || path.split('/').any(|part| part == "..") {
        return None;
    }
    let path = below.join(path).to_str()?.to_owned();
    Some((path, Wheel { sha256, size }))
}

/// The digits of a digest that a wheel writes in base64 for addresses, without padding.
fn hex(base64: &str) -> Option<String> {
    let bytes = URL_SAFE_NO_PAD.decode(base64).ok()?;
    Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    const SITE: &str = "lib/python3.12/site-packages";
    /// The digest of `x = 1` and a line's end, as a wheel's list has it.
    const CONTENT_SHA256: &str = "nia_NpkRxFwkPGhBR7I_yeHc_PJX0pmhxjIBam_NM_Q";

    /// An environment of one wheel, with an interpreter that starts.
    fn installed() -> (tempfile::TempDir, PythonEnv) {
        let home = tempfile::tempdir().unwrap();
        let site = home.path().join(SITE);
        fs::create_dir_all(site.join("some-1.0.dist-info")).unwrap();
        fs::create_dir_all(home.path().join("bin")).unwrap();
        symlink("/bin/true", home.path().join("bin/python")).unwrap();
        fs::write(site.join("some.py"), "x = 1\n").unwrap();
        fs::write(
            site.join("some-1.0.dist-info/RECORD"),
            format!("some.py,sha256={CONTENT_SHA256},6\n__pycache__/some.pyc,,\n"),
        )
        .unwrap();
        write_files(home.path()).unwrap();
        let env = PythonEnv {
            python: home.path().join("bin/python"),
            site,
        };
        (home, env)
    }

    #[test]
    fn what_is_as_it_was_installed_is_sound_and_what_python_writes_changes_nothing() {
        let (home, env) = installed();
        assert_eq!(damage(home.path(), Some(&env)), None);
        let cache = env.site.join(BYTECODE);
        fs::create_dir_all(&cache).unwrap();
        fs::write(cache.join("some.pyc"), "later").unwrap();
        assert_eq!(damage(home.path(), Some(&env)), None);
        // A copy of it has other times, and the same content.
        let later = SystemTime::now() + Duration::from_secs(60);
        fs::File::options()
            .append(true)
            .open(env.site.join("some.py"))
            .unwrap()
            .set_modified(later)
            .unwrap();
        assert_eq!(damage(home.path(), Some(&env)), None);
    }

    #[test]
    fn a_lost_cut_or_changed_file_and_an_interpreter_that_is_gone_are_named() {
        type Harm = fn(&Path, &PythonEnv);
        let harms: [(Harm, &str); 5] = [
            (
                |_, env| fs::remove_file(env.site.join("some.py")).unwrap(),
                "some.py` is missing",
            ),
            (
                |_, env| fs::write(env.site.join("some.py"), "x").unwrap(),
                "some.py` has 1 bytes instead of 6",
            ),
            (
                |_, env| {
                    let path = env.site.join("some.py");
                    fs::write(&path, "x = 2\n").unwrap();
                    let later = SystemTime::now() + Duration::from_secs(60);
                    let file = fs::File::options().append(true).open(&path).unwrap();
                    file.set_modified(later).unwrap();
                },
                "some.py` has another content",
            ),
            (
                |_, env| fs::remove_dir_all(env.site.join("some-1.0.dist-info")).unwrap(),
                "RECORD` is missing",
            ),
            (
                |home, env| {
                    fs::remove_file(&env.python).unwrap();
                    symlink(home.join("gone"), &env.python).unwrap();
                },
                "does not start: No such file or directory",
            ),
        ];
        for (harm, expected) in harms {
            let (home, env) = installed();
            harm(home.path(), &env);
            let found = damage(home.path(), Some(&env)).unwrap_or_default();
            assert!(found.contains(expected), "{found}");
        }
    }

    #[test]
    fn an_environment_of_before_there_was_a_list_is_held_to_its_wheels() {
        let (home, env) = installed();
        fs::rename(home.path().join(FILES), home.path().join(env::MARKER)).unwrap();
        assert_eq!(damage(home.path(), Some(&env)), None);
        fs::write(env.site.join("some.py"), "x = 2").unwrap();
        let found = damage(home.path(), Some(&env)).unwrap_or_default();
        assert!(found.contains("has 5 bytes instead of 6"), "{found}");
    }
}
