//! What runs found over time, in a DuckDB database that anybody can query.
//!
//! A run writes one file of its own and nothing else (`file`). Whoever reads the history takes new files into the database first
//! (`database`), under a lock that queues: so runs wait for nobody, and what is in the files can be made into a database again. `schema`
//! declares the tables, `rows` fills them, `read` gives what commands ask for, `trends` what pages show, `change` finds where a series changed, `library` is DuckDB. docs/design/history.md.

pub mod change;
mod trends;
mod database;
mod file;
mod library;
mod output;
mod read;
mod rows;
mod schema;

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::base::temporary;
use crate::journal;
use crate::report::ReportDoc;

pub use file::{About, Executed, Execution, RunFile, name};
pub use library::Rows;
use library::{Connection, Library};
pub use output::Format;
pub use read::{ModelRow, Point, RunRow, Which};

/// Hears lines for the user that are no results.
pub type Tell<'a> = &'a dyn Fn(&str);

/// The history of one store.
pub struct History {
    dir: PathBuf,
    library: Library,
}

/// A history that is open for reading. As long as it lives, nothing is taken into it.
pub struct Reader {
    connection: Connection,
    /// The folder in which results are written; a query reaches nothing else of the disk.
    scratch: temporary::Folder,
    _lock: Option<File>,
}

/// Whether a history holds any run that left its file. Nothing needs to be installed to know it.
pub fn has_runs(dir: &Path) -> bool {
    !file::files(&runs_dir(dir)).is_empty()
}

/// The runs of a folder of files of runs, newest first: those that left a file, and those that left only a journal.
pub fn names(runs: &Path) -> Vec<String> {
    let journals = journal::files(runs).unwrap_or_default();
    let journals = journals.iter().filter_map(|path| journal::name_of(path));
    let files = file::files(runs).into_iter().map(|(name, _)| name);
    let all: BTreeSet<String> = files.chain(journals.map(str::to_owned)).collect();
    all.into_iter().rev().collect()
}

/// What a run left when it ended, by its name, from the folder of files of runs.
pub fn run_file(runs: &Path, name: &str) -> Result<RunFile> {
    RunFile::read(&file::path(runs, name))
}

/// The folder of the files of runs, in that of the history.
pub fn runs_dir(dir: &Path) -> PathBuf {
    dir.join("runs")
}

/// The whole report of a run; of one that had nothing to do, that of the run whose results held. It is in the run's file only.
pub fn report(dir: &Path, run: &str) -> Result<ReportDoc> {
    let RunFile { about, doc, .. } = RunFile::read(&file::path(&runs_dir(dir), run))?;
    match (doc, about.same_as) {
        (Some(doc), _) => Ok(doc),
        (None, Some(same)) if same != run => report(dir, &same),
        (None, _) => bail!("the run {run} left no report"),
    }
}

impl History {
    /// The history in a folder, read by this library of DuckDB's.
    pub fn new(dir: PathBuf, library: &Path) -> Result<Self> {
        Ok(Self {
            dir,
            library: Library::load(library)?,
        })
    }

    pub fn path(&self) -> PathBuf {
        self.dir.join("history.duckdb")
    }

    /// Takes in what is new, and opens it for reading.
    pub fn read(&self, tell: Tell<'_>) -> Result<Reader> {
        let Some(lock) = self.lock_file()? else {
            return self.read_foreign(tell);
        };
        lock.lock_shared().context("failed to lock the history")?;
        if !self.is_current()? {
            lock.unlock()?;
            self.alone(&lock, tell)?;
            match self.update(tell) {
                Err(e) if database::is_locked(&e) => tell(&format!(
                    "warning: the newest runs are not in it yet: {e:#}"
                )),
                done => done?,
            }
            lock.unlock()?;
            lock.lock_shared().context("failed to lock the history")?;
        }
        let connection = database::open_to_read(&self.library, &self.path())
            .with_context(|| self.unreadable())?;
        reader(connection, Some(lock))
    }

    /// Makes the database again from the files of the runs.
    pub fn rebuild(&self, tell: Tell<'_>) -> Result<()> {
        let Some(lock) = self.lock_file()? else {
            bail!("`{}` cannot be written to", self.dir.display())
        };
        self.alone(&lock, tell)?;
        database::rebuild(&self.library, &self.path(), &runs_dir(&self.dir), tell)
    }

    /// Copies what another machine wrote among the files of the runs: reports, files of runs, and folders of these. Gives the names of
    /// the runs that were not there before.
    pub fn import(&self, paths: &[PathBuf]) -> Result<Vec<String>> {
        let mut new = Vec::new();
        for path in found(paths)? {
            let mut file = RunFile::read(&path)?;
            file.about.imported = path
                .file_name()
                .map(|name| name.to_string_lossy().into_owned());
            let dir = runs_dir(&self.dir);
            if !file::path(&dir, &file.about.run).exists() {
                file.write(&dir)?;
                new.push(file.about.run);
            }
        }
        Ok(new)
    }

    fn update(&self, tell: Tell<'_>) -> Result<()> {
        let path = self.path();
        let dir = runs_dir(&self.dir);
        if !path.exists() {
            return database::rebuild(&self.library, &path, &dir, tell);
        }
        let connection = database::open(&self.library, &path.to_string_lossy())
            .with_context(|| self.unreadable())?;
        if database::is_current(&connection)? {
            return database::update(&connection, &dir, tell);
        }
        drop(connection);
        tell("the history is of an older orch: it is made again from the files of its runs");
        database::rebuild(&self.library, &path, &dir, tell)
    }

    /// Whether nothing is to be taken in.
    fn is_current(&self) -> Result<bool> {
        let path = self.path();
        if !path.exists() || database::wal(&path).exists() {
            return Ok(false);
        }
        let connection =
            database::open_to_read(&self.library, &path).with_context(|| self.unreadable())?;
        Ok(database::is_current(&connection)?
            && database::missing(&connection, &runs_dir(&self.dir))?.is_empty())
    }

    /// A history that this user may only read is taken into memory, so that nothing of it is missing.
    fn read_foreign(&self, tell: Tell<'_>) -> Result<Reader> {
        let connection = database::open(&self.library, ":memory:")?;
        database::create(&connection)?;
        database::update(&connection, &runs_dir(&self.dir), tell)?;
        reader(connection, None)
    }

    /// None where this user may write nothing.
    fn lock_file(&self) -> Result<Option<File>> {
        let path = self.dir.join("lock");
        let open = || {
            std::fs::create_dir_all(runs_dir(&self.dir))?;
            File::options()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path)
        };
        match open() {
            Ok(file) => Ok(Some(file)),
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
                ) =>
            {
                Ok(None)
            }
            Err(e) => Err(e).with_context(|| format!("failed to open `{}`", path.display())),
        }
    }

    /// Waits until nobody else reads or writes it.
    fn alone(&self, lock: &File, tell: Tell<'_>) -> Result<()> {
        if lock.try_lock().is_err() {
            tell("waiting for another orch that reads the history or takes runs into it");
            lock.lock().context("failed to lock the history")?;
        }
        Ok(())
    }

    fn unreadable(&self) -> String {
        format!(
            "the history `{}` cannot be opened\n  hint: if another program has it open, close it there; if it is damaged, \
             `orch history rebuild` makes it again from the files of the runs",
            self.path().display()
        )
    }
}

/// A reader whose connection reaches nothing of the disk but the folder for results.
fn reader(connection: Connection, lock: Option<File>) -> Result<Reader> {
    let temporary = std::env::temp_dir();
    // An interrupted query ends where it is.
    temporary::sweep(&temporary);
    let scratch = temporary::make_folder(&temporary)?;
    let folder = schema::quoted(&scratch.path().to_string_lossy());
    connection.execute(&format!(
        "SET allowed_directories = [{folder}]; SET enable_external_access = false; SET lock_configuration = true"
    ))?;
    Ok(Reader {
        connection,
        scratch,
        _lock: lock,
    })
}

/// Files as they are; of a folder the files of runs and reports in it, and in its folder `runs`.
fn found(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in paths {
        if !path.is_dir() {
            found.push(path.clone());
            continue;
        }
        let folders = [path.clone(), runs_dir(path)];
        let entries = folders
            .iter()
            .flat_map(std::fs::read_dir)
            .flatten()
            .flatten();
        let is_ours = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            !name.starts_with('.')
                && [".json", ".json.gz"]
                    .iter()
                    .any(|ending| name.ends_with(ending))
        };
        let inside: BTreeSet<_> = entries.map(|entry| entry.path()).filter(is_ours).collect();
        if inside.is_empty() {
            bail!(
                "`{}` holds neither files of runs (`.json.gz`) nor reports (`.json`)",
                path.display()
            );
        }
        found.extend(inside);
    }
    Ok(found)
}
