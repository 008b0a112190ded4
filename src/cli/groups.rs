//! The list of commands in `orch --help`, by what a user wants.

use std::fmt::Write as _;

use clap::error::{ContextKind, ContextValue};
use clap::{Command, CommandFactory as _, FromArgMatches as _};

use crate::cli::args::Args;

/// The commands of each group, in the order in which they are shown.
pub(super) const GROUPS: &[(&str, &[&str])] = &[
    ("Start", &["init", "add", "setup", "devices", "doctor"]),
    ("Run", &["run", "bench", "verify"]),
    (
        "Look",
        &[
            "matrix",
            "report",
            "serve",
            "site",
            "submit",
            "compare",
            "history",
            "query",
            "capabilities",
            "output",
        ],
    ),
    (
        "Why",
        &["plan", "explain", "log", "profile", "blame", "bisect"],
    ),
    (
        "More",
        &[
            "accept",
            "toolchain",
            "cache",
            "worker",
            "mcp",
            "schema",
            "completions",
        ],
    ),
];

/// Parses the command line.
pub(super) fn parse() -> Result<Args, clap::Error> {
    let mut command = grouped(Args::command());
    let matches = command
        .try_get_matches_from_mut(std::env::args_os())
        .map_err(|error| without_hidden(error, &command))?;
    Args::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

/// An error whose list of commands, if it has one, leaves out the hidden ones as the page of help does.
fn without_hidden(mut error: clap::Error, command: &Command) -> clap::Error {
    let Some(ContextValue::Strings(names)) = error.get(ContextKind::ValidSubcommand) else {
        return error;
    };
    let is_hidden = |name: &str| {
        let found = command.find_subcommand(name);
        found.is_some_and(Command::is_hide_set)
    };
    let shown = names.iter().filter(|name| !is_hidden(name)).cloned();
    let shown = ContextValue::Strings(shown.collect());
    error.insert(ContextKind::ValidSubcommand, shown);
    error
}

/// The command with its subcommands in groups on the page of help.
fn grouped(command: Command) -> Command {
    let header = command.get_styles().get_header();
    let literal = command.get_styles().get_literal();
    let width = GROUPS
        .iter()
        .flat_map(|(_, names)| names.iter().map(|name| name.len()))
        .max()
        .unwrap_or_default();
    let mut list = String::new();
    for (group, names) in GROUPS {
        let _ = writeln!(list, "{header}{group}:{header:#}");
        for name in *names {
            let about = command.find_subcommand(name).map(summary);
            let _ = writeln!(
                list,
                "  {literal}{name:width$}{literal:#}  {}",
                about.unwrap_or_default()
            );
        }
        list.push('\n');
    }
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{list}{header}Options:{header:#}\n{{options}}{{after-help}}"
    );
    command.help_template(template)
}

/// The first clause of what a command is about: the rest stands on its own page of help.
fn summary(command: &Command) -> String {
    let about = command.get_about().map(ToString::to_string);
    let about = about.unwrap_or_default();
    let end = about.find([':', ';']).unwrap_or(about.len());
    about[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_that_is_not_hidden_is_in_one_group() {
        let command = Args::command();
        let mut known: Vec<&str> = command
            .get_subcommands()
            .filter(|command| !command.is_hide_set())
            .map(Command::get_name)
            .collect();
        let mut listed: Vec<&str> = GROUPS
            .iter()
            .flat_map(|(_, names)| names.iter().copied())
            .collect();
        known.sort_unstable();
        listed.sort_unstable();
        assert_eq!(known, listed);
    }
}
