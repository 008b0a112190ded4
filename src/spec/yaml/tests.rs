//! What is read, where it stands, and what is refused.

use super::*;

fn tree(text: &str) -> serde_json::Value {
    let (node, errors) = parse(text);
    assert!(errors.is_empty(), "{errors:?}");
    node.unwrap().to_json()
}

#[test]
fn scalars_are_what_yaml_1_2_says() {
    assert_eq!(
        tree("[no, on, y, true, ~, 1, -1, 0x10, 1.0e-3, '1', 18446744073709551615, 1e3]"),
        serde_json::json!([
            "no",
            "on",
            "y",
            true,
            null,
            1,
            -1,
            16,
            1e-3,
            "1",
            u64::MAX,
            1000.0
        ])
    );
}

#[test]
fn own_keys_win_over_merged_ones_and_the_first_merge_over_the_next() {
    assert_eq!(
        tree(
            "a: &a {x: 1, y: 1}\nb: &b {x: 2, z: 2}\nc: {<<: [*a, *b], y: 3}\nd:\n  <<: *b\n  x: 4\n"
        )["c"],
        serde_json::json!({"y": 3, "x": 1, "z": 2})
    );
}

#[test]
fn values_know_where_they_stand_also_by_way_of_an_alias() {
    let (node, _) = parse("ä: &a {key: value}\nb: *a\n");
    let Value::Map(top) = node.unwrap().value else {
        panic!()
    };
    for (key, node) in &top {
        let Value::Map(inner) = &node.value else {
            panic!()
        };
        let (inner_key, inner_value) = &inner[0];
        assert_eq!(
            inner_key.pos,
            Pos {
                line: 1,
                column: 8,
                len: 3
            },
            "by way of {}",
            key.text
        );
        assert_eq!(
            inner_value.pos,
            Pos {
                line: 1,
                column: 13,
                len: 5
            },
            "by way of {}",
            key.text
        );
    }
    assert_eq!(
        top[1].0.pos,
        Pos {
            line: 2,
            column: 1,
            len: 1
        }
    );
}

#[test]
fn every_duplicate_key_is_found_and_the_rest_still_read() {
    let (node, errors) = parse("a: {b: 1, b: 2}\nc: &c {d: 1}\na: 3\ne: {<<: *c, d: 2}\n");
    let places: Vec<_> = errors
        .iter()
        .map(|error| (error.pos.line, error.pos.column))
        .collect();
    assert_eq!(places, [(1, 11), (3, 1)]);
    assert!(node.is_some());
}

#[test]
fn what_is_not_yaml_is_refused_with_its_place() {
    for (text, line) in [
        ("a: [1, 2\nb: 3\n", 2),
        ("a: b: c\n", 1),
        ("a: *nowhere\n", 1),
        ("a: &a [*a]\n", 1),
        ("a: !custom 3\n", 1),
        ("a: .nan\n", 1),
        ("a: 1\n---\nb: 2\n", 3),
    ] {
        let (node, errors) = parse(text);
        assert!(node.is_none(), "{text:?} was read as {node:?}");
        assert_eq!(errors.len(), 1);
        assert_eq!(errors[0].pos.line, line, "{text:?}: {}", errors[0].message);
    }
}

/// Honest suites are large; only what aliases multiply is bounded tightly.
#[test]
fn a_large_document_is_read() {
    let rows: String = (0..35_000)
        .map(|row| format!("m{row}: {{a: 1, b: [x, y]}}\n"))
        .collect();
    let (node, errors) = parse(&rows);
    assert!(errors.is_empty(), "{errors:?}");
    let Value::Map(entries) = node.unwrap().value else {
        panic!()
    };
    assert_eq!(entries.len(), 35_000);
}

/// One anchor that every row refers to is how large suites are written.
#[test]
fn many_aliases_of_one_anchor_are_read() {
    let rows: String = (0..60_000)
        .map(|row| format!("m{row}: {{<<: *usual, b: {row}}}\n"))
        .collect();
    let text = format!("x-usual: &usual {{a: 1, c: 2}}\n{rows}");
    let (node, errors) = parse(&text);
    assert!(errors.is_empty(), "{errors:?}");
    let Some(Value::Map(entries)) = node.map(|node| node.value) else {
        panic!()
    };
    assert_eq!(entries.len(), 60_001);
}

#[test]
fn usual_slips_come_with_a_remedy() {
    for (text, remedy) in [
        ("a:\n\tb: 1\n", "indent with spaces"),
        ("a:\n  b 1\n  c: 2\n", "the space after its colon"),
        ("a:\n  b: 1\n c: 2\n", "as its neighbours are"),
        ("a: *all\n", "in quotes"),
    ] {
        let (_, errors) = parse(text);
        let hint = errors[0].hint.unwrap_or_default();
        assert!(hint.contains(remedy), "{text}: {errors:?}");
    }
}
