//! `orch-accepted.toml`: changes for the worse that are intended, with a reason and the last day on which they count.
//! What the words of a row mean is not known here.

use std::io;
use std::path::Path;

use serde::Deserialize;
use toml::Spanned;

use super::message;
use crate::base::fs::read_text;

/// The file's name, in the folder in which orch works.
pub const FILE: &str = "orch-accepted.toml";
/// The line at which each row begins.
const ROW: &str = "[[accepted]]";
/// Larger files are refused.
const MOST_BYTES: u64 = 1 << 20;

/// One row of the file.
#[derive(Debug, Clone, PartialEq)]
pub struct AcceptedRow {
    /// A glob over cases.
    pub case: String,
    /// The kind of change, in the words of `orch compare`.
    pub kind: String,
    /// The greatest figure that is accepted, in percent.
    pub up_to_percent: Option<f64>,
    pub reason: String,
    /// The last day on which the row counts (UTC), `2026-12-31`.
    pub until: String,
    /// The line on which the row begins; 0 of a row that is in no file yet.
    pub line: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    accepted: Vec<Spanned<Section>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    case: String,
    kind: String,
    up_to_percent: Option<f64>,
    reason: String,
    until: toml::value::Datetime,
}

/// The file's text; empty where there is no file.
pub fn accepted_text(dir: &Path) -> Result<String, String> {
    match read_text(&dir.join(FILE), MOST_BYTES) {
        Ok(text) => Ok(text),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(e) => Err(format!("failed to read {FILE}: {e}")),
    }
}

/// The rows of the file's text.
pub fn accepted_rows(text: &str) -> Result<Vec<AcceptedRow>, String> {
    let file: File = toml::from_str(text)
        .map_err(|e| format!("{FILE} cannot be read\n{}", message(text, &e)))?;
    let row = |spanned: Spanned<Section>| {
        let before = text.get(..spanned.span().start).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let Section {
            case,
            kind,
            up_to_percent,
            reason,
            until,
        } = spanned.into_inner();
        let day = until.date.ok_or_else(|| {
            format!("{FILE}:{line}: `until` is no day\n  hint: say `until = 2026-12-31`")
        })?;
        if reason.trim().is_empty() {
            return Err(format!("{FILE}:{line}: the row has no reason"));
        }
        Ok(AcceptedRow {
            case,
            kind,
            up_to_percent,
            reason,
            until: day.to_string(),
            line,
        })
    };
    file.accepted.into_iter().map(row).collect()
}

/// The text with a row behind all others, which takes the place of one of the same case and kind.
pub fn with_accepted(text: &str, row: &AcceptedRow) -> Result<String, String> {
    let is_replaced = |known: &AcceptedRow| known.case == row.case && known.kind == row.kind;
    let rows = accepted_rows(text)?;
    let replaced: Vec<usize> = rows
        .iter()
        .filter(|known| is_replaced(known))
        .map(|known| known.line)
        .collect();
    let mut kept = String::new();
    let mut is_dropping = false;
    for (number, line) in (1..).zip(text.split_inclusive('\n')) {
        if line.trim() == ROW {
            is_dropping = replaced.contains(&number);
        }
        // A comment stays: it may speak of the next row.
        let is_of_row = !line.trim_start().starts_with('#');
        if !(is_dropping && is_of_row) {
            kept.push_str(line);
        }
    }
    let blank = if kept.is_empty() || kept.ends_with("\n\n") {
        ""
    } else if kept.ends_with('\n') {
        "\n"
    } else {
        "\n\n"
    };
    let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
    let up_to = row
        .up_to_percent
        .map(|percent| format!("up_to_percent = {percent}\n"))
        .unwrap_or_default();
    let text = format!(
        "{kept}{blank}{ROW}\ncase = {}\nkind = {}\n{up_to}reason = {}\nuntil = {}\n",
        quoted(&row.case),
        quoted(&row.kind),
        quoted(&row.reason),
        row.until
    );
    // What is written is what is meant.
    let read = accepted_rows(&text)?;
    let is_there = read.last().is_some_and(|last| {
        AcceptedRow {
            line: row.line,
            ..last.clone()
        } == *row
    });
    if is_there && read.len() == rows.len() - replaced.len() + 1 {
        Ok(text)
    } else {
        Err(format!(
            "{FILE} cannot be rewritten\n  hint: give each row a header `{ROW}` on a line of its own, or write the row by hand"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(case: &str, percent: f64) -> AcceptedRow {
        AcceptedRow {
            case: case.to_owned(),
            kind: "slower".to_owned(),
            up_to_percent: Some(percent),
            reason: "three \"layers\" instead of two".to_owned(),
            until: "2026-12-31".to_owned(),
            line: 0,
        }
    }

    #[test]
    fn rows_are_added_and_replaced_and_all_else_stays() {
        let one = with_accepted("# why: see #12\n", &row("bert:cpu-fp32", 42.0)).unwrap();
        let two = with_accepted(&one, &row("vit:cpu-fp32", 7.5)).unwrap();
        let again = with_accepted(&two, &row("bert:cpu-fp32", 50.0)).unwrap();
        let read = accepted_rows(&again).unwrap();
        let values: Vec<_> = read
            .iter()
            .map(|row| (&*row.case, row.up_to_percent, row.line))
            .collect();
        assert!(again.starts_with("# why: see #12\n"), "{again}");
        assert_eq!(
            values,
            [
                ("vit:cpu-fp32", Some(7.5), 3),
                ("bert:cpu-fp32", Some(50.0), 10)
            ],
            "{again}"
        );
        assert_eq!(read[0].reason, "three \"layers\" instead of two");
    }

    #[test]
    fn what_cannot_be_read_names_its_line() {
        let whole =
            "[[accepted]]\ncase = \"a\"\nkind = \"slower\"\nreason = \"x\"\nuntil = 2026-12-31\n";
        assert_eq!(accepted_rows(whole).unwrap().len(), 1);
        for (from, to, expected) in [
            (
                "\"x\"",
                "\" \"",
                "orch-accepted.toml:1: the row has no reason",
            ),
            (
                "2026-12-31",
                "12:00:00",
                "orch-accepted.toml:1: `until` is no day",
            ),
            ("2026-12-31", "\"soon\"", "line 5"),
            ("until = 2026-12-31", "", "missing field `until`"),
            ("kind", "kinds", "unknown field `kinds`"),
        ] {
            let error = accepted_rows(&whole.replace(from, to)).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn rows_in_a_form_that_cannot_be_rewritten_are_left_to_their_author() {
        let inline = "accepted = [{case = \"bert:cpu-fp32\", kind = \"slower\", reason = \"x\", until = 2026-12-31}]\n";
        let error = with_accepted(inline, &row("bert:cpu-fp32", 1.0)).unwrap_err();
        assert!(error.contains("cannot"), "{error}");
    }
}
