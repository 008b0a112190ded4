//! The user's project, of whose files a command reads those that it declares.

use std::path::{Path, PathBuf};

use crate::confine::Hidden;
use crate::step::CommandCall;

/// Folders of programs, whose libraries lie beside them: `.venv/bin`, `node_modules/.bin`.
const PROGRAMS: [&str; 2] = ["bin", ".bin"];

/// The user's folder, and the folders in it that every command may read.
#[derive(Debug)]
pub struct Project {
    /// None where the folder holds the user's home, or is the file system's root: programs and their libraries lie there.
    root: Option<PathBuf>,
    shown: Vec<PathBuf>,
}

impl Project {
    /// The folder `root`; commands may read `shown`, such as the store and the environments, as a whole.
    pub fn new(root: &Path, shown: &[&Path]) -> Self {
        let root = real(root);
        let home = std::env::home_dir().map(|home| real(&home));
        let is_all = root.parent().is_none() || home.is_some_and(|home| home.starts_with(&root));
        Self {
            root: (!is_all).then_some(root),
            shown: shown.iter().map(|path| real(path)).collect(),
        }
    }

    /// What is kept from the program of `call`, which finds other programs in the folders of `path` (as PATH has them).
    pub(super) fn hidden_from(
        &self,
        call: &CommandCall,
        path: Option<&std::ffi::OsStr>,
    ) -> Option<Hidden> {
        let folder = self.root.clone()?;
        let searched = path.into_iter().flat_map(std::env::split_paths);
        let called = Path::new(&call.argv[0]).parent();
        let called = called.and_then(|place| installation(&folder, &real(place)));
        let programs = searched
            .map(|place| real(&place))
            // The project itself on PATH (`.`) would show all of it.
            .filter(|place| place.starts_with(&folder) && *place != folder)
            .map(|place| installation(&folder, &place).unwrap_or(place))
            .chain(called)
            .collect::<Vec<_>>();
        let shown = self.shown.iter().chain(call.inputs.values()).cloned();
        Some(Hidden {
            shown: shown.chain(programs).collect(),
            folder,
        })
    }
}

/// The folder of an installation whose programs lie in `place`; None where that is not inside the project at `root`, or
/// `place` is no folder of programs by its name.
fn installation(root: &Path, place: &Path) -> Option<PathBuf> {
    let name = place.file_name()?.to_str()?;
    let around = place.parent()?;
    let is_inside = around.starts_with(root) && around != root;
    (PROGRAMS.contains(&name) && is_inside).then(|| around.to_owned())
}

/// `path` without links; what does not exist yet is taken as it is named.
fn real(path: &Path) -> PathBuf {
    path.canonicalize()
        .or_else(|_| std::path::absolute(path))
        .unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(program: &str) -> CommandCall {
        CommandCall {
            argv: vec![program.to_owned()],
            ..CommandCall::default()
        }
    }

    #[test]
    fn the_installation_around_a_program_is_shown_and_the_project_around_it_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let project = Project::new(&root, &[]);
        let outside = [Path::new("/bin").to_owned(), root.with_file_name("bin")];
        let inside = [root.join(".venv/bin"), root.clone(), root.join("bin")];
        let path = std::env::join_paths(outside.iter().chain(&inside)).unwrap();
        let hidden = project.hidden_from(&call("sh"), Some(&path)).unwrap();
        assert_eq!(hidden.folder, root);
        assert_eq!(hidden.shown, [root.join(".venv"), root.join("bin")]);
        let own = root.join("env/bin/python");
        let hidden = project.hidden_from(&call(own.to_str().unwrap()), None);
        assert_eq!(hidden.unwrap().shown, [root.join("env")]);
    }

    #[test]
    fn a_home_or_the_root_is_no_project_that_could_be_hidden() {
        let home = std::env::home_dir().unwrap();
        for root in [Path::new("/"), &home] {
            let project = Project::new(root, &[]);
            assert_eq!(project.hidden_from(&call("sh"), None), None);
        }
    }
}
