//! The one home of git, and a git revision laid out in a folder of its own, without touching the user's checkout, index or
//! list of worktrees.
//!
//! Files are written by `git checkout-index` from an index of our own, so line endings and filters such as LFS apply as
//! they do in a checkout. Submodules are laid out at the commits that the revision names, where those are here. Knows
//! nothing of specs.

#![expect(clippy::disallowed_methods, reason = "starts git")]

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context as _;

use crate::base::fs::normal;
use crate::base::text::last_line;
use crate::base::{Bug, figures, suggest};
use crate::report::Git;
use crate::session::{UsageError, usage};
use crate::store::Scratch;

/// Variables by which git names a repository to its hooks; with them it would not look for the one around the folder.
const HOOK_VARIABLES: [&str; 8] = [
    "GIT_DIR",
    "GIT_COMMON_DIR",
    "GIT_WORK_TREE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_PREFIX",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
];

/// A revision of the repository that holds some file.
pub(super) struct Revision {
    /// The name that the user gave, and its commit: `main (1a2b3c4d5e6f)`.
    pub(super) name: String,
    /// The repository's folder, without symbolic links.
    pub(super) root: PathBuf,
    /// Everything stands below this folder under its real absolute path, so that relative paths which leave the repository
    /// lead to where they lead from the repository itself.
    below: PathBuf,
    /// The repository and its submodules.
    parts: Vec<Part>,
    /// Submodules that could not be laid out.
    pub(super) missing: Vec<String>,
    _scratch: Scratch,
}

/// One repository at one commit.
struct Part {
    dir: PathBuf,
    index: PathBuf,
    /// Mode and path of each entry.
    entries: Vec<(String, PathBuf)>,
}

impl Revision {
    /// Finds the repository around `folder` and the revision in it. Nothing is laid out yet.
    pub(super) fn open(base: &str, folder: &Path, scratch: Scratch) -> anyhow::Result<Self> {
        let root = PathBuf::from(git(folder, None, ["rev-parse", "--show-toplevel"])?.map_err(|words| {
            let shown = folder.display();
            match words.contains("not a git repository") {
                true => UsageError(format!(
                    "`{shown}` is not in a git repository, so nothing can be compared with `{base}`\n  \
                     hint: without --affected every step is considered"
                )),
                false => UsageError(format!("git cannot tell the repository of `{shown}`: {words}")),
            }
        })?);
        let commit = commit(&root, base)?;
        let below = scratch
            .dir("base")
            .context("failed to make a folder for the revision")?;
        let below = std::fs::canonicalize(&below)
            .with_context(|| format!("failed to resolve {}", below.display()))?;
        let short = &commit[..12];
        let name = if commit.starts_with(base) {
            short.to_owned()
        } else {
            format!("{base} ({short})")
        };
        let mut revision = Self {
            name,
            root: root.clone(),
            below,
            parts: vec![],
            missing: vec![],
            _scratch: scratch,
        };
        revision.add(root, &commit)?;
        Ok(revision)
    }

    /// Reads the list of files of one repository, then those of its submodules.
    fn add(&mut self, dir: PathBuf, commit: &str) -> anyhow::Result<()> {
        let index = self.below.join(format!(".index-{}", self.parts.len()));
        must(&dir, Some(&index), ["read-tree", commit])?;
        let listed = must(&dir, Some(&index), ["ls-files", "--stage", "-z"])?;
        let mut entries = Vec::new();
        let mut submodules = Vec::new();
        for line in listed.split('\0').filter(|line| !line.is_empty()) {
            let (about, path) = line
                .split_once('\t')
                .context(Bug::new("git ls-files --stage prints a tab"))?;
            let mut words = about.split(' ').map(str::to_owned);
            let mode = words.next().unwrap_or_default();
            let object = words.next().unwrap_or_default();
            match mode.as_str() {
                "160000" => submodules.push((dir.join(path), object)),
                _ => entries.push((mode, dir.join(path))),
            }
        }
        self.parts.push(Part {
            dir,
            index,
            entries,
        });
        for (dir, commit) in submodules {
            // Without a repository of its own, git would answer for the one around it.
            let is_here = dir.join(".git").exists() && find(&dir, &commit)?.is_some();
            match is_here {
                true => self.add(dir, &commit)?,
                false => self.missing.push(dir.display().to_string()),
            }
        }
        Ok(())
    }

    /// Lays out the files whose real path `is_wanted` accepts. Where there are symbolic links any file may be read by way of
    /// another's name, so then it is all of them.
    pub(super) fn lay_out(&self, is_wanted: &dyn Fn(&Path) -> bool) -> anyhow::Result<()> {
        let links = self
            .parts
            .iter()
            .flat_map(|part| &part.entries)
            .any(|(mode, _)| mode == "120000");
        for part in &self.parts {
            let chosen = part
                .entries
                .iter()
                .filter(|(_, path)| links || is_wanted(path));
            let mut names = Vec::new();
            for (_, path) in chosen {
                let name = path
                    .strip_prefix(&part.dir)
                    .expect("BUG: an entry is below its repository");
                names.extend_from_slice(name.as_os_str().as_encoded_bytes());
                names.push(0);
            }
            if !names.is_empty() {
                let prefix = format!("--prefix={}/", self.at(&part.dir).display());
                let args = [
                    "checkout-index",
                    "--force",
                    "--quiet",
                    "-z",
                    "--stdin",
                    &prefix,
                ];
                let mut child = command(&part.dir, Some(&part.index), args)
                    .stdin(Stdio::piped())
                    .spawn()?;
                let mut stdin = child.stdin.take().expect("BUG: stdin is a pipe");
                let writer = std::thread::spawn(move || stdin.write_all(&names));
                let output = child.wait_with_output()?;
                let _ = writer.join(); // what git did not read, its exit status reports
                if !output.status.success() {
                    anyhow::bail!(
                        "git could not lay out {}: {}",
                        self.name,
                        last_words(&output.stderr)
                    );
                }
            }
        }
        Ok(())
    }

    /// The path of a real path in the laid out revision.
    pub(super) fn at(&self, real: &Path) -> PathBuf {
        self.below.join(real.strip_prefix("/").unwrap_or(real))
    }

    /// What the revision reads where it names this path: its own file inside the repository, the real one outside.
    pub(super) fn read(&self, path: &Path) -> PathBuf {
        let real = self.real(path);
        if real.starts_with(&self.root) {
            self.at(&real)
        } else {
            real
        }
    }

    /// The path that a laid out one stands for.
    pub(super) fn real(&self, path: &Path) -> PathBuf {
        let path = normal(path);
        path.strip_prefix(&self.below)
            .map(|rest| Path::new("/").join(rest))
            .unwrap_or(path)
    }
}

/// The commit that is checked out around a folder. None outside of git, where there is no git, and before the first commit.
pub(super) fn head(folder: &Path) -> Option<Git> {
    let status = git(
        folder,
        None,
        [
            "status",
            "--porcelain=v2",
            "--branch",
            "--untracked-files=no",
        ],
    )
    .ok()?
    .ok()?;
    let header = |name: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix("# branch.")?.strip_prefix(name))
    };
    let committed = git(folder, None, ["show", "--no-patch", "--format=%ct", "HEAD"])
        .ok()?
        .ok()?;
    let committed = jiff::Timestamp::from_second(committed.parse().ok()?).ok()?;
    Some(Git {
        revision: header("oid ")?.to_owned(),
        committed: figures::moment(committed),
        branch: header("head ")
            .filter(|name| *name != "(detached)")
            .map(str::to_owned),
        dirty: status.lines().any(|line| !line.starts_with('#')),
    })
}

/// The commit alone, read from git's own files: a run without changes has no time for a process. None also where those are of another
/// shape than git's usual one.
pub(super) fn revision(folder: &Path) -> Option<String> {
    let read = |path: PathBuf| Some(std::fs::read_to_string(path).ok()?.trim_end().to_owned());
    let folder = std::fs::canonicalize(folder).ok()?;
    let dot = folder
        .ancestors()
        .map(|above| above.join(".git"))
        .find(|dot| dot.exists())?;
    // Of a worktree it is a file that leads to its folder, and that one to the repository's.
    let dir = match read(dot.clone()) {
        Some(link) => dot.parent()?.join(link.strip_prefix("gitdir: ")?),
        None => dot,
    };
    let common = read(dir.join("commondir")).map_or_else(|| dir.clone(), |common| dir.join(common));
    let head = read(dir.join("HEAD"))?;
    let Some(name) = head.strip_prefix("ref: ") else {
        return Some(head);
    };
    read(common.join(name)).or_else(|| {
        let packed = read(common.join("packed-refs"))?;
        let mut lines = packed.lines().filter_map(|line| line.split_once(' '));
        lines
            .find(|(_, packed)| *packed == name)
            .map(|(commit, _)| commit.to_owned())
    })
}

/// The commit of a revision, or what is wrong with its name.
pub(super) fn commit(root: &Path, base: &str) -> anyhow::Result<String> {
    if let Some(commit) = find(root, base)? {
        return Ok(commit);
    }
    let names = must(root, None, ["for-each-ref", "--format=%(refname:short)"])?;
    let shallow = must(root, None, ["rev-parse", "--is-shallow-repository"])? == "true";
    let other = match shallow {
        true => {
            "this clone is shallow: fetch the revision first, e.g. `git fetch --unshallow`, or `fetch-depth: 0` in CI"
        }
        false => "give a branch, a tag or a commit; one of a remote may have to be fetched first",
    };
    usage!(
        "git has no revision `{base}`\n  hint: {}",
        suggest::hint_or(base, names.lines(), other)
    )
}

/// The commit that git takes a name for.
pub(crate) fn find(dir: &Path, name: &str) -> anyhow::Result<Option<String>> {
    if name.starts_with('-') || name.is_empty() {
        return Ok(None); // to git it would be an option
    }
    Ok(git(
        dir,
        None,
        [
            "rev-parse",
            "--verify",
            "--quiet",
            &format!("{name}^{{commit}}"),
        ],
    )?
    .ok())
}

/// What git says on stdout.
pub(crate) fn must<const N: usize>(
    dir: &Path,
    index: Option<&Path>,
    args: [&str; N],
) -> anyhow::Result<String> {
    git(dir, index, args)?
        .map_err(|words| anyhow::anyhow!("`git {}` failed: {words}", args.join(" ")))
}

/// What git says on stdout, or its last words where it fails.
fn git<const N: usize>(
    dir: &Path,
    index: Option<&Path>,
    args: [&str; N],
) -> anyhow::Result<Result<String, String>> {
    let output = command(dir, index, args)
        .output()
        .map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => {
                UsageError("git is needed for this, and is not on PATH".into()).into()
            }
            _ => anyhow::Error::from(e).context("failed to start git"),
        })?;
    if !output.status.success() {
        return Ok(Err(last_words(&output.stderr)));
    }
    let text =
        String::from_utf8(output.stdout).context("git names a file that is not valid UTF-8")?;
    Ok(Ok(text.strip_suffix('\n').unwrap_or(&text).to_owned()))
}

fn command<const N: usize>(dir: &Path, index: Option<&Path>, args: [&str; N]) -> Command {
    let mut command = Command::new("git");
    command
        .arg("-C")
        .arg(dir)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // A git hook starts orch with these set for its own repository.
    for name in HOOK_VARIABLES {
        command.env_remove(name);
    }
    command.env("LC_ALL", "C").env("GIT_OPTIONAL_LOCKS", "0");
    if let Some(index) = index {
        command.env("GIT_INDEX_FILE", index);
    }
    command
}

fn last_words(stderr: &[u8]) -> String {
    last_line(&String::from_utf8_lossy(stderr))
        .unwrap_or("it gave no reason")
        .to_owned()
}

/// Whether `path` or a folder above it is in `set`.
pub(super) fn is_below(path: &Path, set: &BTreeSet<PathBuf>) -> bool {
    path.ancestors().any(|above| set.contains(above))
}
