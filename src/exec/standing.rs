//! Standing failures: another execution with the same key would fail again, so they are reported and not executed.
//!
//! A success depends on its key alone (`tests/keys`). A failure may also be transient, or be caused by something that
//! is in no key: a missing package, the kind of machine. Transient failures never stand; others stand only as long as a
//! digest of those surroundings is the same.

use crate::base::Digest;
use crate::exec::outcome::{Judged, is_shortage};
use crate::provision::Provision;
use crate::record::Record;
use crate::step::{Requirement, Stage, Step};
use crate::toolchain::EnvName;

/// Words of transient errors, besides those of a system that is short of something.
const MOMENTARY: &[&str] = &[
    "No space left on device",
    "Too many open files",
    "Cannot allocate memory",
    "Connection refused",
    "Connection reset",
    "Broken pipe",
    "Address already in use",
    "Temporary failure in name resolution",
    "busy or unavailable",
    // A browser on a machine that is busy.
    "did not open its page within",
];

/// All that a failure of this step may depend on besides its key. None if orch does not know it:
///
/// | whose | why |
/// |---|---|
/// | the user's own commands | they may read what they do not declare |
/// | steps in a Python of the user's | packages that are in no key may come and go |
/// | runs on a phone | so may the phone |
pub(super) fn surroundings(step: &Step, fingerprint: &str, provision: &Provision) -> Option<Digest> {
    if step.stage == Stage::Command {
        return None;
    }
    if step.kind.runs_on_device() && !step.run().runtime.failures_stand {
        return None;
    }
    digest(fingerprint, &step.kind.requires(step), provision)
}

fn digest(fingerprint: &str, requires: &[Requirement], provision: &Provision) -> Option<Digest> {
    let mut text = format!("{fingerprint}\n");
    for requirement in requires {
        let env = match requirement {
            Requirement::Env(env) => *env,
            Requirement::TorchWorker => EnvName::Torch,
            Requirement::Swiftshader => EnvName::Browser,
        };
        if provision.is_own(env) {
            return None;
        }
        text += &format!("{env} {}\n", provision.lock(env));
    }
    Some(Digest::of(text.as_bytes()))
}

/// Where a failure stands, if it does.
pub(super) fn standing(judged: &Judged, step: &Step, fingerprint: &str, provision: &Provision) -> Option<Digest> {
    let reason = judged.reason.as_deref().unwrap_or_default();
    let is_momentary = judged.transient || is_shortage(reason) || MOMENTARY.iter().any(|words| reason.contains(words));
    let stands = judged.outcome.may_stand() && !is_momentary;
    stands.then(|| surroundings(step, fingerprint, provision)).flatten()
}

/// Whether a record holds a failure that stands on this machine.
pub(super) fn stands_here(record: &Record, step: &Step, fingerprint: &str, provision: &Provision) -> bool {
    record.stands.is_some() && record.stands == surroundings(step, fingerprint, provision)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::record::Outcome;
    use crate::step::{COMMAND, RENDER};
    use crate::toolchain::Locks;
    use crate::worker::Cancel;

    fn step(stage: Stage) -> Step {
        let kind: &dyn crate::step::StepKind = if stage == Stage::Command { &COMMAND } else { &RENDER };
        let (name, inputs, params) = ("x".to_owned(), vec![], json!({}).into());
        Step { name, stage, kind, params, inputs, timeout_seconds: 1, memory: None, retries: None }
    }

    #[test]
    fn only_failures_of_the_work_itself_stand() {
        let provision = Provision::new("envs".into(), None, Cancel::default()).unwrap();
        let stands = |outcome, reason: &str, stage| {
            standing(&Judged::failed(outcome, reason), &step(stage), "machine", &provision).is_some()
        };
        for outcome in Outcome::ALL {
            let expected = matches!(outcome, Outcome::Fail | Outcome::Numerics);
            assert_eq!(stands(outcome, "x", Stage::Convert), expected, "{}", outcome.label());
        }
        assert!(!stands(Outcome::Fail, "x", Stage::Command), "a program may read what nobody declared");
        for words in ["write: No space left on device (os error 28)", "fork: Resource temporarily unavailable"] {
            assert!(!stands(Outcome::Fail, words, Stage::Run), "{words}");
        }
        let broken = Judged::failed(Outcome::Fail, "the worker wrote junk").transient();
        assert_eq!(standing(&broken, &step(Stage::Run), "machine", &provision), None);
    }

    #[test]
    fn a_failure_stands_where_everything_around_it_is_the_same() {
        let provision = || Provision::new("envs".into(), None, Cancel::default()).unwrap();
        let step = step(Stage::Convert);
        let here = surroundings(&step, "machine", &provision());
        assert_eq!(here, surroundings(&step, "machine", &provision()));
        assert_ne!(here, surroundings(&step, "another machine", &provision()));
        let torch = Requirement::Env(EnvName::Torch);
        let other = provision().locked(Locks::default().with(EnvName::Torch, "torch==1".into()));
        let around = |provision: &Provision| digest("machine", &[torch], provision);
        assert_ne!(around(&provision()), around(&other), "another package may be what was missing");
    }
}
