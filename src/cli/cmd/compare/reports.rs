//! Reports as people name them: files, and runs of the history, which also tells how much their times vary.

use std::path::Path;

use crate::cli::cmd::history;
use crate::cli::cmd::report::document;
use crate::cli::{Args, Printer};
use crate::history::{Reader, RunRow, Which};
use crate::report::compare::Noises;
use crate::report::{Machine, ReportDoc};
use crate::session::{OUT_DIR, git, history_dir, kept_history, last_report, newer_than, usage};

/// A report with a name for people.
pub(in crate::cli::cmd) struct Named {
    pub(in crate::cli::cmd) name: String,
    pub(in crate::cli::cmd) doc: ReportDoc,
    /// The moment when the run began, RFC 3339 UTC. A run that found no difference from an earlier one's report has
    /// that one's.
    pub(in crate::cli::cmd) began: Option<String>,
}

impl Named {
    fn new(name: String, doc: ReportDoc) -> Self {
        let began = doc.run.as_ref().map(|run| run.started.clone());
        Self { name, doc, began }
    }

    /// Whether both are of one run on the same machines, and of the same part.
    pub(super) fn is_same_run(&self, other: &Self) -> bool {
        let hosts = |doc: &ReportDoc| {
            doc.hosts()
                .iter()
                .map(|host| host.name.clone())
                .collect::<Vec<_>>()
        };
        let of = |named: &Self| {
            (
                named.began.clone(),
                named.doc.scope.clone(),
                hosts(&named.doc),
            )
        };
        // What no run left is the same if it says the same.
        let is_same_text =
            || serde_json::to_value(&self.doc).ok() == serde_json::to_value(&other.doc).ok();
        of(self) == of(other) && (self.began.is_some() || is_same_text())
    }
}

pub(in crate::cli::cmd) struct Reports<'a> {
    args: &'a Args,
    printer: &'a Printer,
    /// None as long as only files were named: these need no history.
    history: Option<Reader>,
}

impl<'a> Reports<'a> {
    pub(in crate::cli::cmd) fn new(args: &'a Args, printer: &'a Printer) -> Self {
        Self {
            args,
            printer,
            history: None,
        }
    }

    pub(in crate::cli::cmd) fn named(&mut self, name: &Path) -> anyhow::Result<Named> {
        if is_file(name) {
            return Ok(Named::new(name.display().to_string(), document(name)?));
        }
        let opened = match self.history.take() {
            Some(reader) => reader,
            None if !history::is_there(self.args)? => {
                let name = name.display();
                usage!(
                    "no run is recorded yet, so `{name}` is none of the history\n  hint: each `orch run` with cases leaves one; a file's name ends in `.json`"
                );
            }
            None => history::open(self.args, self.printer)?
                .1
                .read(&|text| self.printer.note(text))?,
        };
        let name = name.to_string_lossy();
        let Some(run) = run(self.history.insert(opened), &name)? else {
            let hint = "`orch history` lists the runs; a file's name ends in `.json`";
            usage!("`{name}` is no run of the history\n  hint: {hint}");
        };
        self.of(&run)
    }

    /// The newest run of the same that is a week old, where there is a history that can be read: nothing is installed for it.
    pub(in crate::cli::cmd) fn last_week(
        &mut self,
        doc: &ReportDoc,
    ) -> anyhow::Result<Option<Named>> {
        // What is wrong with the history is reported once, by the trends of the same pages.
        let kept = kept_history(&self.args.locations(), &|text| self.printer.note(text));
        let Ok(Some(reader)) = kept else {
            return Ok(None);
        };
        let run = self.history.insert(reader).last_week(doc)?;
        run.map(|run| self.of(&run)).transpose()
    }

    /// How much times vary on this machine; empty where only files were named.
    pub(in crate::cli::cmd) fn noises(&self, machine: &Machine<'_>) -> anyhow::Result<Noises> {
        self.history
            .as_ref()
            .map_or_else(|| Ok(Noises::new()), |reader| reader.noises(machine))
    }

    /// The head: the report that was named, or else the last run's.
    pub(in crate::cli::cmd) fn head(&mut self, name: Option<&Path>) -> anyhow::Result<Named> {
        let Some(name) = name else {
            let last = last_report(Path::new(OUT_DIR))?;
            return Ok(Named {
                began: last.began.clone(),
                ..Named::new(last.path.display().to_string(), document(&last.path)?)
            });
        };
        note_newer(name, self.printer);
        self.named(name)
    }

    fn of(&self, run: &RunRow) -> anyhow::Result<Named> {
        let doc = crate::history::report(&history_dir(&self.args.locations())?, &run.run)?;
        Ok(Named {
            began: Some(run.started.clone()),
            ..Named::new(name_of(run), doc)
        })
    }
}

/// Notes that another run was the last one, where a report was named that lies beside its.
pub(in crate::cli::cmd) fn note_newer(named: &Path, printer: &Printer) {
    if let Some(note) = newer_than(named) {
        printer.note(&format!("note: {note}"));
    }
}

/// Whether it is meant as one: what is not there is reported as a missing file. `origin/main` is none.
fn is_file(path: &Path) -> bool {
    let is_placed = path.is_absolute() || path.starts_with(".") || path.starts_with("..");
    is_placed
        || path.is_file()
        || path
            .extension()
            .is_some_and(|ending| ending == "json" || ending == "gz")
}

/// What only git knows, such as a branch, is looked up as the revision that git takes it for.
fn run(reader: &Reader, name: &str) -> anyhow::Result<Option<RunRow>> {
    let which = Which::of(name);
    let found = reader.run(&which)?;
    if found.is_some() || !matches!(which, Which::Revision(_)) {
        return Ok(found);
    }
    match git::find(Path::new("."), name) {
        Ok(Some(revision)) => reader.run(&Which::Revision(revision)),
        Ok(None) | Err(_) => Ok(None),
    }
}

/// `run 20260131T080000.123Z-1a2b at 1a2b3c4d5`
fn name_of(run: &RunRow) -> String {
    let at = run
        .git_revision
        .as_ref()
        .map(|name| format!(" at {}", history::revision(name, run.git_dirty)));
    format!("run {}{}", run.run, at.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use crate::cli::args::Args;

    /// The command lines of a command's arguments that have a report's file as their default.
    fn defaults(command: &clap::Command) -> Vec<String> {
        let is_report =
            |default: &clap::builder::OsStr| default.to_string_lossy().ends_with("matrix.json");
        let own = command
            .get_arguments()
            .filter(|argument| argument.get_default_values().iter().any(is_report));
        let own = own.map(|argument| format!("{} {}", command.get_name(), argument.get_id()));
        own.chain(command.get_subcommands().flat_map(defaults))
            .collect()
    }

    /// A file's name cannot say which run was the last: `last_report` does, for all commands.
    #[test]
    fn no_command_has_a_report_of_its_own_choice() {
        let wrong = clap::Command::new("x")
            .arg(clap::Arg::new("report").default_value("orch-out/report/matrix.json"));
        assert_eq!(defaults(&wrong), ["x report"]);
        assert_eq!(defaults(&Args::command()), Vec::<String>::new());
    }
}
