//! A lock with PyTorch from an index of the user's choice: builds without CUDA, or for another CUDA, which PyPI does not have.
//!
//! Only the packages that PyTorch publishes for each kind of hardware come from there, by the hashes that the index tells now. All others
//! keep the hashes of orch's own lock, and those that only CUDA asked for are left out.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail, ensure};

use crate::base::{fs as bfs, text::without_secrets};
use crate::provision::{Provision, env};
use crate::toolchain::{EnvName, entries};

/// Built by PyTorch for each kind of hardware; a torchvision of another kind does not load beside a torch.
const BUILDS: [&str; 2] = ["torch", "torchvision"];

/// What the locks are made from, of the environments that have PyTorch.
fn wanted(name: EnvName) -> anyhow::Result<&'static str> {
    match name {
        EnvName::Torch => Ok(include_str!("../../python/requirements/torch.in")),
        EnvName::Litert => Ok(include_str!("../../python/requirements/litert.in")),
        _ => bail!("the environment `{name}` has no PyTorch\n  hint: `torch` and `litert` have it"),
    }
}

impl Provision {
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
        std::fs::create_dir_all(folder).with_context(|| format!("failed to create `{}`", folder.display()))?;
        let room = tempfile::tempdir()?;
        let at = |name: &str| room.path().join(name);
        let own = name.lock();
        std::fs::write(at("wanted.in"), wanted)?;
        std::fs::write(at("own.txt"), own)?;
        let mut compile = Command::new(uv);
        compile.args(["pip", "compile", "--quiet", "--no-config", "--universal", "--python-version", "3.11"]);
        compile.args(["--generate-hashes", "--no-header", "--no-annotate", "--index", index]);
        // Of what both have, only names are taken here: what is installed has the hashes of orch's own lock.
        compile.args(["--index-strategy", "unsafe-best-match", "--constraints"]).arg(at("own.txt"));
        compile.arg("--output-file").arg(at("found.txt")).arg(at("wanted.in"));
        install.run(&mut compile, &at("log"))?;
        let lock = merged(own, &std::fs::read_to_string(at("found.txt"))?, index)?;
        let path = folder.join(format!("{name}.txt"));
        bfs::write_atomic(&path, lock.as_bytes()).with_context(|| format!("failed to write `{}`", path.display()))
    }
}

/// orch's own lock with PyTorch's packages as they were found, and without what these ask no more.
fn merged(own: &str, found: &str, index: &str) -> anyhow::Result<String> {
    let is_build = |name: &str| BUILDS.contains(&name);
    let names: BTreeSet<&str> = entries(found).map(|(name, _)| name).collect();
    let locked: BTreeSet<&str> = entries(own).map(|(name, _)| name).collect();
    if let Some(new) = names.iter().find(|name| !is_build(name) && !locked.contains(*name)) {
        bail!("the PyTorch of {index} needs {new}, which orch has no hash of");
    }
    let builds: Vec<_> = entries(found).filter(|(name, _)| is_build(name)).collect();
    if builds.is_empty() || builds.iter().any(|build| entries(own).any(|locked| locked == *build)) {
        bail!("{index} has no build of the locked PyTorch of its own\n  hint: `orch setup` without it installs PyPI's");
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
        let new = refused("torch==2.13.0+cpu \\\n    --hash=sha256:T\nintel-openmp==1 \\\n    --hash=sha256:i\n");
        assert_eq!(new, "the PyTorch of https://example.org/cpu needs intel-openmp, which orch has no hash of");
        assert!(refused(OWN).contains("no build of the locked PyTorch"), "{}", refused(OWN));
        let half = OWN.replace("torch==2.13.0 \\\n    --hash=sha256:t", "torch==2.13.0+cpu \\\n    --hash=sha256:T");
        assert!(refused(&half).contains("no build of the locked PyTorch"), "torchvision is PyPI's still");
    }
}
