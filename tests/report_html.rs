//! The HTML report: well-formed, self-contained, complete, and safe with hostile names. With
//! `ORCH_REPORT_HTML=page.html` the page of the fixture is written there to be looked at.

#[path = "support/page.rs"]
mod page;

use std::path::Path;

use orch::record::Outcome;
use orch::report::{ReportDoc, Summary, html, json, junit, markdown};
use page::data;
use pretty_assertions::assert_eq;

fn doc() -> ReportDoc {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/report/doc.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn page(doc: &ReportDoc) -> String {
    html::render(doc).unwrap()
}

/// The tags of a page, `(name, attributes)`; panics where an element is not closed in the order it was opened.
fn elements(page: &str) -> Vec<(String, String)> {
    const VOID: [&str; 8] = [
        "meta", "br", "input", "line", "polyline", "rect", "link", "img",
    ];
    let mut found = Vec::new();
    let mut open: Vec<String> = Vec::new();
    let mut rest = page;
    while let Some(at) = rest.find('<') {
        let tag = &rest[at + 1
            ..rest[at..]
                .find('>')
                .map(|end| at + end)
                .expect("a tag without an end")];
        rest = &rest[at + tag.len() + 2..];
        if tag.starts_with('!') {
            continue;
        }
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(
                open.pop().as_deref(),
                Some(name),
                "before {}",
                &rest[..rest.len().min(200)]
            );
            continue;
        }
        let (name, attributes) = tag.split_once([' ', '\n']).unwrap_or((tag, ""));
        let name = name.trim_end_matches('/').to_owned();
        found.push((name.clone(), attributes.to_owned()));
        if name == "script" || name == "style" {
            let end = rest
                .find(&format!("</{name}>"))
                .expect("a script or style without an end");
            rest = &rest[end + name.len() + 3..];
        } else if !VOID.contains(&name.as_str()) {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "never closed: {open:?}");
    found
}

/// The page without the library that draws its pictures.
fn without_plot(page: &str) -> String {
    let plot = include_str!("../node/plot/plot.min.js");
    assert_eq!(page.matches(plot).count(), 1);
    page.replacen(plot, "", 1)
}

#[test]
fn every_case_has_a_cell_and_its_details() {
    let doc = doc();
    let page = page(&doc);
    if let Some(path) = std::env::var_os("ORCH_REPORT_HTML") {
        std::fs::write(path, &page).unwrap();
    }
    let elements = elements(&page);
    let count = |name: &str, part: &str| {
        elements
            .iter()
            .filter(|(n, a)| n == name && a.contains(part))
            .count()
    };
    assert_eq!(count("td", "data-k=\"pass\""), 119);
    assert_eq!(count("td", "data-k=\"fail\""), 8);
    assert_eq!(count("td", "data-k=\"unavailable\""), 75);
    assert_eq!(count("td", "data-k=\"excluded\""), 4);
    assert_eq!(count("td", "data-k="), 15 * 14);
    let data = data(&page);
    assert_eq!(data["details"].as_array().unwrap().len(), doc.cases.len());
    for (at, case) in doc.cases.iter().enumerate() {
        assert_eq!(
            count("a", &format!("class=\"cell\" href=\"#case={at}\"")),
            1,
            "case {at}"
        );
        assert!(
            data["details"][at]["name"]
                .as_str()
                .unwrap()
                .starts_with(&case.model),
            "case {at}"
        );
    }
    assert_eq!(data["document"], json::render(&doc));
}

#[test]
fn the_page_requests_nothing_from_outside() {
    let page = without_plot(&page(&doc()));
    for (name, attributes) in elements(&page) {
        assert!(
            !["link", "img", "iframe", "object", "embed", "base"].contains(&name.as_str()),
            "{name}"
        );
        assert!(!attributes.contains("src="), "{name} {attributes}");
        for (_, after) in attributes
            .match_indices("href=\"")
            .map(|(at, m)| attributes.split_at(at + m.len()))
        {
            assert!(after.starts_with('#'), "{name} {attributes}");
        }
    }
    for part in ["@import", "url(", "fetch(", "http:", "https:"] {
        assert!(!page.contains(part), "{part}");
    }
    let plot = include_str!("../node/plot/plot.min.js");
    let addresses = ["http", "fetch(", "@import"].map(|part| plot.matches(part).count());
    assert_eq!(
        addresses,
        [plot.matches("http://www.w3.org/").count(), 0, 0],
        "names of namespaces, and nothing else"
    );
}

#[test]
fn hostile_names_stay_text() {
    let mut doc = doc();
    let evil = "\u{1b}]0;x\u{7}\u{202e}\r\0<img src=x onerror=alert(1)>\"'&</script><script>alert(2)</script>{{ 1 }}";
    for case in doc.cases.iter_mut().filter(|case| case.model == "gpt2") {
        case.case = case.case.replacen("gpt2", evil, 1);
        case.model = evil.into();
        case.family = evil.into();
        case.task = evil.into();
        case.reason = Some(evil.into());
        case.repro = Some(evil.into());
        case.requested_device = evil.into();
        let facts = serde_json::json!({ evil: [evil], "versions": { evil: evil } });
        case.facts = serde_json::from_value(facts).unwrap();
        case.placement = [(evil.to_owned(), 1)].into();
        case.steps = vec![evil.into()];
        if let Some(numerics) = &mut case.numerics {
            numerics.tensors = numerics
                .tensors
                .values()
                .cloned()
                .map(|tensor| (evil.to_owned(), tensor))
                .collect();
        }
    }
    doc.cases[0].target = evil.into();
    doc.spec = evil.into();
    doc.host.name = evil.into();
    doc.excluded[0].reason = evil.into();
    doc.backends[4].remedy = Some(evil.into());
    doc.backends[0].devices[0].name = evil.into();
    let page = page(&doc);
    let elements = elements(&page);
    assert_eq!(
        elements.iter().filter(|(name, _)| name == "script").count(),
        3
    );
    assert_eq!(elements.iter().filter(|(name, _)| name == "img").count(), 0);
    assert!(!page.contains("<img"));
    assert!(
        page.contains("&lt;img src=x onerror=alert(1)&gt;&quot;&#x27;&amp;&lt;&#x2f;script&gt;")
    );
    assert!(page.contains("{{ 1 }}"), "the text is shown as it is");
    let data = data(&page);
    assert_eq!(data["document"], json::render(&doc));
    // In code spans, which are the odd parts between backticks, it is text already.
    let text = markdown::render(&doc);
    let outside: String = text.split('`').step_by(2).collect();
    assert!(!outside.contains("<img src"), "{outside}");
    let xml = junit::render(&doc);
    assert!(!xml.contains("<img"));
    let details = data["details"].to_string();
    for page in [&without_plot(&page), &details, &text, &xml] {
        let unseen = page.find(|c: char| orch::base::text::is_unseen(c));
        assert_eq!(unseen.map(|at| &page[at.saturating_sub(80)..at]), None);
    }
}

/// The part of the page between two section titles.
fn section<'p>(page: &'p str, id: &str) -> &'p str {
    let (_, rest) = page.split_once(&format!("<section id=\"{id}\"")).unwrap();
    rest.split_once("</section>").unwrap().0
}

#[test]
fn what_is_judged_by_its_own_magnitude_is_reported() {
    let told = "judged by their own magnitude: 3 of the 128 indices of axis 2 of `logits`";
    assert!(data(&page(&doc()))["details"].to_string().contains(told));
}

#[test]
fn stand_ins_are_labelled_and_never_compared() {
    let page = page(&doc());
    let matrix = section(&page, "matrix");
    assert_eq!(
        matrix
            .matches("</span><small class=\"label\">emulated</small>")
            .count(),
        11
    );
    assert_eq!(
        matrix
            .matches("</span><small class=\"label\">software</small>")
            .count(),
        12
    );
    let latency = section(&page, "latency");
    assert!(
        latency.contains("openvino-int8")
            && !latency.contains("qnn")
            && !latency.contains("webgpu")
    );
    assert!(latency.contains("2 emulated or software results left out"));
    // A wrong result has no place in a comparison either.
    let gpt2 = latency
        .split("<figure")
        .find(|figure| figure.contains("<b>gpt2</b>"))
        .unwrap();
    assert!(!gpt2.contains("openvino-int8") && gpt2.contains("openvino-fp16"));
}

#[test]
fn cached_figures_show_their_day() {
    let page = page(&doc());
    assert!(section(&page, "performance").contains("2026-01-14 in an earlier run"));
    assert!(page.contains("latency figures measured in earlier runs (2026-01-14)"));
}

/// A team sends the page of the key models on: it is to be small with all samples of several rounds, too.
#[test]
fn the_page_of_the_key_models_is_below_3_mb() {
    let mut doc = doc();
    let measured = doc
        .cases
        .iter_mut()
        .filter_map(|case| case.metrics.as_mut());
    for metrics in measured {
        // Samples that do not compress: no two digits of two are alike.
        let sample = |at: u32| {
            metrics.median_ms * (1.0 + f64::from(at.wrapping_mul(2_654_435_761) % 100_000) / 1e6)
        };
        metrics.samples_ms = (0..5 * 250).map(sample).collect();
        metrics.samples = 5 * 250;
        metrics.rounds = (1..=5)
            .map(|round| orch::report::Round {
                round,
                min_ms: metrics.median_ms,
                ..Default::default()
            })
            .collect();
    }
    let size = page(&doc).len();
    assert!(size < 3_000_000, "{size} bytes");
}

#[test]
fn absent_parts_leave_no_empty_sections() {
    let mut doc = doc();
    doc.cases.clear();
    doc.excluded.clear();
    doc.backends.clear();
    doc.summary = Summary::default();
    let page = page(&doc);
    elements(&page);
    assert!(page.contains("No cases."));
    for id in [
        "failures",
        "unavailable",
        "excluded",
        "latency",
        "performance",
        "numerics",
        "devices",
        "versions",
    ] {
        assert!(
            !page.contains(&format!("id=\"{id}\"")) && !page.contains(&format!("href=\"#{id}\"")),
            "{id}"
        );
    }
    doc.cases = self::doc().cases;
    doc.cases
        .retain(|case| case.status == Outcome::SkipUnavailable);
    elements(&self::page(&doc));
}

/// A quadratic step would take minutes here; without one it is seconds even in a debug build on a loaded machine.
#[test]
fn ten_thousand_cases_are_no_trouble() {
    let mut doc = doc();
    let cases = std::mem::take(&mut doc.cases);
    for copy in 0..49 {
        for case in &cases {
            let mut case = case.clone();
            let model = format!("{}-{copy}", case.model);
            case.case = case.case.replacen(&case.model, &model, 1);
            case.model = model;
            if let Some(reason) = &mut case.reason {
                reason.push_str(&format!(" ({copy})"));
            }
            doc.cases.push(case);
        }
    }
    assert!(doc.cases.len() > 10_000);
    let last = doc.cases.last().unwrap().model.clone();
    let pages = [
        json::render(&doc),
        markdown::render(&doc),
        junit::render(&doc),
        page(&doc),
    ];
    assert!(pages.iter().all(|page| page.contains(&last)));
    assert!(pages[3].len() < 16 << 20, "{}", pages[3].len());
    let at = |text: &str| pages[3].find(text);
    assert!(
        at("<section id=\"failures\"") < at("<section id=\"matrix\""),
        "of a long matrix nobody sees the end"
    );
    assert_eq!(data(&pages[3]).get("document"), None, "matrix.json has it");
}
