//! The page of every command and option, written from the command line's own declarations.

use std::fmt::Write as _;

use clap::{Arg, Command, CommandFactory as _, ValueEnum as _};

use crate::cli::args::Args;
use crate::cli::exit::Exit;
use crate::cli::groups::GROUPS;

const HEAD: &str = "\
# Every command and option

For those who look up an option. This page is generated: `orch help run` prints its part of it. [Commands](commands.md) shows how
they are used.

    orch help run

What can be relied on from release to release: names of commands and options, their values, the
[exit codes](#exit-codes), and the JSON that `orch schema --of run` describes. JSON may get further fields.
";

/// Variables that no option names. Those of options come from the command line's declarations.
const VARIABLES: &[(&str, &str)] = &[
    (
        "ORCH_TORCH_INDEX",
        "[where PyTorch comes from](install.md#pytorch-without-cuda) without an NVIDIA GPU; `pypi`: as with one",
    ),
    (
        "ORCH_DUCKDB",
        "your DuckDB library, version 1.5, for the [history](history.md)",
    ),
    (
        "ORCH_BROWSER",
        "the Chromium in which browser targets run, instead of orch's own",
    ),
    (
        "ORCH_ORT_WEB",
        "the folder of ONNX Runtime Web for a [generated test](generated-tests.md) of a browser target",
    ),
    (
        "ORCH_TRANSFORMERS_JS",
        "the packages of Transformers.js for a [generated test](generated-tests.md)",
    ),
    (
        "ORCH_ADB",
        "the `adb` for [Android devices](hardware/qnn-android.md); default: the one on `PATH`",
    ),
    (
        "ORCH_KEY_SALT",
        "a secret mixed into the digests of declared variables: [security](security.md)",
    ),
    (
        "ORCH_REMOTE",
        "the address of a store shared with other machines: [remote stores](remote.md)",
    ),
    ("ORCH_REMOTE_MODE", "`read-write` or `read-only`"),
    (
        "ORCH_REMOTE_KEY",
        "the shared secret that signs results of the remote store",
    ),
    (
        "ORCH_REMOTE_OPTION_",
        "followed by a name: an option of the remote store, such as its region or password",
    ),
    (
        "ORCH_EXECUTOR",
        "the address of a server whose workers execute steps: [remote execution](remote-execution.md)",
    ),
    (
        "ORCH_EXECUTOR_OPTION_",
        "followed by a name: an option of that server, such as its token",
    ),
    (
        "ORCH_DEVICE_LOCK_DIR",
        "a folder for the [locks of devices](measuring.md#several-orch-processes), instead of `/tmp/orch-devices`",
    ),
    (
        "ORCH_DAEMON",
        "the folder of the socket of [`orch worker daemon`](daemon.md), or `off`: runs do not call it",
    ),
    (
        "ORCH_SANDBOX",
        "`off` turns the sandbox of steps off: [security](security.md)",
    ),
    (
        "ORCH_PIDS_MAX",
        "most processes and threads of a run, where orch can create a control group; default: 1,024 per core, at least 4,096",
    ),
    (
        "ORCH_MOCK_DEVICES",
        "comma-separated backends for which everything is built and nothing runs (`MOCK`)",
    ),
];

/// Variables of other programs that orch heeds.
const FOREIGN: &[(&str, &str)] = &[
    (
        "ANDROID_SERIAL",
        "the Android device to use where a target names none",
    ),
    (
        "QNN_SDK_ROOT",
        "the folder of Qualcomm's SDK, for [Android devices](hardware/qnn-android.md)",
    ),
    (
        "HF_HOME",
        "for `weights: hub`: the folder of the Hub's files",
    ),
    (
        "HF_HUB_OFFLINE",
        "for `weights: hub`: `1` forbids network access",
    ),
    (
        "COLUMNS",
        "the width of tables if the output is no terminal; default 100",
    ),
    ("NO_COLOR", "no colour (also `--color never`)"),
];

/// Variables between orch and its own processes, or its shell completion.
const PRIVATE: &[&str] = &[
    "ORCH_LISTEN_FD",
    "ORCH_RESULT_FD",
    "ORCH_RUN",
    "ORCH_COMPLETE",
];

/// The whole page.
fn page() -> String {
    let root = Args::command();
    let mut out = HEAD.to_owned();
    out.push_str("\n## Exit codes\n\n| exit code | meaning |\n|---|---|\n");
    for exit in Exit::value_variants() {
        let value = exit.to_possible_value().expect("BUG: no exit is hidden");
        let meaning = value
            .get_help()
            .expect("BUG: each exit has a doc comment")
            .to_string();
        let _ = writeln!(out, "| {} | {meaning} |", *exit as u8);
    }
    out.push_str("\n## Environment variables\n\n| variable | meaning |\n|---|---|\n");
    for (variable, option) in variables_of_options(&root) {
        let _ = writeln!(out, "| `{variable}` | as `{option}` |");
    }
    for (variable, meaning) in VARIABLES.iter().chain(FOREIGN) {
        let open = if variable.ends_with('_') { "…" } else { "" };
        let _ = writeln!(out, "| `{variable}{open}` | {meaning} |");
    }
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

/// Each variable that stands for an option, with the option, each once.
fn variables_of_options(root: &Command) -> Vec<(String, String)> {
    let of_commands = root.get_subcommands().flat_map(Command::get_arguments);
    let mut found: Vec<(String, String)> = Vec::new();
    for arg in root.get_arguments().chain(of_commands) {
        let (Some(variable), Some(long)) = (arg.get_env(), arg.get_long()) else {
            continue;
        };
        let variable = variable.to_string_lossy().into_owned();
        if !found.iter().any(|(known, _)| *known == variable) {
            found.push((variable, format!("--{long}")));
        }
    }
    found
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

/// The names of orch's own variables that stand as literals in a source.
fn variables_in(text: &str) -> Vec<String> {
    let program = text.split("mod tests {").next().unwrap_or_default();
    let literals = program.match_indices("\"ORCH_").map(|(at, _)| {
        program[at + 1..]
            .chars()
            .take_while(|c| c.is_ascii_uppercase() || *c == '_')
            .collect()
    });
    literals.collect()
}

/// The Rust sources below a folder that are not of tests alone.
fn sources(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "tests" {
            found.extend(sources(&path));
        } else if name.ends_with(".rs") && !name.ends_with("tests.rs") {
            found.push(path);
        }
    }
    found
}

#[test]
fn every_variable_that_orch_reads_is_on_the_page_and_no_other() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
    let mut read: Vec<String> = Vec::new();
    for path in sources(folder.as_ref()) {
        read.extend(variables_in(&std::fs::read_to_string(path).unwrap()));
    }
    let of_options: Vec<String> = variables_of_options(&Args::command())
        .into_iter()
        .map(|(variable, _)| variable)
        .collect();
    let listed = |name: &str| {
        VARIABLES.iter().any(|(known, _)| *known == name)
            || PRIVATE.contains(&name)
            || of_options.iter().any(|known| known == name)
    };
    let missing: Vec<_> = read
        .iter()
        .filter(|name| *name != "ORCH_" && !listed(name))
        .collect();
    assert!(missing.is_empty(), "not on the page: {missing:?}");
    let gone: Vec<_> = VARIABLES
        .iter()
        .filter(|(name, _)| !read.iter().any(|known| known.starts_with(name)))
        .collect();
    assert!(gone.is_empty(), "no source reads them: {gone:?}");
}
