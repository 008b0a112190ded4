//! What `-t auto` chooses by: the devices of this host, and what was measured on machines like it.

use crate::device::{Backend, DeviceKind};
use crate::matrix::{Case, Known, Matrix};
use crate::record::Record;
use crate::report::stats;
use crate::session::Session;
use crate::spec::Spec;

/// How far back a figure is looked for behind checks, in executions.
const MEMORY: usize = 50;

/// Leaves one target for each model.
pub(super) fn choose(matrix: &mut Matrix, spec: &Spec, session: &Session) {
    let inventory = session.inventory();
    matrix.choose(spec, |case| known(case, spec, session, inventory));
}

fn known(case: &Case, spec: &Spec, session: &Session, inventory: &[Backend]) -> Known {
    let target = &spec.targets[&case.target];
    if !target.properties.is_empty() {
        return Known::Out("its target asks for another machine".into());
    }
    if let Some(why) = out(target.backend.name, inventory) {
        return Known::Out(why);
    }
    let name = |stage: &str| format!("{stage}:{}:{}", case.model, case.name);
    let latest = |stage: &str| session.store.latest(&name(stage)).ok().flatten();
    // Of another kind of machine nothing follows.
    let host = &session.host.fingerprint;
    let is_here = |record: &Record| {
        record
            .key
            .lines()
            .any(|(name, value)| name == "host" && value == *host)
    };
    // A check takes no figure away that was measured before it.
    let record = latest("run").filter(|last| !is_untimed(last));
    let record = record.or_else(|| {
        session
            .store
            .history(&name("run"), MEMORY)
            .ok()?
            .into_iter()
            .find(|r| !is_untimed(r))
    });
    let Some(last) = record.filter(is_here) else {
        return Known::Unmeasured;
    };
    // What was measured is worth nothing where it was wrong.
    let verdict = latest("judge")
        .map(|verdict| verdict.outcome)
        .filter(|outcome| outcome.is_failure());
    let outcome = verdict.unwrap_or(last.outcome);
    match (outcome, last.measure.as_ref().and_then(stats::median)) {
        (outcome, Some(median_ms)) if outcome.is_made() => {
            let day = last
                .started
                .split('T')
                .next()
                .unwrap_or_default()
                .to_owned();
            Known::Measured { median_ms, day }
        }
        (outcome, None) if outcome.is_made() => Known::Unmeasured,
        (outcome, _) => Known::Failed(outcome.label().to_owned()),
    }
}

/// Whether it passed a run that was checked and not timed.
fn is_untimed(record: &Record) -> bool {
    record
        .measure
        .as_ref()
        .is_some_and(|measure| measure.times.is_none())
}

/// Why no device of this backend can be the best one.
fn out(backend: &str, inventory: &[Backend]) -> Option<String> {
    let Some(found) = inventory.iter().find(|known| known.name == backend) else {
        return Some(format!("orch has no prober for `{backend}`"));
    };
    if !found.available {
        return Some(
            found
                .reason
                .clone()
                .unwrap_or_else(|| "its prober gave no reason".into()),
        );
    }
    let is_real = found
        .devices
        .iter()
        .any(|device| device.kind == DeviceKind::Hardware);
    (!is_real).then(|| "it is a stand-in for hardware that is not here".to_owned())
}
