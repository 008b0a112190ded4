//! How much of transformers is covered: of each family's model types, how many have a model that is right on a backend.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::Table;
use crate::spec;

#[derive(Debug, PartialEq, Serialize)]
pub struct Coverage {
    /// The version that the types are of.
    pub transformers: &'static str,
    /// Coverage by family; `all` is the last.
    pub families: Vec<OfFamily>,
}

#[derive(Debug, PartialEq, Serialize)]
pub struct OfFamily {
    pub family: &'static str,
    pub types: usize,
    /// Coverage by backend, and by what stands in for it: `qnn (emulated)`.
    pub backends: BTreeMap<String, Covered>,
}

/// How many types of a family a backend covers.
#[derive(Debug, PartialEq, Serialize)]
pub struct Covered {
    /// Types with at least one run.
    pub asked: usize,
    /// Types with at least one right model, at any precision.
    pub right: usize,
    /// The share of all types of the family, in percent.
    pub percent: f64,
}

/// The types, by whether something of them ran, and was right.
type Seen<'a> = BTreeMap<String, (BTreeSet<&'a str>, BTreeSet<&'a str>)>;

impl Table {
    pub fn coverage(&self) -> Coverage {
        let mut seen = Seen::new();
        for case in self.cases() {
            let Some(model_type) = &case.row.model_type else {
                continue;
            };
            let on = case
                .column
                .on
                .as_ref()
                .map(|on| format!(" ({on})"))
                .unwrap_or_default();
            let (tried, right) = seen
                .entry(format!("{}{on}", case.column.backend))
                .or_default();
            tried.insert(model_type);
            if case.is_right() {
                right.insert(model_type);
            }
        }
        let transformers = spec::transformers_version();
        let types = spec::model_types();
        let mut families: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        let mut all = BTreeSet::new();
        for (model_type, family) in types {
            families
                .entry(family.unwrap_or("unknown"))
                .or_default()
                .insert(model_type);
            all.insert(model_type);
        }
        let known = families.into_iter().chain([("all", all)]);
        let families = known
            .map(|(family, types)| of_family(family, &types, &seen))
            .collect();
        Coverage {
            transformers,
            families,
        }
    }
}

fn of_family(family: &'static str, types: &BTreeSet<&str>, seen: &Seen<'_>) -> OfFamily {
    let among = |some: &BTreeSet<&str>| some.iter().filter(|name| types.contains(*name)).count();
    let covered = |(backend, (tried, right)): (&String, &(BTreeSet<&str>, BTreeSet<&str>))| {
        let tried = among(tried);
        let right = among(right);
        let percent = (1000.0 * right as f64 / types.len() as f64).round() / 10.0;
        (
            backend.clone(),
            Covered {
                asked: tried,
                right,
                percent,
            },
        )
    };
    OfFamily {
        family,
        types: types.len(),
        backends: seen.iter().map(covered).collect(),
    }
}
