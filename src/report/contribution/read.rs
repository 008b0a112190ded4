//! A file's text to a contribution: its shape, its texts and its own digest, before anything in it is believed.

use serde_json::Value;

use super::{Contribution, LARGEST, Refusal, VERSION};
use crate::base::text::is_unseen;

/// No text that orch writes has more bytes.
const LONGEST: usize = 16 << 10;
/// The field whose lines are digested as they stand: a spec's own texts may hold anything.
const DOCUMENT: &str = "document";

/// The contribution in a file's text.
pub fn read(text: &str) -> Result<Contribution, Refusal> {
    if text.len() as u64 > LARGEST {
        let why = format!("a contribution has at most {LARGEST} bytes");
        return Err(Refusal::new("the file", text.len(), why));
    }
    let value: Value = serde_json::from_str(text).map_err(|error| no_json(&error))?;
    let version = &value["version"];
    if version.as_u64() != Some(VERSION.into()) {
        let why = format!("this orch reads version {VERSION}");
        return Err(Refusal::new("version", version, why));
    }
    texts(&value, "", false)?;
    let contribution: Contribution =
        serde_json::from_str(text).map_err(|error| no_contribution(&error))?;
    let again = serde_json::to_value(&contribution).expect("BUG: what was read is written");
    unknown(&value, &again, "")?;
    let digest = contribution.own_digest();
    if contribution.digest != digest {
        let why = format!("the digest of what the file holds is {digest}");
        return Err(Refusal::new("digest", &contribution.digest, why));
    }
    Ok(contribution)
}

fn no_json(error: &serde_json::Error) -> Refusal {
    Refusal::new("the file", error.to_string(), "it is no JSON")
}

fn no_contribution(error: &serde_json::Error) -> Refusal {
    let why = "it does not have the shape of a contribution, which `orch schema --of contribution` prints";
    Refusal::new("the file", error.to_string(), why)
}

/// Text that a page would show otherwise than it stands, and texts that are too long.
fn texts(value: &Value, at: &str, is_document: bool) -> Result<(), Refusal> {
    let of = |text: &str, at: &str| {
        if text.len() > LONGEST {
            let why = format!("a text has at most {LONGEST} bytes");
            return Err(Refusal::new(at, text, why));
        }
        if let Some(bad) = text.chars().find(|c| is_unseen(*c) || *c == '\t') {
            let why = format!(
                "it holds the invisible character {:?}",
                bad.escape_unicode().to_string()
            );
            return Err(Refusal::new(at, text, why));
        }
        if !is_document && text.contains(['<', '>']) {
            return Err(Refusal::new(at, text, "it holds markup"));
        }
        Ok(())
    };
    match value {
        Value::String(text) => of(text, at),
        Value::Array(values) => values
            .iter()
            .enumerate()
            .try_for_each(|(index, value)| texts(value, &format!("{at}[{index}]"), is_document)),
        Value::Object(fields) => fields.iter().try_for_each(|(name, value)| {
            let field = joined(at, name);
            of(name, &field)?;
            texts(value, &field, is_document || name == DOCUMENT)
        }),
        _ => Ok(()),
    }
}

fn joined(at: &str, name: &str) -> String {
    let dot = if at.is_empty() { "" } else { "." };
    format!("{at}{dot}{name}")
}

/// A field of the file that no contribution has, and a value that is not read as it stands.
fn unknown(stated: &Value, read: &Value, at: &str) -> Result<(), Refusal> {
    match (stated, read) {
        (Value::Object(stated), Value::Object(read)) => {
            stated.iter().try_for_each(|(name, value)| {
                let field = joined(at, name);
                match read.get(name) {
                    Some(read) => unknown(value, read, &field),
                    None if value.is_null() => Ok(()),
                    None => Err(Refusal::new(field, value, "no contribution has this field")),
                }
            })
        }
        (Value::Array(stated), Value::Array(read)) if stated.len() == read.len() => {
            let mut pairs = stated.iter().zip(read).enumerate();
            pairs.try_for_each(|(index, (stated, read))| {
                unknown(stated, read, &format!("{at}[{index}]"))
            })
        }
        (Value::Number(stated), Value::Number(read)) if stated.as_f64() == read.as_f64() => Ok(()),
        _ if stated == read => Ok(()),
        _ => Err(Refusal::new(at, stated, format!("it is read as {read}"))),
    }
}
