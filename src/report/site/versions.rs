//! Pages that stay: what a case came to with one version of orch and of the packages that made its result.
//!
//! The page of a case always shows its newest result. Whoever cites a result cites the page of its version, and that page is
//! made again as long as the site's folder holds it: its data is a report of one case.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::names::{below, pair};
use crate::base::Digest;
use crate::device::{Backend, Device};
use crate::report::format::{day, glyph, kind_of, word};
use crate::report::view::{View, case_versions};
use crate::report::{CaseResult, Metrics, ReportDoc, Summary};

/// The folder of these pages.
pub const FOLDER: &str = "versions/";

/// All versions, by case; those of one case with the newest first.
pub(super) struct Versions(BTreeMap<String, Vec<Version>>);

/// A case with the packages that made its result.
pub(super) struct Version {
    /// A report of this one case.
    pub(super) doc: ReportDoc,
    id: String,
    /// The path of its page without the ending.
    path: String,
}

impl Versions {
    /// Those of the report, and those that earlier reports had and this one does not.
    pub(super) fn of(view: &View<'_>, earlier: &[ReportDoc]) -> Self {
        let mut all: BTreeMap<String, Vec<Version>> = BTreeMap::new();
        let own = view.doc.cases.iter().map(|case| alone(view, case));
        // The report's own come first: of one version, its result is the one that counts.
        for doc in own.chain(earlier.iter().cloned()) {
            let Some(version) = Version::of(doc) else {
                continue;
            };
            let of_case = all.entry(version.case().case.clone()).or_default();
            if of_case.iter().all(|known| known.id != version.id) {
                of_case.push(version);
            }
        }
        for of_case in all.values_mut() {
            of_case.sort_by(|one, other| other.case().measured.cmp(&one.case().measured));
        }
        Self(all)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Version> {
        self.0.values().flatten()
    }

    /// The versions of a case in words.
    pub(super) fn of_case(&self, case: &str) -> Vec<Value> {
        let own = self.0.get(case).into_iter().flatten();
        own.map(Version::words).collect()
    }
}

impl Version {
    /// None of a case of which no package is on record: nothing computed.
    fn of(doc: ReportDoc) -> Option<Self> {
        let case = doc.cases.first()?;
        let mut packages: Vec<(&str, &str)> = case_versions(case).collect();
        packages.sort_unstable();
        if packages.is_empty() {
            return None;
        }
        let named = format!("{:?}\n{packages:?}", doc.orch);
        let id = Digest::of(named.as_bytes()).short();
        let path = format!("{FOLDER}{}/{id}", below(&View::new(&doc), 0));
        Some(Self { id, path, doc })
    }

    pub(super) fn case(&self) -> &CaseResult {
        &self.doc.cases[0]
    }

    pub(super) fn page(&self) -> String {
        format!("{}.html", self.path)
    }

    pub(super) fn data(&self) -> String {
        format!("{}.json", self.path)
    }

    /// The page with the newest result of its case, where there still is one.
    pub(super) fn newest(&self, view: &View<'_>) -> Option<String> {
        let is_it = |case: &CaseResult| case.case == self.case().case;
        let at = view.doc.cases.iter().position(is_it)?;
        Some(pair(view, at))
    }

    pub(super) fn words(&self) -> Value {
        let case = self.case();
        let packages: BTreeMap<&str, &str> = case_versions(case).collect();
        let named: Vec<String> = packages
            .iter()
            .map(|(name, version)| format!("{name} {version}"))
            .collect();
        json!({
            "version": self.id,
            "page": self.page(),
            "json": self.data(),
            "orch": self.doc.orch,
            "packages": packages,
            "named": named.join(", "),
            "status": case.status,
            "kind": kind_of(case),
            "glyph": glyph(case.status),
            "word": word(case.status),
            "latency": case.metrics.as_ref().map(Metrics::latency),
            "day": case.measured.as_deref().map(day),
            "measured": case.measured,
        })
    }
}

/// A report of one case, without what is of its machine alone: paths, logs, samples.
fn alone(view: &View<'_>, case: &CaseResult) -> ReportDoc {
    let doc = view.doc;
    let machine = crate::report::Machine::of(doc, case);
    let host = doc.hosts().iter().find(|host| host.name == machine.name);
    let mut case = CaseResult {
        repro: None,
        log: None,
        row: None,
        // What later runs of the same did is no part of its result.
        cached: false,
        ..case.clone()
    };
    if let Some(metrics) = &mut case.metrics {
        metrics.samples_ms = Vec::new();
    }
    let device = |device: &Device| Device {
        facts: Default::default(),
        ..device.clone()
    };
    let backends = doc.backends.iter().filter(|it| it.name == case.backend);
    let backends = backends.map(|backend| Backend {
        devices: backend.devices.iter().map(device).collect(),
        facts: Default::default(),
        half: Vec::new(),
        ..backend.clone()
    });
    let backends = backends.collect();
    let cases = vec![case];
    ReportDoc {
        version: doc.version,
        spec: doc.spec.clone(),
        scope: None,
        orch: doc.orch.clone(),
        host: host.unwrap_or(&doc.host).clone(),
        machines: Vec::new(),
        summary: Summary::of(&cases, &[]),
        run: None,
        since: Vec::new(),
        cases,
        flaky_steps: Vec::new(),
        excluded: Vec::new(),
        backends,
    }
}
