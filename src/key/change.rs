//! What differs between two keys, line by line, and how it is worded; a value that may be a secret is never shown.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::base::Digest;

/// What stands in a key for a value that may be a secret: equal for equal values, and it does not tell them.
pub struct Hidden(pub Digest);

const HIDDEN: &str = "hidden";

impl fmt::Display for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{HIDDEN} {}", self.0)
    }
}

fn is_hidden(value: Option<&str>) -> bool {
    value.is_some_and(|text| {
        text.split_once(' ')
            .is_some_and(|(word, rest)| word == HIDDEN && is_digest(rest))
    })
}

fn is_digest(text: &str) -> bool {
    text.parse::<Digest>().is_ok()
}

/// One line of a key that differs between two runs of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    pub name: String,
    pub old: Option<String>,
    pub new: Option<String>,
}

impl Change {
    /// Keys of older versions of orch hold the value itself where there is a digest now: it is not shown.
    pub(super) fn new(name: String, old: Option<String>, new: Option<String>) -> Self {
        let hides = is_hidden(old.as_deref()) || is_hidden(new.as_deref());
        let [old, new] = [old, new].map(|value| match value {
            Some(text) if hides && !is_hidden(Some(&text)) => Some(HIDDEN.to_owned()),
            value => value,
        });
        Self { name, old, new }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let old = self.old.as_deref();
        let new = self.new.as_deref();
        if is_hidden(old) || is_hidden(new) {
            let variable = self.name.strip_prefix("env.").unwrap_or(&self.name);
            return match (old, new) {
                (None, _) => write!(f, "{variable} is set now and was not before"),
                (_, None) => write!(f, "{variable} is no longer set"),
                _ => write!(f, "the value of {variable} changed"),
            };
        }
        let shown = |value: &Option<String>| match value {
            None => "absent".to_owned(),
            // The beginning of a digest is enough to tell it apart.
            Some(text) if is_digest(text) => text[..12].to_owned(),
            Some(text) => text.clone(),
        };
        write!(
            f,
            "{} changed ({} => {})",
            self.name,
            shown(&self.old),
            shown(&self.new)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::KeyDoc;

    #[test]
    fn a_hidden_value_is_never_shown_not_even_one_of_an_older_key() {
        let doc = |value: Option<&str>| {
            let mut doc = KeyDoc::default();
            value
                .into_iter()
                .for_each(|value| doc.set("env.TOKEN", value));
            doc
        };
        let hidden = |text: &str| Hidden(Digest::of(text.as_bytes())).to_string();
        let one = hidden("one");
        let other = hidden("other");
        let change = |new: Option<&str>, old: Option<&str>| {
            let changes = doc(new).changes_since(&doc(old));
            assert!(!serde_json::to_string(&changes).unwrap().contains("plain"));
            changes[0].to_string()
        };
        assert_eq!(
            change(Some(&one), Some(&other)),
            "the value of TOKEN changed"
        );
        assert_eq!(
            change(Some(&one), Some("plain")),
            "the value of TOKEN changed"
        );
        assert_eq!(
            change(Some(&one), None),
            "TOKEN is set now and was not before"
        );
        assert_eq!(change(None, Some(&one)), "TOKEN is no longer set");
        assert_eq!(change(Some("a"), Some("b")), "env.TOKEN changed (b => a)");
    }
}
