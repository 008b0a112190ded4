//! `orch query`: SQL over the history.

use std::fs::{self, File};
use std::io::{IsTerminal as _, Read as _, Write as _};
use std::path::PathBuf;

use anyhow::Context as _;

use crate::cli::cmd::history;
use crate::cli::table::table;
use crate::cli::{Args, Exit, Printer};
use crate::history::{Format, Reader};
use crate::session::{UsageError, usage};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples: docs/history.md; tables and units: docs/history/tables.md. The query can change nothing and reads no other file."
)]
pub(in crate::cli) struct QueryArgs {
    /// One query in DuckDB's SQL; - reads it from stdin
    #[arg(allow_hyphen_values = true)]
    sql: String,
    /// How it is printed
    #[arg(long, value_enum, default_value_t = QueryFormat::Table)]
    format: QueryFormat,
    /// Shorthand for --format json
    #[arg(long)]
    json: bool,
    /// Write to this file instead of stdout
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(in crate::cli) enum QueryFormat {
    Table,
    Json,
    Csv,
    Parquet,
}

pub(super) fn query(args: &Args, query: &QueryArgs, printer: &Printer) -> anyhow::Result<Exit> {
    let format = if query.json {
        QueryFormat::Json
    } else {
        query.format
    };
    if format == QueryFormat::Parquet && query.output.is_none() && std::io::stdout().is_terminal() {
        usage!("Parquet is for programs\n  hint: name a file, `--output answer.parquet`");
    }
    let sql = text(&query.sql)?;
    let (store, history) = history::open(args, printer)?;
    let reader = history.read(&|text| printer.note(text))?;
    let bytes = answer(&reader, &sql, format).map_err(|error| {
        let error = format!("{error:#}");
        let hint = if error.contains("Table with name") {
            "\n  hint: `orch query 'SHOW TABLES'` lists the tables"
        } else {
            ""
        };
        UsageError(format!("{}{hint}", error.trim_end()))
    })?;
    match &query.output {
        Some(path) => {
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            let write = |file: &mut File| anyhow::Ok(file.write_all(&bytes)?);
            store
                .write_out(path, write)
                .with_context(|| format!("failed to write `{}`", path.display()))?;
        }
        None if format == QueryFormat::Table => printer.out(&String::from_utf8_lossy(&bytes)),
        None => printer.raw(&bytes)?,
    }
    Ok(Exit::Success)
}

fn text(sql: &str) -> anyhow::Result<String> {
    if sql != "-" {
        return Ok(sql.to_owned());
    }
    let mut text = String::new();
    std::io::stdin()
        .read_to_string(&mut text)
        .context("failed to read the query from stdin")?;
    Ok(text)
}

fn answer(reader: &Reader, sql: &str, format: QueryFormat) -> anyhow::Result<Vec<u8>> {
    let written =
        |format| fs::read(reader.write(sql, format)?).context("failed to read the answer");
    match format {
        QueryFormat::Table => {
            let rows = reader.query(sql)?;
            let columns: Vec<&str> = rows.columns.iter().map(String::as_str).collect();
            Ok(table(&columns, &rows.rows).into_bytes())
        }
        QueryFormat::Json => written(Format::Json),
        QueryFormat::Csv => written(Format::Csv),
        QueryFormat::Parquet => written(Format::Parquet),
    }
}
