//! The facts of this machine that keys and reports hold.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use crate::base::variable;
use crate::base::{Digest, Secret};
use crate::key::KeyDoc;
use crate::worker::{ARITHMETIC, DIVISION, TIMING};

/// The facts of this machine that keys and reports hold.
#[derive(Debug, Clone)]
pub struct HostFacts {
    /// The fingerprint in the key of measurements; it holds no host name.
    pub fingerprint: String,
    /// The fingerprint without what changes only how long something takes. Stands in the key of runs that are not
    /// timed.
    pub computing: String,
    /// Architecture and operating system, in the keys of native artefacts.
    pub target: String,
    /// Variables that are set and change what libraries compute or how fast (`ARITHMETIC`, `DIVISION`, `TIMING`).
    pub variables: BTreeMap<String, String>,
    pub report: crate::report::Host,
}

impl HostFacts {
    /// This machine. `variable` reads the environment.
    pub fn new(
        fingerprint: String,
        computing: String,
        report: crate::report::Host,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Self {
        let names = ARITHMETIC.iter().chain(DIVISION).chain(TIMING);
        let set = names.filter_map(|name| Some(((*name).to_owned(), text(&variable(name)?))));
        let target = format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS);
        Self {
            fingerprint,
            computing,
            target,
            variables: set.collect(),
            report,
        }
    }

    pub(super) fn set_variables(&self, names: &[&str], doc: &mut KeyDoc) {
        for name in names {
            if let Some(value) = self.variables.get(*name) {
                doc.set(format!("env.{name}"), value);
            }
        }
    }
}

/// The value of a variable as a line of a key; a digest of it, if it is not UTF-8.
fn text(value: &OsStr) -> String {
    value.to_str().map_or_else(
        || format!("bytes {}", Digest::of(value.as_encoded_bytes())),
        str::to_owned,
    )
}

/// The keyed digest of a declared variable, for keys and memos; None if it is not set. The value may be a secret, so
/// the digest also depends on the variable's name and on a salt that users may set. The salt does not come from the
/// store, because machines that share results must compute the same keys.
pub fn variable_digest(name: &str) -> Option<Digest> {
    let value = variable::os(name)?;
    let salt = variable::text("ORCH_KEY_SALT").unwrap_or_default();
    let text = [name.as_bytes(), b"\0", value.as_encoded_bytes()].concat();
    Some(Secret::of("orch 1 values of declared variables", &salt).code(&text))
}
