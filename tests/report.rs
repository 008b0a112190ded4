//! The pages of one realistic document, against golden files. `ORCH_BLESS=1 cargo test --test report` writes them anew.

mod support;

use std::path::{Path, PathBuf};

use orch::record::Outcome;
use orch::report::{ReportDoc, Summary, json, junit, markdown, text};
use pretty_assertions::assert_eq;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/report")
        .join(name)
}

fn doc() -> ReportDoc {
    serde_json::from_str(&std::fs::read_to_string(fixture("doc.json")).unwrap()).unwrap()
}

#[track_caller]
fn golden(name: &str, actual: &str) {
    if std::env::var_os("ORCH_BLESS").is_some() {
        std::fs::write(fixture(name), actual).unwrap();
    }
    let expected = std::fs::read_to_string(fixture(name)).unwrap_or_default();
    assert_eq!(
        expected, actual,
        "{name} differs; look at it and bless it with ORCH_BLESS=1"
    );
}

#[test]
fn the_fixture_is_a_report_that_counts_itself() {
    let doc = doc();
    let counted = Summary::of(&doc.cases, &doc.excluded);
    let counts = |s: &Summary| {
        [
            s.cases,
            s.passed,
            s.failed,
            s.unavailable,
            s.unsupported,
            s.incomplete,
            s.excluded,
        ]
    };
    assert_eq!(counts(&counted), counts(&doc.summary));
    assert_eq!(counts(&counted), [206, 119, 8, 75, 2, 2, 4]);
}

#[test]
fn json_reads_back_as_it_was() {
    let doc = doc();
    let text = json::render(&doc);
    let again: ReportDoc = serde_json::from_str(&text).unwrap();
    assert_eq!(json::render(&again), text);
    assert!(text.ends_with("}\n"));
}

#[test]
fn markdown_is_the_golden_page() {
    golden("matrix.md", &markdown::render(&doc()));
}

#[test]
fn text_is_the_golden_summary_within_100_columns() {
    let summary = text::render(&doc(), &text::Styles::plain());
    golden("summary.txt", &summary);
    for line in summary
        .lines()
        .filter(|line| !line.trim_start().starts_with("repro:"))
    {
        // Only the last line may be longer: it is one line by contract.
        assert!(
            line.chars().count() <= 100 || line.contains(" steps: "),
            "{line}"
        );
    }
    assert!(!summary.contains('\u{1b}'));
    assert!(
        !summary.lines().any(|line| line.ends_with(' ')),
        "trailing blanks"
    );
}

#[test]
fn colours_change_nothing_but_colours() {
    let colored = text::render(&doc(), &text::Styles::colored());
    assert!(colored.contains("\u{1b}[32m✓"), "{colored}");
    let mut plain = String::new();
    let mut rest = colored.as_str();
    while let Some((before, after)) = rest.split_once('\u{1b}') {
        plain.push_str(before);
        rest = after.split_once('m').unwrap().1;
    }
    plain.push_str(rest);
    assert_eq!(plain, text::render(&doc(), &text::Styles::plain()));
}

#[test]
fn an_empty_run_still_says_so() {
    let mut doc = doc();
    doc.cases.clear();
    doc.excluded.clear();
    doc.summary = Summary {
        steps: 1,
        executed: 1,
        ..Summary::default()
    };
    let line = "1 step: 1 executed, 0 up to date   0.0 s\n";
    assert_eq!(text::render(&doc, &text::Styles::plain()), line);
    assert!(markdown::render(&doc).contains("No cases."));
    assert!(junit::render(&doc).contains("tests=\"0\""));
}

#[test]
fn junit_counts_and_explains() {
    let xml = junit::render(&doc());
    assert_eq!(xml.matches("<testsuite ").count(), 14);
    assert_eq!(xml.matches("<testcase ").count(), 206 + 4);
    assert_eq!(xml.matches("<failure ").count(), 8);
    assert_eq!(xml.matches("<error ").count(), 2);
    assert_eq!(xml.matches("<skipped ").count(), 75 + 2 + 4);
    assert!(
        xml.contains("tests=\"210\" failures=\"8\" errors=\"2\" time="),
        "{}",
        &xml[..300]
    );
    assert!(xml.contains("message=\"SKIP_UNAVAILABLE: no AMD driver: /dev/kfd does not exist\""));
    assert!(
        xml.contains("repro: orch run specs/all.yaml --step run:gpt2:openvino-int8 --rerun run:gpt2:openvino-int8")
    );
    assert!(xml.contains("\nstand_in: emulated\n"));
}

/// Reads files as XML, and holds them against the first, a schema.
const VALIDATE: &str = "
import sys
from lxml import etree
schema = etree.XMLSchema(file=sys.argv[1])
for path in sys.argv[2:]:
    schema.assertValid(etree.parse(path))
";

/// `junit-10.xsd` is that of Jenkins' xUnit plugin, the strictest reader.
#[test]
fn junit_keeps_to_its_schema() {
    let folder = tempfile::tempdir().unwrap();
    let validate = |name: &str, xml: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, xml).unwrap();
        let mut python = std::process::Command::new(support::installed::lxml());
        let output = python
            .args(["-c", VALIDATE])
            .arg(fixture("junit-10.xsd"))
            .arg(path)
            .output()
            .unwrap();
        if output.status.success() {
            Ok(())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    };
    let usual = doc();
    let mut odd = doc();
    let mut empty = doc();
    let text = "a < b & \"c\" ]]> <![CDATA[ \u{1b}[31m\u{0} \u{fffe} \u{85} é 𝄞\r\n\tend";
    for (case, status) in odd.cases.iter_mut().zip(Outcome::ALL) {
        (case.status, case.model) = (status, format!("{} {text}", case.model));
        (case.reason, case.repro) = (Some(text.to_owned()), Some(text.to_owned()));
        case.actual_device = Some(text.to_owned());
    }
    odd.excluded[0].reason = text.to_owned();
    odd.spec = text.to_owned();
    (empty.cases, empty.excluded) = (Vec::new(), Vec::new());
    for (name, doc) in [("usual", usual), ("odd", odd), ("empty", empty)] {
        validate(name, &junit::render(&doc)).unwrap_or_else(|why| panic!("{name}: {why}"));
    }
    let wrong = |from: &str, to: &str| {
        validate("wrong", &junit::render(&doc()).replacen(from, to, 1)).unwrap_err()
    };
    assert!(wrong("<testcase ", "<testcase stage=\"run\" ").contains("'stage' is not allowed"));
    assert!(wrong("time=\"", "time=\"-").contains("facet 'pattern'"));
    assert!(wrong("<system-out>", "<system-out>\u{1b}").contains("XMLSyntaxError"));
}

/// A page that knew a case or a state would have to learn of a new section too.
#[test]
fn pages_know_shapes_and_no_cases() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/report");
    let known = |page: &str| {
        let text = std::fs::read_to_string(root.join(page)).unwrap();
        ["Outcome", "CaseResult", "Cause", "SECTION"]
            .into_iter()
            .find(|word| text.contains(word))
    };
    for page in ["text.rs", "text/matrix.rs", "markdown.rs", "html.rs"] {
        assert_eq!(known(page), None, "{page}");
    }
    assert_eq!(
        known("sections/failures.rs"),
        Some("CaseResult"),
        "the law finds what it looks for"
    );
}
