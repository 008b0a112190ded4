//! Answers to queries of the user's: as rows of text, or written by DuckDB into a file.

use std::path::PathBuf;

use anyhow::{Result, bail};

use super::{Reader, Rows, schema};

/// How an answer is written into a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Json,
    Csv,
    Parquet,
}

impl Reader {
    /// The rows of a query, every value as text.
    pub fn query(&self, sql: &str) -> Result<Rows> {
        let sql = self.checked(sql)?;
        self.connection
            .rows(&format!("SELECT COLUMNS(*)::VARCHAR FROM (\n{sql}\n)"), &[])
    }

    /// Writes the answer to a file, which goes with this value.
    pub fn write(&self, sql: &str, format: Format) -> Result<PathBuf> {
        let sql = self.checked(sql)?;
        let (name, options) = match format {
            Format::Json => ("answer.json", "FORMAT json, ARRAY true"),
            Format::Csv => ("answer.csv", "FORMAT csv, HEADER true"),
            Format::Parquet => ("answer.parquet", "FORMAT parquet"),
        };
        let path = self.scratch.path().join(name);
        let target = schema::quoted(&path.to_string_lossy());
        self.connection.execute(&format!(
            "COPY (\nSELECT * FROM (\n{sql}\n)) TO {target} ({options})"
        ))?;
        Ok(path)
    }

    /// One statement that reads, without its last semicolon: so it can stand within another.
    fn checked<'s>(&self, sql: &'s str) -> Result<&'s str> {
        let sql = sql
            .trim_end()
            .trim_end_matches(|c: char| c == ';' || c.is_whitespace());
        if sql.is_empty() {
            bail!("it contains no query");
        }
        if !self.connection.is_query(sql)? {
            bail!(
                "this is not a query: the history can only be read here\n  hint: SELECT, FROM, WITH, DESCRIBE, SHOW TABLES or SUMMARIZE"
            );
        }
        Ok(sql)
    }
}
