//! The law of the pages: the cases of each format are the cases of the plan, one to one, whatever became of them. And
//! nothing that is named after a case or an artefact is named after another too. With `ORCH_REPORT_HTML=page.html` a page
//! with sizes is written there to be looked at.

#[path = "support/page.rs"]
mod page;

use std::collections::{BTreeMap, BTreeSet};

use orch::matrix::{Computes, HalfChoice, Known, Matrix};
use orch::plan;
use orch::record::Outcome;
use orch::report::{CaseResult, Excluded, ReportDoc, Summary, html, json, junit, markdown, text};
use orch::spec::Spec;
use orch::step::{Source, TestContext};

/// Names that could be taken for each other: of sizes, of artefacts, and of pairs of names.
const COMMON: &str = "version: 1
pipelines:
  text: {description: x, tasks: [fill-mask]}
targets:
  cpu: {runtime: ort, backend: cpu, device: cpu, artefact: onnx, precisions: [fp32, int8]}
  b_c: {runtime: openvino, backend: openvino, device: CPU, artefact: openvino, precisions: [fp32, fp16]}
  c: {runtime: torch, backend: cpu, device: cpu, artefact: torchscript, precisions: [fp32]}
  openvino: {runtime: ort, backend: qnn, device: htp, artefact: qnn, precisions: [fp16]}
  plain: {runtime: openvino, backend: openvino, device: CPU, artefact: openvino, precisions: [fp16]}
  halved: {runtime: python, backend: cpu, device: cpu, artefact: model, half: auto}
  gone: {runtime: ort, backend: rocm, device: rocm, artefact: onnx, precisions: [fp32], fallback: [cpu]}
models:
  bert: {class: BertModel, family: encoder-only, task: fill-mask, pipeline: text, INPUTS}
  bert-b4: {class: BertModel, family: encoder-only, task: fill-mask, pipeline: text, INPUTS}
  bert-onnx: {class: BertModel, family: encoder-only, task: fill-mask, pipeline: text, INPUTS}
  a: {class: BertModel, family: encoder-only, task: fill-mask, pipeline: text, INPUTS}
  a_b: {class: BertModel, family: encoder-only, task: fill-mask, pipeline: text, INPUTS}
  two.5: {class: BertModel, family: encoder-only, task: fill-mask, pipeline: text, dims: {batch: 3}, INPUTS}
  fixed: {class: BertModel, family: encoder-only, task: fill-mask, pipeline: text, inputs: {ids: {dtype: int64, shape: [1], value: 1}}}
";

const MATRICES: [&str; 8] = [
    "",
    "matrix: {batch: [1, 3]}",
    "matrix: {batch: [4, 1], seq: [8, 16, 128]}",
    "matrix: {targets: [cpu, b_c], seq: [1]}",
    "matrix: {batch: [1, 4], exclude: [{model: bert, reason: slow}, {target: gone, precision: fp32, reason: there is none}]}",
    "matrix: {models: [a, bert], targets: [cpu], batch: [2], include: [{model: a_b, target: c}, {target: plain}]}",
    "matrix: {batch: [2, 4], expect: [{model: a, target: cpu, status: FAIL, reason: known, since: 2026-01-31}]}",
    "matrix: {targets: [gone]}",
];

fn spec(matrix: &str) -> Spec {
    let inputs = "inputs: {ids: {dtype: int64, shape: [batch, seq], randint: [0, 9]}}";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("spec.yaml");
    std::fs::write(&path, COMMON.replace("INPUTS", inputs) + matrix).unwrap();
    Spec::load(&path).unwrap_or_else(|errors| panic!("{errors}"))
}

/// Every constructed matrix: as it is, with its half settled either way, and with a target chosen for each model.
fn matrices() -> Vec<(Spec, Matrix)> {
    let mut all = Vec::new();
    for more in MATRICES {
        let settled = |yes: bool| {
            let spec = spec(more);
            let mut matrix = Matrix::of(&spec);
            let why = || "a test says so".to_owned();
            matrix.settle_half(&spec, |_, _| {
                if yes {
                    Computes::Yes(why())
                } else {
                    Computes::No(why())
                }
            });
            (spec, matrix)
        };
        let whole = spec(more);
        let mut chosen = settled(true);
        chosen.1.choose(&chosen.0, |_| Known::Unmeasured);
        let matrix = Matrix::of(&whole);
        all.extend([(whole, matrix), settled(true), settled(false), chosen]);
    }
    all
}

/// What a plan's matrix becomes when its cases end in each state in turn.
fn doc(matrix: &Matrix, turn: usize) -> ReportDoc {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/fixtures/report/doc.json"
    );
    let mut doc: ReportDoc = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let good = doc
        .cases
        .iter()
        .find(|case| case.status == Outcome::Pass)
        .unwrap()
        .clone();
    let states: Vec<Outcome> = Outcome::ALL.into_iter().collect();
    let case = |(at, case): (usize, &orch::matrix::Case)| {
        // Some targets are not there at all.
        let status = if case.target == "gone" {
            Outcome::SkipUnavailable
        } else {
            states[(at + turn) % states.len()]
        };
        let has_run = matches!(
            status,
            Outcome::Pass | Outcome::PassFallback | Outcome::Flaky | Outcome::Xpass
        );
        CaseResult {
            case: case.id(),
            dims: case.dims.clone(),
            model: case.model.clone(),
            target: case.target.clone(),
            precision: case.precision.word().into(),
            half: case.half.clone() as Option<HalfChoice>,
            chosen: case.chosen.clone(),
            status,
            stage: (status != Outcome::Pass).then(|| "run".to_owned()),
            reason: (status != Outcome::Pass).then(|| format!("off by 0.{at} in {}", case.model)),
            metrics: good.metrics.clone().filter(|_| has_run),
            numerics: None,
            repro: (!has_run).then(|| format!("run {}", case.id())),
            ..good.clone()
        }
    };
    doc.cases = matrix.cases.iter().enumerate().map(case).collect();
    let excluded = matrix.excluded.iter().map(|excluded| Excluded {
        case: excluded.case.id(),
        dims: excluded.case.dims.clone(),
        model: excluded.case.model.clone(),
        target: excluded.case.target.clone(),
        precision: excluded.case.precision.word().into(),
        reason: excluded.reason.clone(),
    });
    doc.excluded = excluded.collect();
    doc.summary = Summary::of(&doc.cases, &doc.excluded);
    doc
}

/// The id of a cell: `bert@b4` and `cpu-fp32` make `bert:cpu-fp32-b4`.
fn id(row: &str, column: &str) -> String {
    match row.split_once('@') {
        Some((model, sizes)) => format!("{model}:{column}-{sizes}"),
        None => format!("{row}:{column}"),
    }
}

fn between<'t>(text: &'t str, before: &str, after: &str) -> Option<&'t str> {
    Some(text.split_once(before)?.1.split_once(after)?.0)
}

fn of_json(doc: &ReportDoc) -> Vec<String> {
    let value: serde_json::Value = serde_json::from_str(&json::render(doc)).unwrap();
    let cases = ["cases", "excluded"]
        .map(|list| value[list].as_array().unwrap().clone())
        .concat();
    assert!(cases.iter().all(|case| case["dims"].is_object()));
    cases
        .iter()
        .map(|case| case["case"].as_str().unwrap().to_owned())
        .collect()
}

fn of_junit(doc: &ReportDoc) -> Vec<String> {
    let xml = junit::render(doc);
    let count: usize = between(&xml, "tests=\"", "\"").unwrap().parse().unwrap();
    let attribute = |test: &str, name: &str| {
        between(test, &format!("{name}=\""), "\"")
            .unwrap()
            .to_owned()
    };
    let tests = xml.split("<testcase ").skip(1);
    let found: Vec<_> = tests
        .map(|test| {
            format!(
                "{}:{}",
                attribute(test, "name"),
                attribute(test, "classname")
            )
        })
        .collect();
    assert_eq!(count, found.len());
    found
}

fn of_markdown(doc: &ReportDoc) -> Vec<String> {
    let page = markdown::render(doc).replace('\\', "");
    let table: Vec<&str> = page
        .lines()
        .skip_while(|line| !line.starts_with("| model |"))
        .collect();
    let cells = |line: &str| -> Vec<String> {
        line.trim_matches('|')
            .split('|')
            .map(|cell| cell.trim().to_owned())
            .collect()
    };
    let header = cells(table[0]);
    let rows = table[2..]
        .iter()
        .take_while(|line| line.starts_with('|'))
        .map(|line| cells(line));
    let in_row = |row: Vec<String>| -> Vec<String> {
        // The first two are of the model.
        assert_eq!(header[1], "parameters");
        let filled = row
            .iter()
            .zip(&header)
            .skip(2)
            .filter(|(cell, _)| !cell.is_empty());
        filled.map(|(_, column)| id(&row[0], column)).collect()
    };
    rows.flat_map(in_row).collect()
}

fn of_html(doc: &ReportDoc) -> Vec<String> {
    let page = html::render(doc).unwrap();
    let data = page::data(&page);
    let matrix = between(&page, "<table class=\"matrix\">", "</table>").unwrap();
    let (head, body) = matrix.split_once("<tbody>").unwrap();
    let columns: Vec<String> = head
        .split("<th scope=\"col\" data-target=\"")
        .skip(1)
        .map(|th| between(th, "data-name=\"", "\"").unwrap().to_owned())
        .collect();
    let mut found = Vec::new();
    for row in body.split("<tr").skip(1) {
        let name = between(row, "<span class=\"name\">", "<").unwrap();
        for (cell, column) in row.split("<td").skip(1).zip(&columns) {
            if cell.contains("data-k=\"none\"") {
                continue;
            }
            let id = id(name, column);
            // A link leads to the details of this very case.
            if let Some(at) = between(cell, "href=\"#case=", "\"") {
                let (model, variant) = id.split_once(':').unwrap();
                assert_eq!(
                    data["details"][at.parse::<usize>().unwrap()]["name"],
                    format!("{model} on {variant}")
                );
            }
            found.push(id);
        }
    }
    found
}

/// Of the matrix; and how many cases of columns that it leaves out the groups of what is unavailable count.
/// The end of the line that stands in place of models of which an interrupt left nothing.
const UNREACHED: &str = "no case was finished";

fn of_console(page: &str) -> (Vec<String>, usize) {
    let mut found = Vec::new();
    let mut header: Vec<(usize, String)> = Vec::new();
    let starts = |line: &str| -> Vec<(usize, String)> {
        let chars: Vec<char> = line.chars().collect();
        let begins = |at: &usize| chars[*at] != ' ' && (*at == 0 || chars[at - 1] == ' ');
        let word = |at: usize| (at, chars[at..].iter().take_while(|c| **c != ' ').collect());
        (0..chars.len()).filter(begins).map(word).collect()
    };
    for line in page.lines() {
        if line.starts_with(['✗', '—', '⊘', '·', '…', '≈', '↪', '∅', '⊖', '⊕', '?'])
            || line.starts_with("half ")
            || line.starts_with("Latencies are ")
        {
            break;
        }
        match line {
            _ if line.ends_with(UNREACHED) => {}
            "" => header.clear(),
            _ if header.is_empty() => header = starts(line),
            row => {
                let chars: Vec<char> = row.chars().collect();
                let name: String = chars.iter().take_while(|c| **c != ' ').collect();
                for (at, (start, column)) in header.iter().enumerate() {
                    let end = header
                        .get(at + 1)
                        .map_or(chars.len(), |(next, _)| *next)
                        .min(chars.len());
                    if chars
                        .get(*start..end)
                        .is_some_and(|cell| cell.iter().any(|c| *c != ' '))
                    {
                        found.push(id(&name, column));
                    }
                }
            }
        }
    }
    let unwrapped = page.replace("\n  ", " ");
    let groups = unwrapped
        .lines()
        .filter(|line| line.starts_with('—') && line.contains(" unavailable: "));
    let count = |line: &str| {
        between(line, "(", " case")
            .unwrap()
            .parse::<usize>()
            .unwrap()
    };
    (found, groups.map(count).sum())
}

#[track_caller]
fn same(what: &str, expected: &BTreeSet<String>, found: Vec<String>) {
    let set: BTreeSet<String> = found.iter().cloned().collect();
    assert_eq!(found.len(), set.len(), "{what} has a case twice: {found:?}");
    let lost: Vec<_> = expected.difference(&set).collect();
    let new: Vec<_> = set.difference(expected).collect();
    assert!(
        lost.is_empty() && new.is_empty(),
        "{what} lacks {lost:?} and makes up {new:?}"
    );
}

#[test]
fn the_cases_of_each_format_are_those_of_the_plan() {
    for (at, (_, matrix)) in matrices().iter().enumerate() {
        let cases = matrix.cases.iter().map(|case| case.id());
        let all: Vec<_> = cases
            .chain(matrix.excluded.iter().map(|excluded| excluded.case.id()))
            .collect();
        let expected: BTreeSet<String> = all.iter().cloned().collect();
        assert_eq!(all.len(), expected.len(), "two cases have one id: {all:?}");
        let doc = doc(matrix, at);
        if let (4, Some(path)) = (at, std::env::var_os("ORCH_REPORT_HTML")) {
            std::fs::write(path, html::render(&doc).unwrap()).unwrap();
        }
        same("JSON", &expected, of_json(&doc));
        same("JUnit", &expected, of_junit(&doc));
        same("Markdown", &expected, of_markdown(&doc));
        same("HTML", &expected, of_html(&doc));
        let page = text::render(&doc, &text::Styles::plain());
        if page.contains("\nthe matrix has ") {
            counts_are_right(&doc, &page);
        } else {
            console_is_right(&doc, &page, &expected);
        }
    }
}

/// The matrix, and beside it the columns in which nothing is available: those are counted by backend.
fn console_is_right(doc: &ReportDoc, page: &str, expected: &BTreeSet<String>) {
    let (found, unavailable) = of_console(page);
    let mut there: BTreeMap<String, bool> = BTreeMap::new();
    for case in &doc.cases {
        let is_there = case.status != Outcome::SkipUnavailable;
        *there
            .entry(format!(":{}-{}", case.target, case.precision))
            .or_default() |= is_there;
    }
    let gone: Vec<&String> = there
        .iter()
        .filter(|(_, is_there)| !**is_there)
        .map(|(column, _)| column)
        .collect();
    let is_in = |id: &str, column: &str| {
        let sizes = id.split_once(column).map(|(_, sizes)| sizes);
        sizes.is_some_and(|sizes| {
            sizes.is_empty() || sizes.starts_with("-b") || sizes.starts_with("-s")
        })
    };
    let mut shown: BTreeSet<String> = expected
        .iter()
        .filter(|id| !gone.iter().any(|column| is_in(id, column)))
        .cloned()
        .collect();
    let row = |id: &str| {
        let column = there.keys().find(|column| is_in(id, column));
        column.map_or_else(
            || id.to_owned(),
            |column| id.replacen(column.as_str(), "", 1),
        )
    };
    let rows: BTreeSet<String> = found.iter().map(|id| row(id)).collect();
    let left_out: BTreeSet<String> = shown
        .iter()
        .map(|id| row(id))
        .filter(|row| !rows.contains(row))
        .collect();
    let told = page.lines().find(|line| line.ends_with(UNREACHED));
    let count = told.map_or(0, |line| {
        between(line, "of ", " model").unwrap().parse().unwrap()
    });
    assert_eq!(count, left_out.len(), "{page}\n{shown:?}");
    let nothing = [Outcome::Incomplete, Outcome::SkipUnavailable];
    let of_those = doc
        .cases
        .iter()
        .filter(|case| left_out.contains(&row(&case.case)));
    assert!(
        of_those.clone().all(|case| nothing.contains(&case.status)),
        "{left_out:?}"
    );
    shown.retain(|id| !left_out.contains(&row(id)));
    same("the console", &shown, found);
    assert_eq!(
        unavailable,
        doc.cases
            .iter()
            .filter(|case| case.status == Outcome::SkipUnavailable)
            .count()
    );
}

/// The table that stands in place of a long matrix.
fn counts_are_right(doc: &ReportDoc, page: &str) {
    let mut counted: BTreeMap<&str, usize> = BTreeMap::new();
    for line in page
        .lines()
        .take_while(|line| !line.starts_with("the matrix has"))
    {
        let mut words = line.split_whitespace();
        let Some(name) = words.next() else { continue };
        *counted.entry(name).or_default() += words
            .filter_map(|word| word.parse::<usize>().ok())
            .sum::<usize>();
    }
    let cases = doc.cases.iter().map(|case| (&case.target, &case.precision));
    let mut expected: BTreeMap<String, usize> = BTreeMap::new();
    for (target, precision) in cases.chain(
        doc.excluded
            .iter()
            .map(|excluded| (&excluded.target, &excluded.precision)),
    ) {
        *expected.entry(format!("{target}-{precision}")).or_default() += 1;
    }
    for (column, count) in expected {
        assert_eq!(counted[column.as_str()], count, "{column}\n{page}");
    }
}

/// Beyond a screen the console counts; the counts are those of the plan too.
#[test]
fn counts_in_place_of_a_long_matrix_are_those_of_the_plan() {
    let mut doc = doc(&matrices()[0].1, 0);
    let cases = std::mem::take(&mut doc.cases);
    for copy in 0..100 {
        for case in &cases {
            let model = format!("{}-with-a-long-name-of-its-own-{copy}", case.model);
            doc.cases.push(CaseResult {
                case: case.case.replacen(&case.model, &model, 1),
                model,
                ..case.clone()
            });
        }
    }
    doc.summary = Summary::of(&doc.cases, &doc.excluded);
    let page = text::render(&doc, &text::Styles::plain());
    assert!(page.lines().count() < 400, "{} lines", page.lines().count());
    assert!(page.contains("\nthe matrix has "), "{page}");
    counts_are_right(&doc, &page);
}

/// Files of tests, folders of artefacts and steps: what has one name is one thing.
#[test]
fn nothing_is_named_after_two_things() {
    for (spec, matrix) in matrices() {
        let plan = plan::build(&spec, &matrix).unwrap();
        let names: BTreeSet<&str> = plan.names().collect();
        assert_eq!(names.len(), plan.steps.len());
        let mut files = BTreeMap::new();
        let mut folders = BTreeMap::new();
        for planned in &plan.cases {
            let test: TestContext = plan.step(planned.test).params.parse().unwrap();
            // Steps of one name are one step: what a case was given must be of its own sizes.
            let size = planned
                .case
                .dims
                .get("batch")
                .copied()
                .filter(|_| planned.case.model != "fixed");
            let shape = test.inputs[0].shape.clone();
            assert_eq!(size.unwrap_or(1), shape[0], "{}", planned.case.id());
            let inputs = planned
                .chain
                .iter()
                .map(|id| plan.step(*id))
                .find(|step| step.name.starts_with("inputs:"));
            let recipe: serde_json::Value = inputs.unwrap().params.parse().unwrap();
            let sizes: Vec<_> = shape
                .iter()
                .map(|size| serde_json::json!({"fixed": size}))
                .collect();
            assert_eq!(
                recipe["inputs"]["ids"]["shape"],
                serde_json::json!(sizes),
                "{}",
                planned.case.id()
            );
            let other = files.insert(test.file_name(), planned.case.id());
            assert_eq!(other, None, "{}", test.file_name());
            for (label, source) in &plan.step(planned.run).inputs {
                let Source::Step(from) = source else { continue };
                let artefact = match &**label {
                    "artefact" => test.artefact_variant.as_str(),
                    "model" => "model",
                    _ => continue,
                };
                let folder = format!("{}/{artefact}", test.instance);
                let other = folders
                    .insert(folder.clone(), *from)
                    .filter(|other| other != from);
                assert!(
                    other.is_none(),
                    "{folder} is of {:?} and of another",
                    plan.step(*from).name
                );
            }
        }
    }
}
