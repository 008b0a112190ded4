//! `orch toolchain`: other versions of runtimes, as locks of a spec.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde_json::json;

use crate::cli::args::SPEC;
use crate::cli::{Args, Exit, Printer};
use crate::session::{Added, Listed, ListedLock, Session, UsageError, Wish};

#[derive(Debug, clap::Subcommand)]
pub(in crate::cli) enum ToolchainCommand {
    /// Make the locks of another version of a runtime, with hashes, and print the row for the spec
    Add {
        /// The package and its version, e.g. `onnxruntime==1.24.4`
        #[arg(value_name = "PACKAGE==VERSION")]
        wish: String,
        /// Name of the toolchain; else that of the environment with the version
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
        /// Environment to lock (repeatable); else the first that is for the package
        #[arg(long = "env", value_name = "ENV")]
        envs: Vec<String>,
        /// Folder in which the toolchain gets a folder of its own
        #[arg(long, default_value = "toolchains", value_name = "DIR")]
        folder: PathBuf,
        /// Print one JSON document on stdout
        #[arg(long)]
        json: bool,
    },
    /// List a spec's toolchains: their packages, and the columns that run with them
    List {
        /// The spec
        #[arg(default_value = SPEC, value_name = "SPEC")]
        spec: PathBuf,
        /// Print one JSON document on stdout
        #[arg(long)]
        json: bool,
    },
}

pub(super) fn toolchain(
    args: &Args,
    command: &ToolchainCommand,
    printer: &Printer,
) -> anyhow::Result<Exit> {
    let session = Session::open_to_look(&args.locations())?;
    match command {
        ToolchainCommand::Add {
            wish,
            name,
            envs,
            folder,
            json,
        } => {
            let wish = Wish::read(wish).map_err(UsageError)?;
            let tell = |text: &str| printer.note(text);
            let added = session.add_toolchain(&wish, name.as_deref(), envs, folder, &tell)?;
            printer.answer(*json, || json!(added), || text_of_added(&added));
        }
        ToolchainCommand::List { spec, json } => {
            let listed = session.toolchains(spec)?;
            printer.answer(*json, || json!(listed), || text_of_listed(&listed));
        }
    }
    Ok(Exit::Success)
}

fn text_of_added(added: &Added) -> String {
    let mut out = String::new();
    for lock in &added.locks {
        let _ = writeln!(out, "wrote {}", lock.path.display());
        for moved in &lock.moved {
            let [from, to] = [&moved.from, &moved.to].map(|release| match release {
                Some(release) => release.as_str(),
                None => "none",
            });
            let _ = writeln!(out, "  {} {from} -> {to}", moved.package);
        }
        if lock.moved.is_empty() {
            let _ = writeln!(out, "  it is orch's own lock: nothing differs");
        }
    }
    let rows: Vec<_> = added
        .locks
        .iter()
        .map(|lock| format!("{}: {}", lock.env, lock.path.display()))
        .collect();
    let _ = write!(
        out,
        "for a spec beside this folder:\n\ntoolchains:\n  {name}: {{locks: {{{}}}}}\n\nand in a row of its targets: \
         toolchains: [default, {name}]\n",
        rows.join(", "),
        name = added.name,
    );
    out
}

fn text_of_listed(listed: &[Listed]) -> String {
    if listed.is_empty() {
        return "the spec has no toolchains\n  hint: `orch toolchain add PACKAGE==VERSION` makes one\n"
            .to_owned();
    }
    let mut out = String::new();
    for toolchain in listed {
        let targets = match &toolchain.targets[..] {
            [] => "no target names it".to_owned(),
            targets => targets.join(", "),
        };
        let newest = if toolchain.converts {
            ""
        } else {
            "  (convert: newest)"
        };
        let _ = writeln!(out, "{}{newest}: {targets}", toolchain.name);
        for lock in &toolchain.locks {
            let _ = writeln!(out, "  {}", text_of_lock(lock));
        }
    }
    out
}

fn text_of_lock(lock: &ListedLock) -> String {
    let package = |(name, release): (&String, &String)| match lock.own.get(name) {
        Some(own) => format!("{name} {release} (orch's own: {own})"),
        None => format!("{name} {release}"),
    };
    let packages: Vec<_> = lock.packages.iter().map(package).collect();
    let state = if lock.is_installed {
        "installed"
    } else {
        "not installed"
    };
    format!("{}, {state}: {}", lock.env, packages.join(", "))
}
