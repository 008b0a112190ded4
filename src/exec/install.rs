//! Installs what steps require, while other steps run.

use std::time::Instant;

use crate::event::Event;
use crate::exec::context::Context;
use crate::exec::perform::bug::Bugs;
use crate::provision::title;
use crate::step::Requirement;

/// Installs one requirement and reports the result.
pub(in crate::exec) fn install(
    context: &Context<'_>,
    requirement: Requirement,
    bugs: &Bugs<'_>,
) -> Result<(), String> {
    let Context {
        provision,
        listener,
        ..
    } = *context;
    let what = title(requirement);
    let clock = Instant::now();
    let progress = |text: &str| {
        listener.tell(Event::SetupProgress {
            what: what.clone(),
            text: text.to_owned(),
        })
    };
    let ensured = bugs.caught_aside(&format!("setup:{what}"), || {
        listener.tell(Event::SetupStarted { what: what.clone() });
        provision
            .ensure(requirement, &progress)
            .map_err(|e| format!("{e:#}"))
    });
    let result = ensured.flatten();
    let error = result.as_ref().err().cloned();
    listener.tell(Event::SetupFinished {
        what: what.clone(),
        seconds: clock.elapsed().as_secs_f64(),
        error,
    });
    result
}
