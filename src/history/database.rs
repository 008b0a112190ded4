//! The database file: making it, taking files of runs into it, and making it again from them.
//!
//! Whoever calls holds the lock of the history. A run is taken in within one transaction, and only if it is not there: a process that
//! is killed leaves all of a run or nothing of it, and the next one goes on.

#![expect(
    clippy::disallowed_methods,
    reason = "replaces the database by a rebuilt one"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};

use super::Tell;
use super::file::{self, RunFile};
use super::library::{Connection, Library};
use super::rows::Rows;
use super::schema::{self, Column, Table};

use crate::base::fs as bfs;

/// Nothing is fetched: what it is used for is inside the library.
const OPTIONS: [(&str, &str); 2] = [
    ("autoinstall_known_extensions", "false"),
    ("autoload_known_extensions", "false"),
];

/// Tables whose rows describe executions, in the order in which they are filled: the last shows what is known already.
const OF_EXECUTIONS: [&str; 5] = ["rounds", "samples", "placements", "versions", "executions"];
const OF_RUNS: [&str; 4] = ["results", "steps", "devices", "runs"];

pub(super) fn open(library: &Library, path: &str) -> Result<Connection> {
    library.open(path, &OPTIONS)
}

pub(super) fn open_to_read(library: &Library, path: &Path) -> Result<Connection> {
    let options = [OPTIONS[0], OPTIONS[1], ("access_mode", "READ_ONLY")];
    library.open(&path.to_string_lossy(), &options)
}

/// Whether a database has the tables of this orch. One of a newer orch is an error.
pub(super) fn is_current(connection: &Connection) -> Result<bool> {
    let named = "SELECT table_name::VARCHAR FROM duckdb_tables() WHERE table_name = 'history'";
    if connection.texts(named, &[])?.is_empty() {
        return Ok(false);
    }
    let versions = connection.texts("SELECT version::VARCHAR FROM history", &[])?;
    let version: Option<u32> = versions.first().and_then(|version| version.parse().ok());
    let version = version.context("the history does not say its version")?;
    if version > schema::VERSION {
        bail!(
            "the history has version {version}, and this orch reads up to {}\n  hint: use the newer orch that wrote it",
            schema::VERSION
        );
    }
    Ok(version == schema::VERSION)
}

pub(super) fn create(connection: &Connection) -> Result<()> {
    within_transaction(connection, || connection.execute(&schema::create()))
}

/// The files in `dir` of runs that are not in it.
pub(super) fn missing(connection: &Connection, dir: &Path) -> Result<Vec<(String, PathBuf)>> {
    let known: BTreeSet<String> = connection
        .texts("SELECT run FROM runs", &[])?
        .into_iter()
        .collect();
    Ok(file::files(dir)
        .into_iter()
        .filter(|(run, _)| !known.contains(run))
        .collect())
}

/// Imports what is missing. A file that cannot be imported is reported, and the others are imported.
pub(super) fn update(connection: &Connection, dir: &Path, tell: Tell<'_>) -> Result<()> {
    for (run, path) in missing(connection, dir)? {
        if let Err(e) = import(connection, &run, &path) {
            tell(&format!(
                "warning: a run is missing from the history: {e:#}\n  hint: move that file away"
            ));
        }
    }
    Ok(())
}

/// Imports the file of a run, whose name is the run's.
fn import(connection: &Connection, run: &str, path: &Path) -> Result<()> {
    let file = RunFile::read(path)?;
    let own = &file.about.run;
    ensure!(
        own == run,
        "`{}` is a copy of the file of run {own}",
        path.display()
    );
    take(connection, &file).with_context(|| format!("failed to import `{}`", path.display()))
}

fn take(connection: &Connection, file: &RunFile) -> Result<()> {
    let rows = Rows::of(file);
    within_transaction(connection, || {
        for name in OF_EXECUTIONS.into_iter().chain(OF_RUNS) {
            insert(connection, Table::named(name), &rows)?;
        }
        match &file.about.same_as {
            Some(same) => repeat(connection, &file.about.run, same),
            None => Ok(()),
        }
    })
}

fn insert(connection: &Connection, table: &Table, rows: &Rows) -> Result<()> {
    let columns = table
        .columns
        .iter()
        .filter(|Column(name, ..)| *name != "id");
    let shape: Vec<_> = columns
        .map(|Column(name, kind, _)| format!("\"{name}\":\"{kind}\""))
        .collect();
    let given = format!(
        "SELECT unnest(from_json($1::JSON, '[{{{}}}]'), recursive := true)",
        shape.join(",")
    );
    let name = table.name;
    let new = match name {
        // A run that only keeps a result may be known before the one that executed it.
        "executions" => {
            "ON CONFLICT (execution) DO UPDATE SET run = coalesce(executions.run, excluded.run)"
        }
        _ if OF_EXECUTIONS.contains(&name) => {
            "WHERE execution NOT IN (SELECT execution FROM executions)"
        }
        _ => "",
    };
    let statement = format!("INSERT INTO {name} BY NAME SELECT * FROM ({given}) {new}");
    connection.execute_with(&statement, &[&rows.json(name)])
}

/// The results of a run that had nothing to do are those of the run before it.
fn repeat(connection: &Connection, run: &str, same: &str) -> Result<()> {
    connection.execute_with(
        "INSERT INTO results BY NAME SELECT * REPLACE ($1 AS run, true AS kept) FROM results WHERE run = $2",
        &[run, same],
    )?;
    let of_the_run = [
        "run",
        "started",
        "seconds",
        "command",
        "imported_from",
        "same_as",
        "steps_executed",
        "steps_kept",
    ];
    let own = |name: &str| {
        of_the_run.contains(&name) || name.starts_with("git_") || name == "interrupted"
    };
    let columns = Table::named("runs").names().filter(|name| !own(name));
    let taken = columns
        .map(|name| format!("{name} = other.{name}"))
        .collect::<Vec<_>>()
        .join(", ");
    connection.execute_with(
        &format!("UPDATE runs SET steps_executed = 0, {taken} FROM runs other WHERE runs.run = $1 AND other.run = $2"),
        &[run, same],
    )
}

fn within_transaction(connection: &Connection, work: impl FnOnce() -> Result<()>) -> Result<()> {
    connection.execute("BEGIN TRANSACTION")?;
    let done = work();
    // What failed is undone in any case when the connection closes; its error says more than the undoing's.
    let end = connection.execute(if done.is_ok() { "COMMIT" } else { "ROLLBACK" });
    done.and(end)
}

/// Makes the database at `path` from the files in `dir`, and of one that is there keeps what no file holds. That stays until the new one is
/// whole. So tables are never in DuckDB's log, from which it could not make all of them again after a kill.
pub(super) fn rebuild(library: &Library, path: &Path, dir: &Path, tell: Tell<'_>) -> Result<()> {
    let new = path.with_extension("duckdb.new");
    for left in [new.clone(), wal(&new)] {
        remove(&left)?;
    }
    let mut old = path
        .exists()
        .then(|| readable(library, path))
        .transpose()?
        .unwrap_or(Ok(()));
    {
        let connection = open(library, &new.to_string_lossy())?;
        create(&connection)?;
        update(&connection, dir, tell)?;
        if path.exists() && old.is_ok() {
            // A damaged block shows only when it is read.
            old = carry_over(&connection, path);
        }
    }
    if let Err(e) = old {
        let aside = path.with_extension("duckdb.damaged");
        tell(&format!(
            "warning: the old database cannot be read ({e:#}); it is kept as `{}`",
            aside.display()
        ));
        remove(&wal(path))?;
        fs::rename(path, &aside)
            .with_context(|| format!("failed to move `{}` away", path.display()))?;
    }
    // Whatever was in it is in the old file since that was attached.
    remove(&wal(path))?;
    fs::rename(&new, path).with_context(|| format!("failed to replace `{}`", path.display()))
}

/// Whether a database is not damaged. One that is of a newer orch, or open elsewhere, is an error.
fn readable(library: &Library, path: &Path) -> Result<Result<()>> {
    match open(library, &path.to_string_lossy()) {
        Ok(connection) => is_current(&connection).map(|_| Ok(())),
        Err(e) if is_locked(&e) => Err(e),
        Err(e) => Ok(Err(e)),
    }
}

/// Whether another program has the database open.
pub(super) fn is_locked(error: &anyhow::Error) -> bool {
    error
        .chain()
        .any(|cause| cause.to_string().contains("Could not set lock on file"))
}

/// Takes over what is in an older database and in no file.
fn carry_over(connection: &Connection, old: &Path) -> Result<()> {
    connection.execute(&format!(
        "ATTACH {} AS old",
        schema::quoted(&old.to_string_lossy())
    ))?;
    let done = within_transaction(connection, || {
        for name in OF_EXECUTIONS.into_iter().chain(OF_RUNS) {
            let (key, owner) = if OF_EXECUTIONS.contains(&name) {
                ("execution", "executions")
            } else {
                ("run", "runs")
            };
            let columns = common_columns(connection, name)?;
            if !columns.is_empty() {
                connection.execute(&format!(
                    "INSERT INTO {name} BY NAME SELECT {columns} FROM old.{name} WHERE {key} NOT IN (SELECT {key} FROM {owner})"
                ))?;
            }
        }
        Ok(())
    });
    connection.execute("DETACH old")?;
    done
}

/// The columns that a table has in both databases, and a new one numbers by itself.
fn common_columns(connection: &Connection, name: &str) -> Result<String> {
    let named = "SELECT string_agg(column_name, ', ')::VARCHAR FROM duckdb_columns()
        WHERE database_name = 'old' AND table_name = $1 AND column_name <> 'id' AND column_name IN
            (SELECT column_name FROM duckdb_columns() WHERE database_name <> 'old' AND table_name = $1)";
    Ok(connection.texts(named, &[name])?.pop().unwrap_or_default())
}

/// DuckDB's own log beside a database: changes that are not in its file yet.
pub(super) fn wal(path: &Path) -> std::path::PathBuf {
    path.with_extension(format!(
        "{}.wal",
        path.extension().unwrap_or_default().to_string_lossy()
    ))
}

fn remove(path: &Path) -> Result<()> {
    bfs::remove_file(path).with_context(|| format!("failed to remove `{}`", path.display()))
}
