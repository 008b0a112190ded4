//! `--resume`: goes on where the last run of the same command line was cut off.
//!
//! What it had done is in the store and hits by itself. What the journal adds is what must not be done twice all the same:
//! what was requested with `--rerun` and is done, and what failed.

use std::collections::BTreeMap;

use crate::base::figures::counted;
use crate::journal::{self, Run};
use crate::record::Outcome;
use crate::session::{Planned, Session, Tell, run_log, runs_dir, usage};

const FLAG: &str = " --resume";

impl Session {
    /// Takes out of a plan what the last run of the same command line has done, and says which run that is.
    pub fn resume(
        &self,
        planned: &mut Planned,
        command: &str,
        tell: Tell<'_>,
    ) -> anyhow::Result<()> {
        let runs = cut_off(self, command)?;
        let last = &runs[0];
        let mut outcomes = BTreeMap::new();
        for ran in runs
            .iter()
            .rev()
            .flat_map(|run| &run.steps)
            .filter(|ran| ran.outcome != Outcome::Incomplete)
        {
            outcomes.insert(ran.step.as_str(), ran.outcome);
        }
        for (step, outcome) in &outcomes {
            let Some(id) = planned.project.plan.find(step) else {
                continue;
            };
            planned.options.rerun.remove(&id);
            if *outcome != Outcome::Pass {
                planned.options.stands.insert(id);
            }
        }
        let passed = outcomes
            .values()
            .filter(|outcome| **outcome == Outcome::Pass)
            .count();
        let how = if last.end.is_some() {
            "interrupted"
        } else {
            "killed"
        };
        let interrupted = last
            .steps
            .iter()
            .filter(|ran| ran.outcome == Outcome::Incomplete)
            .count();
        tell(&format!(
            "resumes the run of {}, which was {how}: {} had passed, {} had ended otherwise, {} had begun",
            last.head.started,
            counted(passed, "step"),
            outcomes.len() - passed,
            last.cut_off.len() + interrupted,
        ));
        Ok(())
    }
}

/// The run that is resumed, and those that it resumed itself, newest first.
fn cut_off(session: &Session, command: &str) -> anyhow::Result<Vec<Run>> {
    let folder = run_log::folder();
    let command = plain(command);
    let mut found: Vec<Run> = Vec::new();
    for run in journal::runs(&runs_dir(&session.locations)?)? {
        let run = run?;
        if run.head.folder != folder || plain(&run.head.command) != command {
            continue;
        }
        let is_cut_off = !run.goes_on && run.end.as_ref().is_none_or(|end| end.interrupted);
        let resumed = run.head.command.contains(FLAG);
        match (is_cut_off, found.is_empty()) {
            (true, _) => found.push(run),
            (false, true) if run.goes_on => {
                usage!(
                    "the run of this command line that began at {} still goes on",
                    run.head.started
                )
            }
            (false, true) => {
                usage!(
                    "nothing is to be resumed: the last run of this command line, of {}, came to its end\n  hint: leave \
                     out --resume; `--rerun failed` does again what failed",
                    run.head.started
                )
            }
            (false, false) => break,
        }
        if !resumed {
            break;
        }
    }
    if found.is_empty() {
        usage!(
            "nothing is to be resumed: no run of this command line is on record\n  line: {command}\n  folder: {folder}\n  \
             hint: `orch history` lists those that are; a run is resumed with the same arguments and --resume"
        );
    }
    Ok(found)
}

/// A command line without the flag.
fn plain(command: &str) -> String {
    command.replace(FLAG, "")
}
