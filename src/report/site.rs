//! A report as a static site: a page for each model, each target and each pair, search, what changed, badges, a feed.
//!
//! Plain files that ask nothing of anybody else: they open from a folder as from a server. Each page holds what it shows,
//! so a site of 20,000 cases is as fast as one of twenty.

mod changes;
mod faults;
mod names;
mod theirs;
mod versions;

use std::collections::BTreeMap;

use indexmap::IndexSet;
use serde::Serialize;
use serde_json::{Value, json};

use super::badge;
use super::compare::Comparison;
use super::contribution::Contribution;
use super::details::detail;
use super::format::{day, error, glyph, kind_of, seconds, word};
use super::head;
use super::html;
use super::json as of_report;
use super::place::Place;
use super::quiet;
use super::view::{Cell, View};
use super::{CaseResult, Metrics, ReportDoc, Trends};
use crate::base::shell;
use crate::record::Outcome;
use crate::template::{self, TemplateError};
pub use versions::FOLDER as VERSIONS;

use names::{data, file, pair};
use theirs::Theirs;
use versions::Versions;

/// The files by their paths below the site's folder.
pub type Files = BTreeMap<String, String>;

/// How the cases of a row, a column or a family ended.
#[derive(Clone, Copy, Default, Serialize)]
pub(super) struct Tally {
    pub(super) right: usize,
    /// The number of those that ran, or that a vendor's tool refused.
    pub(super) asked: usize,
    pub(super) failed: usize,
    /// Its colour, as [`kind`](super::format::kind).
    pub(super) kind: &'static str,
}

impl Tally {
    fn of<'c>(cells: impl IntoIterator<Item = &'c Cell<'c>>) -> Self {
        let mut tally = Self::default();
        for (_, case) in cells.into_iter().filter_map(Cell::case) {
            let is_out = matches!(
                case.status,
                Outcome::SkipUnavailable | Outcome::Incomplete | Outcome::Mock
            );
            tally.asked += usize::from(!is_out);
            tally.right += usize::from(case.status.is_made() || case.status == Outcome::Xpass);
            tally.failed += usize::from(case.is_failure());
        }
        tally.kind = match tally {
            Self { asked: 0, .. } => "unavailable",
            Self { failed: 1.., .. } => "fail",
            Self { right, asked, .. } if right == asked => "pass",
            _ => "indecisive",
        };
        tally
    }
}

/// What has pages of one kind: their template, what they are of, the cells of each, and how a case is called there.
type Kind<'a> = (
    &'static str,
    &'a [Entry],
    &'a [Vec<Cell<'a>>],
    fn(Place<'_>) -> String,
);

/// A model or a target, with how its cases ended.
#[derive(Serialize)]
struct Entry {
    name: String,
    /// Its page and its badge, from the site's folder.
    href: String,
    badge: String,
    about: String,
    tally: Tally,
}

/// What a site shows beside its report.
#[derive(Clone, Copy, Default)]
pub struct Beside<'a> {
    /// Against an older report.
    pub changes: Option<&'a Comparison>,
    /// What others contributed, and what held to be sound.
    pub contributions: &'a [Contribution],
    /// What earlier sites in the same folder showed: reports of one case each.
    pub earlier: &'a [ReportDoc],
}

/// All files of the site. `changes`: against an older report; `trends`: what a history holds of the cases.
pub fn site(
    doc: &ReportDoc,
    changes: Option<&Comparison>,
    trends: &Trends,
) -> Result<Files, TemplateError> {
    let beside = Beside {
        changes,
        ..Beside::default()
    };
    site_with(doc, trends, &beside)
}

/// [`site`] with all that may stand beside its report.
pub fn site_with(
    doc: &ReportDoc,
    trends: &Trends,
    beside: &Beside<'_>,
) -> Result<Files, TemplateError> {
    let changes = beside.changes;
    let view = View::with(doc, trends);
    let theirs = Theirs::of(&view, beside.contributions);
    let versions = Versions::of(&view, beside.earlier);
    let machine = head::machine(doc);
    let run = head::run(doc).map(|run| format!("{run}, took {}", seconds(doc.summary.seconds)));
    let weights = head::all_weights(doc);
    let not_quiet = quiet::note(doc);
    let days = || {
        doc.cases
            .iter()
            .filter_map(|case| case.measured.as_deref())
            .map(day)
    };
    // The first and the last day of the measurements.
    let days = days().min().zip(days().max());
    let faults = faults::page(&view);
    let has_faults = faults["faults"]
        .as_array()
        .is_some_and(|all| !all.is_empty());
    // `root`: the way up to the site's folder. The frame is what every page shows around its content.
    let rendered = |template: &str, root: &str, title: &str, page: Value| {
        let frame = json!({
            "root": root, "title": title, "spec": doc.spec, "scope": doc.scope, "machine": machine, "run": run,
            "weights": weights, "not_quiet": not_quiet, "days": days, "has_changes": changes.is_some(),
            "has_faults": has_faults, "has_theirs": !theirs.is_empty(),
        });
        template::render(template, BTreeMap::from([("frame", frame), ("page", page)]))
    };
    let mut files = Files::new();
    let columns: Vec<_> = (0..view.variants.len())
        .map(|at| view.column(at).collect())
        .collect();
    let models = models(&view);
    let targets = targets(&view, &columns);
    for (name, text) in STATIC {
        files.insert(
            name.to_owned(),
            template::source(text)
                .expect("BUG: the site's files are embedded")
                .to_owned(),
        );
    }
    if doc.cases.iter().any(|case| view.trend(case).is_some()) {
        files.insert("history.js".to_owned(), history_script());
    }
    let kinds: [Kind<'_>; 2] = [
        ("site/model.html.j2", &models, &view.cells, |place| {
            place.variant.name()
        }),
        ("site/target.html.j2", &targets, &columns, |place| {
            place.row.name()
        }),
    ];
    for (template, entries, cells, name) in kinds {
        for (entry, cells) in entries.iter().zip(cells) {
            let cases = cells.iter().filter_map(Cell::case);
            let lines: Vec<_> = cases
                .map(|(at, _)| line(&view, &theirs, at, name(view.place(at))))
                .collect();
            let mut page = json!(entry);
            page["lines"] = lines.into();
            files.insert(
                entry.href.clone(),
                rendered(template, "../", &entry.name, page)?,
            );
            files.insert(entry.badge.clone(), badge::of(&entry.name, &entry.tally)?);
        }
    }
    for (at, case) in doc.cases.iter().enumerate() {
        let name = view.place(at).name();
        let mut page = pair_page(&view, at, case);
        page["theirs"] = theirs.of_case(&case.case).into();
        page["versions"] = versions.of_case(&case.case).into();
        page["json"] = data(&view, at).into();
        let words = cell(&view, &theirs, &versions, at);
        files.insert(data(&view, at), format!("{words}\n"));
        files.insert(
            pair(&view, at),
            rendered("site/pair.html.j2", "../../", &name, page)?,
        );
    }
    for version in versions.all() {
        let own = View::new(&version.doc);
        let mut page = pair_page(&own, 0, version.case());
        let newest = version.newest(&view);
        if newest.is_none() {
            // Nothing leads on from a case that the spec no longer has.
            page["model_href"] = Value::Null;
            page["target_href"] = Value::Null;
        }
        page["newest"] = newest.into();
        page["version"] = version.words();
        page["json"] = version.data().into();
        let name = own.place(0).name();
        files.insert(version.data(), of_report::compact(&version.doc));
        files.insert(
            version.page(),
            rendered("site/pair.html.j2", "../../../", &name, page)?,
        );
    }
    if !theirs.is_empty() {
        let page = theirs.page();
        files.insert("theirs.json".to_owned(), format!("{page:#}\n"));
        files.insert(
            "theirs.html".to_owned(),
            rendered("site/theirs.html.j2", "", "Contributed", page)?,
        );
    }
    files.insert("badge.svg".to_owned(), badge::render(doc)?);
    files.insert(
        "search-index.js".to_owned(),
        search_index(&models, &targets),
    );
    if let Some(changes) = changes {
        for (path, template) in [
            ("changes.html", "site/changes.html.j2"),
            ("feed.xml", "site/feed.xml.j2"),
        ] {
            let page = changes::page(&view, changes);
            files.insert(
                path.to_owned(),
                rendered(template, "", "What changed", page)?,
            );
        }
    }
    if has_faults {
        files.insert("faults.json".to_owned(), format!("{faults:#}\n"));
        files.insert(
            "faults.html".to_owned(),
            rendered("site/faults.html.j2", "", "Known faults", faults)?,
        );
    }
    files.insert(
        "how.html".to_owned(),
        rendered("site/how.html.j2", "", "how figures are made", Value::Null)?,
    );
    let page = json!({
        "counts": head::counts(&doc.summary), "families": families(&view, &columns), "targets": targets, "models": models,
    });
    files.insert(
        "index.html".to_owned(),
        rendered("site/index.html.j2", "", &doc.spec, page)?,
    );
    Ok(files)
}

/// Files that are the same for every site, and their templates.
const STATIC: [(&str, &str); 3] = [
    ("style.css", "report/style.css"),
    ("site.css", "site/site.css"),
    ("search.js", "site/search.js"),
];

/// What draws the trend of a case over time.
fn history_script() -> String {
    let source = |name: &str| template::source(name).expect("BUG: the site's files are embedded");
    let parts = [
        html::PLOT,
        source("report/js/figures.js"),
        source("report/js/charts.js"),
        source("site/history.js"),
    ];
    parts.join("\n")
}

fn models(view: &View<'_>) -> Vec<Entry> {
    let rows = view.rows.iter().zip(&view.cells);
    rows.map(|(row, cells)| entry("models", row.name(), cells, |case| Some(about(case))))
        .collect()
}

fn targets(view: &View<'_>, columns: &[Vec<Cell<'_>>]) -> Vec<Entry> {
    let about = |case: &CaseResult| view.stand_in(case).map(str::to_owned);
    let columns = view.variants.iter().zip(columns);
    columns
        .map(|(variant, cells)| entry("targets", variant.name(), cells, about))
        .collect()
}

/// `about`: what its first case that says so is.
fn entry(
    folder: &str,
    name: String,
    cells: &[Cell<'_>],
    about: impl Fn(&CaseResult) -> Option<String>,
) -> Entry {
    let about = cells
        .iter()
        .find_map(|cell| about(cell.case()?.1))
        .unwrap_or_default();
    let href = path(folder, &name);
    let badge = format!("badges/{folder}/{}.svg", file(&name));
    Entry {
        href,
        badge,
        name,
        about,
        tally: Tally::of(cells),
    }
}

fn path(folder: &str, name: &str) -> String {
    format!("{folder}/{}.html", file(name))
}

/// Rows of the overview: how many of a family are right on each target.
fn families(view: &View<'_>, columns: &[Vec<Cell<'_>>]) -> Vec<Value> {
    let names: IndexSet<&str> = view.doc.cases.iter().map(|case| &*case.family).collect();
    let row = |name: &str| {
        let is_own = |cell: &&Cell<'_>| cell.case().is_some_and(|(_, case)| case.family == name);
        let cells: Vec<_> = columns
            .iter()
            .map(|cells| Tally::of(cells.iter().filter(is_own)))
            .collect();
        json!({"name": name, "cells": cells})
    };
    names.into_iter().map(row).collect()
}

/// `decoder-only · text-generation · 105 k parameters, random weights`
fn about(case: &CaseResult) -> String {
    let model = head::model(case.parameters, case.weights).map(|model| format!(" · {model}"));
    format!(
        "{} · {}{}",
        case.family,
        case.task,
        model.unwrap_or_default()
    )
}

/// A cell for programs: its result in short, its versions, and what others say of it.
fn cell(view: &View<'_>, theirs: &Theirs<'_>, versions: &Versions, at: usize) -> Value {
    let case = &view.doc.cases[at];
    json!({
        "spec": view.doc.spec,
        "case": case.case,
        "model": case.model,
        "target": case.target,
        "precision": case.precision,
        "status": case.status,
        "reason": case.note().or_else(|| case.reason.clone()),
        "measured": case.measured,
        "median_ms": view.median(case),
        "stand_in": view.stand_in(case),
        "page": pair(view, at),
        "versions": versions.of_case(&case.case),
        "theirs": theirs.of_case(&case.case),
    })
}

/// One pair in a table of a model or of a target.
fn line(view: &View<'_>, theirs: &Theirs<'_>, at: usize, name: String) -> Value {
    let case = &view.doc.cases[at];
    json!({
        "name": name,
        "theirs": theirs.summary(&case.case),
        "href": pair(view, at),
        "family": case.family,
        "kind": kind_of(case),
        "glyph": glyph(case.status),
        "word": word(case.status),
        "latency": case.metrics.as_ref().filter(|_| view.comparable(case)).map(Metrics::latency),
        "label": view.label(case),
        "error": case.numerics.as_ref().map(|numerics| error(numerics.max_abs)),
        "measured": case.measured.as_deref().map(day),
        "reason": case.note().or_else(|| case.reason.clone()).filter(|_| kind_of(case) != "pass"),
    })
}

fn pair_page(view: &View<'_>, at: usize, case: &CaseResult) -> Value {
    let place = view.place(at);
    let model = place.row.name();
    let target = place.variant.name();
    json!({
        "model_href": path("models", &model),
        "target_href": path("targets", &target),
        // That of the report names paths of one machine.
        "again": format!("orch run {} --case {}", shell::word(&view.doc.spec), shell::quoted(&case.case)),
        "model": model,
        "target": target,
        "theirs": [],
        "versions": [],
        "version": null,
        "newest": null,
        // Whether there is something to draw.
        "has_trend": view.trend(case).is_some(),
        "detail": detail(view, case, false),
    })
}

/// A script and no JSON: a page that was opened from a folder may read no other file.
fn search_index(models: &[Entry], targets: &[Entry]) -> String {
    let rows = models
        .iter()
        .chain(targets)
        .map(|it| [&it.name, &it.about, &it.href]);
    format!("const INDEX = {};\n", json!(rows.collect::<Vec<_>>()))
}
