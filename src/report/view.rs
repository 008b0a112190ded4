//! The cases arranged once for all sections: rows and columns, what ran on a stand-in for hardware.
//!
//! Rows and columns keep the order in which the document names them; the precisions of a target stand together, and so do
//! the sizes of a model. What a case is called is `place.rs`; which cases have one cause, `cause.rs`.

use std::collections::HashMap;

use indexmap::{IndexMap, IndexSet};

use super::machine::{Machine, Machines};
use super::place::{Place, Row, Variant};
use super::{CaseResult, Excluded, Executed, Metrics, ReportDoc, Trends};
use crate::device::{Backend, DeviceKind};
use crate::record::Outcome;

pub(super) struct View<'a> {
    pub(super) doc: &'a ReportDoc,
    pub(super) rows: Vec<Row<'a>>,
    pub(super) variants: Vec<Variant<'a>>,
    /// `cells[row][variant]`
    pub(super) cells: Vec<Vec<Cell<'a>>>,
    pub(super) machines: Machines<'a>,
    kinds: Kinds<'a>,
    trends: Option<&'a Trends>,
}

/// What the probers say that each device is made of.
pub(crate) struct Kinds<'a>(HashMap<&'a str, DeviceKind>);

#[derive(Debug, Clone, Copy)]
pub(super) enum Cell<'a> {
    /// Position in [`ReportDoc::cases`].
    Case(usize, &'a CaseResult),
    /// Its position after the cases.
    Excluded(usize, &'a Excluded),
    /// The spec does not ask for this pair.
    None,
}

impl<'a> Cell<'a> {
    pub(super) fn case(&self) -> Option<(usize, &'a CaseResult)> {
        if let Self::Case(at, case) = self {
            Some((*at, case))
        } else {
            None
        }
    }
}

impl<'a> View<'a> {
    pub(super) fn new(doc: &'a ReportDoc) -> Self {
        let places = doc
            .cases
            .iter()
            .map(Place::from)
            .chain(doc.excluded.iter().map(Place::from));
        let mut models: IndexMap<&str, IndexSet<Row<'a>>> = IndexMap::new();
        let mut targets: IndexMap<&str, IndexSet<Variant<'a>>> = IndexMap::new();
        for place in places {
            models.entry(place.row.model).or_default().insert(place.row);
            targets
                .entry(place.variant.target)
                .or_default()
                .insert(place.variant);
        }
        let rows: IndexSet<Row<'a>> = models.into_values().flatten().collect();
        let variants: IndexSet<Variant<'a>> = targets.into_values().flatten().collect();
        let mut cells = vec![vec![Cell::None; variants.len()]; rows.len()];
        let mut place = |place: Place<'a>, cell: Cell<'a>| {
            let row = rows
                .get_index_of(&place.row)
                .expect("BUG: every case has a row");
            cells[row][variants
                .get_index_of(&place.variant)
                .expect("BUG: every case has a column")] = cell;
        };
        for (at, excluded) in doc.excluded.iter().enumerate() {
            place(
                excluded.into(),
                Cell::Excluded(doc.cases.len() + at, excluded),
            );
        }
        // After the exclusions: what has a result was not excluded, whatever the list says.
        for (at, case) in doc.cases.iter().enumerate() {
            place(case.into(), Cell::Case(at, case));
        }
        let rows = rows.into_iter().collect();
        let variants = variants.into_iter().collect();
        Self {
            doc,
            rows,
            variants,
            cells,
            machines: Machines::of(doc),
            kinds: Kinds::of(doc),
            trends: None,
        }
    }

    /// The view with what a history holds of the cases.
    pub(super) fn with(doc: &'a ReportDoc, trends: &'a Trends) -> Self {
        Self {
            trends: Some(trends),
            ..Self::new(doc)
        }
    }

    /// How the case went on its machine.
    pub(super) fn trend(&self, case: &CaseResult) -> Option<&'a [Executed]> {
        let host = case.host.as_ref().unwrap_or(&self.doc.host.name);
        self.trends?
            .get(&(case.case.clone(), host.clone()))
            .map(Vec::as_slice)
    }

    /// The letter of the machine that measured the case; None where one machine measured all.
    pub(super) fn letter(&self, case: &CaseResult) -> Option<&'static str> {
        self.machines.letter(&Machine::of(self.doc, case))
    }

    /// Whether one machine measured both: figures of two are never compared.
    pub(super) fn on_one_machine(&self, one: &CaseResult, other: &CaseResult) -> bool {
        Machine::of(self.doc, one).is(&Machine::of(self.doc, other))
    }

    /// What the case ran on, when that was no hardware.
    pub(super) fn stand_in(&self, case: &CaseResult) -> Option<&'static str> {
        self.kinds.stand_in(case)
    }

    /// What stands beside its figure: that a stand-in ran it, or in which precision it was computed, where that is another.
    pub(super) fn label(&self, case: &CaseResult) -> Option<&'static str> {
        let of_weights = || case.reduced_range().map(|_| "reduced range");
        let of_inputs = || case.has_idle_inputs().then_some("ignores inputs");
        self.stand_in(case)
            .or_else(|| case.cast_to_fp32().map(|_| "cast to fp32"))
            .or_else(of_weights)
            .or_else(of_inputs)
            .or_else(|| case.export_stand_ins().map(|_| "export helped"))
    }

    /// A latency that may stand beside others: of a right result, on hardware.
    pub(super) fn comparable(&self, case: &CaseResult) -> bool {
        case.status == Outcome::Pass && case.metrics.is_some() && self.stand_in(case).is_none()
    }

    /// Its median, ms, where that may stand beside others.
    pub(super) fn median(&self, case: &CaseResult) -> Option<f64> {
        let median = case
            .metrics
            .as_ref()
            .filter(|_| self.comparable(case))?
            .median_ms;
        (median > 0.0).then_some(median)
    }

    /// [`Self::median`] where it may be read as it stands.
    pub(super) fn quiet_median(&self, case: &CaseResult) -> Option<f64> {
        self.median(case)
            .filter(|_| case.metrics.as_ref().is_some_and(Metrics::is_quiet))
    }

    pub(super) fn column(&self, at: usize) -> impl Iterator<Item = Cell<'a>> + '_ {
        self.cells.iter().map(move |row| row[at])
    }

    /// Cases of the given kind, in the order of the document.
    pub(super) fn cases(&self, pick: impl Fn(&CaseResult) -> bool) -> Vec<(usize, &'a CaseResult)> {
        self.doc
            .cases
            .iter()
            .enumerate()
            .filter(|(_, case)| pick(case))
            .collect()
    }

    /// The prober's answer about the case's backend.
    pub(super) fn backend(&self, case: &CaseResult) -> Option<&'a Backend> {
        self.doc
            .backends
            .iter()
            .find(|backend| backend.name == case.backend)
    }

    /// The place of a case, or, counted on after the cases, of an exclusion.
    pub(super) fn place(&self, at: usize) -> Place<'a> {
        match self.doc.cases.get(at) {
            Some(case) => case.into(),
            None => (&self.doc.excluded[at - self.doc.cases.len()]).into(),
        }
    }

    /// The first names, and how many more there are. One more takes no more room than to say so.
    pub(super) fn names(&self, at: &[usize], most: usize) -> String {
        let shown = if at.len() == most + 1 { at.len() } else { most };
        let names: Vec<String> = at
            .iter()
            .take(shown)
            .map(|&at| self.place(at).name())
            .collect();
        let more = if at.len() > shown {
            format!(" and {} more", at.len() - shown)
        } else {
            String::new()
        };
        format!("{}{more}", names.join(", "))
    }
}

impl<'a> Kinds<'a> {
    pub(crate) fn of(doc: &'a ReportDoc) -> Self {
        let devices = doc.backends.iter().flat_map(|backend| &backend.devices);
        Self(
            devices
                .map(|device| (device.id.as_str(), device.kind))
                .collect(),
        )
    }

    /// What the case ran on, when that was no hardware: by what the prober says of the device, else by its name.
    pub(crate) fn stand_in(&self, case: &CaseResult) -> Option<&'static str> {
        let device = case.actual_device.as_deref()?;
        match self.0.get(device) {
            Some(kind) => stand_in(*kind),
            None => {
                let device = device.to_lowercase();
                let has = |words: &[&str]| words.iter().any(|word| device.contains(word));
                let is_software =
                    || has(&["software", "swiftshader", "llvmpipe", "lavapipe", "warp"]);
                let emulated = has(&["emulator", "emulated", "simulator"]).then_some("emulated");
                emulated.or_else(|| is_software().then_some("software"))
            }
        }
    }
}

/// What stands beside figures of a backend that has no hardware here.
pub(crate) fn stand_in_for(backend: &Backend) -> Option<&'static str> {
    let mut kinds = backend.devices.iter().map(|device| device.kind);
    if kinds.clone().any(|kind| kind == DeviceKind::Hardware) {
        None
    } else {
        stand_in(kinds.next()?)
    }
}

/// What stands beside the figures of such a device.
pub(super) fn stand_in(kind: DeviceKind) -> Option<&'static str> {
    match kind {
        DeviceKind::Hardware => None,
        DeviceKind::Emulator => Some("emulated"),
        DeviceKind::Software => Some("software"),
    }
}

/// The `versions` of a case's facts.
pub(crate) fn case_versions(case: &CaseResult) -> impl Iterator<Item = (&str, &str)> {
    let versions = case
        .facts
        .get("versions")
        .and_then(|versions| versions.as_object());
    versions
        .into_iter()
        .flatten()
        .filter_map(|(name, version)| Some((name.as_str(), version.as_str()?)))
}

/// `bert on cpu-fp32`, `bert on cpu-fp32-b4`
pub(super) fn case_name(case: &CaseResult) -> String {
    Place::from(case).name()
}
