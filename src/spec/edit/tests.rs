//! Texts before and after.

use pretty_assertions::assert_eq;

use super::*;

fn row(case: &str) -> Row {
    Row {
        case: case.into(),
        status: ExpectedStatus::Fail,
        stage: Some(ExpectedStage::Run),
        reason: "a \"quoted\" word".into(),
        fault: Fault::default(),
        since: Some("2026-01-31".into()),
        strict: true,
    }
}

const NEW: &str = r#"{case: "a:cpu-fp32", status: FAIL, stage: run, reason: "a \"quoted\" word", since: "2026-01-31"}"#;

const BLOCK: &str = "# top
matrix: # of cases
  exclude:
    - {model: x, reason: none}
  # known
  expect:
    # the first
    - {model: a, status: FAIL, reason: 'it # is'}  # see 5
    - model: b
      # why
      status: \"NUMERICS\" # wrong
      stage: convert
      reason: >
        long
        text

    # the last
    - {model: c,
       status: OOM, reason: z}
  # behind
  seq: [16]
other: 1
";

#[test]
fn rows_of_a_block_change_and_all_else_stays() {
    let changed = expectations(
        BLOCK,
        &[
            Change::Replace(8, 7, vec![]),
            Change::Status(9, 7, ExpectedStatus::Crash, Some(ExpectedStage::Run)),
            Change::Add(row("a:cpu-fp32")),
        ],
    );
    let expected = BLOCK
        .replace(
            "    - {model: a, status: FAIL, reason: 'it # is'}  # see 5\n",
            "",
        )
        .replace("\"NUMERICS\"", "CRASH")
        .replace("stage: convert", "stage: run")
        .replace("reason: z}\n", &format!("reason: z}}\n    - {NEW}\n"));
    assert_eq!(changed.unwrap(), expected);
}

#[test]
fn a_row_is_replaced_by_several() {
    let changed = expectations(
        BLOCK,
        &[Change::Replace(
            18,
            7,
            vec![row("a:cpu-fp32"), row("a:cpu-fp32")],
        )],
    )
    .unwrap();
    let expected = BLOCK.replace(
        "    - {model: c,\n       status: OOM, reason: z}\n",
        &format!("    - {NEW}\n    - {NEW}\n"),
    );
    assert_eq!(changed, expected);
}

#[test]
fn without_its_rows_a_list_is_empty_and_takes_new_ones() {
    let removed =
        [(8, 7), (9, 7), (18, 7)].map(|(line, column)| Change::Replace(line, column, vec![]));
    let empty = expectations(BLOCK, &removed).unwrap();
    assert!(empty.contains("  expect: []\n    # the first\n"), "{empty}");
    assert!(
        crate::spec::yaml_data(&empty).unwrap()["matrix"]["expect"]
            .as_array()
            .unwrap()
            .is_empty()
    );
    let again = expectations(&empty, &[Change::Add(row("a:cpu-fp32"))]).unwrap();
    assert!(
        again.contains(&format!("  expect:\n    - {NEW}\n    # the first")),
        "{again}"
    );
    assert_eq!(
        crate::spec::yaml_data(&again).unwrap()["matrix"]["expect"][0]["status"],
        "FAIL"
    );
}

#[test]
fn rows_in_brackets() {
    let text = "matrix: {expect: [{model: a, status: FAIL, reason: '}'}, {model: b, status: OOM, reason: x}]}\n";
    let first = Change::Replace(1, 19, vec![]);
    let second = Change::Replace(1, 58, vec![]);
    let one = |changes: &[Change]| expectations(text, changes).unwrap();
    assert_eq!(
        one(std::slice::from_ref(&first)),
        "matrix: {expect: [{model: b, status: OOM, reason: x}]}\n"
    );
    assert_eq!(
        one(std::slice::from_ref(&second)),
        "matrix: {expect: [{model: a, status: FAIL, reason: '}'}]}\n"
    );
    let added = one(&[Change::Add(row("a:cpu-fp32"))]);
    assert_eq!(added, text.replace("x}]", &format!("x}}, {NEW}]")));
}

#[test]
fn a_spec_without_expectations_gets_them() {
    let add = [Change::Add(row("a:cpu-fp32"))];
    for (text, expected) in [
        (
            "version: 1",
            format!("version: 1\nmatrix:\n  expect:\n    - {NEW}\n"),
        ),
        (
            "matrix:\n  # x\n  seq: [1]\n",
            format!("matrix:\n  # x\n  expect:\n    - {NEW}\n  seq: [1]\n"),
        ),
        (
            "matrix: {seq: [1]}\n",
            format!("matrix: {{seq: [1], expect: [{NEW}]}}\n"),
        ),
        ("matrix: {}\n", format!("matrix: {{expect: [{NEW}]}}\n")),
        (
            "matrix:\n  expect: []\n",
            format!("matrix:\n  expect:\n    - {NEW}\n"),
        ),
    ] {
        let changed = expectations(text, &add).unwrap();
        assert_eq!(changed, expected);
        assert_eq!(others(&changed), others(text));
        assert_eq!(
            crate::spec::yaml_data(&changed).unwrap()["matrix"]["expect"][0]["reason"],
            "a \"quoted\" word"
        );
    }
}

#[test]
fn what_is_not_understood_is_refused() {
    let text = "x-a: &row {model: a, status: FAIL, reason: x}\nmatrix:\n  expect:\n    - *row\n";
    let changed = expectations(text, &[Change::Status(4, 7, ExpectedStatus::Oom, None)]);
    assert!(
        changed.is_err() || others(&changed.unwrap()) != others(text),
        "an alias is not the row"
    );
}
