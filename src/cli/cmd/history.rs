//! `orch history`: the runs, what one of them executed, the series of a case, and what keeps the history.

mod executed;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::base::figures::counted;
use crate::base::{glob, suggest};
use crate::cli::printer::{BOLD, DIM};
use crate::cli::table::table;
use crate::cli::{Args, Exit, Printer};
use crate::history::change::{Change, changes};
use crate::history::{History, ModelRow, Point, Reader, RunRow, has_runs};
use crate::journal;
use crate::report::{model_description, weights_remarks};
use crate::session::{UsageError, history_dir, runs_dir, usage};
use crate::store::DiskStore;

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(in crate::cli) struct HistoryArgs {
    #[command(subcommand)]
    command: Option<HistoryCommand>,
    /// Show what this run executed: 1 is the last, 2 the one before, or its name. Or list the executions of this case (or of
    /// every case that matches a glob), e.g. bert:cpu-fp32 [default: list the runs]
    #[arg(value_name = "RUN|CASE")]
    of: Option<String>,
    /// Show only the last N
    #[arg(long, value_name = "N", default_value_t = 20)]
    last: u32,
    /// List the runs since this day or moment, e.g. 2026-01-31 or 2026-01-31T08:00:00Z
    #[arg(long, value_name = "DATE", conflicts_with_all = ["of", "last"])]
    since: Option<String>,
    /// Of a run: only steps that failed
    #[arg(long, requires = "of")]
    failed: bool,
    /// Of a case: only executions on this machine
    #[arg(long, value_name = "NAME", requires = "of")]
    host: Option<String>,
    /// Print one JSON document on stdout
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Subcommand)]
pub(in crate::cli) enum HistoryCommand {
    /// Rebuild the database from the runs' files
    Rebuild,
    /// Import runs of other machines: `matrix.json`, runs' files, or the folder of a history
    Import {
        /// Files or folders to import
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Print where the database is
    Path,
}

pub(super) fn history(
    args: &Args,
    request: &HistoryArgs,
    printer: &Printer,
) -> anyhow::Result<Exit> {
    let tell = |text: &str| printer.note(text);
    match &request.command {
        Some(HistoryCommand::Path) => {
            let (_store, history) = open(args, printer)?;
            printer.out(&history.path().display().to_string());
        }
        Some(HistoryCommand::Rebuild) => {
            let (_store, history) = open(args, printer)?;
            history.rebuild(&tell)?;
            let runs = history.read(&tell)?.runs(u32::MAX)?.len();
            printer.note(&format!(
                "{} in `{}`",
                counted(runs, "run"),
                history.path().display()
            ));
        }
        Some(HistoryCommand::Import { files }) => {
            let (_store, history) = open(args, printer)?;
            import(&history, files, printer)?;
        }
        None => match &request.of {
            Some(run) if is_run(run) => {
                if request.host.is_some() {
                    usage!("--host is for the executions of a case, and `{run}` names a run");
                }
                let runs = runs_dir(&args.locations())?;
                executed::print(&runs, run, request.failed, request.json, printer)?;
            }
            Some(case) if request.failed => {
                usage!(
                    "--failed is for the steps of a run, and `{case}` names none\n  hint: `1` names the last run"
                )
            }
            Some(case) if !is_there(args)? => {
                usage!(
                    "no case of the history is called `{case}`\n  hint: no run with cases is recorded yet; `1` names the last run"
                )
            }
            Some(case) => {
                let (_store, history) = open(args, printer)?;
                series(&history.read(&tell)?, case, request, printer)?;
            }
            None => runs(args, request, printer)?,
        },
    }
    Ok(Exit::Success)
}

const NO_RUNS: &str = "no run is recorded yet: each `orch run` that executes a step leaves one";

/// Whether a text names a run, as `1` and `20260131T080000.123Z-…` do: no case has such a name.
fn is_run(text: &str) -> bool {
    let day = text.split('T').next().unwrap_or_default();
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let is_name = day.len() == 8 && day.bytes().all(|byte| byte.is_ascii_digit());
    is_number || (is_name && text.len() > day.len())
}

/// Whether the history holds a run, so that it is worth installing what reads it.
pub(super) fn is_there(args: &Args) -> anyhow::Result<bool> {
    Ok(has_runs(&history_dir(&args.locations())?))
}

/// The store, which must be one before anything is put beside it, and its history with the library that reads it.
pub(super) fn open(args: &Args, printer: &Printer) -> anyhow::Result<(DiskStore, History)> {
    let store = args.store()?;
    let library = args
        .provision()?
        .duckdb(&|line| printer.note(&format!("DuckDB: {line}")))?;
    Ok((
        store,
        History::new(history_dir(&args.locations())?, &library)?,
    ))
}

fn import(history: &History, files: &[PathBuf], printer: &Printer) -> anyhow::Result<()> {
    let new = history.import(files)?;
    drop(history.read(&|text| printer.note(text))?);
    printer.note(&format!("{} taken in", counted(new.len(), "run")));
    new.iter().for_each(|run| printer.out(run));
    Ok(())
}

/// The runs, oldest first: those of the database, and those that left only a journal.
fn runs(args: &Args, request: &HistoryArgs, printer: &Printer) -> anyhow::Result<()> {
    let since = request.since.as_deref().map(moment).transpose()?;
    let most = if since.is_some() {
        u32::MAX
    } else {
        request.last
    };
    let (mut runs, models) = recorded(args, most, printer)?;
    let known: BTreeSet<_> = runs.iter().map(|run| run.run.clone()).collect();
    let dir = runs_dir(&args.locations())?;
    for path in journal::files(&dir)?.iter().take(most as usize) {
        let name = journal::name_of(path).filter(|name| !known.contains(*name));
        if let Some(name) = name
            && let Some(run) = journal::read(path)?
        {
            runs.push(of_journal(name, &run));
        }
    }
    let is_meant = |run: &RunRow| {
        let Some(since) = since else { return true };
        let started = run.started.parse::<Timestamp>();
        started.is_ok_and(|started| started >= since)
    };
    runs.retain(is_meant);
    runs.sort_by(|a, b| a.run.cmp(&b.run));
    runs.drain(..runs.len().saturating_sub(most as usize));
    if request.json {
        printer.json(&runs);
        return Ok(());
    }
    if runs.is_empty() {
        match &request.since {
            Some(since) => printer.note(&format!("no run is recorded since {since}")),
            None => printer.note(NO_RUNS),
        }
        return Ok(());
    }
    let count = |value: Option<u32>| value.map(|value| value.to_string());
    let row = |run: &RunRow| {
        vec![
            Some(run.run.clone()),
            Some(minute(&run.started)),
            run.git_revision
                .as_ref()
                .map(|name| revision(name, run.git_dirty)),
            run.host.clone(),
            count(run.passed),
            count(run.failed),
            count(run.cases),
            count(run.steps_executed),
            run.seconds.map(|seconds| format!("{seconds:.1} s")),
            Some(about(run)),
        ]
    };
    let columns = [
        "run",
        "began (UTC)",
        "git",
        "host",
        "passed",
        "failed",
        "cases",
        "steps",
        "took",
        "of",
    ];
    let weights: Vec<_> = weights(models.iter())
        .iter()
        .map(|line| format!("\n{DIM}{line}{DIM:#}"))
        .collect();
    printer.out(&(table(&columns, &runs.iter().map(row).collect::<Vec<_>>()) + &weights.concat()));
    Ok(())
}

/// The newest runs of the database, with what their models compute with; none where no run left a file, so that nothing is
/// installed for it.
fn recorded(
    args: &Args,
    most: u32,
    printer: &Printer,
) -> anyhow::Result<(Vec<RunRow>, Vec<ModelRow>)> {
    if !is_there(args)? {
        return Ok(Default::default());
    }
    let (_store, history) = open(args, printer)?;
    let reader = history.read(&|text| printer.note(text))?;
    let mut runs = reader.runs(most)?;
    let models = runs
        .last()
        .map(|oldest| reader.models(&oldest.started))
        .transpose()?
        .unwrap_or_default();
    for run in &mut runs {
        run.weights = weights(models.iter().filter(|model| model.run == run.run));
    }
    Ok((runs, models))
}

/// The row of a run that left no file: one without cases, one that was killed, or one that goes on.
fn of_journal(name: &str, run: &journal::Run) -> RunRow {
    let head = &run.head;
    RunRow {
        run: name.to_owned(),
        started: head.started.clone(),
        seconds: run.end.as_ref().map(|end| end.seconds),
        command: Some(head.command.clone()),
        host: Some(head.host.clone()),
        interrupted: run.end.as_ref().map(|end| end.interrupted),
        steps_executed: Some(run.steps.len() as u32),
        state: Some(executed::state(run).to_owned()),
        ..RunRow::default()
    }
}

/// A day, which begins where the user is, or a moment.
fn moment(text: &str) -> anyhow::Result<Timestamp> {
    let day = || {
        text.parse::<jiff::civil::Date>()
            .ok()?
            .to_zoned(jiff::tz::TimeZone::system())
            .ok()
            .map(|z| z.timestamp())
    };
    let bad = || {
        UsageError(format!(
            "`{text}` is not a date\n  hint: write 2026-01-31 or 2026-01-31T08:00:00Z"
        ))
    };
    Ok(text
        .parse::<Timestamp>()
        .ok()
        .or_else(day)
        .ok_or_else(bad)?)
}

fn weights<'m>(models: impl Iterator<Item = &'m ModelRow> + Clone) -> Vec<String> {
    weights_remarks(models.map(|it| (&*it.model, it.parameters, it.weights)))
}

/// What was run.
fn about(run: &RunRow) -> String {
    if let Some(state) = &run.state {
        let how = format!(", {state}");
        let shown = if state == "ended" { "" } else { &how };
        return format!("{}{shown}", run.command.as_deref().unwrap_or_default());
    }
    let mut text = run.spec.clone().unwrap_or_default();
    let scope = run.scope.as_ref().map(|scope| format!(", {scope}"));
    let same = run.same_as.as_ref().map(|_| ", nothing to do".to_owned());
    let interrupted = run
        .interrupted
        .filter(|is| *is)
        .map(|_| ", interrupted".to_owned());
    text.extend([scope, same, interrupted].into_iter().flatten());
    text
}

fn series(
    reader: &Reader,
    case: &str,
    request: &HistoryArgs,
    printer: &Printer,
) -> anyhow::Result<()> {
    let known = reader.cases()?;
    let named: Vec<&String> = known
        .iter()
        .filter(|name| glob::matches(case, name))
        .collect();
    if named.is_empty() {
        let hint = suggest::hint(case, known.iter().map(String::as_str));
        usage!("no case of the history is called `{case}`\n  hint: {hint}");
    }
    let mut found = BTreeMap::new();
    for name in named {
        let mut points = reader.series(name, request.host.as_deref())?;
        points.drain(..points.len().saturating_sub(request.last as usize));
        found.insert(name, points);
    }
    let document = || {
        let of_case = |points: &[Point]| {
            let changes: Vec<_> = shifts(points).into_iter().map(as_document).collect();
            json!({"executions": points, "changes": changes})
        };
        found
            .iter()
            .map(|(name, points)| (*name, of_case(points)))
            .collect::<BTreeMap<_, _>>()
    };
    printer.answer(request.json, document, || courses(&found));
    Ok(())
}

fn courses(found: &BTreeMap<&String, Vec<Point>>) -> String {
    let mut text = String::new();
    for (name, points) in found {
        let model = points
            .iter()
            .rev()
            .find_map(|point| model_description(point.parameters, point.weights));
        let model = model
            .map(|model| format!("  {DIM}{model}{DIM:#}"))
            .unwrap_or_default();
        let _ = writeln!(text, "{BOLD}{name}{BOLD:#}{model}\n{}", page(points));
        for (
            Point {
                executed,
                git_revision,
                host,
                ..
            },
            by,
        ) in shifts(points)
        {
            let at = git_revision
                .as_ref()
                .map(|name| format!(" at {}", revision(name, None)))
                .unwrap_or_default();
            let word = if by > 0.0 { "slower" } else { "faster" };
            let host = host.as_deref().unwrap_or_default();
            let _ = writeln!(
                text,
                "since {}{at}, {host} is {:.1} % {word}\n",
                minute(executed),
                100.0 * by.abs()
            );
        }
    }
    let _ = write!(
        text,
        "{DIM}median: of the rounds' medians; lowest: over the rounds, of each one's least sample, or of the 10th percentile of its CPU time; change: of that, from the execution before on \
         the same machine{DIM:#}"
    );
    text
}

/// The executions from which on those on a machine are at another level, and the share by which: 0.1 is 10 % slower.
fn shifts(points: &[Point]) -> Vec<(&Point, f64)> {
    let mut series: BTreeMap<_, Vec<(&Point, f64)>> = BTreeMap::new();
    for point in points.iter().filter(|point| point.fallback.is_none()) {
        let Some((ms, basis)) = point.compared() else {
            continue;
        };
        series
            .entry((&point.host, &point.cpu_identity, basis))
            .or_default()
            .push((point, ms));
    }
    let mut shifts = Vec::new();
    for own in series.values() {
        let figures: Vec<f64> = own.iter().map(|(_, least)| *least).collect();
        shifts.extend(
            changes(&figures)
                .into_iter()
                .map(|Change { at, by }| (own[at].0, by)),
        );
    }
    shifts
}

fn as_document((point, by): (&Point, f64)) -> Value {
    let Point {
        host,
        execution,
        executed,
        git_revision,
        ..
    } = point;
    json!({"host": host, "execution": execution, "executed": executed, "git_revision": git_revision, "by": by})
}

fn page(points: &[Point]) -> String {
    let ms = |value: Option<f64>| value.map(|value| format!("{value:.3} ms"));
    let row = |(at, point): (usize, &Point)| {
        vec![
            Some(minute(&point.executed)),
            point
                .git_revision
                .as_ref()
                .map(|name| revision(name, point.git_dirty)),
            point.host.clone(),
            Some(
                point
                    .stand_in
                    .iter()
                    .fold(point.state.clone(), |state, word| {
                        format!("{state} ({word})")
                    }),
            ),
            ms(point.median_ms),
            ms(point.compared().map(|(ms, _)| ms)),
            change(&points[..at], point).map(|change| format!("{:+.1} %", 100.0 * change)),
            point
                .rounds
                .zip(point.samples)
                .map(|(rounds, samples)| format!("{samples} of {}", counted(rounds, "round"))),
            point.run.clone(),
        ]
    };
    let columns = [
        "executed (UTC)",
        "git",
        "host",
        "state",
        "median",
        "lowest",
        "change",
        "samples",
        "run",
    ];
    table(
        &columns,
        &points.iter().enumerate().map(row).collect::<Vec<_>>(),
    )
}

/// How much slower it is than the execution before on the same machine, by what is compared, as a share of that.
fn change(before: &[Point], point: &Point) -> Option<f64> {
    let (ms, basis) = point.compared()?;
    let own = before
        .iter()
        .filter(|other| other.is_of_machine_of(point) && other.fallback == point.fallback);
    let (last, _) = own
        .filter_map(Point::compared)
        .rfind(|(_, other)| *other == basis)?;
    Some(ms / last - 1.0)
}

/// `2026-01-31 08:00`
fn minute(moment: &str) -> String {
    moment.get(..16).unwrap_or(moment).replace('T', " ")
}

/// `1a2b3c4d5`, with a plus where files differed from it.
pub(super) fn revision(name: &str, dirty: Option<bool>) -> String {
    let short = name.get(..9).unwrap_or(name);
    if dirty == Some(true) {
        format!("{short}+")
    } else {
        short.to_owned()
    }
}
