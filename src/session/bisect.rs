//! `orch bisect`: the release of a runtime since which a case is wrong. What is tried is the program of `orch blame`, which
//! shows the fault on a few nodes and needs nothing of orch: a release that this orch cannot load can be tried as well.

#![expect(
    clippy::disallowed_methods,
    reason = "starts the program that shows the fault"
)]

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::base::process::run_within;
use crate::event::Listener;
use crate::exec::alone::share_cpu;
use crate::explain::bisect::{Since, Trial, first_wrong};
use crate::session::{Finding, Found, Request, Session, Settings, Suspects, Tell, usage};
use crate::store::Scratch;

/// The program in the folder that shows a fault, and how it ends.
const PROGRAM: &str = "run.py";
const RIGHT: i32 = 0;
const WRONG: i32 = 1;
/// What a release is installed with, in this order until the program runs: releases of before NumPy 2 were built for the one
/// of their time, and do not say so.
const NUMPY: [&str; 2] = ["numpy", "numpy<2"];
/// The longest that the program may take.
const LIMIT: Duration = Duration::from_secs(300);
/// How often the program runs on the release that is known to be wrong, to see whether it gives the same each time.
const TIMES: u32 = 3;

/// The releases to look at: those between these two. None means the oldest, and the one that the case ran on.
#[derive(Debug, Default)]
pub struct Range<'a> {
    pub good: Option<&'a str>,
    pub bad: Option<&'a str>,
}

/// What halving the releases of a runtime came to.
pub struct Bisected {
    pub case: String,
    pub finding: Finding,
    pub package: String,
    pub since: Since,
    /// The releases that were tried.
    pub trials: Vec<(String, Trial)>,
    /// The newest release, where it is newer than the wrong one.
    pub newest: Option<(String, Trial)>,
}

impl Session {
    /// Finds the release since which the one case that `case` matches is wrong.
    pub fn bisect(
        &self,
        request: &Request,
        case: &str,
        range: &Range<'_>,
        settings: &Settings,
        (listener, tell): (&dyn Listener, Tell<'_>),
    ) -> anyhow::Result<Bisected> {
        let globs = [case.to_owned()];
        let suspects = Suspects {
            globs: &globs,
            only_wrong: false,
        };
        let mut blamed = self.blame(request, &suspects, settings, (listener, tell))?;
        let (Some(blamed), true) = (blamed.pop(), blamed.is_empty()) else {
            usage!("`{case}` matches several cases: name one");
        };
        let case = blamed.case;
        let Found { finding, repro } = match blamed.answer {
            Ok(found) => found,
            Err(why) => usage!("nothing was found out about `{case}`: {why}"),
        };
        if finding.module.is_some() {
            usage!(
                "{} makes `{case}` wrong, and only the releases of runtimes are tried\n  hint: `orch blame {case}` names the module",
                finding.runtime
            );
        }
        let Some(repro) = repro else {
            usage!(
                "no program shows that `{case}` is wrong\n  hint: `orch blame {case}` prints what was found out"
            );
        };
        let package = finding.runtime.clone();
        let scratch = self.store.scratch()?;
        tell(&format!("listing the releases of {package}"));
        let all = self
            .provision
            .releases(&package, &scratch.dir("index")?, &|_| {})?;
        let bad = range.bad.unwrap_or(&finding.version);
        let last = place(&all, bad, &package)?;
        let first = range
            .good
            .map_or(Ok(0), |good| place(&all, good, &package))?;
        if first >= last {
            usage!(
                "{package} {} is not older than {bad}: --good names a release before --bad",
                all[first]
            );
        }
        let trial = |release: &str| -> anyhow::Result<Trial> {
            let times = if release == bad { TIMES } else { 1 };
            let trial = self.trial((&package, release), (&repro, times), &scratch, tell)?;
            tell(&format!("{package} {release}: {}", trial_word(&trial)));
            Ok(trial)
        };
        let (since, trials) = first_wrong(&all[first..=last], trial)?;
        let newest = match all.last() {
            Some(newest) if newest != bad => Some((newest.clone(), trial(newest)?)),
            _ => None,
        };
        Ok(Bisected {
            case,
            finding,
            package,
            since,
            trials,
            newest,
        })
    }

    /// Tries a release, in an environment that goes with the run.
    fn trial(
        &self,
        (package, release): (&str, &str),
        (repro, times): (&Path, u32),
        scratch: &Scratch,
        tell: Tell<'_>,
    ) -> anyhow::Result<Trial> {
        let run = |python: &Path| {
            let _processor = share_cpu(&self.cancel, tell)?;
            run(python, repro)
        };
        let home = scratch.dir("release")?.join("env");
        let mut trial = Trial::Untestable(String::new());
        for numpy in NUMPY {
            trial = match self
                .provision
                .release((package, release), numpy, &home, &|_| {})?
            {
                Ok(python) => run(&python)?,
                Err(why) => Trial::Untestable(why),
            };
            if trial == Trial::Right || trial == Trial::Wrong {
                break;
            }
        }
        let is_tested = trial == Trial::Right || trial == Trial::Wrong;
        for _ in 1..times {
            if is_tested && run(&home.join("bin/python"))? != trial {
                usage!(
                    "flaky: {package} {release} is right and wrong in turn, so no release can be found\n  \
                     hint: `python {PROGRAM}` in `{}` shows it",
                    repro.display()
                );
            }
        }
        Ok(trial)
    }
}

/// Runs the program that shows the fault.
fn run(python: &Path, repro: &Path) -> anyhow::Result<Trial> {
    let mut program = Command::new(python);
    program.arg(PROGRAM).current_dir(repro);
    let Some(output) = run_within(&mut program, LIMIT, true)? else {
        let limit = LIMIT.as_secs();
        return Ok(Trial::Untestable(format!("it ran longer than {limit} s")));
    };
    Ok(match output.status.code() {
        Some(RIGHT) => Trial::Right,
        Some(WRONG) => Trial::Wrong,
        _ => {
            let text = String::from_utf8_lossy(&output.stderr);
            let words = text.lines().rfind(|line| !line.trim().is_empty());
            let why = words.unwrap_or("it printed nothing").trim();
            Trial::Untestable(format!("{}: {why}", output.status))
        }
    })
}

/// The place of a release in the list.
fn place(all: &[String], release: &str, package: &str) -> anyhow::Result<usize> {
    let found = all.iter().position(|known| known == release);
    let Some(found) = found else {
        usage!(
            "the index has no {package} {release} for this machine\n  hint: it has {}",
            all.join(", ")
        );
    };
    Ok(found)
}

/// `right`, `wrong`, `skipped: why`.
pub fn trial_word(trial: &Trial) -> String {
    match trial {
        Trial::Right => "right".to_owned(),
        Trial::Wrong => "wrong".to_owned(),
        Trial::Untestable(why) => format!("skipped: {why}"),
    }
}
