//! Every state on every page. With `ORCH_REPORT_HTML=page.html` the page is written there to be looked at.

#[path = "support/page.rs"]
mod page;

use orch::record::{Attempt, Outcome, Weights};
use orch::report::{
    CaseResult, Expected, FallbackResult, FlakyStep, ReportDoc, Summary, Tried, html, junit,
    markdown, text,
};

const EXPECTED: &str = "driver bug 123";

fn expected(strict: bool) -> Option<Expected> {
    let reason = EXPECTED.to_owned();
    let since = Some("2026-01-31".to_owned());
    Some(Expected {
        status: Outcome::Numerics,
        stage: Some("run".into()),
        reason,
        since,
        cause: Some("driver".into()),
        url: None,
        signature: None,
        strict,
    })
}

/// A document with one case of each state, and one of an unexpected success that is let pass.
fn doc() -> ReportDoc {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/fixtures/report/doc.json"
    );
    let mut doc: ReportDoc = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let good = doc
        .cases
        .iter()
        .find(|case| case.status == Outcome::Pass && case.backend == "cpu")
        .unwrap()
        .clone();
    let case = |(number, status): (usize, Outcome)| {
        let is_run = matches!(
            status,
            Outcome::Pass | Outcome::PassFallback | Outcome::Flaky | Outcome::Xpass
        );
        CaseResult {
            case: format!("m{number}:{}-{}", good.target, good.precision),
            model: format!("m{number}"),
            status,
            stage: (status != Outcome::Pass).then(|| "run".to_owned()),
            reason: (status != Outcome::Pass).then(|| format!("why it is {}", status.label())),
            metrics: good.metrics.clone().filter(|_| is_run),
            numerics: None,
            ..good.clone()
        }
    };
    doc.cases = Outcome::ALL.into_iter().enumerate().map(case).collect();
    doc.cases.push(CaseResult {
        expected: expected(false),
        ..case((99, Outcome::Xpass))
    });
    for case in &mut doc.cases {
        match case.status {
            Outcome::Xfail => case.expected = expected(true),
            Outcome::Xpass if case.model != "m99" => case.expected = expected(true),
            Outcome::Flaky => case.attempts = vec![attempt()],
            Outcome::PassFallback => {
                let tried = |name: &str, status| Tried {
                    name: name.into(),
                    status,
                    reason: Some("no driver".into()),
                };
                case.fallback = Some(FallbackResult {
                    name: "cpu-fp32".into(),
                    batch: None,
                    step: "run:m1:cpu-fp32".into(),
                    tried: vec![
                        tried("cuda-fp32", Outcome::SkipUnavailable),
                        tried("openvino-fp32", Outcome::Crash),
                    ],
                    slowdown: Some(3.1),
                    against: Some("2026-01-31T00:00:00Z".into()),
                });
            }
            _ => {}
        }
    }
    doc.flaky_steps = vec![FlakyStep {
        step: "command:shaky".into(),
        reason: Some("it passed at attempt 2".into()),
        executed: Some("2026-01-31T00:00:00Z".into()),
        cached: true,
        attempts: vec![attempt()],
    }];
    doc.excluded.clear();
    doc.summary = Summary::of(&doc.cases, &doc.excluded);
    doc
}

fn attempt() -> Attempt {
    Attempt {
        outcome: Outcome::Timeout,
        reason: Some("slow".into()),
        started: "2026-01-31T00:00:00Z".into(),
        seconds: 1.0,
        log: None,
        waited_seconds: 1.0,
    }
}

#[test]
fn each_state_is_counted_once() {
    let doc = doc();
    let s = &doc.summary;
    assert_eq!(s.cases, 16);
    assert_eq!(
        [
            s.passed,
            s.fallbacks,
            s.flaky,
            s.xfailed,
            s.mocked,
            s.incomplete,
            s.indecisive
        ],
        [1; 7]
    );
    assert_eq!([s.unavailable, s.unsupported], [1; 2]);
    // Five kinds of failure, and the unexpected success that is one.
    assert_eq!((s.failed, s.xpassed), (6, 2));
}

#[test]
fn the_console_names_every_state_and_why() {
    let text = text::render(&doc(), &text::Styles::plain());
    for status in Outcome::ALL {
        if !matches!(
            status,
            Outcome::Pass | Outcome::SkipUnavailable | Outcome::SkipUnsupported
        ) {
            assert!(
                text.contains(&format!("{} m", status.label())),
                "{}:\n{text}",
                status.label()
            );
        }
    }
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "ran on cpu-fp32; 3.10 times slower than cuda-fp32 on 2026-01-31",
        "cuda-fp32: SKIP_UNAVAILABLE: no driver; openvino-fp32: CRASH: no driver",
        "expected NUMERICS@run: driver bug 123 (since 2026-01-31); it ended at run: why it is XFAIL",
        "≈ FLAKY command:shaky it passed at attempt 2 (executed 2026-01-31)",
        "1 passed · 1 on a fallback · 1 flaky · 1 indecisive · 1 failed as expected · 2 passed unexpectedly · 6 failed",
        "1 mocked",
    ] {
        assert!(flat.contains(part), "{part}\n{text}");
    }
    assert!(
        text.contains(" fallback\n") && text.contains(" flaky\n"),
        "figures say what they are:\n{text}"
    );
}

#[test]
fn junit_fails_what_the_run_fails_and_skips_what_is_expected() {
    let xml = junit::render(&doc());
    assert_eq!(xml.matches("<failure ").count(), 6);
    assert_eq!(xml.matches("<failure type=\"XPASS\"").count(), 1);
    assert_eq!(xml.matches("<error ").count(), 1);
    assert_eq!(
        xml.matches("<skipped ").count(),
        5,
        "unavailable, unsupported, expected, mocked, indecisive"
    );
    assert!(
        xml.contains("<skipped message=\"XFAIL: expected NUMERICS@run: driver bug 123"),
        "{xml}"
    );
    assert!(xml.contains("status: PASS_FALLBACK\n"), "{xml}");
    assert!(xml.contains("status: FLAKY\n"), "{xml}");
}

#[test]
fn junit_skips_every_state_that_it_does_not_know() {
    // `Outcome::ALL` holds states of a later day too: whatever neither passed nor failed must not look like a success.
    let doc = doc();
    for case in &doc.cases {
        let alone = ReportDoc {
            cases: vec![case.clone()],
            ..doc.clone()
        };
        let xml = junit::render(&alone);
        let ends = ["failure", "error", "skipped"]
            .into_iter()
            .filter(|end| xml.contains(&format!("<{end} ")));
        let expected: &[&str] = match case.status {
            Outcome::Pass | Outcome::PassFallback | Outcome::Flaky => &[],
            Outcome::Xpass if case.model == "m99" => &[],
            Outcome::Incomplete => &["error"],
            status if status.is_failure() || status == Outcome::Xpass => &["failure"],
            _ => &["skipped"],
        };
        assert_eq!(
            ends.collect::<Vec<_>>(),
            expected,
            "{}",
            case.status.label()
        );
    }
}

#[test]
fn the_pages_name_every_state_too() {
    let markdown = markdown::render(&doc());
    let html = html::render(&doc()).unwrap();
    if let Some(path) = std::env::var_os("ORCH_REPORT_HTML") {
        std::fs::write(path, &html).unwrap();
    }
    assert!(
        markdown.contains("| ↪ PASS\\_FALLBACK | ran on cpu-fp32; 3.10 times slower"),
        "{markdown}"
    );
    assert!(
        markdown.contains("≈ FLAKY") && markdown.contains("⊖ XFAIL") && markdown.contains("∅ MOCK"),
        "{markdown}"
    );
    assert_eq!(markdown.matches("⊕ XPASS |").count(), 2, "{markdown}");
    for kind in [
        "pass",
        "fallback",
        "flaky",
        "xfail",
        "mock",
        "fail",
        "incomplete",
        "unavailable",
        "unsupported",
    ] {
        assert!(html.contains(&format!("data-k=\"{kind}\"")), "{kind}");
        assert!(html.contains(&format!("data-filter=\"{kind}\"")), "{kind}");
    }
    assert!(
        html.contains("3.10 times slower")
            && html.contains(EXPECTED)
            && html.contains("command:shaky")
    );
}

/// Figures of other devices, and none at all, stand beside no figure of hardware.
#[test]
fn only_a_plain_pass_is_compared() {
    let mut doc = doc();
    doc.cases.retain(|case| {
        matches!(
            case.status,
            Outcome::PassFallback | Outcome::Mock | Outcome::Xpass
        )
    });
    let page = markdown::render(&doc);
    assert!(!page.contains("## Performance"), "{page}");
}

/// `count` cases on each of three targets that ended alike.
fn ended(count: usize, status: Outcome, reason: impl Fn(usize, &str) -> String) -> ReportDoc {
    let mut doc = doc();
    let good = doc.cases[0].clone();
    doc.cases.clear();
    for (at, target) in (0..count).flat_map(|at| ["cpu", "cuda", "qnn"].map(|target| (at, target)))
    {
        let model = format!("model-{at}");
        let case = format!("{model}:{target}-fp32");
        doc.cases.push(CaseResult {
            status,
            stage: Some("run".into()),
            reason: Some(reason(at, &model)),
            repro: Some(format!("orch run --step run:{case}")),
            metrics: None,
            case,
            model,
            target: target.into(),
            ..good.clone()
        });
    }
    doc.flaky_steps.clear();
    doc.summary = Summary::of(&doc.cases, &doc.excluded);
    doc
}

#[test]
fn three_mistakes_are_three_things_to_read_however_many_cases_they_cost() {
    let mistakes = [
        "no file /models/{}.onnx",
        "{} has no input `x` (12 bytes)",
        "unknown operator",
    ];
    let doc = ended(30, Outcome::Fail, |at, model| {
        mistakes[at % 3].replace("{}", model)
    });
    let text = text::render(&doc, &text::Styles::plain());
    assert_eq!(
        text.matches("✗ FAIL 30 cases at run\n").count(),
        3,
        "{text}"
    );
    assert_eq!(text.matches("repro:").count(), 3, "{text}");
    assert!(
        text.contains(
            "model-0 on cpu-fp32, model-0 on cuda-fp32, model-0 on qnn-fp32, model-3 on cpu-fp32 and 26 more"
        )
    );
    assert!(
        text.contains("for instance model-0 on cpu-fp32: no file /models/model-0.onnx\n"),
        "{text}"
    );
    assert!(
        text.contains("\n  unknown operator\n"),
        "the same words are no instance: {text}"
    );
    let markdown = markdown::render(&doc);
    let html = html::render(&doc).unwrap();
    let failures = markdown
        .split("## ")
        .find(|part| part.starts_with("Failures"))
        .unwrap();
    assert_eq!(
        failures
            .lines()
            .filter(|line| line.contains("✗ FAIL"))
            .count(),
        3,
        "{failures}"
    );
    assert!(
        markdown.contains("✗ FAIL <sup>3</sup>") && !markdown.contains("<sup>4</sup>"),
        "{markdown}"
    );
    let failures = html
        .split_once("<section id=\"failures\"")
        .unwrap()
        .1
        .split_once("</section>")
        .unwrap()
        .0;
    assert_eq!(failures.matches("<b>30 cases</b>").count(), 3);
    // Each case is a link of its group, and a test and a row of its own where machines read.
    assert_eq!(failures.matches("href=\"#c").count(), 90);
    assert_eq!(junit::render(&doc).matches("<failure ").count(), 90);
}

#[test]
fn of_many_causes_the_gravest_are_shown_in_full_and_all_fits_a_page() {
    // The last of 26 operators fails most cases.
    let operator = |at: usize| char::from(b'A' + at.min(25) as u8);
    let doc = ended(100, Outcome::Fail, |at, _| {
        format!("unknown operator {}", operator(at))
    });
    let text = text::render(&doc, &text::Styles::plain());
    assert!(text.lines().count() < 60, "{text}");
    let told: Vec<_> = text
        .lines()
        .filter(|line| line.contains("✗ FAIL "))
        .collect();
    assert_eq!(told[0], "✗ FAIL 225 cases at run");
    assert_eq!(told[3], "✗ FAIL 3 cases at run: unknown operator C");
    assert_eq!(
        (told.len(), text.matches("repro:").count()),
        (13, 3),
        "{text}"
    );
    assert!(text.contains("✗ and 39 cases of 13 causes more"), "{text}");
    let html = html::render(&doc).unwrap();
    let failures = html
        .split_once("<section id=\"failures\"")
        .unwrap()
        .1
        .split_once("</section>")
        .unwrap()
        .0;
    assert_eq!(failures.matches("unknown operator").count(), 26);
    assert!(
        failures.find("operator Z") < failures.find("operator A"),
        "{failures}"
    );
}

#[test]
fn an_early_interrupt_is_one_line() {
    let doc = ended(215, Outcome::Incomplete, |_, _| {
        "interrupted before it ran".into()
    });
    let text = text::render(&doc, &text::Styles::plain());
    let told: Vec<_> = text
        .lines()
        .filter(|line| line.contains("INCOMPLETE"))
        .collect();
    assert_eq!(
        told,
        ["… INCOMPLETE 645 cases at run: interrupted before it ran"]
    );
    assert!(text.lines().count() < 20, "{text}");
    assert_eq!(
        markdown::render(&doc)
            .matches("| 645: model-0 on cpu-fp32")
            .count(),
        1
    );
}

/// That outputs are wrong has as many causes as there are targets, for all that can be said.
#[test]
fn wrong_figures_of_two_targets_are_two_causes() {
    let doc = ended(5, Outcome::Numerics, |at, _| {
        format!("tensor `y`: off by 0.{at}")
    });
    let text = text::render(&doc, &text::Styles::plain());
    assert_eq!(
        text.matches("✗ NUMERICS 5 cases at run\n").count(),
        3,
        "{text}"
    );
}

#[test]
fn what_was_only_checked_shows_a_word_where_a_figure_would_stand() {
    let mut doc = doc();
    assert!(
        text::render(&doc, &text::Styles::plain()).contains(" ms"),
        "nothing would be seen"
    );
    for case in doc.cases.iter_mut().filter(|case| case.metrics.is_some()) {
        case.metrics = None;
        case.untimed = true;
        if let Some(fallback) = &mut case.fallback {
            (fallback.slowdown, fallback.against) = (None, None);
        }
    }
    let console = text::render(&doc, &text::Styles::plain());
    let page = html::render(&doc).unwrap();
    for told in ["✓ untimed", "↪ untimed", "≈ untimed", "⊕ untimed"] {
        assert!(console.contains(told), "{told}: {console}");
    }
    assert!(
        console.contains("the cost is unknown: it was not timed"),
        "{console}"
    );
    let details = page::data(&page)["details"].to_string();
    for page in [
        console,
        page,
        details,
        markdown::render(&doc),
        junit::render(&doc),
    ] {
        let is_figure = |at: usize| page[..at].ends_with(|c: char| c.is_ascii_digit());
        let figure = page.match_indices(" ms").find(|(at, _)| is_figure(*at));
        assert!(
            figure.is_none() && !page.contains("median_ms"),
            "{figure:?}: {page}"
        );
        assert!(
            page.contains("untimed") || page.contains("not timed"),
            "{page}"
        );
    }
}

#[test]
fn every_page_says_that_weights_are_random() {
    let mut doc = doc();
    let pages = |doc: &ReportDoc| {
        [
            html::render(doc).unwrap(),
            markdown::render(doc),
            text::render(doc, &text::Styles::plain()),
        ]
    };
    doc.cases
        .iter_mut()
        .for_each(|case| (case.weights, case.parameters) = (None, None));
    let unknown = pages(&doc);
    assert!(unknown.iter().all(|page| !page.contains("random weights")));
    assert!(!unknown[1].contains("parameters"), "no empty column");
    for (case, parameters) in doc.cases.iter_mut().zip([83_904, 1_200_000, 512]) {
        (case.weights, case.parameters) = (Some(Weights::Random), Some(parameters));
    }
    let told = "random weights: 3 models of 512 to 1.2 M parameters";
    let [html, markdown, text] = pages(&doc);
    assert!(
        [&html, &markdown, &text]
            .iter()
            .all(|page| page.contains(told))
    );
    // And of each model how many it has.
    let about = page::data(&html)["details"][0]["about"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        about.ends_with(" · 83.9 k parameters, random weights"),
        "{about}"
    );
    assert!(html.contains(
        "· 83.9 k parameters, random weights\"><span class=\"name\">m0</span> <small>83.9 k<"
    ));
    assert!(
        markdown.contains("\n| model | parameters | cpu-fp32 |\n|---|--:|---|\n| m0 | 83.9 k |"),
        "{markdown}"
    );
    assert!(markdown.contains("\n| m5 | – |"), "{markdown}");
}

#[test]
fn many_models_are_counted_by_family_and_their_steps_by_kind() {
    let mut doc = doc();
    let all: Vec<_> = std::mem::take(&mut doc.cases)
        .into_iter()
        .take(Outcome::ALL.len())
        .collect();
    for round in 0..4 {
        for (at, case) in all.iter().enumerate() {
            let model = format!("m{round}-{at}");
            // Conversions are shared by two cases, and counted once.
            let took = [
                (format!("convert:m{}:onnx", at % 5), 2.0),
                (format!("run:{model}:cpu-fp32"), 0.5),
            ]
            .into();
            let family = if round == 0 { "vision" } else { "audio" }.to_owned();
            let model_type = Some(match case.status {
                // One right case is enough.
                Outcome::Pass | Outcome::Flaky | Outcome::Crash => format!("right{round}"),
                Outcome::SkipUnavailable | Outcome::Mock => "not asked".to_owned(),
                _ => "wrong".to_owned(),
            });
            doc.cases.push(CaseResult {
                model,
                model_type,
                family,
                took,
                ..case.clone()
            });
        }
    }
    let page = markdown::render(&doc);
    let row = |begins: &str| {
        page.lines()
            .find(|line| line.starts_with(begins))
            .unwrap_or_default()
            .to_owned()
    };
    let ended = |each: u32| {
        let states = ["CRASH", "FAIL", "NUMERICS", "OOM", "TIMEOUT", "XPASS"];
        // One of two ended so as it was expected to.
        let counted = states.map(|state| {
            format!(
                "run {state} {}",
                if state == "NUMERICS" { 2 * each } else { each }
            )
        });
        counted.join(", ")
    };
    assert_eq!(
        row("| vision |"),
        format!(
            "| vision | 15 | 2 | 15 % | 2 | 1 | 1 | 1 | 6 | 1 | 1 | 1 | 2 | {} | 1.3 s |",
            ended(1)
        )
    );
    assert_eq!(
        row("| audio |"),
        format!(
            "| audio | 45 | 6 | 15 % | 4 | 3 | 3 | 3 | 18 | 3 | 3 | 3 | 6 | {} | 0.8 s |",
            ended(3)
        )
    );
    assert_eq!(
        row("| all | 60"),
        format!(
            "| all | 60 | 8 | 15 % | 5 | 4 | 4 | 4 | 24 | 4 | 4 | 4 | 8 | {} | 0.8 s |",
            ended(4)
        )
    );
    assert_eq!(
        row("| convert onnx |"),
        "| convert onnx | 5 | 10 s | 0.17 s | 2.0 s (convert:m4:onnx) |"
    );
    doc.cases.truncate(29);
    assert!(
        !markdown::render(&doc).contains("## Coverage"),
        "so few are seen at a glance"
    );
}
