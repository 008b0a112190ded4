//! The page of every command and option, written from the command line's own declarations.

use std::fmt::Write as _;

use clap::{Arg, Command, CommandFactory as _};

use crate::cli::args::Args;
use crate::cli::groups::GROUPS;

const HEAD: &str = "\
# Every command and option

For those who look up an option. This page is generated: `orch help run` prints its part of it. [Commands](commands.md) shows how
they are used.

    orch help run

What can be relied on from release to release: names of commands and options, their values, the
[exit codes](results.md#exit-codes), and the JSON that `orch schema --of run` describes. JSON may get further fields.
";

/// The whole page.
fn page() -> String {
    let root = Args::command();
    let mut out = HEAD.to_owned();
    out.push_str("\n## All commands\n\n");
    let global: Vec<&Arg> = root
        .get_arguments()
        .filter(|arg| arg.is_global_set())
        .collect();
    out.push_str(&table(&global));
    for (group, names) in GROUPS {
        let _ = writeln!(out, "\n## {group}");
        for name in *names {
            let command = root
                .find_subcommand(name)
                .expect("BUG: groups name commands");
            section(&mut out, command, &format!("orch {name}"));
        }
    }
    out
}

/// A command, and then those below it.
fn section(out: &mut String, command: &Command, name: &str) {
    let about = command
        .get_long_about()
        .or_else(|| command.get_about())
        .map(ToString::to_string);
    let _ = writeln!(out, "\n### {name}\n\n{}.", about.unwrap_or_default());
    let arguments: Vec<&Arg> = command
        .get_arguments()
        .filter(|arg| !arg.is_global_set() && !arg.is_hide_set() && arg.get_id() != "help")
        .collect();
    let usage = command.clone().bin_name(name).render_usage().to_string();
    let _ = writeln!(out, "\n```text\n{}\n```", usage.trim_end());
    if !arguments.is_empty() {
        let _ = write!(out, "\n{}", table(&arguments));
    }
    for below in command
        .get_subcommands()
        .filter(|below| !below.is_hide_set() && below.get_name() != "help")
    {
        section(out, below, &format!("{name} {}", below.get_name()));
    }
}

fn table(arguments: &[&Arg]) -> String {
    let mut out = String::from("| option | meaning |\n|---|---|\n");
    for arg in arguments {
        let _ = writeln!(out, "| `{}` | {} |", escaped(&shown(arg)), meaning(arg));
    }
    out
}

/// `-t, --target <TARGET>`, or `<CASE>`.
fn shown(arg: &Arg) -> String {
    let names: Vec<String> = arg
        .get_short()
        .map(|short| format!("-{short}"))
        .into_iter()
        .chain(arg.get_long().map(|long| format!("--{long}")))
        .collect();
    let takes_value = arg.get_action().takes_values();
    let values = arg
        .get_value_names()
        .filter(|_| takes_value)
        .map(|values| values.iter().map(|value| format!("<{value}>")).collect());
    let values: Vec<String> = values.unwrap_or_default();
    let mut words = vec![names.join(", ")];
    words.extend(values);
    words.retain(|word| !word.is_empty());
    words.join(" ")
}

fn meaning(arg: &Arg) -> String {
    let help = arg
        .get_long_help()
        .or_else(|| arg.get_help())
        .map(ToString::to_string);
    let help = help.unwrap_or_default();
    assert!(
        !help.is_empty(),
        "{} has no help: give its field a doc comment",
        shown(arg)
    );
    let mut text = help.replace('\n', " ");
    let defaults: Vec<_> = arg
        .get_default_values()
        .iter()
        .map(|value| format!("`{}`", value.to_string_lossy()))
        .collect();
    let takes_value = arg.get_action().takes_values();
    let values: Vec<_> = arg
        .get_possible_values()
        .iter()
        .filter(|value| takes_value && !value.is_hide_set())
        .map(|value| format!("`{}`", value.get_name()))
        .collect();
    let mut further = Vec::new();
    if !values.is_empty() {
        further.push(format!("values {}", values.join(", ")));
    }
    if takes_value && !defaults.is_empty() {
        further.push(format!("default {}", defaults.join(", ")));
    }
    if let Some(variable) = arg.get_env() {
        further.push(format!("variable `{}`", variable.to_string_lossy()));
    }
    if !further.is_empty() {
        let _ = write!(text, " ({})", further.join("; "));
    }
    escaped(&text)
}

/// A text within a table's cell.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|")
}

#[test]
fn the_page_of_every_option_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/reference.md");
    let text = page();
    if std::env::var_os("ORCH_BLESS").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    pretty_assertions::assert_eq!(
        text,
        written,
        "run the test with ORCH_BLESS=1 to accept the new text"
    );
}
