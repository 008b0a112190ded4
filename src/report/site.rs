//! A report as a static site: a page for each model, each target and each pair, search, what changed, badges, a feed.
//!
//! Plain files that ask nothing of anybody else: they open from a folder as from a server. Each page holds what it shows,
//! so a site of 20,000 cases is as fast as one of twenty.

mod changes;
mod names;
mod tally;

use std::collections::BTreeMap;

use indexmap::{IndexMap, IndexSet};
use serde::Serialize;

use super::badge;
use super::compare::Comparison;
use super::details::{Detail, LOG};
use super::format::{day, error, glyph, kind_of, ms, seconds, word};
use super::head::{self, Count};
use super::html;
use super::view::{Cell, View};
use super::{CaseResult, ReportDoc, Trends};
use crate::base::figures::amount;
use crate::base::shell;
use crate::template::{self, TemplateError};
use names::{file, pair};
pub(super) use tally::Tally;

/// By their paths below the site's folder.
pub type Files = BTreeMap<String, String>;

/// What every page shows around its content.
#[derive(Clone, Serialize)]
struct Frame<'a> {
    /// The way up to the site's folder: empty, or `../`.
    root: &'static str,
    title: String,
    spec: &'a str,
    scope: Option<&'a str>,
    machine: &'a str,
    run: Option<&'a str>,
    weights: &'a [String],
    /// The first and the last day of the measurements.
    days: Option<(&'a str, &'a str)>,
    has_changes: bool,
}

/// A template's context: the frame, and one page.
#[derive(Serialize)]
struct Context<'a, T> {
    frame: Frame<'a>,
    page: T,
}

/// One pair in a table of a model or of a target.
#[derive(Serialize)]
struct Line<'a> {
    name: String,
    /// From the site's folder.
    href: String,
    family: String,
    kind: &'static str,
    glyph: &'static str,
    word: &'static str,
    latency: Option<String>,
    label: Option<&'static str>,
    error: Option<String>,
    measured: Option<&'a str>,
    reason: Option<String>,
}

/// A link with how its cases ended.
#[derive(Serialize)]
struct Entry {
    name: String,
    href: String,
    about: String,
    tally: Tally,
}

#[derive(Serialize)]
struct Overview {
    counts: Vec<Count>,
    targets: Vec<Entry>,
    families: Vec<Family>,
    models: Vec<Entry>,
}

/// A row of the overview: how many of a family are right on each target.
#[derive(Serialize)]
struct Family {
    name: String,
    cells: Vec<Tally>,
}

#[derive(Serialize)]
struct Model<'a> {
    name: String,
    about: String,
    badge: String,
    lines: Vec<Line<'a>>,
}

#[derive(Serialize)]
struct Target<'a> {
    name: String,
    badge: String,
    tally: Tally,
    lines: Vec<Line<'a>>,
}

#[derive(Serialize)]
struct Pair<'a> {
    model: String,
    model_href: String,
    target: String,
    target_href: String,
    /// That of the report names paths of one machine.
    again: String,
    /// Whether there is something to draw.
    has_trend: bool,
    detail: Detail<'a>,
}

/// All files of the site. `changes`: against an older report; `trends`: what a history tells of the cases.
pub fn site(doc: &ReportDoc, changes: Option<&Comparison>, trends: &Trends) -> Result<Files, TemplateError> {
    let view = View::with(doc, trends);
    let machine = head::machine(doc);
    let run = head::run(doc).map(|run| format!("{run}, took {}", seconds(doc.summary.seconds)));
    let weights: Vec<String> = [head::random(doc), head::weights(doc)].into_iter().flatten().collect();
    let days = || doc.cases.iter().filter_map(|case| case.measured.as_deref()).map(day);
    let frame = |root: &'static str, title: &str| Frame {
        root,
        title: title.to_owned(),
        spec: &doc.spec,
        scope: doc.scope.as_deref(),
        machine: &machine,
        run: run.as_deref(),
        weights: &weights,
        days: days().min().zip(days().max()),
        has_changes: changes.is_some(),
    };
    let mut files = Files::new();
    let (models, targets) = (models(&view), targets(&view));
    for (name, text) in STATIC {
        files.insert(name.to_owned(), template::source(text).expect("BUG: the site's files are embedded").to_owned());
    }
    if doc.cases.iter().any(|case| view.trend(case).is_some()) {
        files.insert("history.js".to_owned(), history_script());
    }
    for (model, page) in models.iter().zip(model_pages(&view)) {
        let context = Context { frame: frame("../", &model.name), page };
        files.insert(model.href.clone(), template::render("site/model.html.j2", context)?);
        files.insert(badge_of("models", &model.name), badge::of(&model.name, &model.tally)?);
    }
    for (at, target) in targets.iter().enumerate() {
        let page = target_page(&view, at, target);
        let context = Context { frame: frame("../", &target.name), page };
        files.insert(target.href.clone(), template::render("site/target.html.j2", context)?);
        files.insert(badge_of("targets", &target.name), badge::of(&target.name, &target.tally)?);
    }
    for (at, case) in doc.cases.iter().enumerate() {
        let page = pair_page(&view, at, case);
        let context = Context { frame: frame("../../", &page.detail.name), page };
        files.insert(pair(&view, at), template::render("site/pair.html.j2", context)?);
    }
    files.insert("badge.svg".to_owned(), badge::render(doc)?);
    files.insert("search-index.js".to_owned(), search_index(&models, &targets));
    if let Some(changes) = changes {
        let context = Context { frame: frame("", "What changed"), page: changes::page(&view, changes) };
        files.insert("changes.html".to_owned(), template::render("site/changes.html.j2", &context)?);
        files.insert("feed.xml".to_owned(), template::render("site/feed.xml.j2", &context)?);
    }
    let context = Context { frame: frame("", "how figures are made"), page: () };
    files.insert("how.html".to_owned(), template::render("site/how.html.j2", context)?);
    let page = Overview { counts: head::counts(&doc.summary), families: families(&view), targets, models };
    let context = Context { frame: frame("", &doc.spec), page };
    files.insert("index.html".to_owned(), template::render("site/index.html.j2", context)?);
    Ok(files)
}

/// Files that are the same for every site, and their templates.
const STATIC: [(&str, &str); 3] =
    [("style.css", "report/style.css"), ("site.css", "site/site.css"), ("search.js", "site/search.js")];

/// What draws the trend of a case over time.
fn history_script() -> String {
    let source = |name: &str| template::source(name).expect("BUG: the site's files are embedded");
    let parts = [html::PLOT, source("report/js/figures.js"), source("report/js/charts.js"), source("site/history.js")];
    parts.join("\n")
}

fn badge_of(folder: &str, name: &str) -> String {
    format!("badges/{folder}/{}.svg", file(name))
}

fn models(view: &View<'_>) -> Vec<Entry> {
    let entry = |(row, cells): (&super::place::Row<'_>, &Vec<Cell<'_>>)| {
        let name = row.name();
        let about = cells.iter().find_map(|cell| cell.case()).map(|(_, case)| about(case)).unwrap_or_default();
        Entry { href: format!("models/{}.html", file(&name)), name, about, tally: Tally::of(cells.iter()) }
    };
    view.rows.iter().zip(&view.cells).map(entry).collect()
}

fn targets(view: &View<'_>) -> Vec<Entry> {
    let entry = |(at, variant): (usize, &super::place::Variant<'_>)| {
        let (name, cells): (String, Vec<_>) = (variant.name(), view.column(at).collect());
        let of = |case: &CaseResult| view.stand_in(case).map(str::to_owned);
        let about = cells.iter().find_map(|cell| of(cell.case()?.1)).unwrap_or_default();
        Entry { href: format!("targets/{}.html", file(&name)), name, about, tally: Tally::of(cells.iter()) }
    };
    view.variants.iter().enumerate().map(entry).collect()
}

fn families(view: &View<'_>) -> Vec<Family> {
    let names: IndexSet<&str> = view.doc.cases.iter().map(|case| &*case.family).collect();
    let mut rows: IndexMap<&str, Vec<Vec<Cell<'_>>>> =
        names.into_iter().map(|name| (name, vec![Vec::new(); view.variants.len()])).collect();
    for cells in &view.cells {
        for (at, cell) in cells.iter().enumerate() {
            if let Some((_, case)) = cell.case() {
                rows[&*case.family][at].push(*cell);
            }
        }
    }
    let row = |(name, cells): (&str, Vec<Vec<Cell<'_>>>)| Family {
        name: name.to_owned(),
        cells: cells.iter().map(|cells| Tally::of(cells.iter())).collect(),
    };
    rows.into_iter().map(row).collect()
}

/// `decoder-only · text-generation · 105 k parameters, random weights`
fn about(case: &CaseResult) -> String {
    let parameters = case.parameters.map(|count| format!(" · {} parameters", amount(count)));
    let weights = case.weights.map(|weights| format!(" · weights: {}", weights.word()));
    format!("{} · {}{}{}", case.family, case.task, parameters.unwrap_or_default(), weights.unwrap_or_default())
}

fn model_pages<'v>(view: &'v View<'_>) -> impl Iterator<Item = Model<'v>> + 'v {
    view.rows.iter().zip(&view.cells).map(|(row, cells)| {
        let cases = || cells.iter().filter_map(Cell::case);
        Model {
            name: row.name(),
            about: cases().next().map(|(_, case)| about(case)).unwrap_or_default(),
            badge: badge_of("models", &row.name()),
            lines: cases().map(|(at, case)| line(view, at, case, view.place(at).variant.name())).collect(),
        }
    })
}

fn target_page<'a>(view: &View<'a>, at: usize, entry: &Entry) -> Target<'a> {
    let cases = view.column(at).filter_map(|cell| cell.case());
    Target {
        name: entry.name.clone(),
        badge: badge_of("targets", &entry.name),
        tally: entry.tally,
        lines: cases.map(|(at, case)| line(view, at, case, view.place(at).row.name())).collect(),
    }
}

fn line<'a>(view: &View<'a>, at: usize, case: &'a CaseResult, name: String) -> Line<'a> {
    let worst = |case: &CaseResult| case.numerics.as_ref().map(|numerics| error(numerics.max_abs));
    Line {
        name,
        href: pair(view, at),
        family: case.family.clone(),
        kind: kind_of(case),
        glyph: glyph(case.status),
        word: word(case.status),
        latency: case.metrics.as_ref().filter(|_| view.comparable(case)).map(|metrics| ms(metrics.median_ms)),
        label: view.label(case),
        error: worst(case),
        measured: case.measured.as_deref().map(day),
        reason: case.note().or_else(|| case.reason.clone()).filter(|_| kind_of(case) != "pass"),
    }
}

fn pair_page<'a>(view: &View<'a>, at: usize, case: &'a CaseResult) -> Pair<'a> {
    let place = view.place(at);
    let (model, target) = (place.row.name(), place.variant.name());
    let mut detail = Detail::of(view, case);
    detail.parts.retain(|part| part.title != LOG);
    Pair {
        model_href: format!("models/{}.html", file(&model)),
        target_href: format!("targets/{}.html", file(&target)),
        again: format!("orch run {} --case {}", shell::word(&view.doc.spec), shell::quoted(&case.case)),
        model,
        target,
        has_trend: view.trend(case).is_some(),
        detail,
    }
}

/// A script and no JSON: a page that was opened from a folder may read no other file.
fn search_index(models: &[Entry], targets: &[Entry]) -> String {
    let rows =
        |entries: &[Entry]| entries.iter().map(|it| (it.name.clone(), it.about.clone(), it.href.clone())).collect();
    let all: [Vec<(String, String, String)>; 2] = [rows(models), rows(targets)];
    let text = serde_json::to_string(&all.concat()).expect("BUG: names serialise");
    format!("const INDEX = {text};\n")
}
