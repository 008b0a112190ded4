//! The daemon of this user, which keeps servers ready for the steps of others.

use crate::session::usage;
use crate::worker::Cancel;
#[cfg(target_os = "linux")]
use crate::worker::resident::{self, Place};

pub use crate::worker::Bounds;

/// Serves other orch processes of this user until `cancel`. To be called by the process's first thread.
#[cfg(target_os = "linux")]
pub fn serve_steps(bounds: Bounds, cancel: &Cancel, note: &dyn Fn(&str)) -> anyhow::Result<()> {
    let Some(place) = Place::of_user() else {
        usage!("ORCH_DAEMON is `off`, and so no run would call this daemon\n  hint: unset it");
    };
    resident::serve(&place, bounds, cancel, note)
}

#[cfg(not(target_os = "linux"))]
pub fn serve_steps(_: Bounds, _: &Cancel, _: &dyn Fn(&str)) -> anyhow::Result<()> {
    usage!("the daemon needs Linux: other systems do not tell who calls it");
}
