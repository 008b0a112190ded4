//! YAML text to a tree in which every value keeps its place. The only home of serde-saphyr.
//!
//! A tree, and not typed values at once, because serde stops at the first wrong value and a spec must report every
//! error of a file in one go; `shape.rs` reads the tree. Knows nothing of what the keys mean.

use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::options::DuplicateKeyPolicy;
use serde_saphyr::{Options, SnippetMode, Spanned};

/// A place in one text: both counted from 1, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Pos {
    pub(super) line: u32,
    pub(super) column: u32,
    /// Characters of a scalar, for the caret; 0 when not known.
    pub(super) len: u32,
}

#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) pos: Pos,
    pub(super) value: Value,
}

#[derive(Debug, Clone)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(String),
    List(Vec<Node>),
    Map(Vec<(Key, Node)>),
}

#[derive(Debug, Clone)]
pub(super) struct Key {
    pub(super) pos: Pos,
    pub(super) text: String,
}

/// Why a text is not a tree.
#[derive(Debug)]
pub(super) struct YamlError {
    pub(super) pos: Pos,
    pub(super) message: String,
    pub(super) hint: Option<String>,
}

/// The tree as far as there is one, and what is wrong with the text. After a duplicate key the parser can go on, so the
/// rest of the file is still checked; after a syntax error it cannot.
pub(super) fn parse(text: &str) -> (Option<Node>, Vec<YamlError>) {
    match read(text, DuplicateKeyPolicy::Error) {
        Ok(node) => (Some(node), Vec::new()),
        Err(error) => {
            let mut errors = vec![describe(&error)];
            if !matches!(error.without_snippet(), serde_saphyr::Error::DuplicateMappingKey { .. }) {
                return (None, errors);
            }
            // Read so, the parser hands over both entries of most duplicates: find those behind the first one too.
            let node = read(text, DuplicateKeyPolicy::LastWins).ok();
            node.iter().for_each(|node| duplicates(node, &mut errors));
            (node, errors)
        }
    }
}

fn read(text: &str, duplicate_keys: DuplicateKeyPolicy) -> Result<Node, serde_saphyr::Error> {
    // The default budget (250,000 nodes) refuses large but honest suites. What stops an exponential document are the
    // limits on what aliases repeat: 100,000 events within anchors, and by default 1,000,000 over all aliases.
    let options: Options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: 20_000_000,
            max_nodes: 10_000_000,
            max_merge_keys: 100_000,
            max_recorded_anchor_events: 100_000,
        },
        duplicate_keys: duplicate_keys,
        strict_booleans: true,
        emit_comments: false,
        reject_unsupported_tags: true,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(text, options)
}

fn describe(error: &serde_saphyr::Error) -> YamlError {
    let pos = match error.location() {
        Some(place) => Pos { line: place.line() as u32, column: place.column() as u32, len: 0 },
        None => Pos { line: 1, column: 1, len: 0 },
    };
    let mut inner = error.without_snippet();
    while let serde_saphyr::Error::AliasError { error, .. } = inner {
        inner = error.without_snippet();
    }
    match inner {
        serde_saphyr::Error::DuplicateMappingKey { key: Some(key), .. } => duplicate(key, pos),
        serde_saphyr::Error::MultipleDocuments { .. } => YamlError {
            pos,
            message: "a second YAML document begins here".to_owned(),
            hint: Some("a spec file holds one; put the other into a file of its own and `include` it".to_owned()),
        },
        serde_saphyr::Error::Budget { .. } | serde_saphyr::Error::AliasReplayLimitExceeded { .. } => YamlError {
            pos,
            message: "this file is too large once its aliases are expanded".to_owned(),
            hint: Some("aliases may repeat 1,000,000 values in all, and 100,000 within anchors".to_owned()),
        },
        other => {
            let rendered = other.render_with_options(serde_saphyr::render_options! { snippets: SnippetMode::Off });
            // The place stands in front of every message; the parser's own words for it would say it twice.
            let message = rendered.split(" at line ").next().unwrap_or_default().to_owned();
            YamlError { pos, message: format!("not YAML: {message}"), hint: None }
        }
    }
}

fn duplicate(key: &str, pos: Pos) -> YamlError {
    let hint = "the parser would drop one of the two; remove it or merge them".to_owned();
    let pos = Pos { len: key.chars().count() as u32, ..pos };
    YamlError { pos, message: format!("`{key}` is given twice"), hint: Some(hint) }
}

fn duplicates(node: &Node, errors: &mut Vec<YamlError>) {
    match &node.value {
        Value::List(items) => items.iter().for_each(|item| duplicates(item, errors)),
        Value::Map(entries) => {
            let mut seen = HashSet::new();
            for (key, value) in entries {
                if !seen.insert(key.text.as_str()) && !errors.iter().any(|error| error.pos.is_at(key.pos)) {
                    errors.push(duplicate(&key.text, key.pos));
                }
                duplicates(value, errors);
            }
        }
        _ => {}
    }
}

impl Pos {
    fn is_at(self, other: Self) -> bool {
        (self.line, self.column) == (other.line, other.column)
    }
}

impl Node {
    /// What stands here, for messages.
    pub(super) fn kind(&self) -> String {
        match &self.value {
            Value::Null => "nothing".to_owned(),
            Value::Bool(value) => format!("`{value}`"),
            Value::Int(value) => format!("the number {value}"),
            Value::Float(value) => format!("the number {value}"),
            Value::Text(text) => format!("the text `{text}`"),
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a mapping".to_owned(),
        }
    }

    pub(super) fn to_json(&self) -> serde_json::Value {
        match &self.value {
            Value::Null => serde_json::Value::Null,
            Value::Bool(value) => (*value).into(),
            // The parser reads whole numbers as i64 or u64, so one of the two always holds them.
            Value::Int(value) => match i64::try_from(*value) {
                Ok(value) => value.into(),
                Err(_) => (*value as u64).into(),
            },
            Value::Float(value) => (*value).into(),
            Value::Text(text) => text.as_str().into(),
            Value::List(items) => items.iter().map(Self::to_json).collect(),
            Value::Map(entries) => entries.iter().map(|(key, node)| (key.text.clone(), node.to_json())).collect(),
        }
    }
}

fn pos<T>(spanned: &Spanned<T>) -> Pos {
    // `defined` is where the text stands that has to be changed, also when an alias or a merge key brought it here.
    let place = spanned.defined;
    Pos { line: place.line() as u32, column: place.column() as u32, len: place.span().len() as u32 }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Value>::deserialize(deserializer)?;
        Ok(Self { pos: pos(&spanned), value: spanned.value })
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Int(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Int(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        if value.is_finite() { Ok(Value::Float(value)) } else { Err(E::custom("a number must be finite")) }
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(Value::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Value::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut entries: Vec<(Key, Node)> = Vec::new();
        while let Some(key) = map.next_key::<Spanned<String>>()? {
            let key = Key { pos: pos(&key), text: key.value };
            let node = map.next_value()?;
            entries.push((key, node));
        }
        Ok(Value::Map(entries))
    }
}

#[cfg(test)]
mod tests {
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
}
