//! YAML text to a tree in which every value keeps its place. The only home of serde-saphyr.
//!
//! A tree, and not typed values at once, because serde stops at the first wrong value and a spec must report every
//! error of a file in one go; `shape.rs` reads the tree. Knows nothing of what the keys mean.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::options::DuplicateKeyPolicy;
use serde_saphyr::{Options, SnippetMode, Spanned};

/// Characters of a value that errors show at most.
const SHOWN: usize = 80;

/// A place in one text: both counted from 1, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Pos {
    pub(super) line: u32,
    pub(super) column: u32,
    /// Characters of a scalar, for the caret; 0 when not known.
    pub(super) len: u32,
}

/// Texts are parts of the YAML text where they stand there as they are.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node<'a> {
    pub(super) pos: Pos,
    pub(super) value: Value<'a>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    /// Beyond `Int` only.
    Large(u64),
    Float(f64),
    Text(Cow<'a, str>),
    List(Vec<Node<'a>>),
    Map(Vec<(Key<'a>, Node<'a>)>),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Key<'a> {
    pub(super) pos: Pos,
    pub(super) text: Cow<'a, str>,
}

/// Why a text is not a tree.
#[derive(Debug)]
pub(super) struct YamlError {
    pub(super) pos: Pos,
    pub(super) message: String,
    pub(super) hint: Option<&'static str>,
}

/// The tree as far as there is one, and what is wrong with the text. After a duplicate key the parser can go on, so the
/// rest of the file is still checked; after a syntax error it cannot.
pub(super) fn parse(text: &str) -> (Option<Node<'_>>, Vec<YamlError>) {
    match read(text, DuplicateKeyPolicy::Error) {
        Ok(node) => (Some(node), Vec::new()),
        Err(error) => {
            let mut errors = vec![describe(&error)];
            if !matches!(
                error.without_snippet(),
                serde_saphyr::Error::DuplicateMappingKey { .. }
            ) {
                return (None, errors);
            }
            // Read so, the parser hands over both entries of most duplicates: find those behind the first one too.
            let node = read(text, DuplicateKeyPolicy::LastWins).ok();
            node.iter().for_each(|node| duplicates(node, &mut errors));
            (node, errors)
        }
    }
}

fn read(text: &str, duplicate_keys: DuplicateKeyPolicy) -> Result<Node<'_>, serde_saphyr::Error> {
    // The default budget (250,000 nodes) refuses large but honest suites. What stops an exponential document are the
    // limits on what aliases repeat: 100,000 events within anchors, and over all aliases as many as the text has bytes
    // (and a million in any text). Everything else is bounded by those and the length of the text.
    let repeated = text.len().max(1_000_000);
    let all = 2 * text.len() + repeated;
    let options: Options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: all,
            max_nodes: all,
            max_aliases: text.len(),
            max_anchors: text.len(),
            max_merge_keys: text.len(),
            max_total_scalar_bytes: usize::MAX,
            max_recorded_anchor_events: 100_000,
            enforce_alias_anchor_ratio: false,
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: repeated },
        duplicate_keys: duplicate_keys,
        strict_booleans: true,
        emit_comments: false,
        reject_unsupported_tags: true,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(text, options)
}

/// Data of a type that reads itself, for documents that orch writes; the first error as `line:column: what`.
pub fn typed<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, String> {
    let options: Options =
        serde_saphyr::options! { duplicate_keys: DuplicateKeyPolicy::Error, with_snippet: false };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let YamlError { pos, message, .. } = describe(&error);
        format!(
            "{}:{}: {}",
            pos.line,
            pos.column,
            message.trim_start_matches("not YAML: ")
        )
    })
}

fn describe(error: &serde_saphyr::Error) -> YamlError {
    let pos = match error.location() {
        Some(place) => Pos {
            line: place.line() as u32,
            column: place.column() as u32,
            len: 0,
        },
        None => Pos {
            line: 1,
            column: 1,
            len: 0,
        },
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
            hint: Some("a spec file holds one; move the other into its own file and `include` it"),
        },
        serde_saphyr::Error::Budget { .. }
        | serde_saphyr::Error::AliasReplayLimitExceeded { .. } => YamlError {
            pos,
            message: "this file is too large once its aliases are expanded".to_owned(),
            hint: Some(
                "aliases may repeat 1,000,000 values in all (more in longer files), and 100,000 within anchors",
            ),
        },
        other => {
            let rendered = other
                .render_with_options(serde_saphyr::render_options! { snippets: SnippetMode::Off });
            // The place stands in front of every message; the parser's own words for it would say it twice.
            let message = rendered
                .split(" at line ")
                .next()
                .unwrap_or_default()
                .to_owned();
            YamlError {
                pos,
                hint: usual_cause(&message),
                message: format!("not YAML: {message}"),
            }
        }
    }
}

/// What to look for, where the parser's words do not say it.
fn usual_cause(message: &str) -> Option<&'static str> {
    let causes = [
        ("tabs disallowed", "indent with spaces"),
        (
            "mapping values are not allowed",
            "indent the line as its neighbours are; or the line above lacks the space after its colon: `key: value`",
        ),
        (
            "did not find expected key",
            "indent the line as its neighbours are",
        ),
        (
            "did not find expected ','",
            "close the `{` or `[` of a line above",
        ),
        ("multiline quoted scalar", "close the quote of a line above"),
        (
            "unknown anchor",
            "put a text that begins with `*` in quotes; an alias needs its anchor, `&NAME`, further up",
        ),
    ];
    let found = causes.iter().find(|(words, _)| message.contains(*words));
    found.map(|(_, cause)| *cause)
}

fn duplicate(key: &str, pos: Pos) -> YamlError {
    let hint = "the parser would drop one of the two; remove it or merge them";
    let pos = Pos {
        len: key.chars().count() as u32,
        ..pos
    };
    YamlError {
        pos,
        message: format!("`{key}` is given twice"),
        hint: Some(hint),
    }
}

fn duplicates(node: &Node<'_>, errors: &mut Vec<YamlError>) {
    match &node.value {
        Value::List(items) => items.iter().for_each(|item| duplicates(item, errors)),
        Value::Map(entries) => {
            let mut seen = HashSet::new();
            for (key, value) in entries {
                if !seen.insert(&*key.text) && !errors.iter().any(|error| error.pos.is_at(key.pos))
                {
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

impl Node<'_> {
    /// What stands here, for messages.
    pub(super) fn kind(&self) -> String {
        match &self.value {
            Value::Null => "nothing".to_owned(),
            Value::Bool(value) => format!("`{value}`"),
            Value::Int(value) => format!("the number {value}"),
            Value::Large(value) => format!("the number {value}"),
            Value::Float(value) => format!("the number {value}"),
            Value::Text(text) if text.chars().nth(SHOWN).is_none() => format!("the text `{text}`"),
            Value::Text(text) => format!(
                "a text that begins with `{}`",
                text.chars().take(SHOWN).collect::<String>()
            ),
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a mapping".to_owned(),
        }
    }

    pub(super) fn to_json(&self) -> serde_json::Value {
        match &self.value {
            Value::Null => serde_json::Value::Null,
            Value::Bool(value) => (*value).into(),
            Value::Int(value) => (*value).into(),
            Value::Large(value) => (*value).into(),
            Value::Float(value) => (*value).into(),
            Value::Text(text) => (**text).into(),
            Value::List(items) => items.iter().map(Self::to_json).collect(),
            Value::Map(entries) => entries
                .iter()
                .map(|(key, node)| (key.text.to_string(), node.to_json()))
                .collect(),
        }
    }
}

fn pos<T>(spanned: &Spanned<T>) -> Pos {
    // `defined` is where the text stands that has to be changed, also when an alias or a merge key brought it here.
    let place = spanned.defined;
    Pos {
        line: place.line() as u32,
        column: place.column() as u32,
        len: place.span().len() as u32,
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Node<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Value<'a>>::deserialize(deserializer)?;
        Ok(Self {
            pos: pos(&spanned),
            value: spanned.value,
        })
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Value<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_unit<E>(self) -> Result<Value<'de>, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value<'de>, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value<'de>, E> {
        Ok(Value::Int(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value<'de>, E> {
        Ok(i64::try_from(value).map_or(Value::Large(value), Value::Int))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value<'de>, E> {
        if value.is_finite() {
            Ok(Value::Float(value))
        } else {
            Err(E::custom("a number must be finite"))
        }
    }

    fn visit_str<E>(self, text: &str) -> Result<Value<'de>, E> {
        Ok(Value::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Value<'de>, E> {
        Ok(Value::Text(Cow::Borrowed(text)))
    }

    fn visit_string<E>(self, text: String) -> Result<Value<'de>, E> {
        Ok(Value::Text(Cow::Owned(text)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value<'de>, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Value::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value<'de>, A::Error> {
        let mut entries: Vec<(Key<'de>, Node<'de>)> = Vec::new();
        while let Some(key) = map.next_key::<Spanned<String>>()? {
            let key = Key {
                pos: pos(&key),
                text: Cow::Owned(key.value),
            };
            let node = map.next_value()?;
            entries.push((key, node));
        }
        Ok(Value::Map(entries))
    }
}

#[cfg(test)]
mod tests;
