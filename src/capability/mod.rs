//! The capability table: what is asserted of families and of model types on backends, and what runs measured, side by side.
//!
//! `specs/capabilities.yaml` is the table. Assertions stand in it by hand, each with its source. What was measured is taken
//! from reports of runs (`update`), and the figures beside the assertions are counted from that (`count`): reading a file in
//! which they differ is an error, so no figure stands there that no run gave. Pure: text and reports in, text out.

mod count;
mod coverage;
mod select;
#[cfg(test)]
mod tests;
pub mod text;
mod update;
mod write;

use std::collections::{BTreeMap, BTreeSet};

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use crate::base::{is_default, suggest};
use crate::device::BACKENDS;
use crate::record::{Outcome, Weights};
use crate::spec;

pub use coverage::Coverage;
pub use update::{Updated, host_name};

/// The version of the file's shape.
const VERSION: u32 = 1;
/// The table that orch comes with, for machines that have no checkout of it.
pub const OWN: &str = include_str!("../../specs/capabilities.yaml");

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    version: u32,
    /// Who asserts something, by the names that assertions give.
    pub sources: IndexMap<String, Source>,
    pub families: Subjects,
    pub types: Subjects,
    /// What was measured, in ascending order of day, host and spec.
    pub runs: Vec<Run>,
}

/// Cells by family or model type, then by backend.
pub type Subjects = BTreeMap<String, BTreeMap<String, Cell>>;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    pub document: String,
    /// The day on which it was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// One family or model type on one backend.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asserted: Option<Asserted>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub measured: Vec<Measured>,
    /// What runs found that is not as asserted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contradicted: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asserted {
    /// One of [`Table::sources`].
    pub source: String,
    pub compatible: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
    /// What others assert to make it faster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<String>,
    /// What the source calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub called: Option<String>,
    /// Tables of the same source that say the contrary.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disputed_by: Vec<String>,
}

/// How many cases of one column were right on one machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// `cpu-fp32`
    pub column: String,
    pub right: u32,
    /// Those that were tried: what did not run is in neither count.
    pub asked: u32,
    /// Those of the right ones that a looser tolerance than orch's own let pass.
    #[serde(default, skip_serializing_if = "is_default")]
    pub loosely: u32,
    /// `YYYY-MM-DD`
    pub first: String,
    pub last: String,
    pub host: String,
    /// What it ran on where that is no hardware: `emulated`, `software`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<String>,
}

/// What one machine found on one day of one spec, as far as no later run found it again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// `YYYY-MM-DD`
    pub day: String,
    pub host: String,
    pub spec: String,
    /// The version that ran it.
    pub orch: String,
    pub columns: BTreeMap<String, Column>,
    pub models: BTreeMap<String, Row>,
}

/// A target at a precision, and at sizes where they are not the models' own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    pub target: String,
    pub precision: String,
    pub backend: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<String>,
}

/// One model of a spec.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// None of ready files.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub model_type: Option<String>,
    pub family: String,
    pub task: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<Weights>,
    /// How many it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<u64>,
    /// The exporter that worked, or `none`, by the form that was exported: `onnx: legacy`. Eager runs need no
    /// exporter.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub exporters: BTreeMap<String, String>,
    /// The columns that ended so.
    pub ends: BTreeMap<Outcome, BTreeSet<String>>,
    /// The columns that were held to a looser tolerance than orch's own.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub loosely: BTreeSet<String>,
}

/// One result.
#[derive(Clone, Copy)]
struct Case<'a> {
    run: &'a Run,
    model: &'a str,
    row: &'a Row,
    name: &'a str,
    column: &'a Column,
    outcome: Outcome,
}

impl Table {
    /// Reads the text of a table.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong with it: no such YAML, a name that nothing declares, a figure that no run gave.
    pub fn read(text: &str) -> Result<Self, String> {
        let table: Self = spec::yaml_as(text)?;
        table.check()?;
        // Who adds an assertion need not say what runs make of it.
        Ok(table.counted())
    }

    /// A table in which nothing was measured, and nothing is asserted.
    pub fn empty() -> Self {
        Self {
            version: VERSION,
            sources: IndexMap::new(),
            families: BTreeMap::new(),
            types: BTreeMap::new(),
            runs: Vec::new(),
        }
    }

    /// The table without what anybody asserts: what runs measured is left.
    pub fn without_assertions(mut self) -> Self {
        self.sources.clear();
        self.types.clear();
        self.families.clear();
        self.counted()
    }

    fn check(&self) -> Result<(), String> {
        if self.version != VERSION {
            return Err(format!(
                "version {} is not known: this orch reads `version: {VERSION}`",
                self.version
            ));
        }
        for run in &self.runs {
            let used = run
                .models
                .values()
                .flat_map(|row| row.ends.values().flatten());
            if let Some(lost) = used
                .into_iter()
                .find(|name| !run.columns.contains_key(*name))
            {
                return Err(format!("the run of {} has no column `{lost}`", run.day));
            }
        }
        let counted = self.clone().counted();
        for (section, subjects, counted) in [
            ("families", &self.families, &counted.families),
            ("types", &self.types, &counted.types),
        ] {
            self.check_assertions(section, subjects)?;
            let measured = |subjects| -> BTreeMap<_, _> {
                let cells = cells(subjects).filter(|(.., cell)| !cell.measured.is_empty());
                cells
                    .map(|(name, backend, cell)| {
                        (format!("{section}.{name}.{backend}"), &cell.measured)
                    })
                    .collect()
            };
            let written = measured(subjects);
            let found = measured(counted);
            if let Some(name) = written
                .keys()
                .chain(found.keys())
                .find(|name| written.get(*name) != found.get(*name))
            {
                return Err(format!(
                    "{name}: `measured` is not what `runs` says: `orch capabilities --update` writes it"
                ));
            }
        }
        Ok(())
    }

    fn check_assertions(&self, section: &str, subjects: &Subjects) -> Result<(), String> {
        for (name, backend, cell) in cells(subjects) {
            if !BACKENDS.iter().any(|row| row.name == backend) {
                let hint = suggest::hint(backend, BACKENDS.iter().map(|row| row.name));
                return Err(format!(
                    "{section}.{name}: there is no backend `{backend}`; {hint}"
                ));
            }
            let source = cell
                .asserted
                .iter()
                .map(|asserted| asserted.source.as_str())
                .next();
            if let Some(lost) = source.filter(|source| !self.sources.contains_key(*source)) {
                let hint = suggest::hint(lost, self.sources.keys().map(String::as_str));
                return Err(format!(
                    "{section}.{name}.{backend}: there is no source `{lost}`; {hint}"
                ));
            }
        }
        Ok(())
    }

    fn cases(&self) -> impl Iterator<Item = Case<'_>> {
        self.runs.iter().flat_map(|run| {
            run.models.iter().flat_map(move |(model, row)| {
                let ends = row
                    .ends
                    .iter()
                    .flat_map(|(outcome, names)| names.iter().map(move |name| (*outcome, name)));
                ends.map(move |(outcome, name)| Case {
                    run,
                    model,
                    row,
                    name,
                    column: &run.columns[name],
                    outcome,
                })
            })
        })
    }
}

impl Case<'_> {
    /// It ran on the requested device, and other outputs would not have been taken for right.
    fn is_right(&self) -> bool {
        matches!(
            self.outcome,
            Outcome::Pass | Outcome::Flaky | Outcome::Xpass
        )
    }
}

fn cells(subjects: &Subjects) -> impl Iterator<Item = (&str, &str, &Cell)> {
    subjects.iter().flat_map(|(name, cells)| {
        cells
            .iter()
            .map(move |(backend, cell)| (name.as_str(), backend.as_str(), cell))
    })
}
