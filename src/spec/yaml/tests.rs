//! What the full parser reads, and that the fast reader reads the same.

use rand::{Rng, SeedableRng, seq::IndexedRandom};
use rand_chacha::ChaCha8Rng;

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
        serde_json::json!(["no", "on", "y", true, null, 1, -1, 16, 1e-3, "1", u64::MAX, 1000.0])
    );
}

#[test]
fn own_keys_win_over_merged_ones_and_the_first_merge_over_the_next() {
    assert_eq!(
        tree("a: &a {x: 1, y: 1}\nb: &b {x: 2, z: 2}\nc: {<<: [*a, *b], y: 3}\nd:\n  <<: *b\n  x: 4\n")["c"],
        serde_json::json!({"y": 3, "x": 1, "z": 2})
    );
}

#[test]
fn values_know_where_they_stand_also_by_way_of_an_alias() {
    let (node, _) = parse("ä: &a {key: value}\nb: *a\n");
    let Value::Map(top) = node.unwrap().value else { panic!() };
    for (key, node) in &top {
        let Value::Map(inner) = &node.value else { panic!() };
        let (inner_key, inner_value) = &inner[0];
        assert_eq!(inner_key.pos, Pos { line: 1, column: 8, len: 3 }, "by way of {}", key.text);
        assert_eq!(inner_value.pos, Pos { line: 1, column: 13, len: 5 }, "by way of {}", key.text);
    }
    assert_eq!(top[1].0.pos, Pos { line: 2, column: 1, len: 1 });
}

#[test]
fn every_duplicate_key_is_found_and_the_rest_still_read() {
    let (node, errors) = parse("a: {b: 1, b: 2}\nc: &c {d: 1}\na: 3\ne: {<<: *c, d: 2}\n");
    let places: Vec<_> = errors.iter().map(|error| (error.pos.line, error.pos.column)).collect();
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
    let rows: String = (0..35_000).map(|row| format!("m{row}: {{a: 1, b: [x, y]}}\n")).collect();
    let (node, errors) = parse(&rows);
    assert!(errors.is_empty(), "{errors:?}");
    let Value::Map(entries) = node.unwrap().value else { panic!() };
    assert_eq!(entries.len(), 35_000);
}

/// Whether the fast reader was sure of a text. What it read is what the full parser reads, places included.
fn agree<'t>(text: &'t str) -> bool {
    let Some(fast) = fast::read(text, None) else { return false };
    match super::read(text, DuplicateKeyPolicy::Error) {
        Ok(full) => assert!(fast == full, "{text}\n{fast:#?}\n{full:#?}"),
        Err(error) => panic!("the full parser refuses {text:?}: {error}"),
    }
    let mut rows = Vec::new();
    let mut take = |all: Rows<'t>| {
        let mut behind = None;
        // More parts than most of these texts have rows.
        for part in all.split(3) {
            behind = Some(part.each(|key, node| {
                rows.push((key, node));
                true
            })?);
        }
        behind
    };
    let streamed = fast::read(text, Some(fast::Stream { section: "a", take: &mut take }));
    let mut streamed = streamed.expect("sure of a tree and not of its rows");
    if let Value::Map(entries) = &mut streamed.value
        && let Some((_, section)) = entries.iter_mut().find(|(key, _)| key.text == "a")
        && !rows.is_empty()
    {
        section.value = Value::Map(rows);
    }
    assert_eq!(fast, streamed, "{text:?}");
    true
}

/// What texts made at random are made of.
const PIECES: &[&str] = &[
    "a",
    "b",
    "key",
    "a: ",
    "b: ",
    "c:",
    ":",
    ": ",
    "- ",
    "-",
    " ",
    "  ",
    "    ",
    "\n",
    "\n",
    "\n  ",
    "\n    ",
    "\n- ",
    "\n  - ",
    "\na: ",
    "\nb:",
    "\n  a: ",
    "\n  b: ",
    "\n    c: ",
    "{",
    "}",
    "[",
    "]",
    "{a: 1}",
    "{a: b, c: [d, e]}",
    "[x, y]",
    ", ",
    ",",
    "\"",
    "'",
    "\"q\"",
    "'s'",
    "\"e\\n\\\"\"",
    "''",
    "'it''s'",
    "#",
    " # note",
    "\n# note\n",
    "|",
    "|\n",
    "|-\n",
    ">",
    "&a",
    "*a",
    "!",
    "%",
    "@",
    "`",
    "?",
    "? ",
    "~",
    "null",
    "true",
    "False",
    "1",
    "-1",
    "007",
    "0x1f",
    "1.5",
    "1e3",
    ".5",
    ".inf",
    "-.nan",
    "1_000",
    "2024-01-01",
    "1.2.3",
    "+1",
    "-c",
    "--",
    "---",
    "...",
    "<<",
    "<<: ",
    "\u{e4}",
    "\u{1f600}",
    "\t",
    "\r\n",
    "x y",
    "a#b",
    "a:b",
    "x  ",
    "=",
    "/p/q.txt",
    "18446744073709551615",
    "99999999999999999999",
    "\u{85}",
    "\u{2028}",
    "\u{feff}",
];

fn made(rng: &mut ChaCha8Rng) -> String {
    (0..rng.random_range(1..14)).map(|_| *PIECES.choose(rng).unwrap()).collect()
}

fn changed(text: &str, rng: &mut ChaCha8Rng) -> String {
    let mut characters: Vec<char> = text.chars().collect();
    for _ in 0..rng.random_range(1..4) {
        let at = rng.random_range(0..characters.len());
        let until = (at + rng.random_range(0..3)).min(characters.len());
        let piece = if rng.random_bool(0.3) { "" } else { PIECES.choose(rng).unwrap() };
        characters.splice(at..until, piece.chars());
    }
    characters.into_iter().collect()
}

/// A document that is meant to be right: a mapping of any depth, with odd but allowed spacing.
fn honest(rng: &mut ChaCha8Rng, indent: usize, depth: u32, out: &mut String) {
    for index in 0..rng.random_range(1..4) {
        let key = ["a#", "b-c#", "'q#'", "\"d#\"", "x.y#", "0#", "\u{e4}#"]
            .choose(rng)
            .unwrap()
            .replace('#', &index.to_string());
        out.push_str(&format!("{}{key}:", " ".repeat(indent)));
        match rng.random_range(0..if depth == 0 { 4 } else { 7 }) {
            0 => out.push_str(&format!(
                " {}{}\n",
                ["x", "x y", "1", "-c", "'q'", "a:b"].choose(rng).unwrap(),
                ["", "  ", " # n"].choose(rng).unwrap()
            )),
            1 => out.push_str(&format!("  {}\n", flow(rng, 2, indent))),
            2 => {
                let more = indent + rng.random_range(1..3);
                let lines = ["one", " two", "", "# three", "- x", "k: v", "\u{e4} "];
                out.push_str([" |\n", " |-\n", " | # n\n"].choose(rng).unwrap());
                out.push_str(&format!("{}first\n", " ".repeat(more)));
                for _ in 0..rng.random_range(0..4) {
                    let line = lines.choose(rng).unwrap();
                    out.push_str(&if line.is_empty() {
                        "\n".to_owned()
                    } else {
                        format!("{}{line}\n", " ".repeat(more))
                    });
                }
            }
            3 => {
                let more = indent + rng.random_range(0..3);
                out.push('\n');
                for _ in 0..rng.random_range(1..3) {
                    out.push_str(&format!(
                        "{}- {}\n",
                        " ".repeat(more),
                        ["x", "[1]", "a: b", "- c", "\"x\""].choose(rng).unwrap()
                    ));
                }
            }
            _ => {
                out.push_str(["\n", " # n\n", "\n\n", "\n# n\n"].choose(rng).unwrap());
                let more = indent + rng.random_range(1..4);
                honest(rng, more, depth - 1, out);
            }
        }
    }
}

fn flow(rng: &mut ChaCha8Rng, depth: u32, indent: usize) -> String {
    let space = ["", " ", " ", "  ", &format!("\n{}", " ".repeat(indent + 2))].choose(rng).unwrap().to_string();
    let first = if depth == 0 { String::new() } else { flow(rng, depth - 1, indent) };
    match rng.random_range(0..if depth == 0 { 2 } else { 4 }) {
        0 => (*["x", "x y", "'a, b'", "\"}\"", "-1", "a:b", "1.50", "no", "\u{e4}"].choose(rng).unwrap()).to_owned(),
        1 => ["{}", "[]", "{ }", "[ ]"].choose(rng).unwrap().to_string(),
        2 => format!("[{space}{first},{space}{}{space}]", flow(rng, depth - 1, indent)),
        _ => format!("{{{space}a: {first},{space}'b': {space}{}{space}}}", flow(rng, depth - 1, indent)),
    }
}

/// `ORCH_YAML_TEXTS` asks for more of them.
#[test]
fn the_fast_reader_reads_what_the_full_parser_reads_or_nothing() {
    let count = std::env::var("ORCH_YAML_TEXTS").ok().and_then(|text| text.parse().ok()).unwrap_or(800);
    let seed = std::env::var("ORCH_YAML_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let (mut sure, mut whole) = (0, 0);
    for _ in 0..count {
        sure += u32::from(agree(&made(&mut rng)));
        let mut text = String::new();
        honest(&mut rng, 0, 3, &mut text);
        whole += u32::from(agree(&text));
        let text = changed(&text, &mut rng);
        sure += u32::from(agree(&text));
    }
    // Otherwise nothing was compared.
    assert!(whole > count / 2, "of {count} honest texts, only {whole} were read");
    assert!(sure > count / 20, "of {count} texts, only {sure} were read");
}

/// A list at the column of its row begins no row, wherever the rows are parted.
#[test]
fn rows_with_lists_at_their_column_are_parted() {
    assert!(agree("a:\n  k:\n  - x\n  - y\n  l:\n  - z\n  m: 1\nb: 2\n"));
}

#[test]
fn the_fast_reader_is_sure_of_the_suites_without_anchors() {
    for file in ["specs/models.yaml", "specs/targets.yaml", "specs/pipelines.yaml"] {
        let text = std::fs::read_to_string(file).unwrap();
        assert!(agree(&text), "{file}");
    }
}

/// One anchor that every row refers to is how large suites are written.
#[test]
fn many_aliases_of_one_anchor_are_read() {
    let rows: String = (0..60_000).map(|row| format!("m{row}: {{<<: *usual, b: {row}}}\n")).collect();
    let text = format!("x-usual: &usual {{a: 1, c: 2}}\n{rows}");
    let (node, errors) = parse(&text);
    assert!(errors.is_empty(), "{errors:?}");
    let Some(Value::Map(entries)) = node.map(|node| node.value) else { panic!() };
    assert_eq!(entries.len(), 60_001);
}
