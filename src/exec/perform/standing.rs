//! Standing failures: another execution with the same key would fail again, so they are reported and not executed.
//!
//! A success depends on its key alone (`tests/keys`). A failure may also be transient, or be caused by something that
//! is in no key: a missing package, the kind of machine. Transient failures never stand; others stand only as long as a
//! digest of those surroundings is the same.

use crate::base::Digest;
use crate::exec::perform::outcome::is_shortage;
use crate::provision::Provision;
use crate::record::{Outcome, Record};
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

/// Signals that reach a program from outside, for instance where memory is short.
const FROM_OUTSIDE: &[&str] = &["SIGKILL", "SIGTERM", "signal "];

/// All that a failure of this step may depend on besides its key. None if orch does not know it:
///
/// | whose | why |
/// |---|---|
/// | the user's own commands | they may read what they do not declare |
/// | steps in a Python of the user's | packages that are in no key may come and go |
/// | runs on a phone | so may the phone |
/// | steps that fetch from the Hub | so may access to a repository, and a token |
pub(in crate::exec) fn surroundings(
    step: &Step,
    fingerprint: &str,
    provision: &Provision,
) -> Option<Digest> {
    if step.stage == Stage::Command || step.kind.fetches(step) {
        return None;
    }
    if step.kind.runs_on_device() && !step.run().runtime.failures_stand {
        return None;
    }
    let provision = provision.with(step.toolchain.as_ref());
    digest(fingerprint, &step.kind.requires(step), &provision)
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

/// The digest under which a failure stands, if it does. `before` is the step's last execution.
pub(in crate::exec) fn standing(
    record: &Record,
    is_transient: bool,
    before: Option<&Record>,
    step: &Step,
    fingerprint: &str,
    provision: &Provision,
) -> Option<Digest> {
    let reason = record.reason.as_deref().unwrap_or_default();
    let is_momentary =
        is_transient || is_shortage(reason) || MOMENTARY.iter().any(|words| reason.contains(words));
    let stands = (record.outcome.may_stand() && !is_momentary) || is_same_crash(record, before);
    stands
        .then(|| surroundings(step, fingerprint, provision))
        .flatten()
}

/// One crash may be of the moment. The same one in the next execution with the same key is the work's own.
fn is_same_crash(record: &Record, before: Option<&Record>) -> bool {
    let reason = record.reason.as_deref().unwrap_or_default();
    record.outcome == Outcome::Crash
        && !is_shortage(reason)
        && !FROM_OUTSIDE.iter().any(|words| reason.contains(words))
        && before.is_some_and(|before| {
            (&before.key, before.outcome, &before.reason)
                == (&record.key, record.outcome, &record.reason)
        })
}

/// Whether a record holds a failure that stands on this machine.
pub(in crate::exec) fn stands_here(
    record: &Record,
    step: &Step,
    fingerprint: &str,
    provision: &Provision,
) -> bool {
    record.stands.is_some() && record.stands == surroundings(step, fingerprint, provision)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::key::KeyDoc;
    use crate::step::{COMMAND, MATERIALISE_OWN, RENDER};
    use crate::toolchain::Locks;
    use crate::worker::Cancel;

    fn step(stage: Stage) -> Step {
        let kind: &dyn crate::step::StepKind = if stage == Stage::Command {
            &COMMAND
        } else {
            &RENDER
        };
        Step::new("x", stage, kind, json!({}), vec![], 1)
    }

    fn record(outcome: Outcome, reason: &str, key: &str) -> Record {
        let mut inputs = KeyDoc::with_capacity(0);
        inputs.set("input", key);
        Record {
            key: inputs,
            outcome,
            reason: Some(reason.to_owned()),
            ..Record::default()
        }
    }

    #[test]
    fn only_failures_of_the_work_itself_stand() {
        let provision = Provision::new("envs".into(), None, Cancel::default()).unwrap();
        let stands = |outcome, reason: &str, stage, is_transient| {
            standing(
                &record(outcome, reason, "k"),
                is_transient,
                None,
                &step(stage),
                "machine",
                &provision,
            )
            .is_some()
        };
        for outcome in Outcome::ALL {
            let expected = matches!(outcome, Outcome::Fail | Outcome::Numerics);
            assert_eq!(
                stands(outcome, "x", Stage::Convert, false),
                expected,
                "{}",
                outcome.label()
            );
        }
        assert!(
            !stands(Outcome::Fail, "x", Stage::Command, false),
            "a program may read what nobody declared"
        );
        for words in [
            "write: No space left on device (os error 28)",
            "fork: Resource temporarily unavailable",
        ] {
            assert!(!stands(Outcome::Fail, words, Stage::Run, false), "{words}");
        }
        assert!(!stands(
            Outcome::Fail,
            "the worker wrote junk",
            Stage::Run,
            true
        ));
    }

    #[test]
    fn what_the_hub_refused_is_requested_again() {
        let provision = Provision::new("envs".into(), None, Cancel::default()).unwrap();
        let stands = |kind: &str| {
            let params = json!({"weights": {"kind": kind}});
            let step = Step::new("x", Stage::Generate, &MATERIALISE_OWN, params, vec![], 1);
            let refused = record(Outcome::Fail, "it is gated", "k");
            standing(&refused, false, None, &step, "machine", &provision).is_some()
        };
        assert!(!stands("hub"));
        assert!(stands("path"));
    }

    #[test]
    fn a_crash_stands_when_it_came_twice() {
        let provision = Provision::new("envs".into(), None, Cancel::default()).unwrap();
        let crash = |reason: &str, key: &str| record(Outcome::Crash, reason, key);
        let stands = |now: &Record, before: Option<&Record>, stage| {
            standing(now, true, before, &step(stage), "machine", &provision).is_some()
        };
        let now = crash("the process was ended by SIGSEGV", "k");
        assert!(
            !stands(&now, None, Stage::Convert),
            "once may be of the moment"
        );
        assert!(stands(&now, Some(&now), Stage::Convert));
        assert!(!stands(&now, Some(&now), Stage::Command));
        for other in [
            crash("the process was ended by SIGSEGV", "another key"),
            crash("the process was ended by SIGABRT", "k"),
            record(Outcome::Pass, "the process was ended by SIGSEGV", "k"),
        ] {
            assert!(!stands(&now, Some(&other), Stage::Convert), "{other:?}");
        }
        for outside in [
            "the process was ended by SIGKILL",
            "ended by signal 1",
            "ended by SIGABRT: (os error 12)",
        ] {
            let now = crash(outside, "k");
            assert!(!stands(&now, Some(&now), Stage::Convert), "{outside}");
        }
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
        assert_ne!(
            around(&provision()),
            around(&other),
            "another package may be what was missing"
        );
    }
}
