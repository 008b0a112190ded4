//! The place of a case: its model and sizes are a row of the matrix, its target and precision a column. With all four it
//! has its name; without one of them two cases would share a cell, and one of them would be hidden.

use super::{CaseResult, Excluded};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Place<'a> {
    pub(super) row: Row<'a>,
    pub(super) variant: Variant<'a>,
}

/// A row of the matrix: a model at its sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Row<'a> {
    pub(super) model: &'a str,
    /// `b4-s128`, as far as they are not the model's own.
    pub(super) sizes: &'a str,
}

/// A column of the matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Variant<'a> {
    pub(super) target: &'a str,
    pub(super) precision: &'a str,
}

impl<'a> Place<'a> {
    fn new(id: &'a str, model: &'a str, target: &'a str, precision: &'a str) -> Self {
        let before = [model, ":", target, "-", precision, "-"];
        let sizes = before
            .into_iter()
            .try_fold(id, |rest, part| rest.strip_prefix(part))
            .unwrap_or_default();
        let row = Row { model, sizes };
        Self {
            row,
            variant: Variant { target, precision },
        }
    }

    /// `cpu-fp32`, `cpu-fp32-b4`
    pub(super) fn variant_name(&self) -> String {
        let dash = if self.row.sizes.is_empty() { "" } else { "-" };
        format!("{}{dash}{}", self.variant.name(), self.row.sizes)
    }

    /// `bert on cpu-fp32-b4`
    pub(super) fn name(&self) -> String {
        format!("{} on {}", self.row.model, self.variant_name())
    }
}

impl<'a> From<&'a CaseResult> for Place<'a> {
    fn from(case: &'a CaseResult) -> Self {
        Self::new(&case.case, &case.model, &case.target, &case.precision)
    }
}

impl<'a> From<&'a Excluded> for Place<'a> {
    fn from(excluded: &'a Excluded) -> Self {
        Self::new(
            &excluded.case,
            &excluded.model,
            &excluded.target,
            &excluded.precision,
        )
    }
}

impl Row<'_> {
    /// `bert`, or `bert@b4-s128` as its steps and the folder of its artefacts have it.
    pub(super) fn name(&self) -> String {
        let at = if self.sizes.is_empty() { "" } else { "@" };
        format!("{}{at}{}", self.model, self.sizes)
    }
}

impl Variant<'_> {
    pub(super) fn name(&self) -> String {
        format!("{}-{}", self.target, self.precision)
    }
}
