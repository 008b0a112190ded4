//! What tests of a run have in common: a machine, options and a step.

use std::num::NonZeroU64;
use std::path::Path;

use serde_json::json;

use super::*;
use crate::spec::Program;
use crate::step::{COMMAND, Params, Stage, Step};

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
        settings: Settings {
            out_dir: dir.join("out"),
            ..Settings::default()
        },
        ..Options::default()
    }
}

/// A step that runs a program, with a limit of time and a need of memory.
pub(super) fn command(program: Program) -> Step {
    let program = Program {
        argv: ["true".into()].into(),
        ..program
    };
    let step = Step::new(
        "command:x",
        Stage::Command,
        &COMMAND,
        Params::Program(program.into()),
        vec![],
        7,
    );
    Step {
        memory: NonZeroU64::new((5 << 20) + 1),
        ..step
    }
}
