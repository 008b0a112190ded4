//! The static site: every link leads to a page of it, each case has one, and nobody else is asked for anything.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use orch::browser::{Adapter, Api, Launch, Page, Served, open};
use orch::report::compare::{Noises, compare};
use orch::report::contribution::{
    Contributed, ContributedDevice, ContributedMachine, Contribution, VERSION,
};
use orch::report::site::{Beside, Files, site, site_with};
use orch::report::{CaseResult, Executed, ReportDoc, Trends};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::Sandbox;

fn doc() -> ReportDoc {
    serde_json::from_str(include_str!("fixtures/report/doc.json")).unwrap()
}

fn made() -> Files {
    let mut base = doc();
    let head = doc();
    base.cases
        .iter_mut()
        .take(5)
        .for_each(|case| case.status = orch::record::Outcome::Fail);
    base.cases.pop();
    site(
        &head,
        Some(&compare(("base", &base), ("head", &head), &Noises::new())),
        &Trends::new(),
    )
    .unwrap()
}

/// A page with all that it loads in it: in a frame it has no folder.
fn whole(files: &Files, name: &str) -> String {
    let root = "../".repeat(name.matches('/').count());
    let mut page = files[name].replace("&#x2f;", "/");
    for (name, text) in files {
        let style = format!("<link rel=\"stylesheet\" href=\"{root}{name}\">");
        let script = format!("<script src=\"{root}{name}\" defer></script>");
        page = page.replace(&style, &format!("<style>{text}</style>"));
        page = page.replace(&script, &format!("<script>{text}</script>"));
    }
    page
}

/// What a page refers to, as it stands there.
fn references(page: &str) -> BTreeSet<&str> {
    let of = |name: &'static str| {
        page.split(name)
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap())
    };
    of(" href=\"").chain(of(" src=\"")).collect()
}

/// The path below the site that a reference of the page `from` means.
fn meant(from: &str, reference: &str) -> String {
    let mut path = PathBuf::new();
    for part in Path::new(from)
        .parent()
        .unwrap()
        .join(reference.split('#').next().unwrap())
        .components()
    {
        match part {
            Component::ParentDir => assert!(path.pop(), "{from}: {reference} leaves the site"),
            Component::Normal(name) => path.push(name),
            other => panic!("{from}: {reference}: {other:?}"),
        }
    }
    path.to_str().unwrap().to_owned()
}

#[test]
fn every_link_leads_to_a_page_and_every_page_can_be_reached() {
    let files = made();
    let mut reached = BTreeSet::from(["index.html".to_owned(), "badge.svg".to_owned()]);
    for (name, text) in files
        .iter()
        .filter(|(name, _)| name.ends_with(".html") || name.ends_with(".xml"))
    {
        let text = &text.replace("&#x2f;", "/");
        for reference in references(text) {
            let target = meant(name, reference);
            assert!(
                files.contains_key(&target),
                "{name} refers to `{reference}`, which is `{target}`"
            );
            reached.insert(target);
        }
        let asks = ["http://", "https://", "//cdn", "@import", "fetch("]
            .into_iter()
            .find(|asks| text.contains(asks));
        assert!(
            asks.is_none() || name.ends_with(".xml") || text.contains("<code>"),
            "{name}: {asks:?}"
        );
    }
    let all: BTreeSet<String> = files.keys().cloned().collect();
    let lost: Vec<_> = all
        .difference(&reached)
        .filter(|name| !name.starts_with("badges/"))
        .collect();
    assert_eq!(lost, Vec::<&String>::new(), "nothing leads there");
}

#[test]
fn each_case_has_a_page_that_says_how_it_ended() {
    let doc = doc();
    let files = made();
    let pages: Vec<_> = files
        .iter()
        .filter(|(name, _)| name.starts_with("pairs/") && name.ends_with(".html"))
        .collect();
    assert_eq!(pages.len(), doc.cases.len());
    let page = |case: &CaseResult| {
        let (_, variant) = case.case.split_once(':').unwrap();
        let end = format!("{variant}.html");
        pages.iter().find(|(name, text)| {
            name.contains(&format!("/{}/", case.model))
                && name.ends_with(&format!("/{end}"))
                && !text.is_empty()
        })
    };
    for case in doc
        .cases
        .iter()
        .filter(|case| case.dims.is_empty() || case.case.ends_with(&case.precision))
    {
        let (name, text) = page(case).unwrap_or_else(|| panic!("no page of {}", case.case));
        assert!(
            text.contains(&format!("--case {}", case.case)) || text.contains("--case &#x27;"),
            "{name}"
        );
        let is_green = text.contains("<span class=\"pill pass\">");
        assert_eq!(
            is_green,
            case.status == orch::record::Outcome::Pass,
            "{name}"
        );
    }
    let changes = &files["changes.html"];
    assert!(
        changes.contains("<h2>fixed <small>") && changes.contains("<h2>new <small>1</small>"),
        "{changes}"
    );
    let feed = roxmltree::Document::parse(&files["feed.xml"]).unwrap();
    let ids: Vec<_> = feed
        .descendants()
        .filter(|node| node.has_tag_name(("http://www.w3.org/2005/Atom", "id")))
        .collect();
    let different: BTreeSet<_> = ids.iter().map(|id| id.text().unwrap()).collect();
    assert!(
        ids.len() > 3 && different.len() == ids.len(),
        "{different:?}"
    );
}

#[test]
fn failures_of_one_cause_stand_together_with_their_report() {
    let mut doc = doc();
    let known = |url: &str| orch::report::Expected {
        status: orch::record::Outcome::Numerics,
        stage: None,
        reason: "merges a padding".into(),
        since: Some("2026-01-31".into()),
        cause: Some("runtime".into()),
        url: Some(url.into()),
        signature: None,
        strict: true,
    };
    for (case, url) in doc.cases.iter_mut().zip([
        "https://example.org/1",
        "https://example.org/1",
        "javascript:alert(1)",
    ]) {
        case.status = orch::record::Outcome::Xfail;
        case.expected = Some(known(url));
    }
    let finding = json!({"verdict": "refused", "signature": "r 1 | front end | Det | float32"});
    let unexpected = &mut doc.cases[3];
    unexpected.status = orch::record::Outcome::Fail;
    unexpected
        .facts
        .insert("blame:a".into(), std::sync::Arc::new(finding));
    let ids: Vec<String> = doc.cases.iter().map(|case| case.case.clone()).collect();
    let files = site(&doc, None, &Trends::new()).unwrap();
    let faults: Value = serde_json::from_str(&files["faults.json"]).unwrap();
    let [shared, found] = &faults["faults"].as_array().unwrap()[..] else {
        panic!("{faults:#}");
    };
    assert_eq!(shared["url"], "https://example.org/1");
    assert_eq!(shared["cases"][1]["case"], ids[1].as_str());
    assert_eq!(found["name"], "r 1 | front end | Det | float32");
    assert_eq!(found["cases"][0]["case"], ids[3].as_str());
    let page = files["faults.html"].replace("&#x2f;", "/");
    assert!(page.contains("<a href=\"https://example.org/1\""), "{page}");
    assert!(!page.contains("javascript:"), "{page}");
    let index = &files["index.html"];
    assert!(index.contains("href=\"faults.html\""), "{index}");
}

#[test]
fn what_a_spec_says_is_text_on_every_page() {
    let mut doc = doc();
    let evil = "<img src=x onerror=alert(1)>\"'&";
    doc.spec = evil.to_owned();
    for case in &mut doc.cases {
        (case.family, case.task, case.reason) =
            (evil.to_owned(), evil.to_owned(), Some(evil.to_owned()));
    }
    let files = site(
        &doc,
        Some(&compare((evil, &self::doc()), (evil, &doc), &Noises::new())),
        &Trends::new(),
    )
    .unwrap();
    // What programs read is text already.
    let is_page = |name: &String| !name.ends_with(".js") && !name.ends_with(".json");
    for (name, text) in files.iter().filter(|(name, _)| is_page(name)) {
        assert!(!text.contains("<img"), "{name}");
    }
    assert!(files["feed.xml"].contains("&lt;img"));
}

/// What somebody contributes of a report's case, all texts of which are the same.
fn contribution(case: &CaseResult, text: &str) -> Contribution {
    let text = || text.to_owned();
    let device = ContributedDevice {
        id: text(),
        name: text(),
        kind: orch::device::DeviceKind::Emulator,
    };
    let case = Contributed {
        case: case.case.clone(),
        model: case.model.clone(),
        model_type: None,
        family: text(),
        task: text(),
        pipeline: text(),
        weights: None,
        parameters: None,
        dims: case.dims.clone(),
        target: case.target.clone(),
        precision: case.precision.clone(),
        runtime: text(),
        backend: case.backend.clone(),
        status: orch::record::Outcome::Crash,
        stage: Some(text()),
        reason: Some(text()),
        requested_device: text(),
        actual_device: Some(text()),
        measured: Some("2026-01-31T08:00:00Z".to_owned()),
        untimed: false,
        metrics: None,
        numerics: None,
        placement: BTreeMap::new(),
        packages: BTreeMap::from([(text(), text())]),
        steps: Vec::new(),
    };
    Contribution {
        version: VERSION,
        by: text(),
        made: "2026-01-31T09:00:00Z".to_owned(),
        orch: text(),
        spec: text(),
        machine: ContributedMachine {
            fingerprint: text(),
            computing: text(),
            os: text(),
            cpu: text(),
            cpu_identity: text(),
            cores: 4,
            memory_bytes: 1,
        },
        devices: BTreeMap::from([(case.backend.clone(), vec![device])]),
        cases: vec![case],
        digest: text(),
    }
}

#[test]
fn what_others_contribute_is_text_and_replaces_nothing() {
    let doc = doc();
    let evil = "<img src=x onerror=alert(1)>\"'&";
    let contributions = [contribution(&doc.cases[0], evil)];
    let beside = Beside {
        contributions: &contributions,
        ..Beside::default()
    };
    let files = site_with(&doc, &Trends::new(), &beside).unwrap();
    for (name, text) in files.iter().filter(|(name, _)| name.ends_with(".html")) {
        assert!(!text.contains("<img"), "{name}");
    }
    let page = &files["pairs/bert/cpu-fp32.html"];
    let state = page.split("class=\"state\"").nth(1).unwrap();
    assert!(state.starts_with("><span class=\"pill pass\">"), "{page}");
    assert!(page.contains("<b>theirs</b>, differs from ours"), "{page}");
    let own = site(&doc, None, &Trends::new()).unwrap();
    for name in ["badge.svg", "badges/models/bert.svg", "search-index.js"] {
        assert_eq!(files[name], own[name], "{name}");
    }
}

#[test]
fn a_page_of_a_version_stays_when_packages_change_and_when_its_case_is_gone() {
    let sandbox = Sandbox::new();
    let mut doc = doc();
    let report = |doc: &ReportDoc| serde_json::to_string(doc).unwrap();
    sandbox.write("a.json", report(&doc));
    let versions = |case: &mut CaseResult, torch: &str| {
        let versions = json!({"onnxruntime": "1.31.1", "torch": torch});
        let facts = &mut case.facts;
        facts.insert("versions".to_owned(), std::sync::Arc::new(versions));
    };
    versions(&mut doc.cases[0], "99.0");
    doc.cases[0].status = orch::record::Outcome::Numerics;
    sandbox.write("b.json", report(&doc));
    doc.cases.retain(|case| case.model != "bert");
    sandbox.write("c.json", report(&doc));
    let site = |report: &str| drop(sandbox.run(["site", "site", "--report", report]).success());
    let cell = || -> Value {
        serde_json::from_str(&sandbox.read("site/pairs/bert/cpu-fp32.json")).unwrap()
    };
    site("a.json");
    let first = cell();
    let old = first["versions"][0]["page"].as_str().unwrap().to_owned();
    assert_eq!(first["versions"].as_array().unwrap().len(), 1);
    let data = first["versions"][0]["json"].as_str().unwrap();
    let alone: ReportDoc = serde_json::from_str(&sandbox.read(&format!("site/{data}"))).unwrap();
    assert_eq!(
        (alone.cases.len(), alone.cases[0].repro.as_ref()),
        (1, None)
    );
    site("b.json");
    let second = cell();
    assert_eq!(second["status"], "NUMERICS");
    let of = |at: usize| {
        let version = &second["versions"][at];
        (version["page"] == old.as_str(), version["status"].clone())
    };
    let mut both = [of(0), of(1)];
    both.sort_by_key(|(is_old, _)| *is_old);
    assert_eq!(both, [(false, json!("NUMERICS")), (true, json!("PASS"))]);
    let page = sandbox.read(&format!("site/{old}")).replace("&#x2f;", "/");
    assert!(
        page.contains("<span class=\"pill pass\">") && page.contains("torch 2.13.0"),
        "{page}"
    );
    assert!(
        page.contains("href=\"../../../pairs/bert/cpu-fp32.html\">The newest result"),
        "{page}"
    );
    // The same again writes nothing.
    let again = sandbox
        .run(["site", "site", "--report", "b.json", "--json"])
        .success()
        .json();
    assert_eq!(
        (&again["written"], &again["removed"]),
        (&json!(0), &json!(0))
    );
    site("c.json");
    assert!(!sandbox.path("site/pairs/bert").exists());
    let page = sandbox.read(&format!("site/{old}"));
    assert!(page.contains("The spec no longer has this case."), "{page}");
}

#[test]
fn a_folder_is_brought_up_to_date_and_what_is_somebody_elses_stays() {
    let sandbox = Sandbox::new().file("a.json", include_str!("fixtures/report/doc.json"));
    let mut fewer = doc();
    fewer.cases.retain(|case| case.model != "bert");
    sandbox.write("b.json", serde_json::to_string(&fewer).unwrap());
    sandbox.write("site/CNAME", "models.example.org");
    let site = |report: &str| {
        sandbox
            .run(["site", "site", "--report", report, "--json"])
            .success()
            .json()
    };
    let first = site("a.json");
    assert_eq!(
        (&first["as_before"], &first["removed"]),
        (&json!(0), &json!(0))
    );
    assert_eq!(
        first["written"].as_u64().unwrap() as usize,
        made().len() - 2,
        "without changes and feed"
    );
    let again = site("a.json");
    assert_eq!(
        (&again["written"], &again["as_before"]),
        (&json!(0), &first["written"])
    );
    let less = site("b.json");
    assert!(less["removed"].as_u64().unwrap() > 10, "{less}");
    assert!(
        !sandbox.path("site/pairs/bert").exists() && sandbox.path("site/models/gpt2.html").exists()
    );
    assert_eq!(sandbox.read("site/CNAME"), "models.example.org");
    sandbox.write("site/index.html", "mine");
    sandbox
        .run(["site", "site", "--report", "b.json"])
        .success()
        .stderr_has("index.html` was edited: it is");
    assert_eq!(sandbox.read("site/index.html.edited"), "mine");
}

/// What a page of ours finds out in a browser.
fn answered(script: &str, params: &Value, files: BTreeMap<String, String>) -> Value {
    let sandbox = Sandbox::new().installs();
    let browser = support::browser(&sandbox);
    let scratch = sandbox.path("profile");
    fs::create_dir_all(&scratch).unwrap();
    let launch = Launch {
        program: &browser,
        api: Api::Wasm,
        adapter: Adapter::Software,
        scratch: &scratch,
    };
    let files = files
        .into_iter()
        .map(|(name, text)| (name, Served::Bytes(text.into_bytes())))
        .collect();
    open(
        &launch,
        &Page {
            script,
            params,
            files,
            imports: &[],
        },
        &|_| {},
    )
    .unwrap()
    .answer
}

#[test]
fn pages_fit_a_narrow_screen() {
    let doc = doc();
    let executed = |day: u32| Executed {
        when: format!("2026-01-{day:02} 08:00"),
        revision: Some("1a2b3c4d5+".to_owned()),
        state: "PASS".to_owned(),
        median_ms: Some(1.5),
        lowest_ms: 1.4,
        shift: None,
    };
    let whose = ("bert:cpu-fp32".to_owned(), doc.host.name.clone());
    let trends = Trends::from([(whose, (1..=12).map(executed).collect())]);
    let mut base = self::doc();
    base.cases
        .iter_mut()
        .for_each(|case| case.status = orch::record::Outcome::Fail);
    let base = ("run 20260131T080000.123Z-1a2b3c4d5e6f at 1a2b3c4d5+", &base);
    let files = site(
        &doc,
        Some(&compare(base, ("head", &doc), &Noises::new())),
        &trends,
    )
    .unwrap();
    let longest = |folder: &str| {
        let own = files.iter().filter(|(name, _)| name.starts_with(folder));
        own.max_by_key(|(_, text)| text.len()).unwrap().0.as_str()
    };
    let with_trend = "pairs/bert/cpu-fp32.html";
    let named = [
        "index.html",
        "changes.html",
        "how.html",
        longest("models/"),
        longest("targets/"),
        longest("pairs/"),
        with_trend,
    ];
    let names: BTreeMap<String, &str> = named
        .iter()
        .enumerate()
        .map(|(at, name)| (at.to_string(), *name))
        .collect();
    let pages = names
        .iter()
        .map(|(at, name)| (at.clone(), whole(&files, name)))
        .collect();
    let found = answered(
        include_str!("site_narrow.mjs"),
        &json!(names.keys().collect::<Vec<_>>()),
        pages,
    );
    for (at, name) in names {
        let charts = u32::from(name == with_trend);
        let fits =
            json!({"sideways": 0, "beyond": [], "height": true, "search": true, "charts": charts});
        assert_eq!(found[&at], fits, "{name}");
    }
}

#[test]
fn a_reader_finds_a_model_by_its_name() {
    let mut files = made();
    // A page in a frame has no folder: what it refers to stands in it.
    let index = files.remove("index.html").unwrap();
    let script = |name: &str| format!("<script>{}</script>", files[name]);
    let page = index.replace(
        "</body>",
        &format!(
            "{}{}</body>",
            script("search-index.js"),
            script("search.js")
        ),
    );
    let found = answered(
        include_str!("site_page.mjs"),
        &Value::Null,
        BTreeMap::from([("page".to_owned(), page)]),
    );
    let expected = json!({
        "hidden": true,
        "bert": ["models/bert.html", "models/roberta.html", "models/distilbert.html"],
        "both": ["targets/openvino-fp16.html"],
        "none": [true, 0],
        "cleared": ["", true],
        "troubles": [],
    });
    assert_eq!(found, expected);
}
