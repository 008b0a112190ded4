//! All cases at a glance: a cell for each, with its figure or the word for its state.

use super::unavailable::lacks_model;
use super::{Outcome, counted};
use crate::base::figures::amount;
use crate::report::format::{
    UNTIMED, day, days, glyph, has_figure, kind_of, remark, rounds_of, word,
};
use crate::report::head;
use crate::report::place;
use crate::report::quiet;
use crate::report::shape::{Column, Matrix, Row, Square};
use crate::report::view::{self, View};

pub(super) fn matrix<'a>(view: &View<'a>) -> Matrix<'a> {
    let column = |(at, variant): (usize, &place::Variant<'a>)| Column {
        at,
        name: variant.name(),
        target: variant.target,
        precision: variant.precision,
        unavailable: is_unavailable(view.column(at)),
        untimed: untimed(view, at),
    };
    let row = |(row, cells): (&place::Row<'a>, &Vec<view::Cell<'a>>)| {
        let case = cells.iter().find_map(|cell| cell.case());
        // A case that did not come so far does not know.
        let parameters = cells.iter().find_map(|cell| cell.case()?.1.parameters);
        let about = case.map(|(_, case)| {
            let sizes = case.dims.iter().filter(|_| !row.sizes.is_empty());
            let sizes: String = sizes
                .map(|(name, size)| format!(" · {name} {size}"))
                .collect();
            let model = head::model(parameters, case.weights).map(|model| format!(" · {model}"));
            format!(
                "{} · {}{sizes}{}",
                case.family,
                case.task,
                model.unwrap_or_default()
            )
        });
        let parameters = parameters.map(amount);
        let cells = cells.iter().map(|cell| square(view, *cell)).collect();
        Row {
            name: row.name(),
            about: about.unwrap_or_default(),
            parameters,
            cells,
        }
    };
    let is_stand_in = view
        .doc
        .cases
        .iter()
        .any(|case| view.stand_in(case).is_some());
    Matrix {
        columns: view.variants.iter().enumerate().map(column).collect(),
        rows: view.rows.iter().zip(&view.cells).map(row).collect(),
        statistic: statistic(view),
        not_quiet: quiet::note(view.doc),
        earlier: earlier(view),
        machines: view.machines.remark(),
        legend: is_stand_in.then_some(
            "emulated, software: a stand-in for the hardware ran it; \
             its latency says nothing of the hardware's and is compared with nothing.",
        ),
    }
}

/// Whether the column holds unavailable cases and nothing else that ran (exclusions do not count).
fn is_unavailable<'a>(column: impl Iterator<Item = view::Cell<'a>>) -> bool {
    let mut cases = column
        .filter_map(|cell| cell.case())
        .map(|(_, case)| case)
        .peekable();
    cases.peek().is_some()
        && cases.all(|case| case.status == Outcome::SkipUnavailable && !lacks_model(case))
}

/// `untimed, emulated` for a column of which no result has a figure, and at least one is right.
fn untimed(view: &View<'_>, column: usize) -> Option<String> {
    let mut labels = Vec::new();
    let mut is_right = false;
    for (_, case) in view.column(column).filter_map(|cell| cell.case()) {
        if !has_figure(case.status) {
            continue;
        }
        if case.metrics.is_some() || !case.untimed {
            return None;
        }
        is_right = true;
        let label = view.label(case).filter(|label| !labels.contains(label));
        labels.extend(label);
    }
    is_right.then(|| {
        [UNTIMED]
            .into_iter()
            .chain(labels)
            .collect::<Vec<_>>()
            .join(", ")
    })
}

fn square<'a>(view: &View<'a>, cell: view::Cell<'a>) -> Option<Square<'a>> {
    let (at, case) = match cell {
        view::Cell::None => return None,
        view::Cell::Excluded(at, excluded) => {
            let kind = "excluded";
            let glyph = "·";
            let word = "excluded";
            let reason = Some(excluded.reason.as_str());
            return Some(Square {
                at,
                kind,
                glyph,
                order: usize::MAX,
                word,
                figure: None,
                labels: Vec::new(),
                reason,
            });
        }
        view::Cell::Case(at, case) => (at, case),
    };
    let figure = match &case.metrics {
        Some(metrics) => Some(metrics.figure()),
        None => case.untimed.then(|| UNTIMED.to_owned()),
    };
    let figure = figure.filter(|_| has_figure(case.status));
    Some(Square {
        at,
        kind: kind_of(case),
        glyph: glyph(case.status),
        order: Outcome::ALL
            .iter()
            .position(|status| *status == case.status)
            .unwrap_or_default(),
        word: word(case.status),
        labels: view
            .label(case)
            .into_iter()
            .chain(remark(case.status))
            .chain(view.letter(case))
            .filter(|_| figure.is_some())
            .collect(),
        figure,
        reason: case.reason.as_deref(),
    })
}

/// What a figure is: `Latencies are medians of one inference, each of 1 round.`, and what those of decoding are.
fn statistic(view: &View<'_>) -> Option<String> {
    let timed = view
        .doc
        .cases
        .iter()
        .filter(|case| has_figure(case.status))
        .filter_map(|case| case.metrics.as_ref());
    let rounds = rounds_of(timed.clone().map(|metrics| metrics.rounds.len()))?;
    let decodes = timed.clone().any(|metrics| metrics.decoding.is_some());
    let decoding = if decodes {
        " Of models that decode with a cache: tokens per second of all rows, and the time to the first token (TTFT)."
    } else {
        ""
    };
    Some(format!(
        "Latencies are medians of one inference, each of {rounds}.{decoding}"
    ))
}

/// How many figures come from earlier runs, and from which days: `2026-01-14`, `2026-01-12 to 2026-01-14`.
fn earlier(view: &View<'_>) -> Option<String> {
    let figures = view.cases(|case| case.metrics.is_some());
    let earlier: Vec<_> = figures.iter().filter(|(_, case)| case.cached).collect();
    let each = earlier
        .iter()
        .filter_map(|(_, case)| case.measured.as_deref().map(day));
    let days = each
        .clone()
        .min()
        .zip(each.max())
        .map(|(first, last)| format!(" ({})", days(first, last)));
    let days = days.unwrap_or_default();
    let some = earlier.len();
    let all = figures.len();
    (some > 0).then(|| {
        format!(
            "{some} of {} measured in earlier runs{days}",
            counted(all, "latency figure")
        )
    })
}
