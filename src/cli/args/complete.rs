//! Completions: a script for each shell that asks orch itself, which knows the names of the spec in this folder.
//!
//! The spec is the one on the line, or the usual one. One that cannot be read completes nothing and says nothing.

use std::path::{Path, PathBuf};

use clap::CommandFactory;
pub(in crate::cli) use clap_complete::Shell;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::{CompleteEnv, Shells};

use super::Args;
use crate::matrix::AUTO;
use crate::session::{self, Project, Request};
use crate::spec::is_spec;

/// The variable by which a script of a shell requests completions, and names the shell.
const VARIABLE: &str = "ORCH_COMPLETE";
/// Bash ends words at colons, which are in the names of steps and cases.
const COLONS: &str = "COMP_WORDBREAKS=${COMP_WORDBREAKS//:}\n";

/// What a user sources when a shell starts.
pub(in crate::cli) fn script(shell: Shell) -> String {
    let name = shell.to_string();
    let shells = Shells::builtins();
    let completer = shells
        .completer(&name)
        .expect("BUG: each shell has its completer");
    let mut script = Vec::new();
    let written = completer.write_registration(VARIABLE, "orch", "orch", "orch", &mut script);
    written.expect("BUG: memory takes what is written");
    let before = if shell == Shell::Bash { COLONS } else { "" };
    format!("{before}{}", String::from_utf8_lossy(&script))
}

/// Answers a shell that asks for completions, and ends. Else it does nothing.
pub(in crate::cli) fn answer() {
    CompleteEnv::with_factory(Args::command)
        .var(VARIABLE)
        .complete();
}

pub(super) fn models() -> ArgValueCandidates {
    names(|path| Ok(session::spec(path)?.models.into_keys().collect()))
}

pub(in crate::cli) fn targets() -> ArgValueCandidates {
    names(|path| {
        Ok(session::spec(path)?
            .targets
            .into_keys()
            .chain([AUTO.to_owned()])
            .collect())
    })
}

pub(super) fn cases() -> ArgValueCandidates {
    names(|path| Ok(of_cases(&Project::load(&Request::all(path))?).collect()))
}

/// Completions of steps, as globs take them.
pub(in crate::cli) fn steps() -> ArgValueCandidates {
    names(|path| {
        Ok(Project::load(&Request::all(path))?
            .plan
            .names()
            .map(str::to_owned)
            .collect())
    })
}

pub(super) fn cases_and_steps() -> ArgValueCandidates {
    names(|path| {
        let project = Project::load(&Request::all(path))?;
        Ok(of_cases(&project)
            .chain(project.plan.names().map(str::to_owned))
            .collect())
    })
}

fn of_cases(project: &Project) -> impl Iterator<Item = String> {
    project.plan.cases.iter().map(|planned| planned.case.id())
}

fn names(of: fn(&Path) -> anyhow::Result<Vec<String>>) -> ArgValueCandidates {
    ArgValueCandidates::new(move || {
        of(&path())
            .unwrap_or_default()
            .into_iter()
            .map(CompletionCandidate::new)
            .collect::<Vec<_>>()
    })
}

/// The first file on the line that may be a spec.
fn path() -> PathBuf {
    let words = std::env::args_os()
        .skip_while(|word| word != "--")
        .map(PathBuf::from);
    let mut found = words.filter(|path| is_spec(path) && path.is_file());
    found.next().unwrap_or_else(|| "specs/all.yaml".into())
}
