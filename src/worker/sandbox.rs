//! The folders of one program: where it works, its home, its temporary files. Made for it, and removed with it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::base::fs as bfs;
use crate::base::variable;
use crate::confine::{Grants, Tcp};
use crate::step::{Access, SharedFolder};

/// Removed when dropped, except for what is mounted in it: that stays, with all around it, and the run's own clean-up
/// tells of it.
#[derive(Debug)]
pub(super) struct Sandbox {
    root: PathBuf,
    pub(super) cwd: PathBuf,
    pub(super) home: PathBuf,
    pub(super) tmp: PathBuf,
}

impl Sandbox {
    /// Makes one in a folder of its own below `parent`.
    pub(super) fn make(parent: &Path) -> io::Result<Self> {
        let root = parent.join(bfs::Nonce::next().to_string());
        let [cwd, home, tmp] = ["cwd", "home", "tmp"].map(|name| root.join(name));
        let sandbox = Self {
            root,
            cwd,
            home,
            tmp,
        };
        for folder in sandbox.folders() {
            fs::create_dir_all(folder)?;
        }
        Ok(sandbox)
    }

    /// The folders that its program may write to.
    pub(super) fn folders(&self) -> [&Path; 3] {
        [&self.cwd, &self.home, &self.tmp]
    }
}

/// What a process may write to and reach: its `own` folders, and what its step was given besides.
pub fn grants(access: &Access, own: &[&Path]) -> io::Result<Grants> {
    let shared = access.shared.iter().flat_map(|folder| paths_of(*folder));
    let given: Vec<PathBuf> = access.write.iter().cloned().chain(shared).collect();
    for folder in &given {
        fs::create_dir_all(folder).map_err(|e| {
            io::Error::new(
                e.kind(),
                format!("failed to make {}: {e}", folder.display()),
            )
        })?;
    }
    let folders = own
        .iter()
        .copied()
        .chain(given.iter().map(PathBuf::as_path));
    Ok(Grants::folders(folders).with_tcp(if access.network {
        Tcp::Allowed
    } else {
        Tcp::Denied
    }))
}

/// Where a shared folder is by the environment; nowhere if no variable says.
fn paths_of(folder: SharedFolder) -> Vec<PathBuf> {
    let variable = |name: &str| variable::os(name).map(PathBuf::from);
    match folder {
        SharedFolder::HubCache => {
            let of_user = || {
                variable("XDG_CACHE_HOME")
                    .or_else(|| Some(variable("HOME")?.join(".cache")))
                    .map(|cache| cache.join("huggingface"))
            };
            let home = variable("HF_HOME").or_else(of_user);
            home.into_iter().chain(variable("HF_HUB_CACHE")).collect()
        }
        SharedFolder::Android => {
            let home = variable("HOME");
            home.map(|home| home.join(".android")).into_iter().collect()
        }
        SharedFolder::Temporary => vec![std::env::temp_dir()],
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        let _ = bfs::remove_left(&self.root);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn nothing_of_it_stays_not_even_what_its_program_closed() {
        let dir = tempfile::tempdir().unwrap();
        let sandbox = Sandbox::make(dir.path()).unwrap();
        fs::create_dir_all(sandbox.cwd.join("closed/inner")).unwrap();
        fs::write(sandbox.cwd.join("closed/inner/file"), "x").unwrap();
        for folder in ["closed/inner", "closed"] {
            fs::set_permissions(sandbox.cwd.join(folder), fs::Permissions::from_mode(0o500))
                .unwrap();
        }
        std::os::unix::fs::symlink("/etc", sandbox.tmp.join("link")).unwrap();
        drop(sandbox);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        assert!(Path::new("/etc/passwd").exists());
    }
}
