//! Measures both sides of a comparison anew, in turns: stored figures of another minute only suspect.
//!
//! The base is laid out by git in a folder of its own. Both sides use one store, so that what the base made is there still, and only
//! measurements run again. Why in turns and both: `docs/performance.md`.

#![expect(
    clippy::disallowed_methods,
    reason = "starts orch again for a confirming round"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail, ensure};
use rand::seq::SliceRandom as _;

use crate::base::figures::counted;
use crate::base::{program, temporary};
use crate::report::compare::{Comparison, Remeasured};
use crate::report::{ReportDoc, Round};
use crate::session::{Locations, Tell, absolute, git};
use crate::worker::Cancel;

/// The least number of processes of each side.
const ROUNDS: u32 = 5;
/// and at most so many, where a busy machine keeps them apart.
const MOST: u32 = 25;

/// The base's files, as long as it lives.
struct Checkout {
    repository: PathBuf,
    at: temporary::Folder,
}

impl Checkout {
    /// A revision of the repository around the current folder.
    fn of(revision: &str) -> anyhow::Result<Self> {
        let repository = PathBuf::from(git::must(
            Path::new("."),
            None,
            ["rev-parse", "--show-toplevel"],
        )?);
        let temporary = std::env::temp_dir();
        // What a killed one left goes, in the folder and in the repository.
        temporary::sweep(&temporary);
        git::must(&repository, None, ["worktree", "prune"])?;
        let at =
            temporary::make_folder(&temporary).context("failed to make a folder for the base")?;
        let tree = at.path().join("base").display().to_string();
        git::must(
            &repository,
            None,
            ["worktree", "add", "--detach", "--quiet", &tree, revision],
        )?;
        Ok(Self { repository, at })
    }

    /// The folder that is the current one there.
    fn folder(&self) -> anyhow::Result<PathBuf> {
        Ok(self.at.path().join("base").join(git::must(
            Path::new("."),
            None,
            ["rev-parse", "--show-prefix"],
        )?))
    }
}

impl Drop for Checkout {
    fn drop(&mut self) {
        let tree = self.at.path().join("base").display().to_string();
        // What stays, the next one removes.
        let _ = git::must(
            &self.repository,
            None,
            ["worktree", "remove", "--force", &tree],
        );
    }
}

/// One side, and what its rounds found.
struct Side {
    folder: PathBuf,
    out: PathBuf,
    rounds: BTreeMap<String, Vec<Round>>,
}

/// Measures the cases whose times differ on both sides again, and adds to the comparison what that gave. The base's files
/// are those of the git revision.
pub fn confirm(
    locations: &Locations,
    revision: &str,
    comparison: &mut Comparison,
    cancel: &Cancel,
    tell: Tell<'_>,
) -> anyhow::Result<()> {
    let cases = comparison.suspects();
    if cases.is_empty() {
        // A mistyped revision would be noticed only on the day on which something is slower.
        git::commit(Path::new("."), revision)?;
        comparison.remeasured(BTreeMap::new());
        return Ok(());
    }
    let spec = comparison.head.spec.clone();
    let checkout = Checkout::of(revision)?;
    let scratch = tempfile::tempdir().context("failed to make a folder for reports")?;
    let side = |folder: PathBuf, name: &str| Side {
        folder,
        out: scratch.path().join(name),
        rounds: BTreeMap::new(),
    };
    let mut sides = [
        side(checkout.folder()?, "base"),
        side(std::env::current_dir()?, "head"),
    ];
    ensure!(
        sides[0].folder.join(&spec).is_file(),
        "`{spec}` is not in {revision}\n  hint: `--confirm` takes the git revision that the base was measured at"
    );
    let longer: Vec<String> = cases
        .iter()
        .filter(|case| comparison.is_short(case))
        .cloned()
        .collect();
    let mut open = cases.clone();
    for round in 1..=MOST {
        tell(&format!(
            "round {round}: base and head of {}",
            counted(open.len(), "case")
        ));
        let mut order = [0, 1];
        order.shuffle(&mut rand::rng());
        for at in order {
            ensure!(
                !cancel.is_cancelled(),
                "interrupted before both sides were measured"
            );
            measure(locations, &spec, &open, &longer, &mut sides[at])?;
        }
        for (side, whose) in sides.iter().zip(["base", "head"]) {
            // A case that one side cannot run would pass for one whose times are as before.
            let has_none = |case: &&String| side.rounds.get(*case).is_none_or(Vec::is_empty);
            if let Some(case) = cases.iter().find(has_none) {
                bail!(
                    "the {whose} of {case} could not be measured again, so nothing tells whether it is slower"
                );
            }
        }
        if round >= ROUNDS {
            open.retain(|case| both(&sides, case).is_some_and(|found| !found.has_converged()));
        }
        if open.is_empty() {
            break;
        }
    }
    let found = cases
        .iter()
        .filter_map(|case| Some((case.clone(), both(&sides, case)?)));
    comparison.remeasured(found.collect());
    Ok(())
}

/// What was found of a case that both sides have.
fn both([base, head]: &[Side; 2], case: &str) -> Option<Remeasured> {
    Some(Remeasured {
        base: base.rounds.get(case)?.clone(),
        head: head.rounds.get(case)?.clone(),
    })
}

/// One round of one side: a process for each case, as any run has.
fn measure(
    locations: &Locations,
    spec: &str,
    cases: &[String],
    longer: &[String],
    side: &mut Side,
) -> anyhow::Result<()> {
    let mut run = Command::new(program::path().context("failed to find orch itself")?);
    run.arg("--cache-dir")
        .arg(absolute(&locations.cache_dir)?)
        .current_dir(&side.folder);
    if let Some(dir) = &locations.env_dir {
        run.arg("--env-dir").arg(absolute(dir)?);
    }
    run.args([
        "run",
        spec,
        "--json",
        "--quiet",
        "--rounds",
        "1",
        "--rerun",
        "run",
        "--no-remote",
        "--out-dir",
    ])
    .arg(&side.out);
    // How often each side is measured is decided here.
    run.args(["--remeasure", "0"]);
    for case in cases {
        run.args(["--case", case]);
        if longer.contains(case) {
            run.args(["--longer", case]);
        }
    }
    // An interrupt reaches it as it reaches this process.
    let output = run
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("failed to start orch")?;
    let Ok(doc) = serde_json::from_slice::<ReportDoc>(&output.stdout) else {
        bail!(
            "the run in `{}` gave no report ({})",
            side.folder.display(),
            output.status
        );
    };
    for case in doc.cases {
        let rounds = case
            .metrics
            .map(|metrics| metrics.rounds)
            .unwrap_or_default();
        side.rounds.entry(case.case).or_default().extend(rounds);
    }
    Ok(())
}
