//! The worst figures of each target among the cases whose outputs were compared, and whose they are.

use std::collections::BTreeSet;

use indexmap::IndexMap;

use super::{CaseResult, Cell, Place, Table, View};
use crate::record::Numerics;
use crate::report::format::{cosine, error, tokens};
use crate::report::place::Variant;
use crate::report::verdict::{bound, tolerance};

const COLUMNS: [&str; 10] = [
    "target",
    "compared",
    "outside",
    "no control",
    "asked",
    "farthest value",
    "max abs",
    "mean abs",
    "cosine",
    "tokens",
];

/// Each with its place in the document.
type Compared<'a> = Vec<(usize, &'a CaseResult, &'a Numerics)>;

pub(super) fn numerics(view: &View<'_>) -> Vec<Table> {
    let mut compared: IndexMap<Variant<'_>, Compared<'_>> = IndexMap::new();
    for (at, case) in view.doc.cases.iter().enumerate() {
        if let Some(numerics) = case
            .numerics
            .as_ref()
            .filter(|numerics| !numerics.tensors.is_empty())
        {
            compared
                .entry(Place::from(case).variant)
                .or_default()
                .push((at, case, numerics));
        }
    }
    let rows = view
        .variants
        .iter()
        .filter_map(|variant| Some(row(variant, compared.get(variant)?)));
    vec![Table {
        title: String::new(),
        columns: &COLUMNS,
        rows: rows.collect(),
    }]
}

fn row(variant: &Variant<'_>, compared: &Compared<'_>) -> Vec<Cell> {
    let count = |pick: fn(&Numerics) -> bool| {
        compared
            .iter()
            .filter(|(.., numerics)| pick(numerics))
            .count()
    };
    let outside = match count(|numerics| !numerics.passed) {
        0 => "0".to_owned(),
        some => format!("✗ {some}"),
    };
    let tolerances = compared.iter().map(|(.., numerics)| {
        let looser = if numerics.looser.is_empty() {
            ""
        } else {
            " (looser than usual)"
        };
        tolerance(numerics) + looser
    });
    vec![
        Cell::of_cases(variant.name(), compared.iter().map(|(at, ..)| *at)),
        compared.len().to_string().into(),
        outside.into(),
        count(|numerics| numerics.no_control.is_some())
            .to_string()
            .into(),
        tolerances
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect::<Vec<_>>()
            .join("; ")
            .into(),
        worst(compared, |numerics| Some(numerics.worst), bound),
        worst(compared, |numerics| Some(numerics.max_abs), error),
        worst(compared, |numerics| Some(numerics.mae), error),
        worst(
            compared,
            |numerics| Some(-numerics.cosine?),
            |less| cosine(Some(-less)),
        ),
        worst(
            compared,
            |numerics| Some(-numerics.tokens?),
            |less| tokens(-less),
        ),
    ]
}

/// The greatest, of the first case that has it. Whole numbers and single values have no cosine, and most outputs no tokens.
fn worst(
    compared: &Compared<'_>,
    of: fn(&Numerics) -> Option<f64>,
    format: fn(f64) -> String,
) -> Cell {
    let values = compared
        .iter()
        .filter_map(|(_, case, numerics)| Some((of(numerics)?, *case)));
    let worst = values.reduce(|one, other| if other.0 > one.0 { other } else { one });
    Cell::or_dash(worst.map(|(value, case)| {
        // Beside the target's name the model's will do, if it has one size.
        let name = if Place::from(case).row.sizes.is_empty() {
            &case.model
        } else {
            &case.case
        };
        Cell::with(format(value), name)
    }))
}
