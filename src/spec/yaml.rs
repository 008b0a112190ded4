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
