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
    let launch = Launch {
        program: &browser,
        api: Api::Wasm,
        adapter: Adapter::Software,
        scratch: &scratch,
    };
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
        "memory": ["444 MiB", "233 MiB", "829 MiB"], "error": ["2.0e-6", "4.1e-6", "2.9e-6"], "tinted": true,
        "csv": [44, "case,state,stage,latency_ms,not_quiet,peak_rss_bytes,max_abs,reason", "bert on cpu-fp32,passed,,1.57835,,244008484,0.000002897,"],
        "json": 206,
        "spread": [["openvino", "8", "0.91 ms", "0.74 ms", "0.40 ms distilbert on openvino-int8", "1.36 ms roberta on openvino-fp32"]],
        "slowest": ["roberta on openvino-fp32", "1.36 ms"],
        "memory_rows": [
            ["openvino-fp32", "372 MiB", "551 MiB", "720 MiB", "–"],
            ["openvino-fp16", "320 MiB", "340 MiB", "874 MiB", "–"],
            ["openvino-int8", "332 MiB", "346 MiB", "765 MiB", "–"],
        ],
        "counted": "3 of 9 rows",
        "whole": ["fastest", "guidance", "numerics", "conversions", "cache", "devices", "versions"],
        "bars": [3, 3],
        "causes": ["6 of them chosen", "3 of them chosen", "3 of them chosen", "3 of them chosen"],
        "ticks": 20,
        "folded": 1, "unfolded": 5,
        "moved": true, "panel": "roberta on openvino-fp32", "linked": "roberta:openvino-fp32", "samples": [1, 20], "closed": true,
        "cleared": [15, true, 0, 2],
        "failing": [8, 7, 0], "excluded": [4, 0, 4],
        "restored": [["roberta", "distilbert", "bert"], ["829 MiB", "444 MiB", "233 MiB"], "cpu", "pass", "bert on cpu-fp32"],
        "untinted": ["0.000", "0.000", "0.000"],
        "dark": [true, "rgb(21, 24, 27)"],
        "narrow": [0, 0, 0, true],
        "faint": [], "faint_in_the_dark": [],
        "troubles": [],
    });
    assert_eq!(found, expected);
}
