//! The cases arranged once for all pages: the matrix, groups of equal reasons, what ran on a stand-in for hardware.
//!
//! Rows and columns keep the order in which the document names them; the precisions of a target stand together.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use indexmap::IndexMap;
use serde_json::Value;

use super::{CaseResult, Excluded, ReportDoc, format};
use crate::device::{Backend, DeviceKind};
use crate::matrix::HalfChoice;
use crate::record::Outcome;

pub(super) struct View<'a> {
    pub(super) doc: &'a ReportDoc,
    pub(super) models: Vec<&'a str>,
    pub(super) variants: Vec<Variant<'a>>,
    /// `cells[model][variant]`
    pub(super) cells: Vec<Vec<Cell<'a>>>,
    kinds: HashMap<&'a str, DeviceKind>,
}

/// A column of the matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Variant<'a> {
    pub(super) target: &'a str,
    pub(super) precision: &'a str,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Cell<'a> {
    /// Position in [`ReportDoc::cases`].
    Case(usize, &'a CaseResult),
    Excluded(&'a Excluded),
    /// The spec does not ask for this pair.
    None,
}

impl Variant<'_> {
    pub(super) fn name(&self) -> String {
        format!("{}-{}", self.target, self.precision)
    }
}

impl<'a> View<'a> {
    pub(super) fn new(doc: &'a ReportDoc) -> Self {
        let case_keys = doc.cases.iter().map(|c| (c.model.as_str(), c.target.as_str(), c.precision.as_str()));
        let excluded_keys = doc.excluded.iter().map(|e| (e.model.as_str(), e.target.as_str(), e.precision.as_str()));
        let mut rows: IndexMap<&str, ()> = IndexMap::new();
        let mut targets: IndexMap<&str, Vec<&str>> = IndexMap::new();
        for (model, target, precision) in case_keys.chain(excluded_keys) {
            rows.entry(model).or_default();
            let precisions = targets.entry(target).or_default();
            if !precisions.contains(&precision) {
                precisions.push(precision);
            }
        }
        let variants: Vec<_> = targets
            .iter()
            .flat_map(|(target, precisions)| precisions.iter().map(move |precision| Variant { target, precision }))
            .collect();
        let columns: HashMap<_, _> = variants.iter().enumerate().map(|(at, v)| (*v, at)).collect();
        let mut cells = vec![vec![Cell::None; variants.len()]; rows.len()];
        for excluded in &doc.excluded {
            let variant = Variant { target: &excluded.target, precision: &excluded.precision };
            cells[rows.get_index_of(excluded.model.as_str()).expect("BUG: every model has a row")][columns[&variant]] =
                Cell::Excluded(excluded);
        }
        // After the exclusions: what has a result was not excluded, whatever the list says.
        for (at, case) in doc.cases.iter().enumerate() {
            let variant = Variant { target: &case.target, precision: &case.precision };
            cells[rows.get_index_of(case.model.as_str()).expect("BUG: every model has a row")][columns[&variant]] =
                Cell::Case(at, case);
        }
        let devices = doc.backends.iter().flat_map(|backend| &backend.devices);
        let kinds = devices.map(|device| (device.id.as_str(), device.kind)).collect();
        Self { doc, models: rows.into_keys().collect(), variants, cells, kinds }
    }

    /// What the case ran on, when that was no hardware: by what the prober says of the device, else by its name.
    pub(super) fn stand_in(&self, case: &CaseResult) -> Option<&'static str> {
        let device = case.actual_device.as_deref()?;
        match self.kinds.get(device) {
            Some(DeviceKind::Hardware) => None,
            Some(DeviceKind::Emulator) => Some("emulated"),
            Some(DeviceKind::Software) => Some("software"),
            None => {
                let device = device.to_lowercase();
                let has = |words: &[&str]| words.iter().any(|word| device.contains(word));
                if has(&["emulator", "emulated", "simulator"]) {
                    Some("emulated")
                } else {
                    has(&["software", "swiftshader", "llvmpipe", "lavapipe", "warp"]).then_some("software")
                }
            }
        }
    }

    /// What stands beside its figure: that a stand-in ran it, or in which precision it was computed, where that is another.
    pub(super) fn label(&self, case: &CaseResult) -> Option<&'static str> {
        let of_weights = || case.reduced_range().map(|_| "reduced range");
        self.stand_in(case).or_else(|| case.cast_to_fp32().map(|_| "cast to fp32")).or_else(of_weights)
    }

    /// Cases whose fp16 model was computed in fp32: the target, why, and of how many cases it is.
    pub(super) fn cast_to_fp32(&self) -> Vec<(&'a str, usize, &'a str)> {
        self.said(CaseResult::cast_to_fp32)
    }

    /// Cases whose int8 weights keep to a reduced range: the target, how they were made, and of how many cases it is.
    pub(super) fn reduced_range(&self) -> Vec<(&'a str, usize, &'a str)> {
        self.said(CaseResult::reduced_range)
    }

    fn said(&self, of: fn(&CaseResult) -> Option<&str>) -> Vec<(&'a str, usize, &'a str)> {
        let mut found: Vec<(&str, usize, &str)> = Vec::new();
        for case in &self.doc.cases {
            let Some(why) = of(case) else { continue };
            match found.iter_mut().find(|(target, ..)| *target == case.target) {
                Some((_, count, _)) => *count += 1,
                None => found.push((case.target.as_str(), 1, why)),
            }
        }
        found
    }

    /// A latency that may stand beside others: of a right result, on hardware.
    pub(super) fn comparable(&self, case: &CaseResult) -> bool {
        case.status == Outcome::Pass && case.metrics.is_some() && self.stand_in(case).is_none()
    }

    pub(super) fn column(&self, at: usize) -> impl Iterator<Item = Cell<'a>> + '_ {
        self.cells.iter().map(move |row| row[at])
    }

    /// Whether the column holds unavailable cases and nothing else that ran (exclusions do not count).
    pub(super) fn column_unavailable(&self, at: usize) -> bool {
        let mut any = false;
        for cell in self.column(at) {
            match cell {
                Cell::Case(_, case) if case.status == Outcome::SkipUnavailable => any = true,
                Cell::Case(..) => return false,
                _ => {}
            }
        }
        any
    }

    /// Cases of the given kind, in the order of the document.
    pub(super) fn cases(&self, pick: impl Fn(&CaseResult) -> bool) -> Vec<(usize, &'a CaseResult)> {
        self.doc.cases.iter().enumerate().filter(|(_, case)| pick(case)).collect()
    }

    /// Unavailable cases by backend and reason, with the backend's remedy.
    pub(super) fn unavailable(&self) -> Vec<Unavailable<'a>> {
        let backends: HashMap<&str, &Backend> = self.doc.backends.iter().map(|b| (b.name.as_str(), b)).collect();
        let mut groups: IndexMap<(&str, String), Unavailable<'a>> = IndexMap::new();
        for (at, case) in self.cases(|case| case.status == Outcome::SkipUnavailable) {
            let backend = backends.get(case.backend.as_str()).copied();
            let said = case.reason.as_deref().or(backend.and_then(|b| b.reason.as_deref()));
            let reason = format::one_line(said.unwrap_or("no reason was recorded"));
            let group = groups.entry((&case.backend, reason.clone())).or_insert_with(|| Unavailable {
                backend: &case.backend,
                reason,
                // The prober's remedy mends what the prober misses; a backend that is there has none.
                remedy: backend.filter(|b| !b.available).and_then(|b| b.remedy.as_deref()),
                variants: Vec::new(),
                cases: Vec::new(),
            });
            let variant = Variant { target: &case.target, precision: &case.precision };
            if !group.variants.contains(&variant) {
                group.variants.push(variant);
            }
            group.cases.push(at);
        }
        groups.into_values().collect()
    }

    /// What targets with `half` came to: the target, the choice, and of how many cases it is.
    pub(super) fn halves(&self) -> Vec<(&'a str, &'a HalfChoice, usize)> {
        let mut found: Vec<(&str, &HalfChoice, usize)> = Vec::new();
        let asked = self.doc.cases.iter().filter_map(|case| Some((case.target.as_str(), case.half.as_ref()?)));
        for (target, half) in asked {
            match found.iter_mut().find(|(known, choice, _)| (*known, *choice) == (target, half)) {
                Some((.., count)) => *count += 1,
                None => found.push((target, half, 1)),
            }
        }
        found
    }

    /// Exclusions by reason.
    pub(super) fn exclusions(&self) -> IndexMap<&'a str, Vec<&'a Excluded>> {
        let mut groups: IndexMap<&str, Vec<_>> = IndexMap::new();
        for excluded in &self.doc.excluded {
            groups.entry(excluded.reason.as_str()).or_default().push(excluded);
        }
        groups
    }

    /// How many figures are of earlier runs, and of which days: `2026-01-14`, `2026-01-12 to 2026-01-14`.
    pub(super) fn earlier(&self) -> Option<String> {
        let figures = self.cases(|case| case.metrics.is_some());
        let earlier: Vec<_> = figures.iter().filter(|(_, case)| case.cached).collect();
        let days = earlier.iter().filter_map(|(_, case)| case.measured.as_deref().map(format::day));
        let (first, last) = (days.clone().min(), days.max());
        let days = match (first, last) {
            (Some(first), Some(last)) if first == last => format!(" ({first})"),
            (Some(first), Some(last)) => format!(" ({first} to {last})"),
            _ => String::new(),
        };
        let (some, all) = (earlier.len(), figures.len());
        (some > 0)
            .then(|| format!("{some} of {} measured in earlier runs{days}", format::counted(all, "latency figure")))
    }

    /// The worst figures per target among the cases whose outputs were compared.
    pub(super) fn worst(&self) -> Vec<Worst<'a>> {
        let mut worst: IndexMap<Variant<'a>, Worst<'a>> = IndexMap::new();
        for case in &self.doc.cases {
            let Some(numerics) = case.numerics.as_ref().filter(|numerics| !numerics.tensors.is_empty()) else {
                continue;
            };
            let variant = Variant { target: &case.target, precision: &case.precision };
            let row = worst.entry(variant).or_insert_with(|| Worst {
                variant,
                cases: 0,
                failed: 0,
                max_abs: (-1.0, ""),
                mae: (-1.0, ""),
                cosine: (Some(2.0), ""),
            });
            row.cases += 1;
            row.failed += usize::from(!numerics.passed);
            if numerics.max_abs > row.max_abs.0 {
                row.max_abs = (numerics.max_abs, &case.model);
            }
            if numerics.mae > row.mae.0 {
                row.mae = (numerics.mae, &case.model);
            }
            // An undefined cosine is the worst.
            if row.cosine.0.is_some_and(|least| numerics.cosine.is_none_or(|cosine| cosine < least)) {
                row.cosine = (numerics.cosine, &case.model);
            }
        }
        self.variants.iter().filter_map(|variant| worst.shift_remove(variant)).collect()
    }

    /// Package versions over all cases; more than one value is worth seeing.
    pub(super) fn versions(&self) -> BTreeMap<&'a str, BTreeSet<String>> {
        let mut versions: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        for case in &self.doc.cases {
            for (name, version) in case_versions(case) {
                let known = versions.entry(name).or_default();
                if !known.contains(version) {
                    known.insert(version.to_owned());
                }
            }
        }
        versions
    }
}

/// One backend that is not there, for one reason.
pub(super) struct Unavailable<'a> {
    pub(super) backend: &'a str,
    pub(super) reason: String,
    pub(super) remedy: Option<&'a str>,
    pub(super) variants: Vec<Variant<'a>>,
    pub(super) cases: Vec<usize>,
}

/// Figures with the model that has them.
pub(super) struct Worst<'a> {
    pub(super) variant: Variant<'a>,
    pub(super) cases: usize,
    pub(super) failed: usize,
    pub(super) max_abs: (f64, &'a str),
    pub(super) mae: (f64, &'a str),
    pub(super) cosine: (Option<f64>, &'a str),
}

/// The `versions` of a case's facts.
pub(super) fn case_versions(case: &CaseResult) -> impl Iterator<Item = (&str, &str)> {
    let versions = case.facts.get("versions").and_then(Value::as_object);
    versions.into_iter().flatten().filter_map(|(name, version)| Some((name.as_str(), version.as_str()?)))
}

/// `bert on cpu-fp32`
pub(super) fn case_name(case: &CaseResult) -> String {
    format!("{} on {}-{}", case.model, case.target, case.precision)
}
