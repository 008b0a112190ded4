//! `orch history`: the runs, the series of a case, and what keeps the history.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::base::figures::counted;
use crate::base::{glob, suggest};
use crate::cli::printer::{BOLD, DIM};
use crate::cli::table::table;
use crate::cli::{Args, Exit, Printer};
use crate::history::change::{Change, changes};
use crate::history::{History, ModelRow, Point, Reader, RunRow, has_runs};
use crate::report::{model_told, weights_told};
use crate::session::{history_dir, usage};
use crate::store::DiskStore;

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(in crate::cli) struct HistoryArgs {
    #[command(subcommand)]
    command: Option<HistoryCommand>,
    /// List the executions of this case (or of every case that matches a glob), e.g. bert:cpu-fp32 [default: list the runs]
    case: Option<String>,
    /// Show only the last N
    #[arg(long, value_name = "N", default_value_t = 20)]
    last: u32,
    /// Only executions on this machine
    #[arg(long, value_name = "NAME", requires = "case")]
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
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Print where the database is
    Path,
}

pub(super) fn history(args: &Args, asked: &HistoryArgs, printer: &Printer) -> anyhow::Result<Exit> {
    if asked.command.is_none() && !is_there(args)? {
        if let Some(case) = &asked.case {
            usage!("no case of the history is called `{case}`\n  hint: {NO_RUNS}");
        }
        match asked.json {
            true => printer.json(&Vec::<RunRow>::new()),
            false => printer.note(NO_RUNS),
        }
        return Ok(Exit::Success);
    }
    let (_store, history) = open(args, printer)?;
    let tell = |text: &str| printer.note(text);
    match &asked.command {
        Some(HistoryCommand::Path) => printer.out(&history.path().display().to_string()),
        Some(HistoryCommand::Rebuild) => {
            history.rebuild(&tell)?;
            let runs = history.read(&tell)?.runs(u32::MAX)?.len();
            printer.note(&format!(
                "{} in `{}`",
                counted(runs, "run"),
                history.path().display()
            ));
        }
        Some(HistoryCommand::Import { files }) => import(&history, files, printer)?,
        None => {
            let reader = history.read(&tell)?;
            match &asked.case {
                Some(case) => series(&reader, case, asked, printer)?,
                None => runs(&reader, asked, printer)?,
            }
        }
    }
    Ok(Exit::Success)
}

const NO_RUNS: &str = "no run is recorded yet: each `orch run` with cases leaves one";

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

fn runs(reader: &Reader, asked: &HistoryArgs, printer: &Printer) -> anyhow::Result<()> {
    let mut runs = reader.runs(asked.last)?;
    runs.reverse();
    let models = runs
        .first()
        .map(|oldest| reader.models(&oldest.started))
        .transpose()?
        .unwrap_or_default();
    for run in &mut runs {
        run.weights = weights(models.iter().filter(|model| model.run == run.run));
    }
    if asked.json {
        printer.json(&runs);
        return Ok(());
    }
    if runs.is_empty() {
        printer.note(NO_RUNS);
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
            Some(run.measured.to_string()),
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
        "executed",
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

fn weights<'m>(models: impl Iterator<Item = &'m ModelRow> + Clone) -> Vec<String> {
    weights_told(models.map(|it| (&*it.model, it.parameters, it.weights)))
}

/// What was run.
fn about(run: &RunRow) -> String {
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
    asked: &HistoryArgs,
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
        let mut points = reader.series(name, asked.host.as_deref())?;
        points.drain(..points.len().saturating_sub(asked.last as usize));
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
    printer.answer(asked.json, document, || told(&found));
    Ok(())
}

fn told(found: &BTreeMap<&String, Vec<Point>>) -> String {
    let mut text = String::new();
    for (name, points) in found {
        let model = points
            .iter()
            .rev()
            .find_map(|point| model_told(point.parameters, point.weights));
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
