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

pub(super) use fastest::lead;

use serde_json::Value;

use super::CaseResult;
use super::format::one_line;
use super::place::Place;
use super::shape::{Cell, Item, Matrix, Shape, Table};
use super::view::{View, case_name};
use crate::base::figures::counted;
use crate::record::Outcome;

/// Defines sections, each by its name, how it is made, its title, and a sentence to read first. File, function and
/// anchor have the same name.
macro_rules! sections {
    ($($name:ident: $make:ident $title:literal $($hint:literal)?;)*) => {
        const SECTIONS: &[Section] = &[$(Section {
            id: stringify!($name),
            title: $title,
            hint: concat!($($hint)?),
            make: Make::$make($name::$name),
        }),*];
    };
}

sections! {
    matrix: Matrix "Matrix";
    failures: List "Failures";
    incomplete: List "Incomplete";
    notable: List "Neither passed nor failed";
    precision: List "Precision and tolerance";
    unavailable: List "Unavailable" "What this machine lacks.";
    unsupported: List "Unsupported" "In the vendor's own words.";
    excluded: List "Excluded" "By the spec.";
    coverage: Tables "Coverage"
        "Cases by family and target. Right: passed, and wrong outputs would not have. Types: model types of transformers of which a case \
         was asked; right is one of which at least one case was. Not asked: excluded or unavailable. Ended: where and how those that \
         failed did, expected or not. A model: what the steps of its case took, shared ones too.";
    chosen: Tables "Chosen targets";
    fastest: Tables "Fastest for each family"
        "Speed-up: how many times shorter the median is than the one of the column named beside it, as the geometric mean over the \
         family's models that passed on both; that column is the first one of the CPU, or the next fastest where that one is the \
         fastest. Sure: of how many of these models at least three quiet rounds a side show it, whose medians do not overlap; \
         \"cannot tell\" where that is not all. Right: of the cases that were asked of the fastest column. A latency that is not quiet \
         (`~`) makes no speed-up.";
    guidance: Tables "What to deploy on"
        "For each family the column that is best for most of what it can be compared with, by models that are right on both and ran on \
         hardware. Latency: the lowest median. Throughput: most items a second. Little memory: the lowest peak of the process. Edge: \
         the smallest folder to load. \"Cannot tell\": no column is ahead, or fewer than three quiet rounds a side say so, or their \
         medians overlap.";
    latency: Charts "Latency on hardware"
        "A dot is the median of a passed case, a tick a sample, a line the range of its rounds' medians; a single round has no line. \
         Of more than 160 samples the least and the greatest of each of a few groups are shown. Each model has its own scale.";
    spread: Tables "Performance by hardware and family"
        "Of the medians of cases that passed on real hardware, without those that are not quiet (`~`). Hardware is the target's backend. Rows that hold other models cannot \
         stand beside each other: an average says what is slow, not which hardware is the better one (\"Fastest for each family\" \
         does).";
    performance: Tables "Performance"
        "The median is that of the rounds' medians, each of a process of its own; beside it the lowest and the highest of them. One \
         round says nothing of how much processes differ: `--rounds 5` does.";
    memory: Tables "Memory"
        "Peak resident memory of the process that ran a case, its runtime included. On the device: what it took of a GPU's own memory, \
         where the driver tells.";
    numerics: Tables "Numerics" "The worst figure of each target, and its model.";
    conversions: Tables "Conversions"
        "Size of what each conversion made, beside the size of what it was made from, and how long it took when it was executed, in \
         this run or in an earlier one.";
    time: Tables "Time"
        "How long each step took when it was executed, in this run or an earlier one. Several run in parallel.";
    cache: Tables "Saved by the cache"
        "What the steps that cases rest on took when they were executed, one after the other. Those that were up to date would have \
         taken about as long again; several are executed at a time, so a run without them would not have been longer by all of it.";
    devices: Tables "Devices found";
    versions: Tables "Versions";
}

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
    Charts(fn(&View<'_>) -> Vec<Value>),
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
    let made = SECTIONS.iter().filter_map(
        |&Section {
             id,
             title,
             hint,
             ref make,
         }| {
            let shape = match make {
                Make::Matrix(make) => Shape::Matrix(make(view)),
                Make::List(make) => Shape::List(some(make(view))?),
                Make::Tables(make) if all => Shape::Tables(some(
                    make(view)
                        .into_iter()
                        .filter(|table| !table.rows.is_empty())
                        .collect(),
                )?),
                Make::Charts(make) if all => Shape::Charts(some(make(view))?),
                Make::Tables(_) | Make::Charts(_) => return None,
            };
            Some(Made {
                id,
                title,
                hint,
                shape,
            })
        },
    );
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
        doc.cases
            .retain(|case| matches!(&*case.case, "bert:cpu-fp32" | "bert:openvino-fp32"));
        assert_eq!(doc.cases.len(), 2);
        doc.excluded.clear();
        for (case, ms) in doc.cases.iter_mut().zip(times) {
            let metrics = case.metrics.as_mut().unwrap();
            let round = |round| Round {
                round,
                min_ms: ms,
                median_ms: ms,
                ..Round::default()
            };
            metrics.rounds = (1..=rounds).map(round).collect();
            (metrics.median_ms, metrics.min_ms, metrics.noisy) = (ms, ms, false);
            metrics.per_second = Some(1e3 / ms);
            (metrics.median_low_ms, metrics.median_high_ms) = (Some(ms * 0.95), Some(ms * 1.05));
        }
        doc
    }

    #[test]
    fn each_section_has_an_anchor_of_its_own() {
        // Of the page besides: the details beside it, its data, its controls.
        let others = [
            "panel",
            "data",
            "matrix-title",
            "text",
            "target",
            "figure",
            "base",
            "shown",
            "save-csv",
            "save-json",
        ];
        let ids: BTreeSet<&str> = SECTIONS
            .iter()
            .map(|section| section.id)
            .chain(others)
            .collect();
        assert_eq!(ids.len(), SECTIONS.len() + others.len());
    }
}
