//! The accepted changes of the current folder, as a comparison takes them.

use std::path::Path;

use crate::config::{ACCEPTED_FILE, AcceptedRow, accepted_rows, accepted_text};
use crate::report::compare::{Acceptance, Kind, is_acceptable};
use crate::session::{UsageError, usage};

/// The rows of `orch-accepted.toml` in the current folder; none where there is no file.
pub(super) fn acceptances() -> anyhow::Result<Vec<Acceptance>> {
    let text = accepted_text(Path::new(".")).map_err(UsageError)?;
    let rows = accepted_rows(&text).map_err(UsageError)?;
    rows.into_iter().map(acceptance).collect()
}

fn acceptance(row: AcceptedRow) -> anyhow::Result<Acceptance> {
    let AcceptedRow {
        case,
        kind: word,
        up_to_percent,
        reason,
        until,
        line,
    } = row;
    let place = format!("{ACCEPTED_FILE}:{line}");
    let words = Kind::WORDS
        .iter()
        .filter(|(_, kind)| is_acceptable(*kind))
        .map(|(word, _)| format!("`{word}`"))
        .collect::<Vec<_>>()
        .join(", ");
    let Some(kind) = Kind::named(&word).filter(|kind| is_acceptable(*kind)) else {
        usage!("{place}: `{word}` is no change that can be accepted\n  hint: one of {words}");
    };
    match (kind, up_to_percent) {
        (Kind::Lost, Some(_)) => usage!("{place}: `{word}` has no figure, so no `up_to_percent`"),
        (Kind::Lost, None) => {}
        (_, Some(percent)) if percent.is_finite() && percent > 0.0 => {}
        _ => usage!(
            "{place}: `{word}` takes an `up_to_percent` above 0: beyond it the gate closes again"
        ),
    }
    Ok(Acceptance {
        case,
        kind,
        up_to: up_to_percent.map(|percent| percent / 100.0),
        reason,
        until,
        place,
    })
}
