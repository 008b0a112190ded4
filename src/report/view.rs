//! The cases arranged once for all pages: the matrix, groups of equal reasons, what ran on a stand-in for hardware.
//!
//! Rows and columns keep the order in which the document names them; the precisions of a target stand together, and so do
//! the sizes of a model. What a case is called is `place.rs`; which cases have one cause, `cause.rs`.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use indexmap::{IndexMap, IndexSet};

use super::place::{Place, Row, Variant};
use super::{CaseResult, Excluded, ReportDoc, format};
use crate::base::figures::counted;
use crate::device::{Backend, DeviceKind};
use crate::matrix::HalfChoice;
use crate::record::Outcome;

pub(super) struct View<'a> {
    pub(super) doc: &'a ReportDoc,
    pub(super) rows: Vec<Row<'a>>,
    pub(super) variants: Vec<Variant<'a>>,
    /// `cells[row][variant]`
    pub(super) cells: Vec<Vec<Cell<'a>>>,
    kinds: HashMap<&'a str, DeviceKind>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Cell<'a> {
    /// Position in [`ReportDoc::cases`].
    Case(usize, &'a CaseResult),
    Excluded(&'a Excluded),
    /// The spec does not ask for this pair.
    None,
}

impl<'a> View<'a> {
    pub(super) fn new(doc: &'a ReportDoc) -> Self {
        let places = doc.cases.iter().map(Place::from).chain(doc.excluded.iter().map(Place::from));
        let mut models: IndexMap<&str, IndexSet<Row<'a>>> = IndexMap::new();
        let mut targets: IndexMap<&str, IndexSet<Variant<'a>>> = IndexMap::new();
        for place in places {
            models.entry(place.row.model).or_default().insert(place.row);
            targets.entry(place.variant.target).or_default().insert(place.variant);
        }
        let rows: IndexSet<Row<'a>> = models.into_values().flatten().collect();
        let variants: IndexSet<Variant<'a>> = targets.into_values().flatten().collect();
        let mut cells = vec![vec![Cell::None; variants.len()]; rows.len()];
        let mut place = |place: Place<'a>, cell: Cell<'a>| {
            let row = rows.get_index_of(&place.row).expect("BUG: every case has a row");
            cells[row][variants.get_index_of(&place.variant).expect("BUG: every case has a column")] = cell;
        };
        for excluded in &doc.excluded {
            place(excluded.into(), Cell::Excluded(excluded));
        }
        // After the exclusions: what has a result was not excluded, whatever the list says.
        for (at, case) in doc.cases.iter().enumerate() {
            place(case.into(), Cell::Case(at, case));
        }
        let devices = doc.backends.iter().flat_map(|backend| &backend.devices);
        let kinds = devices.map(|device| (device.id.as_str(), device.kind)).collect();
        Self { doc, rows: rows.into_iter().collect(), variants: variants.into_iter().collect(), cells, kinds }
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
            let variant = Place::from(case).variant;
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
        (some > 0).then(|| format!("{some} of {} measured in earlier runs{days}", counted(all, "latency figure")))
    }

    /// The worst figures per target among the cases whose outputs were compared.
    pub(super) fn worst(&self) -> Vec<Worst<'a>> {
        let mut worst: IndexMap<Variant<'a>, Worst<'a>> = IndexMap::new();
        for case in &self.doc.cases {
            let Some(numerics) = case.numerics.as_ref().filter(|numerics| !numerics.tensors.is_empty()) else {
                continue;
            };
            let Place { row: at, variant } = case.into();
            // Beside the target's name the model's will do, if it has one size.
            let name = if at.sizes.is_empty() { &case.model } else { &case.case };
            let row = worst.entry(variant).or_insert_with(|| Worst {
                variant,
                cases: 0,
                failed: 0,
                max_abs: (-1.0, ""),
                mae: (-1.0, ""),
                cosine: (None, ""),
                tokens: (None, ""),
                met: (-1.0, ""),
                asked: BTreeSet::new(),
                no_control: 0,
            });
            row.cases += 1;
            row.failed += usize::from(!numerics.passed);
            if numerics.max_abs > row.max_abs.0 {
                row.max_abs = (numerics.max_abs, name);
            }
            if numerics.mae > row.mae.0 {
                row.mae = (numerics.mae, name);
            }
            if numerics.worst > row.met.0 {
                row.met = (numerics.worst, name);
            }
            // Whole numbers and single values have none.
            if numerics.cosine.is_some_and(|cosine| row.cosine.0.is_none_or(|least| cosine < least)) {
                row.cosine = (numerics.cosine, name);
            }
            if numerics.tokens.is_some_and(|share| row.tokens.0.is_none_or(|least| share < least)) {
                row.tokens = (numerics.tokens, name);
            }
            row.no_control += usize::from(numerics.no_control.is_some());
            let asked = super::verdict::asked(numerics);
            row.asked.insert(if numerics.looser.is_empty() { asked } else { format!("{asked} (looser than usual)") });
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

/// Figures with the case that has them.
pub(super) struct Worst<'a> {
    pub(super) variant: Variant<'a>,
    pub(super) cases: usize,
    pub(super) failed: usize,
    pub(super) max_abs: (f64, &'a str),
    pub(super) mae: (f64, &'a str),
    pub(super) cosine: (Option<f64>, &'a str),
    pub(super) tokens: (Option<f64>, &'a str),
    /// The largest difference as a multiple of its bound.
    pub(super) met: (f64, &'a str),
    /// The tolerances that were asked.
    pub(super) asked: BTreeSet<String>,
    /// Cases for which no other input could be made.
    pub(super) no_control: usize,
}

/// The `versions` of a case's facts.
pub(super) fn case_versions(case: &CaseResult) -> impl Iterator<Item = (&str, &str)> {
    let versions = case.facts.get("versions").and_then(|versions| versions.as_object());
    versions.into_iter().flatten().filter_map(|(name, version)| Some((name.as_str(), version.as_str()?)))
}

/// `bert on cpu-fp32`, `bert on cpu-fp32-b4`
pub(super) fn case_name(case: &CaseResult) -> String {
    Place::from(case).name()
}
