//! The sections of a report, in their order. To add one is to write its file and to list it here.

mod cache;
mod chosen;
mod conversions;
mod coverage;
mod devices;
mod excluded;
mod failures;
mod fastest;
mod guidance;
mod incomplete;
mod latency;
mod matrix;
mod memory;
mod notable;
mod numerics;
mod performance;
mod precision;
mod spread;
mod time;
mod unavailable;
mod unsupported;
mod versions;

use super::CaseResult;
use super::chart::Chart;
use super::format::one_line;
use super::place::Place;
use super::shape::{Cell, Item, Matrix, Shape, Table};
use super::view::{View, case_name};
use crate::base::figures::counted;
use crate::record::Outcome;

const SECTIONS: &[Section] = &[
    matrix::SECTION,
    failures::SECTION,
    incomplete::SECTION,
    notable::SECTION,
    precision::SECTION,
    unavailable::SECTION,
    unsupported::SECTION,
    excluded::SECTION,
    coverage::SECTION,
    chosen::SECTION,
    fastest::SECTION,
    guidance::SECTION,
    latency::SECTION,
    spread::SECTION,
    performance::SECTION,
    memory::SECTION,
    numerics::SECTION,
    conversions::SECTION,
    time::SECTION,
    cache::SECTION,
    devices::SECTION,
    versions::SECTION,
];

struct Section {
    /// Its anchor on the page.
    id: &'static str,
    title: &'static str,
    /// A sentence to read first; may be empty.
    hint: &'static str,
    make: Make,
}

/// Who makes the shape. One without anything in it is left out.
enum Make {
    Matrix(for<'a> fn(&View<'a>) -> Matrix<'a>),
    List(for<'a> fn(&View<'a>) -> Vec<Item<'a>>),
    Tables(fn(&View<'_>) -> Vec<Table>),
    Charts(fn(&View<'_>) -> Vec<Chart>),
}

/// A section that has something to show.
#[derive(serde::Serialize)]
pub(super) struct Made<'a> {
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    pub(super) hint: &'static str,
    #[serde(flatten)]
    pub(super) shape: Shape<'a>,
}

/// Their anchors.
pub fn ids() -> impl Iterator<Item = &'static str> {
    SECTIONS.iter().map(|section| section.id)
}

/// All sections, or only those that a reader must see: what is to be looked up is not for the console.
pub(super) fn made<'a>(view: &View<'a>, all: bool) -> Vec<Made<'a>> {
    let made = SECTIONS.iter().filter_map(|&Section { id, title, hint, ref make }| {
        let shape = match make {
            Make::Matrix(make) => Shape::Matrix(make(view)),
            Make::List(make) => Shape::List(some(make(view))?),
            Make::Tables(make) if all => {
                Shape::Tables(some(make(view).into_iter().filter(|table| !table.rows.is_empty()).collect())?)
            }
            Make::Charts(make) if all => Shape::Charts(some(make(view))?),
            Make::Tables(_) | Make::Charts(_) => return None,
        };
        Some(Made { id, title, hint, shape })
    });
    made.collect()
}

fn some<T>(list: Vec<T>) -> Option<Vec<T>> {
    (!list.is_empty()).then_some(list)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::SECTIONS;
    use crate::report::{ReportDoc, Round, fixture};

    /// Two columns of one model, with so many rounds of so long.
    pub(super) fn doc(rounds: u32, times: [f64; 2]) -> ReportDoc {
        let mut doc = fixture();
        doc.cases.retain(|case| matches!(&*case.case, "bert:cpu-fp32" | "bert:openvino-fp32"));
        assert_eq!(doc.cases.len(), 2);
        doc.excluded.clear();
        for (case, ms) in doc.cases.iter_mut().zip(times) {
            let metrics = case.metrics.as_mut().unwrap();
            let round = |round| Round { round, min_ms: ms, median_ms: ms, ..Round::default() };
            metrics.rounds = (1..=rounds).map(round).collect();
            metrics.median_ms = ms;
            metrics.per_second = Some(1e3 / ms);
            (metrics.median_low_ms, metrics.median_high_ms) = (Some(ms * 0.95), Some(ms * 1.05));
        }
        doc
    }

    #[test]
    fn each_section_has_an_anchor_of_its_own() {
        // Of the page besides: the details beside it, its data, its controls.
        let others =
            ["panel", "data", "matrix-title", "text", "target", "figure", "base", "shown", "save-csv", "save-json"];
        let ids: BTreeSet<&str> = SECTIONS.iter().map(|section| section.id).chain(others).collect();
        assert_eq!(ids.len(), SECTIONS.len() + others.len());
    }
}
