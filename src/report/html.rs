//! `index.html`: one page that needs nothing else, from `templates/report.html.j2`.
//!
//! Everything is in the markup, so the page works without scripts; the script adds filters, a panel and a copy button.
//! The document itself is embedded as JSON, so the page is also the data; where that would be megabytes, the page refers
//! to the file beside it.

use serde::Serialize;

use super::details::Detail;
use super::format::seconds;
use super::head::{self, Count};
use super::sections::{self, Made};
use super::shape::Shape;
use super::view::View;
use super::{ReportDoc, Summary};
use crate::template::{self, TemplateError};

/// A matrix of more rows comes after what failed.
const LONG: usize = 100;
/// The document of so many cases is embedded.
const EMBEDDED: usize = 1000;

#[derive(Serialize)]
struct Page<'a> {
    spec: &'a str,
    scope: Option<&'a str>,
    machine: String,
    /// That weights are random, and how large the models are.
    random: Option<String>,
    steps: String,
    /// Each is a filter too.
    counts: Vec<Count>,
    targets: Vec<&'a str>,
    sections: Vec<Made<'a>>,
    /// Of cases, then of exclusions.
    names: Vec<String>,
    /// Of cases.
    details: Vec<Detail<'a>>,
    /// JSON that cannot leave its script element.
    data: Option<String>,
}

/// One name, so that macros can be handed all.
#[derive(Serialize)]
struct Context<'a> {
    page: Page<'a>,
}

pub fn render(doc: &ReportDoc) -> Result<String, TemplateError> {
    let view = View::new(doc);
    let mut targets: Vec<&str> = view.variants.iter().map(|variant| variant.target).collect();
    targets.dedup();
    let mut sections = sections::made(&view, true);
    if view.rows.len() > LONG {
        let first = sections.iter().take_while(|made| is_first(&made.shape)).count();
        sections[..first].rotate_left(1);
    }
    let mut counts = head::counts(&doc.summary);
    // No cell is marked as such: it is a failure, or passed.
    counts.retain(|count| count.kind != "xpass");
    let page = Page {
        spec: &doc.spec,
        scope: doc.scope.as_deref(),
        machine: head::machine(doc),
        random: head::random(doc),
        steps: steps(&doc.summary),
        counts,
        targets,
        sections,
        names: (0..doc.cases.len() + doc.excluded.len()).map(|at| view.place(at).name()).collect(),
        details: doc.cases.iter().map(|case| Detail::of(&view, case)).collect(),
        data: (doc.cases.len() <= EMBEDDED).then(|| template::script_json(doc)),
    };
    template::render("report.html.j2", Context { page })
}

/// The matrix, and what went wrong.
fn is_first(shape: &Shape<'_>) -> bool {
    match shape {
        Shape::Matrix(_) => true,
        Shape::List(items) => items.iter().all(|item| matches!(item.kind, "fail" | "incomplete")),
        Shape::Tables(_) | Shape::Charts(_) => false,
    }
}

fn steps(summary: &Summary) -> String {
    format!("{}, {}", head::steps(summary, Default::default()), seconds(summary.seconds))
}
