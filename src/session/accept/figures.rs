//! Intended changes of figures, written where a gate reads them.

use std::collections::BTreeSet;
use std::path::Path;
use std::str::FromStr;

use jiff::Timestamp;
use jiff::civil::Date;

use super::Accepted;
use crate::base::text::ending_as;
use crate::config::{ACCEPTED_FILE, AcceptedRow, accepted_text, with_accepted};
use crate::exec::MaxAge;
use crate::report::compare::{Change, Comparison, Kind, Verdict, figure, is_acceptable, what};
use crate::session::UsageError;

/// So much more than was seen is accepted, in percent: the next run does not find the same figure.
const MARGIN_PERCENT: f64 = 3.0;
/// [`MARGIN_PERCENT`] for accuracy, in percent of the tolerance.
const MARGIN_OF_ACCURACY_PERCENT: f64 = 10.0;

/// The last day on which a change is accepted: a day, or an age from today.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Until(Date);

impl FromStr for Until {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(day) = text.parse::<Date>() {
            return Ok(Self(day));
        }
        let length = text.parse::<MaxAge>().map_err(|_| {
            format!("`{text}` is neither a day nor a time from today\n  hint: `2026-12-31`, `30d` or `4w`")
        })?;
        let end = Timestamp::now().checked_add(length.length());
        let end = end.map_err(|e| format!("`{text}` is too long: {e}"))?;
        let zoned = end.to_zoned(jiff::tz::TimeZone::UTC);
        Ok(Self(zoned.date()))
    }
}

impl std::fmt::Display for Until {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// The changes that can be accepted, of these cases; None for all.
pub fn acceptable<'c>(
    comparison: &'c Comparison,
    cases: Option<&BTreeSet<String>>,
) -> Vec<&'c Change> {
    let is_meant = |change: &&Change| {
        is_acceptable(change.kind)
            && change.accepted.is_none()
            && !matches!(change.verdict, Some(Verdict::CannotTell(_)))
            && cases.is_none_or(|cases| cases.contains(&change.case))
    };
    comparison.changes.iter().filter(is_meant).collect()
}

/// Adds rows for these changes to the project's file of accepted ones.
pub fn accept_figures(
    changes: &[&Change],
    reason: &str,
    until: &Until,
) -> anyhow::Result<Accepted> {
    let before = accepted_text(Path::new(".")).map_err(UsageError)?;
    let mut after = before.clone();
    for change in changes {
        after = with_accepted(&after, &row(change, reason, until)).map_err(UsageError)?;
    }
    let in_words = |change: &&Change| {
        let kind = change.kind.word();
        format!("accepts {kind}: {}  {}", change.case, what(change))
    };
    Ok(Accepted {
        file: ACCEPTED_FILE.into(),
        after: ending_as(&before, after),
        before,
        changes: changes.iter().map(in_words).collect(),
    })
}

fn row(change: &Change, reason: &str, until: &Until) -> AcceptedRow {
    let margin = match change.kind {
        Kind::LessAccurate => MARGIN_OF_ACCURACY_PERCENT,
        _ => MARGIN_PERCENT,
    };
    let up_to = figure(change).map(|figure| (100.0 * figure + margin).ceil());
    AcceptedRow {
        case: change.case.clone(),
        kind: change.kind.word().to_owned(),
        up_to_percent: up_to,
        reason: reason.to_owned(),
        until: until.0.to_string(),
        line: 0,
    }
}
