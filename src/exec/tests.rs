//! What tests of a run have in common: a machine and options.

use std::path::Path;

use serde_json::json;

use super::*;

pub(super) fn host() -> HostFacts {
    let report = json!({"name": "h", "os": "o", "cpu": "c", "cores": 2, "memory_bytes": 1});
    HostFacts {
        fingerprint: "f".into(),
        computing: "c".into(),
        target: "t".into(),
        variables: Default::default(),
        report: serde_json::from_value(report).unwrap(),
    }
}

/// Two jobs; pages go below `dir`.
pub(super) fn options(dir: &Path) -> Options {
    Options {
        jobs: 2,
        memory: u64::MAX,
        spec: "s.yaml".into(),
        project: dir.to_owned(),
        out_dir: dir.join("out"),
        ..Options::default()
    }
}
