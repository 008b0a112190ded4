//! The pages of a document as files, and by what one can tell that they would show something new.

use serde_json::{Value, json};

use crate::base::Digest;
use crate::catalogue::{Code, parts};
use crate::device::{Backend, Device};
use crate::report::{CaseResult, ReportDoc, html, json, junit, markdown};

/// What makes pages of documents: another one may make others.
pub static CODE: Code = Code::of(&[parts!(
    Rust "report/", "template.rs";
    Templates "report";
    Crate "minijinja", "flate2"
)]);

/// A page by its file's name, and what makes it.
type Page = (&'static str, fn(&ReportDoc) -> anyhow::Result<String>);

pub const PAGES: [Page; 4] = [
    ("matrix.json", |doc| Ok(json::render(doc))),
    ("matrix.md", |doc| Ok(markdown::render(doc))),
    ("index.html", |doc| Ok(html::render(doc)?)),
    ("junit.xml", |doc| Ok(junit::render(doc))),
];

/// What pages of this document show, less what differs between two runs that found the same: how long it took, what was
/// executed and what was held, when and at which commit, how much memory is free.
pub fn shown(doc: &ReportDoc) -> Digest {
    let ReportDoc {
        version,
        spec,
        scope,
        orch,
        host,
        machines,
        summary,
        run: _,
        since: _,
        cases,
        flaky_steps,
        excluded,
        backends,
    } = doc;
    let stable = |case: &CaseResult| CaseResult {
        cached: false,
        known_since: None,
        row: None,
        ..case.clone()
    };
    let cases: Vec<_> = cases.iter().map(stable).collect();
    let flaky: Vec<_> = flaky_steps
        .iter()
        .map(|step| (&step.step, &step.reason, &step.executed))
        .collect();
    let backends: Vec<_> = backends
        .iter()
        .map(|backend| (&backend.name, stable_backend(backend)))
        .collect();
    let shown = (
        CODE.digest(),
        version,
        spec,
        scope,
        orch,
        (host, machines),
        summary.failed_steps,
        &cases,
        &flaky,
        excluded,
        &backends,
    );
    Digest::of(&serde_json::to_vec(&shown).expect("BUG: what a page shows serialises"))
}

/// A backend without its facts: how much memory is free at the moment makes no other report. Nor does what a browser's
/// device calls itself, once it was probed.
pub fn stable_backend(backend: &Backend) -> Value {
    let device = |device: &Device| json!([device.id, device.known_as(), device.kind]);
    let devices: Vec<_> = backend.devices.iter().map(device).collect();
    json!([backend.available, backend.reason, backend.remedy, devices])
}
