//! `orch cache remote` and `orch cache push`

use std::path::Path;

use crate::cli::{Exit, Printer};
use crate::config;
use crate::session::{self, UsageError};

fn none_configured() -> anyhow::Error {
    let file = config::FILE;
    UsageError(format!("no remote store is configured\n  hint: name one in {file}, or in ORCH_REMOTE: docs/remote.md"))
        .into()
}

#[cfg(not(feature = "remote"))]
pub(super) fn remote(_: &Path, _: bool, _: &Printer) -> anyhow::Result<Exit> {
    Err(session::configured()?.map_or_else(none_configured, |_| {
        UsageError(session::NOT_BUILT.into()).into()
    }))
}

#[cfg(not(feature = "remote"))]
pub(super) fn push(dir: &Path, _: bool, printer: &Printer) -> anyhow::Result<Exit> {
    remote(dir, false, printer)
}

#[cfg(feature = "remote")]
fn hub(dir: &Path) -> anyhow::Result<crate::store::remote::Hub> {
    let config = session::configured()?.ok_or_else(none_configured)?;
    let store = std::sync::Arc::new(crate::store::DiskStore::open(dir)?);
    Ok(crate::store::remote::Hub::open(config, store).map_err(UsageError)?)
}

#[cfg(feature = "remote")]
pub(super) fn remote(dir: &Path, json: bool, printer: &Printer) -> anyhow::Result<Exit> {
    let reached = hub(dir)?.reach();
    let exit = if reached.error.is_some() {
        Exit::Failed
    } else {
        Exit::Success
    };
    let mode = if reached.writes {
        "read-write"
    } else {
        "read-only"
    };
    if json {
        printer.json(&serde_json::json!({
            "remote": reached.remote, "mode": mode, "signed": reached.signed, "pending": reached.pending,
            "reachable": reached.error.is_none(), "error": reached.error, "seconds": reached.seconds,
        }));
        return Ok(exit);
    }
    let milliseconds = reached.seconds * 1000.0;
    let answer = reached.error.map_or_else(
        || format!("reachable ({milliseconds:.0} ms)"),
        |e| format!("not reachable: {e}"),
    );
    let trust = match reached.signed {
        true => "only results signed with ORCH_REMOTE_KEY are trusted",
        false => "whoever can write there is trusted: ORCH_REMOTE_KEY is not set",
    };
    printer.out(&format!(
        "{}: {answer}\nmode: {mode}\ntrust: {trust}\npending uploads: {}",
        reached.remote, reached.pending
    ));
    Ok(exit)
}

#[cfg(feature = "remote")]
pub(super) fn push(dir: &Path, all: bool, printer: &Printer) -> anyhow::Result<Exit> {
    let hub = hub(dir)?;
    if !hub.writes() {
        session::usage!(
            "the remote {} is read-only\n  hint: mode = \"read-write\" in {}",
            hub.name(),
            config::FILE
        );
    }
    let cancel = crate::worker::Cancel::default();
    super::run::on_interrupt(&cancel, || {})?;
    if all {
        hub.offer_all()?;
    } else if hub.resume() == 0 {
        printer.note("nothing is pending");
        return Ok(Exit::Success);
    }
    let summary = session::finish(&hub, &cancel, |_| {});
    let is_warning = summary.as_ref().is_some_and(|summary| summary.is_warning);
    printer.note(&summary.map_or_else(|| "nothing to upload".to_owned(), |summary| summary.text));
    Ok(if cancel.is_cancelled() {
        Exit::Interrupted
    } else if is_warning {
        Exit::Failed
    } else {
        Exit::Success
    })
}
