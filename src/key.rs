//! The key of a step: the digest of a document that can be printed.
//!
//! | value | in the key | why |
//! |---|---|---|
//! | `kind`; `code`: digest of the sources and crates that perform the step | yes | another generator makes other output (`step/code.rs`) |
//! | every parameter (`param.…`), one line a leaf | yes | what the spec asks for: config, seed, sizes and fills of inputs, routes, opset, precision, options, how is measured, tolerance, argv |
//! | content of each input tree, file or folder (`input.…`) | yes | content, never paths; of a folder, names and content of its files |
//! | id and commit of hub weights (`param.weights.…`) | yes | a commit's content does not change |
//! | version and wheels of each package that computes (`tool.…`) | yes | by the lock, so no Python need start to know them; of an ORCH_PYTHON, by the hashes that its installer noted |
//! | architecture and system (`target`) | for native code and measurements | compiled artefacts differ by it |
//! | host fingerprint (`host`), devices and driver (`device.…`) | for measurements only | a result belongs to the kind of machine that made it |
//! | variables of the environment (`env.…`) | those that a `command` declares; of orch's own steps, those that change arithmetic, and for measurements those that change speed | the tables stand in `exec/keys.rs` |
//! | what a report shows, case by case, in the order of the spec | for the report | its page has that order, the host's name and the spec's |
//! | absolute paths, mtimes, host name, user, locale, time zone, working folder, number of jobs | no | they cannot change an output |
//! | comments, order of keys, anchors, includes, other models and targets, tags, priority, descriptions | no | the plan has the same steps without them |
//! | timeouts | no | they end a step, and change nothing in one that passes |
//!
//! Imperfect, and on purpose:
//!
//! | value | why it is not in the key |
//! |---|---|
//! | the program that `argv` names, if it is no input of the step | found by PATH at run time; declare it under `inputs` to have it keyed |
//! | whether a file may be executed | trees are content; a program among the inputs is better called by its interpreter |
//! | Python's own version | knowing it would start Python; it is in the record's facts, and the locks pin every package that computes |
//! | the compiler of orch and of `orch-torch` | what computes are libraries, and those are keyed |
//! | remote code that weights on the Hub refer to in yet another repository | transformers loads it at no fixed commit; code in the weights' own repository has theirs |
//! | the last bits of references made on another kind of CPU | a reference is whatever was published first, and every run is held to it |
//! | sources of a package that ORCH_PYTHON links to instead of installing | the installer noted no hashes; the key says `content unknown` |
//!
//! `tests/keys` changes every one of these alone and sees that exactly the steps that read it run, each with its reason.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::base::Digest;

/// Everything that can change a step's output, as sorted `name: value` lines.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyDoc(pub BTreeMap<String, String>);

impl KeyDoc {
    pub fn set(&mut self, name: impl Into<String>, value: impl fmt::Display) {
        self.0.insert(name.into(), value.to_string());
    }

    /// Adds a JSON value as one line per leaf: `param.config.hidden_size: 64`.
    pub fn set_json(&mut self, name: &str, value: &Value) {
        match value {
            Value::Object(map) if !map.is_empty() => {
                for (key, item) in map {
                    // A key with a dot in it must not look like two keys.
                    match key.contains(['.', '"']) {
                        true => self.set_json(&format!("{name}.{key:?}"), item),
                        false => self.set_json(&format!("{name}.{key}"), item),
                    }
                }
            }
            leaf => self.set(name, canonical(leaf)),
        }
    }

    pub fn digest(&self) -> Digest {
        Digest::of(serde_json::to_string(&self.0).expect("BUG: a map of strings serialises").as_bytes())
    }

    /// What differs from an older document, in the order of names.
    pub fn changes_since(&self, old: &KeyDoc) -> Vec<Change> {
        let names: std::collections::BTreeSet<_> = self.0.keys().chain(old.0.keys()).collect();
        names
            .into_iter()
            .filter_map(|name| {
                let (before, after) = (old.0.get(name), self.0.get(name));
                (before != after).then(|| Change { name: name.clone(), old: before.cloned(), new: after.cloned() })
            })
            .collect()
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
                let sorted: BTreeMap<_, _> = map.iter().map(|(key, item)| (key, sorted(item))).collect();
                sorted.into_iter().map(|(key, item)| (key.clone(), item)).collect()
            }
            other => other.clone(),
        }
    }
    if holds_map(value) { Cow::Owned(sorted(value)) } else { Cow::Borrowed(value) }
}

/// One line of a key that differs between two runs of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    pub name: String,
    pub old: Option<String>,
    pub new: Option<String>,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |value: &Option<String>| match value {
            None => "absent".to_owned(),
            // A digest is told apart by its beginning.
            Some(text) if text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit()) => text[..12].to_owned(),
            Some(text) => text.clone(),
        };
        write!(f, "{} changed ({} => {})", self.name, shown(&self.old), shown(&self.new))
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
    /// The key is known and its last execution with it did not pass.
    DidNotPass {
        outcome: String,
    },
    /// The record is there, its output is gone or damaged.
    OutputLost {
        what: String,
    },
    /// The user asked for it.
    Asked,
    /// It was measured longer ago than `--max-age` allows.
    TooOld {
        date: String,
        max: String,
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
                if changes.len() > 3 { write!(f, " and {} more", changes.len() - 3) } else { Ok(()) }
            }
            Self::DidNotPass { outcome } => write!(f, "last time: {outcome}; only success is a hit"),
            Self::OutputLost { what } => write!(f, "its output was lost: {what}"),
            Self::Asked => f.write_str("asked for by --rerun"),
            Self::TooOld { date, max } => write!(f, "measured {date}, longer ago than {max}"),
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
        assert_eq!(c.changes_since(&a)[0].to_string(), "param.seed changed (1 => 2)");
    }
}
