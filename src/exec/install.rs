//! Installs what steps require, while other steps run.

use std::time::Instant;

use crate::event::Event;
use crate::exec::context::Context;
use crate::exec::perform::bug::Bugs;
use crate::provision::titled;
use crate::step::Required;

/// Installs one requirement and reports the result.
pub(in crate::exec) fn install(
    context: &Context<'_>,
    required: &Required,
    bugs: &Bugs<'_>,
) -> Result<(), String> {
    let Context {
        provision,
        listener,
        ..
    } = *context;
    let what = titled(required);
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
            .with(required.toolchain.as_ref())
            .ensure(required.requirement, &progress)
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
