//! `index.html`: one page that needs nothing else, from `templates/report.html.j2`.
//!
//! The matrix and all sections are in the markup, so the page can be read without scripts. What a script adds, the details
//! of each case, filters, tints, pictures, is drawn from `packed`.

use std::collections::BTreeMap;

use serde_json::json;

use super::answer;
use super::format::seconds;
use super::head;
use super::packed;
use super::sections;
use super::shape::Shape;
use super::view::View;
use super::{ReportDoc, Trends};
use crate::template::{self, TemplateError};

/// A matrix of more rows comes after what failed.
const LONG: usize = 100;
/// Draws the pictures; `node/plot` says how it is made.
pub(super) const PLOT: &str = include_str!("../../node/plot/plot.min.js");

pub fn render(doc: &ReportDoc) -> Result<String, TemplateError> {
    page(&View::new(doc))
}

/// Renders the page with what a history holds of the cases.
pub fn render_with(doc: &ReportDoc, trends: &Trends) -> Result<String, TemplateError> {
    page(&View::with(doc, trends))
}

fn page(view: &View<'_>) -> Result<String, TemplateError> {
    let doc = view.doc;
    let mut targets: Vec<&str> = view.variants.iter().map(|variant| variant.target).collect();
    targets.dedup();
    let mut sections = sections::made(view, true);
    if view.rows.len() > LONG {
        let first = sections
            .iter()
            .take_while(|made| is_first(&made.shape))
            .count();
        sections[..first].rotate_left(1);
    }
    let mut metrics = doc.cases.iter().filter_map(|case| case.metrics.as_ref());
    let mut counts = head::counts(&doc.summary);
    // No cell is marked as such: it is a failure, or passed.
    counts.retain(|count| count.kind != "xpass");
    let page = json!({
        "spec": doc.spec,
        "scope": doc.scope,
        "machine": head::machine(doc),
        // What is right, what is fastest and what changed, in words.
        "answer": answer::sentences(view),
        // When it began, and at which commit.
        "run": head::run(doc),
        // That weights are random, and how large the models are; where the others come from.
        "weights": head::all_weights(doc),
        "steps": format!("{}, {}", head::steps(&doc.summary, Default::default()), seconds(doc.summary.seconds)),
        // Each is a filter too.
        "counts": counts,
        "targets": targets,
        "sections": sections,
        // Of cases, then of exclusions.
        "names": (0..doc.cases.len() + doc.excluded.len()).map(|at| view.place(at).name()).collect::<Vec<_>>(),
        "cases": doc.cases.len(),
        // Whether anything was measured that may stand beside others.
        "timed": doc.cases.iter().any(|case| view.comparable(case)),
        "data": packed::data(view),
        "holds_document": packed::holds_document(doc),
        "plot": metrics.any(|metrics| !metrics.samples_ms.is_empty()).then_some(PLOT),
    });
    // One name, so that macros can be handed all.
    template::render("report.html.j2", BTreeMap::from([("page", page)]))
}

/// The matrix, and what went wrong.
fn is_first(shape: &Shape<'_>) -> bool {
    match shape {
        Shape::Matrix(_) => true,
        Shape::List(items) => items
            .iter()
            .all(|item| matches!(item.kind, "fail" | "incomplete")),
        Shape::Tables(_) | Shape::Charts(_) => false,
    }
}
