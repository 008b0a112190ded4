//! Locks of an environment with another release of one of its packages, made by uv.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail, ensure};
use serde::Serialize;

use crate::base::fs as bfs;
use crate::provision::{Provision, env};
use crate::toolchain::{EnvName, entries, locked_release, package_of};

/// A lock, and in what it differs from the one that it was made of.
pub struct Relocked {
    pub text: String,
    pub moved: Vec<Moved>,
}

/// A package that has another release than before. None: the lock does not name it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Moved {
    pub package: String,
    pub from: Option<String>,
    pub to: Option<String>,
}

impl Provision {
    /// The lock of an environment with this release of a package; None for the newest. Every other package keeps its release
    /// if the resolver can keep it.
    pub fn relock(
        &self,
        env: EnvName,
        (package, release): (&str, Option<&str>),
        progress: &dyn Fn(&str),
    ) -> anyhow::Result<Relocked> {
        let old = self.locks.text(env);
        let wanted = env
            .wanted()
            .with_context(|| format!("the environment `{env}` is none of Python packages"))?;
        ensure!(
            !old.contains("://"),
            "the lock of `{env}` names an index of its own\n  hint: without ORCH_LOCKS, or with ORCH_TORCH_INDEX=pypi, it is orch's"
        );
        let install = self.install(progress);
        let uv = env::uv(&install).context("only uv makes locks")?;
        let room = tempfile::tempdir()?;
        let lines = room.path().join("wanted.in");
        let lock = room.path().join("lock.txt");
        bfs::write_new(&lines, loosened(wanted, package, release))?;
        // uv keeps the releases of the file that it is to write.
        bfs::write_new(&lock, old)?;
        let mut compile = Command::new(uv);
        compile
            .args(["pip", "compile", "--quiet", "--no-config", "--universal"])
            .args(["--python-version", "3.11", "--generate-hashes"])
            .args(["--no-header", "--no-annotate"])
            .args(["--upgrade-package", package]);
        compile.arg("--output-file").arg(&lock).arg(&lines);
        let log = room.path().join("log");
        progress(&format!("resolving {package} in the environment `{env}`"));
        install.run(&mut compile, &log)?;
        let text = std::fs::read_to_string(&lock)?;
        if let Some(line) = text.lines().find(|line| line.contains("://")) {
            bail!("the lock would name an address: {}", line.trim());
        }
        ensure!(
            locked_release(&text, package).is_some(),
            "the environment `{env}` needs no {package}"
        );
        Ok(Relocked {
            moved: moved(old, &text),
            text,
        })
    }
}

/// The requirements with one release pinned and every other open: what the lock holds already is preferred.
fn loosened(wanted: &str, package: &str, release: Option<&str>) -> String {
    let pin = |release: &str| format!("=={release}");
    let mut lines = Vec::new();
    let mut has_package = false;
    for line in wanted.lines().filter(|line| !line.starts_with('#')) {
        let (requirement, marker) = match line.split_once(';') {
            Some((requirement, marker)) => (requirement, format!(" ;{marker}")),
            None => (line, String::new()),
        };
        // Bounds that are no pins hold for every release.
        let (name, _) = requirement.split_once("==").unwrap_or((requirement, ""));
        let is_it = package_of(name) == package;
        has_package |= is_it;
        let version = release.filter(|_| is_it).map(pin).unwrap_or_default();
        lines.push(format!("{}{version}{marker}\n", name.trim_end()));
    }
    if !has_package {
        lines.push(format!(
            "{package}{}\n",
            release.map(pin).unwrap_or_default()
        ));
    }
    lines.concat()
}

/// The packages whose releases differ.
fn moved(old: &str, new: &str) -> Vec<Moved> {
    let names: BTreeSet<&str> = entries(old)
        .chain(entries(new))
        .map(|(name, _)| name)
        .collect();
    let of = |package: &str| Moved {
        package: package.to_owned(),
        from: locked_release(old, package),
        to: locked_release(new, package),
    };
    let all = names.into_iter().map(of);
    all.filter(|moved| moved.from != moved.to).collect()
}

/// Writes a lock to a file, whose folder is made.
pub fn write_lock(path: &Path, text: &str) -> anyhow::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)
        .with_context(|| format!("failed to create `{}`", folder.display()))?;
    bfs::write_atomic(path, text.as_bytes())
        .with_context(|| format!("failed to write `{}`", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_release_is_pinned_and_the_others_are_open() {
        let wanted = "# why\nonnxruntime-gpu[cuda,cudnn]==1.31.1\nqnn==2 ; sys_platform == \"linux\"\nold<1.3\nscipy\n";
        assert_eq!(
            loosened(wanted, "qnn", Some("1.5")),
            "onnxruntime-gpu[cuda,cudnn]\nqnn==1.5 ; sys_platform == \"linux\"\nold<1.3\nscipy\n"
        );
        assert_eq!(
            loosened("scipy\n", "numpy", Some("2.1")),
            "scipy\nnumpy==2.1\n"
        );
        assert_eq!(loosened("a==1\n", "a", None), "a\n");
    }

    #[test]
    fn what_gave_way_is_listed() {
        let of = |package: &str, from: Option<&str>, to: Option<&str>| Moved {
            package: package.to_owned(),
            from: from.map(str::to_owned),
            to: to.map(str::to_owned),
        };
        let old = "a==1 \\\n    --hash=sha256:x\nb==1 \\\n    --hash=sha256:y\nc==1 \\\n    --hash=sha256:z\n";
        let new = "a==1 \\\n    --hash=sha256:x\nb==2 \\\n    --hash=sha256:y\nd==1 \\\n    --hash=sha256:z\n";
        assert_eq!(
            moved(old, new),
            [
                of("b", Some("1"), Some("2")),
                of("c", Some("1"), None),
                of("d", None, Some("1"))
            ]
        );
    }
}
