//! The key of a step: the digest of a document that can be printed.
//!
//! | value | in the key | why |
//! |---|---|---|
//! | `kind`; `code`: digest of the sources and crates that perform the step | yes | another generator makes other output (`catalogue/code.rs`) |
//! | every parameter (`param.…`), one line a leaf | yes | what the spec asks for: config, seed, sizes and fills of inputs, routes, opset, precision, options, how is measured or `none`, tolerance, argv |
//! | content of each input tree, file or folder (`input.…`) | yes | content, never paths; of a folder, names and content of its files |
//! | that the owner may execute a file | where it is so | a program that calls it does something else |
//! | id and commit of hub weights (`param.weights.…`) | yes | a commit's content does not change |
//! | version and wheels of each package that computes (`tool.…`) | yes | by the lock, so no Python need start to know them; of an ORCH_PYTHON, by the hashes that its installer noted |
//! | architecture and system (`target`) | for native code and measurements | compiled artefacts differ by it |
//! | host fingerprint (`host`), devices and driver (`device.…`) | for runs only; of those that are not timed, without the memory; of those that go away, what the worker must have | a result belongs to the kind of machine that made it |
//! | variables of the environment (`env.…`) | of a `command`, a digest of each that it declares; of orch's own steps, the values of those that change arithmetic, and for runs of those that divide the work, for timed ones also of those that change speed | what is declared may be a secret (docs/security.md); the tables stand in `exec/keys.rs` |
//! | absolute paths, mtimes, host name, user, locale, time zone, working folder, number of jobs | no | they cannot change an output |
//! | comments, order of keys, anchors, includes, other models and targets, tags, priority, descriptions | no | the plan has the same steps without them |
//! | timeouts | no | they end a step, and change nothing in one that passes |
//!
//! Imperfect, and on purpose:
//!
//! | value | why it is not in the key |
//! |---|---|
//! | the program that `argv` names, if it is no input of the step | found by PATH at run time; declare it under `inputs` to have it keyed |
//! | other permissions of a file | checkouts differ in them, and who runs orch may read its inputs |
//! | Python's own version | knowing it would start Python; it is in the record's facts, and the locks pin every package that computes |
//! | the compiler of orch and of `orch-torch` | what computes are libraries, and those are keyed |
//! | remote code that weights on the Hub refer to in yet another repository | transformers loads it at no fixed commit; code in the weights' own repository has theirs |
//! | the last bits of references made on another kind of CPU | a reference is whatever was published first, and every run is held to it |
//! | sources of a package that ORCH_PYTHON links to instead of installing | the installer noted no hashes; the key says `content unknown` |
//!
//! `tests/keys` changes every one of these alone and sees that exactly the steps that read it run, each with its reason.

mod change;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::ops::Range;

use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::base::Digest;

pub use change::{Change, Hidden};

/// Everything that can change a step's output, as sorted `name: value` lines.
///
/// It is kept as that text, because there may be millions, and the digest is that of the text. A backslash and a line
/// end inside a line, and a colon inside a name, are written with a backslash: so no two documents have the same text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyDoc {
    text: String,
    /// The range of the name in the last line.
    last: Range<usize>,
}

impl KeyDoc {
    /// An empty document with room for so many bytes.
    pub fn with_capacity(bytes: usize) -> Self {
        Self {
            text: String::with_capacity(bytes),
            last: 0..0,
        }
    }

    /// Adds a line, or puts another value into it. Cheapest in the order of names.
    pub fn set(&mut self, name: impl AsRef<str>, value: impl fmt::Display) {
        self.set_parts(&[name.as_ref()], value);
    }

    /// [`Self::set`], with a name in parts that need not be joined before.
    pub fn set_parts(&mut self, name: &[&str], value: impl fmt::Display) {
        let begin = self.text.len();
        for part in name {
            let written = Escaped {
                text: &mut self.text,
                of_name: true,
            }
            .write_str(part);
            written.expect("BUG: text takes text");
        }
        let name_end = self.text.len();
        self.text.push_str(": ");
        let written = write!(
            Escaped {
                text: &mut self.text,
                of_name: false
            },
            "{value}"
        );
        written.expect("BUG: a value does not refuse to be shown");
        self.text.push('\n');
        if begin == 0 || self.text[self.last.clone()] < self.text[begin..name_end] {
            self.last = begin..name_end;
        } else {
            self.insert(begin, name_end);
        }
    }

    /// Takes the line at the end to where it belongs.
    fn insert(&mut self, begin: usize, name_end: usize) {
        let line = self.text.split_off(begin);
        let name = &line[..name_end - begin];
        let mut at = 0;
        for other in self.text.split_inclusive('\n') {
            if name_of(other) >= name {
                let until = if name_of(other) == name {
                    at + other.len()
                } else {
                    at
                };
                self.text.replace_range(at..until, &line);
                let last = self.text[..self.text.len() - 1]
                    .rfind('\n')
                    .map_or(0, |end| end + 1);
                self.last = last..last + name_of(&self.text[last..]).len();
                return;
            }
            at += other.len();
        }
        panic!("BUG: a line that comes after all others is not inserted");
    }

    /// Adds a JSON value as one line per leaf: `param.config.hidden_size: 64`.
    pub fn set_json(&mut self, name: &str, value: &Value) {
        self.set_leaves(&mut name.to_owned(), value);
    }

    fn set_leaves(&mut self, name: &mut String, value: &Value) {
        match value {
            Value::Object(map) if !map.is_empty() => {
                let mut items: Vec<_> = map.iter().collect();
                items.sort_unstable_by_key(|(key, _)| *key);
                let above = name.len();
                for (key, item) in items {
                    // A key with a dot in it must not look like two keys.
                    let written = match key.contains(['.', '"']) {
                        true => write!(name, ".{key:?}"),
                        false => write!(name, ".{key}"),
                    };
                    written.expect("BUG: text takes text");
                    self.set_leaves(name, item);
                    name.truncate(above);
                }
            }
            leaf => self.set(
                name,
                serde_json::to_string(&canonical(leaf)).expect("BUG: a leaf is JSON"),
            ),
        }
    }

    pub fn digest(&self) -> Digest {
        Digest::of(self.text.as_bytes())
    }

    /// Names and values in the order of names.
    pub fn lines(&self) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
        self.text.lines().map(|line| {
            let name = name_of(line);
            (unescaped(name), unescaped(&line[name.len() + 2..]))
        })
    }

    /// The value of a name.
    pub fn value(&self, name: &str) -> Option<Cow<'_, str>> {
        self.lines()
            .find_map(|(known, value)| (known == name).then_some(value))
    }

    /// What differs from an older document, in the order of names.
    pub fn changes_since(&self, old: &KeyDoc) -> Vec<Change> {
        let mut all: BTreeMap<Cow<'_, str>, [Option<Cow<'_, str>>; 2]> = BTreeMap::new();
        for (at, doc) in [old, self].into_iter().enumerate() {
            doc.lines()
                .for_each(|(name, value)| all.entry(name).or_default()[at] = Some(value));
        }
        let changed = all
            .into_iter()
            .filter(|(_, [before, after])| before != after);
        let change = |(name, values): (Cow<'_, str>, [Option<Cow<'_, str>>; 2])| {
            let [old, new] = values.map(|value| value.map(Cow::into_owned));
            Change::new(name.into_owned(), old, new)
        };
        changed.map(change).collect()
    }
}

/// The name of a line, as it is written there.
fn name_of(line: &str) -> &str {
    let mut escaped = false;
    let end = line.bytes().position(|byte| {
        let ends = byte == b':' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    });
    &line[..end.expect("BUG: a line of a key has a name")]
}

struct Escaped<'a> {
    text: &'a mut String,
    of_name: bool,
}

impl Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let is_special =
            |byte: u8| byte == b'\\' || byte == b'\n' || (byte == b':' && self.of_name);
        // Most texts hold none, and to see that needs no branch for each byte.
        if !text
            .bytes()
            .fold(false, |found, byte| found | is_special(byte))
        {
            self.text.push_str(text);
            return Ok(());
        }
        let mut rest = text;
        while let Some(at) = rest.bytes().position(is_special) {
            self.text.push_str(&rest[..at]);
            self.text.push('\\');
            self.text.push(if rest.as_bytes()[at] == b'\n' {
                'n'
            } else {
                rest.as_bytes()[at] as char
            });
            rest = &rest[at + 1..];
        }
        self.text.push_str(rest);
        Ok(())
    }
}

fn unescaped(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match (character, character == '\\') {
            (_, false) => plain.push(character),
            (_, true) => match characters.next() {
                Some('n') => plain.push('\n'),
                other => plain.extend(other),
            },
        }
    }
    Cow::Owned(plain)
}

/// Serialised as a mapping, which is what readers of a record expect.
impl Serialize for KeyDoc {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, value) in self.lines() {
            map.serialize_entry(&name, &value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for KeyDoc {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// A text that is borrowed where the JSON has no escape in it.
        #[derive(Deserialize)]
        struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
        struct Lines;
        impl<'de> Visitor<'de> for Lines {
            type Value = KeyDoc;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("names and values")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<KeyDoc, A::Error> {
                let mut doc = KeyDoc::default();
                while let Some((name, value)) = map.next_entry::<Text<'_>, Text<'_>>()? {
                    doc.set(name.0, value.0);
                }
                Ok(doc)
            }
        }
        deserializer.deserialize_map(Lines)
    }
}

/// A leaf with the keys of all maps in it in one order. A map inside a list stays on the list's line.
fn canonical(value: &Value) -> Cow<'_, Value> {
    fn holds_map(value: &Value) -> bool {
        match value {
            Value::Array(items) => items.iter().any(holds_map),
            value => value.is_object(),
        }
    }
    fn sorted(value: &Value) -> Value {
        match value {
            Value::Array(items) => items.iter().map(sorted).collect(),
            Value::Object(map) => {
                let sorted: BTreeMap<_, _> =
                    map.iter().map(|(key, item)| (key, sorted(item))).collect();
                sorted
                    .into_iter()
                    .map(|(key, item)| (key.clone(), item))
                    .collect()
            }
            other => other.clone(),
        }
    }
    if holds_map(value) {
        Cow::Owned(sorted(value))
    } else {
        Cow::Borrowed(value)
    }
}

/// Why a step must run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "why", rename_all = "kebab-case")]
pub enum MissReason {
    NeverRan,
    Changed {
        changes: Vec<Change>,
    },
    /// The key is known and its last execution with it did not pass, in a way that need not stand.
    DidNotPass {
        outcome: String,
    },
    /// The record is there, its output is gone or damaged.
    OutputLost {
        what: String,
    },
    /// The user requested it.
    #[serde(rename = "asked")]
    Requested,
    /// It was measured longer ago than `--max-age` allows.
    TooOld {
        date: String,
        max: String,
    },
    /// This run measured it, and its latency may not be read as it stands.
    NotQuiet {
        doubts: String,
    },
    /// Something above it runs, so its key is not known yet.
    After {
        step: String,
    },
}

impl fmt::Display for MissReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NeverRan => f.write_str("never ran"),
            Self::Changed { changes } => {
                let lines: Vec<_> = changes.iter().take(3).map(Change::to_string).collect();
                f.write_str(&lines.join(", "))?;
                if changes.len() > 3 {
                    write!(f, " and {} more", changes.len() - 3)
                } else {
                    Ok(())
                }
            }
            Self::DidNotPass { outcome } => {
                write!(f, "last time: {outcome}, which may end differently now")
            }
            Self::OutputLost { what } => write!(f, "its output was lost: {what}"),
            Self::Requested => f.write_str("asked for by --rerun"),
            Self::TooOld { date, max } => write!(f, "measured {date}, longer ago than {max}"),
            Self::NotQuiet { doubts } => {
                write!(f, "measured again: its latency was not quiet ({doubts})")
            }
            Self::After { step } => write!(f, "after {step}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn key_order_does_not_matter_and_values_do() {
        let doc = |value: Value| {
            let mut doc = KeyDoc::default();
            doc.set_json("param", &value);
            doc
        };
        let a = doc(json!({"seed": 1, "config": {"x": [1, 2], "y": {}}}));
        let b = doc(json!({"config": {"y": {}, "x": [1, 2]}, "seed": 1}));
        let c = doc(json!({"config": {"y": {}, "x": [1, 2]}, "seed": 2}));
        let maps = |text: &str| doc(serde_json::from_str(text).unwrap()).digest();
        assert_eq!(
            maps(r#"{"l": [[{"a": 1, "b": {"d": 1, "c": 2}}]]}"#),
            maps(r#"{"l": [[{"b": {"c": 2, "d": 1}, "a": 1}]]}"#)
        );
        assert_ne!(maps(r#"{"l": [1, 2]}"#), maps(r#"{"l": [2, 1]}"#));
        assert_ne!(maps(r#"{"a.b": 1}"#), maps(r#"{"a": {"b": 1}}"#));
        assert_ne!(maps(r#"{"a": {}}"#), maps("{}"));
        assert_eq!(a.digest(), b.digest());
        assert_ne!(a.digest(), c.digest());
        assert_eq!(
            c.changes_since(&a)[0].to_string(),
            "param.seed changed (1 => 2)"
        );
    }

    #[test]
    fn lines_are_sorted_by_name_whatever_their_order_and_the_last_value_counts() {
        let doc = |names: &[&str]| {
            let mut doc = KeyDoc::default();
            names.iter().for_each(|name| doc.set(name, "x"));
            doc
        };
        let names = ["a", "a.b", "a-b", "ab", "b:c", "b", ""];
        let mut sorted = names;
        sorted.sort_unstable();
        for turn in 0..names.len() {
            let mut turned = names;
            turned.rotate_left(turn);
            assert_eq!(doc(&turned), doc(&sorted), "{turned:?}");
            turned.reverse();
            assert_eq!(doc(&turned).digest(), doc(&sorted).digest(), "{turned:?}");
        }
        let mut twice = doc(&names);
        twice.set("a", "y");
        assert_eq!(
            twice
                .lines()
                .map(|(name, value)| format!("{name}={value}"))
                .nth(1)
                .unwrap(),
            "a=y"
        );
        assert_eq!(twice.lines().count(), names.len());
    }

    /// Whatever stands in names and values: another document has another text, and nothing is lost on the way.
    #[test]
    fn no_two_documents_have_the_same_digest() {
        let odd = [
            "", ":", ": ", "a: b", "a\nb", "a\\nb", "\\", "\\\\", "\n", "a\\: b", "a\nb: c", "n",
            "\\n",
        ];
        let mut seen = std::collections::HashMap::new();
        for name in odd {
            for value in odd {
                let mut doc = KeyDoc::default();
                doc.set(name, value);
                let lines: Vec<_> = doc.lines().collect();
                assert_eq!(lines, [(name.into(), value.into())]);
                assert_eq!(
                    seen.insert(doc.digest(), (name, value)),
                    None,
                    "{name:?} {value:?}"
                );
                let text = serde_json::to_string(&doc).unwrap();
                assert_eq!(serde_json::from_str::<KeyDoc>(&text).unwrap(), doc);
                let mut two = doc.clone();
                two.set("z", "z");
                assert_eq!(
                    seen.insert(two.digest(), (name, value)),
                    None,
                    "{name:?} {value:?} and another"
                );
            }
        }
    }
}
