//! The arguments that all commands have, and those that several share; each command's own stand with it.

mod complete;
mod selection;
mod spec;

use std::iter;
use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::{ContextKind, ContextValue};
use clap::{ColorChoice, CommandFactory, Parser};

use crate::base::{suggest, variable};
use crate::cli::cmd::Command;
use crate::cli::printer::Verbosity;
use crate::provision::Provision;
use crate::session::{Locations, provision};
use crate::store::DiskStore;
use crate::worker::Cancel;

pub(super) use complete::{Shell, answer, script, steps, targets};
pub(super) use selection::{expression, given};
pub(super) use spec::{NameArgs, ScopeArgs, SpecArgs};

/// The spec of a command line that names none.
pub(super) const SPEC: &str = "specs/all.yaml";

/// A build system for model tests: which model works on which hardware, at which precision, how fast, and what broke.
#[derive(Debug, Parser)]
#[command(name = "orch", version, max_term_width = 100)]
#[command(
    after_help = "Exit codes: 0 all that ran passed · 1 a case failed or got worse · 2 bad usage, spec or file · 3 nothing ran · \
    70 a bug in orch · 130 interrupted"
)]
pub(super) struct Args {
    #[command(subcommand)]
    pub(super) command: Command,
    /// The folder in which results, artefacts and environments are kept
    #[arg(
        long,
        global = true,
        env = "ORCH_CACHE_DIR",
        default_value = "cache",
        value_name = "DIR"
    )]
    pub(super) cache_dir: PathBuf,
    /// The folder in which Python environments and workers are installed [default: `envs` in the store]
    #[arg(
        long,
        global = true,
        env = "ORCH_ENV_DIR",
        value_name = "DIR",
        hide_short_help = true
    )]
    pub(super) env_dir: Option<PathBuf>,
    /// A Python interpreter that has all packages, used instead of orch's own environments
    #[arg(
        long,
        global = true,
        env = "ORCH_PYTHON",
        value_name = "PATH",
        hide_short_help = true
    )]
    pub(super) python: Option<PathBuf>,
    /// A folder of locks used instead of orch's own (`torch.txt`, …); `orch setup torch --torch-index` writes one
    #[arg(
        long,
        global = true,
        env = "ORCH_LOCKS",
        value_name = "DIR",
        hide_short_help = true
    )]
    pub(super) locks: Option<PathBuf>,
    /// Print every step, even instant ones; twice: also when each begins, and why
    #[arg(long, short, global = true, env = "ORCH_VERBOSE", action = clap::ArgAction::Count, hide_short_help = true)]
    verbose: u8,
    /// Print only failures and the result
    #[arg(long, short, global = true, hide_short_help = true)]
    quiet: bool,
    /// When to use colour
    #[arg(long, global = true, value_enum, default_value_t = ColorChoice::Auto, hide_short_help = true)]
    color: ColorChoice,
}

/// What clap does not say about a wrong command line.
pub(super) fn hint(error: &clap::Error) -> Option<String> {
    from_variable(error).or_else(|| meant(error))
}

/// The variable that a wrong value comes from: clap names only the option, which nobody may have given.
fn from_variable(error: &clap::Error) -> Option<String> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let option = text(ContextKind::InvalidArg)?.strip_prefix("--")?;
    let option = option.split([' ', '.']).next()?;
    let value = text(ContextKind::InvalidValue)?;
    let command = Args::command();
    let name = iter::once(&command)
        .chain(command.get_subcommands())
        .flat_map(clap::Command::get_arguments)
        .filter(|arg| arg.get_long() == Some(option))
        .find_map(clap::Arg::get_env)?
        .to_str()?;
    let is_set = variable::text(name).is_some_and(|given| given == value);
    is_set.then(|| format!("the variable {name} is set to `{value}`"))
}

/// The command that was meant, where clap, which compares letters at their places, finds none: `rnu` for `run`.
fn meant(error: &clap::Error) -> Option<String> {
    let is_suggested = error.get(ContextKind::SuggestedSubcommand).is_some();
    let Some(ContextValue::String(given)) = error
        .get(ContextKind::InvalidSubcommand)
        .filter(|_| !is_suggested)
    else {
        return None;
    };
    let command = Args::command();
    let name = suggest::nearest(
        given,
        command.get_subcommands().map(clap::Command::get_name),
    )?;
    Some(format!("did you mean `orch {name}`?"))
}

/// A whole number that is not 0.
pub(super) fn count<T: FromStr + Default + PartialEq>(text: &str) -> Result<T, &'static str> {
    let number = text.parse::<T>().ok();
    number
        .filter(|number| *number != T::default())
        .ok_or("give a whole number from 1 on")
}

/// A whole number, 0 included.
pub(super) fn whole<T: FromStr>(text: &str) -> Result<T, &'static str> {
    text.parse::<T>().map_err(|_| "give a whole number")
}

/// A library's values by the words that stand for them on a command line, each with its help.
pub(super) type Words<T> = [(&'static str, T, &'static str)];

pub(super) fn one_of<T: Copy + Send + Sync + 'static>(
    words: &'static Words<T>,
) -> impl TypedValueParser<Value = T> {
    let shown = words
        .iter()
        .map(|(word, _, help)| PossibleValue::new(word).help(*help));
    PossibleValuesParser::new(shown).map(|given| {
        let found = words.iter().find(|(word, ..)| *word == given);
        found.expect("BUG: clap lets only these words through").1
    })
}

impl Args {
    pub(super) fn verbosity(&self) -> Verbosity {
        match (self.quiet, self.verbose) {
            (true, _) => Verbosity::Quiet,
            (false, 0) => Verbosity::Usual,
            (false, 1) => Verbosity::Verbose,
            (false, _) => Verbosity::Everything,
        }
    }

    pub(super) fn apply_color(&self) {
        match self.color {
            ColorChoice::Auto => {}
            ColorChoice::Always => anstream::ColorChoice::Always.write_global(),
            ColorChoice::Never => anstream::ColorChoice::Never.write_global(),
        }
    }

    /// The variables by which another orch finds the same store, environments and locks.
    #[cfg(feature = "mcp")]
    pub(super) fn variables(&self) -> Vec<(&'static str, PathBuf)> {
        let given = [
            ("ORCH_CACHE_DIR", Some(&self.cache_dir)),
            ("ORCH_ENV_DIR", self.env_dir.as_ref()),
            ("ORCH_PYTHON", self.python.as_ref()),
            ("ORCH_LOCKS", self.locks.as_ref()),
        ];
        given
            .into_iter()
            .filter_map(|(name, path)| Some((name, path?.clone())))
            .collect()
    }

    pub(super) fn locations(&self) -> Locations {
        let cache_dir = self.cache_dir.clone();
        let env_dir = self.env_dir.clone();
        Locations {
            cache_dir,
            env_dir,
            python: self.python.clone(),
            locks: self.locks.clone(),
        }
    }

    pub(super) fn provision(&self) -> anyhow::Result<Provision> {
        provision(&self.locations(), Cancel::default())
    }

    pub(super) fn store(&self) -> anyhow::Result<DiskStore> {
        self.locations().store()
    }

    /// The store for a command that only looks, which makes none.
    pub(super) fn store_to_look(&self) -> anyhow::Result<DiskStore> {
        self.locations().store_to_look()
    }
}
