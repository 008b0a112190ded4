//! The HTML report in a real browser: filters, figures, sorting, the keyboard, the panel.
//!
//! It installs the environment `browser` on first use: `cargo test --test report_browser`.

mod support;

use std::collections::BTreeMap;
use std::fs;

use orch::browser::{Adapter, Api, Launch, Page, Served, open};
use orch::report::{ReportDoc, html};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::Sandbox;

#[test]
fn a_reader_finds_sorts_and_compares() {
    let sandbox = Sandbox::new().installs();
    let browser = support::browser(&sandbox);
    let scratch = sandbox.path("profile");
    fs::create_dir_all(&scratch).unwrap();
    let doc: ReportDoc = serde_json::from_str(include_str!("fixtures/report/doc.json")).unwrap();
    let page = Served::Bytes(html::render(&doc).unwrap().into_bytes());
    let launch = Launch { program: &browser, api: Api::Wasm, adapter: Adapter::Software, scratch: &scratch };
    let shown = Page {
        script: include_str!("report_page.mjs"),
        params: &Value::Null,
        files: BTreeMap::from([("page".to_owned(), page)]),
        imports: &[],
    };
    let found = open(&launch, &shown, &|_| {}).unwrap().answer;
    let expected = json!({
        "models": 15, "cards": 15, "drawn": 15,
        "named": ["bert", "roberta", "distilbert"], "cards_named": ["bert", "roberta", "distilbert"],
        "speed": ["1.00×", "1.00×", "1.00×"],
        "address": "#text=bert&figure=speed&base=cpu-fp32",
        "sorted": [1.23, 1.25, 1.26], "sort_told": "ascending",
        "folded": 1, "unfolded": 5,
        "moved": true, "panel": "distilbert on openvino-fp32", "samples": 1, "closed": true,
        "cleared": [15, true],
        "failing": [8, 7, 0],
        "troubles": [],
    });
    assert_eq!(found, expected);
}
