//! Options of execution providers, checked against a table: which exist, which values they take, what is always set.
//!
//! The providers themselves ignore unknown names, and answer a bad value with a warning and a default of their own:
//! without a table a typo in a spec would silently change what is measured.

use serde_json::{Map, Value};

use crate::base::suggest::hint;

/// What a value may be.
pub(super) enum Allowed {
    Words(&'static [&'static str]),
    /// Both bounds inclusive.
    Whole(u64, u64),
}

pub(super) const SWITCH: &[&str] = &["0", "1"];

/// The options of one provider.
pub(super) struct Table {
    /// The provider's name as people use it.
    pub(super) provider: &'static str,
    pub(super) options: &'static [(&'static str, Allowed)],
    /// Set unless the spec says otherwise.
    pub(super) always: &'static [(&'static str, &'static str)],
}

impl Table {
    /// The declared options in the provider's form, sorted, with what is always set.
    pub(super) fn checked(
        &self,
        declared: &Map<String, Value>,
    ) -> Result<Vec<(String, String)>, String> {
        let mut checked: Vec<_> = self
            .always
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        for (name, value) in declared {
            let Some((_, allowed)) = self.options.iter().find(|(known, _)| known == name) else {
                let hint = hint(name, self.options.iter().map(|(known, _)| *known));
                return Err(format!("{} has no option `{name}`; {hint}", self.provider));
            };
            let value = allowed.checked(value).map_err(|text| {
                format!(
                    "{}'s option `{name}` is `{text}`; allowed: {allowed}",
                    self.provider
                )
            })?;
            checked.retain(|(other, _)| other != name);
            checked.push((name.clone(), value));
        }
        checked.sort();
        Ok(checked)
    }
}

impl Allowed {
    /// The value in the provider's form; an error names what is not allowed.
    fn checked(&self, value: &Value) -> Result<String, String> {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            Value::Bool(switch) => u8::from(*switch).to_string(),
            other => other.to_string(),
        };
        let fits = match self {
            Self::Words(words) => words.contains(&text.as_str()),
            // Only the plain decimal form: `060` and `+60` would be the same value under another key.
            Self::Whole(low, high) => text
                .parse::<u64>()
                .is_ok_and(|n| (*low..=*high).contains(&n) && n.to_string() == text),
        };
        if fits { Ok(text) } else { Err(text) }
    }
}

impl std::fmt::Display for Allowed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Words(words) => write!(f, "{}", words.join(", ")),
            Self::Whole(low, high) => write!(f, "a whole number from {low} to {high}"),
        }
    }
}
