//! The key of a step: the digest of a document that can be printed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::base::Digest;

/// Everything that can change a step's output, as sorted `name: value` lines.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyDoc(pub BTreeMap<String, String>);

impl KeyDoc {
    pub fn digest(&self) -> Digest {
        Digest::of(serde_json::to_string(&self.0).expect("BUG: a map of strings serialises").as_bytes())
    }
}
