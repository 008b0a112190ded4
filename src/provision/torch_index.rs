//! A lock with PyTorch from another index than PyPI: builds without CUDA, or for another CUDA.
//!
//! Only the packages that PyTorch publishes for each kind of hardware come from there, by the hashes that the index reports now. All others
//! keep the hashes of orch's own lock, and those that only CUDA needs are left out. A user names the index; or a machine without an
//! NVIDIA GPU takes PyTorch's own for CPUs, once, and keeps the lock beside the environments.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail, ensure};

use crate::base::{Digest, fs as bfs, text::without_secrets};
use crate::device::{Host, cuda};
use crate::provision::{Provision, env, index};
use crate::step::{Required, Requirement};
use crate::toolchain::{EnvName, Locks, entries};

/// PyTorch's own builds without CUDA.
pub const FOR_CPUS: &str = "https://download.pytorch.org/whl/cpu";

/// Written last: locks with it are complete.
const LAST: &str = "torch.txt";

/// Built by PyTorch for each kind of hardware; a torchvision of another kind does not load beside a torch.
const BUILDS: [&str; 2] = ["torch", "torchvision"];

/// What the locks are made from, of the environments that have PyTorch.
fn wanted(name: EnvName) -> anyhow::Result<&'static str> {
    let wanted = match name {
        EnvName::Torch | EnvName::Litert => name.wanted(),
        _ => None,
    };
    wanted.with_context(|| {
        format!("the environment `{name}` has no PyTorch\n  hint: `torch` and `litert` have it")
    })
}

impl Provision {
    /// Takes the locks that [`Provision::do_without_cuda`] wrote for this orch, where it did and no GPU came since.
    /// `index`: where PyTorch for CPUs is to be had, None for PyPI's PyTorch in any case.
    pub fn without_cuda(self, index: Option<String>) -> Result<Self, String> {
        let provision = Self {
            index_for_cpus: index,
            ..self
        };
        let written = provision
            .locks_for_cpus()
            .filter(|folder| folder.join(LAST).is_file());
        match written.filter(|_| !cuda::is_seen(&Host::real())) {
            Some(folder) => Ok(provision.locked(Locks::of(&folder)?)),
            None => Ok(provision),
        }
    }

    /// A folder of its own for each index and each release of orch's locks, from which these are made.
    fn locks_for_cpus(&self) -> Option<PathBuf> {
        let index = self.index_for_cpus.as_deref()?;
        let [torch, litert] = [EnvName::Torch, EnvName::Litert].map(|name| self.locks.digest(name));
        let name = Digest::of(format!("{index} {torch} {litert}").as_bytes()).short();
        Some(self.dir.join(format!("without-cuda-{name}")))
    }

    /// Whether PyPI's PyTorch would bring a CUDA that nothing here can use. Cheap, unlike asking the index.
    pub fn may_do_without_cuda(&self) -> bool {
        cfg!(all(target_os = "linux", target_arch = "x86_64"))
            && self.index_for_cpus.is_some()
            && self.own.is_none()
            && !self.locks.is_users(EnvName::Torch)
            && !self.is_ready(Requirement::Env(EnvName::Torch))
            && !cuda::is_seen(&Host::real())
    }

    /// Writes locks with PyTorch for CPUs, where PyTorch is among what is wanted and that index answers: those of
    /// whoever opens this folder of environments from now on. True if it did.
    pub fn do_without_cuda(&self, wanted: &BTreeSet<Required>, progress: &dyn Fn(&str)) -> bool {
        let has_torch = [
            Requirement::Env(EnvName::Torch),
            Requirement::TorchWorker,
            Requirement::Env(EnvName::Litert),
        ];
        let is_wanted = self.may_do_without_cuda()
            && has_torch
                .iter()
                .any(|requirement| wanted.contains(&(*requirement).into()));
        let (Some(index), Some(folder), true) = (
            self.index_for_cpus.as_deref(),
            self.locks_for_cpus(),
            is_wanted,
        ) else {
            return false;
        };
        let lock = |name| self.lock_with_torch(name, index, &folder, progress);
        progress(&format!(
            "no NVIDIA GPU is here: asking {index} for a PyTorch without CUDA"
        ));
        let reached = match env::uv(&self.install(progress)) {
            Some(uv) => index::reach_torch(index, &uv).map_err(anyhow::Error::msg),
            None => Err(anyhow::anyhow!("only uv can ask")),
        };
        let locked = reached
            .and_then(|()| lock(EnvName::Litert))
            .and_then(|()| lock(EnvName::Torch));
        if let Err(why) = &locked {
            let hint = "hint: ORCH_TORCH_INDEX names a mirror, or is `pypi`";
            progress(&format!(
                "none is to be had, so PyTorch is PyPI's, two thirds of it CUDA: {why:#}; {hint}"
            ));
        }
        locked.is_ok()
    }

    /// Writes the lock of an environment with the PyTorch of an index into a folder, for [`crate::toolchain::Locks::of`].
    pub fn lock_with_torch(
        &self,
        name: EnvName,
        index: &str,
        folder: &Path,
        progress: &dyn Fn(&str),
    ) -> anyhow::Result<()> {
        ensure!(
            without_secrets(index) == index,
            "the address of the index would stand in the lock with its password\n  hint: put that into ~/.netrc, which uv reads"
        );
        let wanted = wanted(name)?;
        let install = self.install(progress);
        let uv = env::uv(&install).context("only uv can ask two indexes for one lock")?;
        std::fs::create_dir_all(folder)
            .with_context(|| format!("failed to create `{}`", folder.display()))?;
        let room = tempfile::tempdir()?;
        let at = |name: &str| room.path().join(name);
        let own = name.lock();
        bfs::write_new(at("wanted.in"), wanted)?;
        bfs::write_new(at("own.txt"), own)?;
        let mut compile = Command::new(uv);
        compile.args([
            "pip",
            "compile",
            "--quiet",
            "--no-config",
            "--universal",
            "--python-version",
            "3.11",
        ]);
        compile.args([
            "--generate-hashes",
            "--no-header",
            "--no-annotate",
            "--index",
            index,
        ]);
        // Of what both have, only names are taken here: what is installed has the hashes of orch's own lock.
        compile
            .args(["--index-strategy", "unsafe-best-match", "--constraints"])
            .arg(at("own.txt"));
        compile
            .arg("--output-file")
            .arg(at("found.txt"))
            .arg(at("wanted.in"));
        install.run(&mut compile, &at("log"))?;
        let lock = merged(own, &std::fs::read_to_string(at("found.txt"))?, index)?;
        let path = folder.join(format!("{name}.txt"));
        bfs::write_atomic(&path, lock.as_bytes())
            .with_context(|| format!("failed to write `{}`", path.display()))
    }
}

/// orch's own lock with PyTorch's packages as they were found, and without what these ask no more.
fn merged(own: &str, found: &str, index: &str) -> anyhow::Result<String> {
    let is_build = |name: &str| BUILDS.contains(&name);
    let names: BTreeSet<&str> = entries(found).map(|(name, _)| name).collect();
    let locked: BTreeSet<&str> = entries(own).map(|(name, _)| name).collect();
    if let Some(new) = names
        .iter()
        .find(|name| !is_build(name) && !locked.contains(*name))
    {
        bail!("the PyTorch of {index} needs {new}, which orch has no hash of");
    }
    let builds: Vec<_> = entries(found).filter(|(name, _)| is_build(name)).collect();
    if builds.is_empty()
        || builds
            .iter()
            .any(|build| entries(own).any(|locked| locked == *build))
    {
        bail!(
            "{index} has no build of the locked PyTorch of its own\n  hint: `orch setup` without it installs PyPI's"
        );
    }
    let kept = entries(own).filter(|(name, _)| names.contains(name) && !is_build(name));
    let mut all: Vec<_> = kept.chain(builds).collect();
    all.sort_by_key(|(name, _)| *name);
    let text: String = all.into_iter().map(|(_, text)| text).collect();
    Ok(format!("--extra-index-url {index}\n{text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "numpy==2 \\\n    --hash=sha256:n\nnvidia-cublas==1 ; sys_platform == 'linux' \\\n    --hash=sha256:c\n\
        torch==2.13.0 \\\n    --hash=sha256:t\ntorchvision==0.28.0 \\\n    --hash=sha256:v\n";
    const INDEX: &str = "https://example.org/cpu";

    #[test]
    fn only_pytorch_is_the_indexs_and_cuda_is_gone() {
        let found = "numpy==2 \\\n    --hash=sha256:FORGED\ntorch==2.13.0+cpu \\\n    --hash=sha256:T\n\
            torchvision==0.28.0+cpu \\\n    --hash=sha256:V\n";
        let expected = "--extra-index-url https://example.org/cpu\nnumpy==2 \\\n    --hash=sha256:n\n\
            torch==2.13.0+cpu \\\n    --hash=sha256:T\ntorchvision==0.28.0+cpu \\\n    --hash=sha256:V\n";
        assert_eq!(merged(OWN, found, INDEX).unwrap(), expected);
    }

    #[test]
    fn what_has_no_hash_and_what_is_pypis_after_all_is_refused() {
        let refused = |found: &str| merged(OWN, found, INDEX).unwrap_err().to_string();
        let new = refused(
            "torch==2.13.0+cpu \\\n    --hash=sha256:T\nintel-openmp==1 \\\n    --hash=sha256:i\n",
        );
        assert_eq!(
            new,
            "the PyTorch of https://example.org/cpu needs intel-openmp, which orch has no hash of"
        );
        assert!(
            refused(OWN).contains("no build of the locked PyTorch"),
            "{}",
            refused(OWN)
        );
        let half = OWN.replace(
            "torch==2.13.0 \\\n    --hash=sha256:t",
            "torch==2.13.0+cpu \\\n    --hash=sha256:T",
        );
        assert!(
            refused(&half).contains("no build of the locked PyTorch"),
            "torchvision is PyPI's still"
        );
    }
}
