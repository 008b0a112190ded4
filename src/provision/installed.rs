//! What is installed, for this orch or for others; and its removal.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::Context;
use serde::Serialize;

use crate::base::{figures, fs as bfs, temporary};
use crate::provision::{Provision, env, python, used};
use crate::toolchain::EnvName;

/// Why an environment stays whose mark is held, or cannot be written.
const USED: &str = "another orch uses it, or its folder cannot be written to";

/// A folder below `envs`.
#[derive(Debug, Clone, Serialize)]
pub struct Installed {
    pub path: PathBuf,
    pub bytes: u64,
    /// This orch uses it, or would.
    pub current: bool,
    /// When an orch last used it (RFC 3339).
    pub last_used: String,
}

impl Provision {
    /// Everything that an orch installed, whichever its version.
    pub fn installed(&self) -> anyhow::Result<Vec<Installed>> {
        let envs = EnvName::ALL.iter().map(|name| self.home(*name));
        let rest = self
            .torch_homes()
            .into_iter()
            .chain([python::home(&self.dir)]);
        let current: Vec<PathBuf> = envs.chain(rest).collect();
        if !self.dir.is_dir() {
            return Ok(Vec::new());
        }
        let mut homes = self
            .homes()
            .with_context(|| format!("failed to list `{}`", self.dir.display()))?
            .collect::<Vec<_>>();
        homes.sort();
        let of = |path: PathBuf| {
            let bytes = crate::store::Amount::below(&path).bytes;
            Installed {
                current: current.contains(&path),
                last_used: moment_of(used::last(&path)),
                bytes,
                path,
            }
        };
        Ok(homes.into_iter().map(of).collect())
    }

    fn homes(&self) -> std::io::Result<impl Iterator<Item = PathBuf> + use<>> {
        let paths = std::fs::read_dir(&self.dir)?
            .flatten()
            .map(|entry| entry.path());
        Ok(paths.filter(|path| path.is_dir() && !path.is_symlink() && is_ours(path)))
    }

    /// Removes what installations that were killed had begun, with `dry_run` only in words; gives it with its size.
    pub fn unfinished(&self, dry_run: bool) -> anyhow::Result<Vec<(PathBuf, u64)>> {
        let homes = self.homes().into_iter().flatten();
        let mut gone = Vec::new();
        for path in homes
            .chain([self.dir.clone()])
            .flat_map(|dir| temporary::left_in(&dir))
            .map(|left| left.path())
        {
            gone.push((path.clone(), crate::store::Amount::below(&path).bytes));
            if !dry_run {
                let removed = if path.is_dir() {
                    bfs::remove_dir(&path)
                } else {
                    bfs::remove_file(&path)
                };
                removed.with_context(|| format!("failed to remove `{}`", path.display()))?;
            }
        }
        Ok(gone)
    }

    /// Why it must stay, if anybody is seen to install or to use it.
    pub fn in_use(&self, installed: &Installed) -> Option<String> {
        let lock = File::open(installed.path.with_extension("lock"));
        if lock.is_ok_and(|lock| lock.try_lock().is_err()) {
            return Some("another orch is installing it".into());
        }
        if let Some(user) = user_of(&installed.path) {
            return Some(format!("process {user} uses it"));
        }
        used::seize(&installed.path)
            .is_none()
            .then(|| USED.to_owned())
    }

    /// Removes an environment; gives why not, if it is in use. One that is needed again is installed again.
    pub fn remove(&self, installed: &Installed) -> anyhow::Result<Option<String>> {
        if let Some(why) = self.in_use(installed) {
            return Ok(Some(why));
        }
        // Held, so that nobody installs it meanwhile.
        let lock_path = installed.path.with_extension("lock");
        let lock = File::create(&lock_path)
            .with_context(|| format!("failed to create `{}`", lock_path.display()))?;
        if lock.try_lock().is_err() {
            return Ok(Some("another orch is installing it".into()));
        }
        // Who wants to use it waits, and finds that it is not there.
        let Some(_seized) = used::seize(&installed.path) else {
            return Ok(Some(USED.to_owned()));
        };
        let failed = || format!("failed to remove `{}`", installed.path.display());
        bfs::remove_dir(&installed.path).with_context(failed)?;
        for extension in ["txt", "log", "lock"] {
            let _ = bfs::remove_file(installed.path.with_extension(extension));
        }
        used::forget(&installed.path);
        Ok(None)
    }
}

/// Named as orch names what it installs, a word and the beginning of a digest, and with something that only orch puts there:
/// what says that an environment is complete, the lock under which it is installed, or what is in the other folders.
fn is_ours(path: &Path) -> bool {
    let has = |name: &str| path.join(name).exists();
    is_named(path)
        && (path.with_extension("lock").is_file()
            || [env::MARKER, "build.lock", "build-version", "orch_py"]
                .into_iter()
                .any(has))
}

fn is_named(path: &Path) -> bool {
    let Some((word, digest)) = path
        .file_name()
        .and_then(|name| name.to_str())
        .and_then(|name| name.rsplit_once('-'))
    else {
        return false;
    };
    let is_digest = digest.len() == 12 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_digest
        && (["orch_py", "orch-torch", "libtorch"].contains(&word)
            || EnvName::ALL.iter().any(|name| name.to_string() == word))
}

/// A process that has opened something below a folder, as far as this user may see. Where the system does not tell: none.
fn user_of(path: &Path) -> Option<u32> {
    let text = path.to_str()?;
    let processes = std::fs::read_dir("/proc").ok()?.flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.into_iter().find(|pid| {
        let home = PathBuf::from(format!("/proc/{pid}"));
        let maps = std::fs::read(home.join("maps")).unwrap_or_default();
        let is_mapped = String::from_utf8_lossy(&maps).lines().any(|line| {
            line.find('/')
                .is_some_and(|at| Path::new(&line[at..]).starts_with(text))
        });
        is_mapped || std::fs::read_link(home.join("exe")).is_ok_and(|exe| exe.starts_with(path))
    })
}

/// A time as RFC 3339 has it, to the second.
fn moment_of(time: SystemTime) -> String {
    let time = jiff::Timestamp::try_from(time).unwrap_or_default();
    figures::moment(time)
}
