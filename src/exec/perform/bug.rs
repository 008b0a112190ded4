//! Turns panics on the threads of a run into errors of the step at work, so that other steps go on, and notes that
//! there was one.

use std::backtrace::Backtrace;
use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, set_hook, take_hook};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::base::Bug;
use crate::runtime::serve::panic_message;
use crate::store::DiskStore;
use crate::worker::Cancel;

/// Whether a run met a bug; shared by its threads.
pub(in crate::exec) struct Bugs<'a> {
    store: &'a DiskStore,
    met: AtomicBool,
}

impl<'a> Bugs<'a> {
    pub(in crate::exec) fn new(store: &'a DiskStore) -> Self {
        Self {
            store,
            met: AtomicBool::new(false),
        }
    }

    /// Whether the run met one.
    pub(in crate::exec) fn met(&self) -> bool {
        self.met.load(Ordering::Relaxed)
    }

    /// Calls `work` for the step of this name. A panic becomes an error, and its backtrace goes to the step's log.
    pub(in crate::exec) fn caught<T>(
        &self,
        name: &str,
        work: impl FnOnce() -> T,
    ) -> anyhow::Result<T> {
        let (result, place) = watched(work);
        result.map_err(|what| {
            self.met.store(true, Ordering::Relaxed);
            let (place, backtrace) = place.unwrap_or_default();
            // Messages of panics say so themselves.
            let bare = what.trim_start_matches("BUG:").trim_start();
            let bug = Bug::new(format!("{bare}{place}"));
            // The error has the message in any case; the disk may be full.
            let log = File::options()
                .create(true)
                .append(true)
                .open(self.store.log_path(name));
            let _ = log.and_then(|mut log| writeln!(log, "{bug}\n{backtrace}"));
            bug.into()
        })
    }

    /// [`Self::caught`] for work that is not a step. The error names the log.
    pub(in crate::exec) fn caught_aside<T>(
        &self,
        name: &str,
        work: impl FnOnce() -> T,
    ) -> Result<T, String> {
        let log = self.store.log_path(name);
        self.caught(name, work)
            .map_err(|bug| format!("{bug} (backtrace: {})", log.display()))
    }

    /// Notes a bug that was reported as an error.
    pub(in crate::exec) fn look_at(&self, error: &anyhow::Error) {
        if Bug::is_in(error) {
            self.met.store(true, Ordering::Relaxed);
        }
    }
}

/// Cancels what is executing if the scheduler's thread panics.
pub(in crate::exec) struct Ender<'a>(pub(in crate::exec) &'a Cancel);

impl Drop for Ender<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.cancel();
        }
    }
}

/// The place at which a thread panicked, e.g. ` at src/x.rs:1`, and its backtrace.
type Place = (String, String);

thread_local! {
    static IS_WATCHED: Cell<bool> = const { Cell::new(false) };
    static PANICKED: RefCell<Option<Place>> = const { RefCell::new(None) };
}

/// The result, or the panic's message; and the place of the panic, if it was on this thread.
fn watched<T>(work: impl FnOnce() -> T) -> (Result<T, String>, Option<Place>) {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = take_hook();
        set_hook(Box::new(move |panic| {
            if IS_WATCHED.get() {
                note(panic)
            } else {
                usual(panic)
            }
        }));
    });
    let outer = IS_WATCHED.replace(true);
    // State that a panic left half changed is behind a poisoned lock, or is not used again.
    let result = catch_unwind(AssertUnwindSafe(work));
    IS_WATCHED.set(outer);
    (
        result.map_err(|panic| panic_message(&*panic).to_owned()),
        PANICKED.take(),
    )
}

fn note(panic: &PanicHookInfo<'_>) {
    let place = panic
        .location()
        .map(|place| format!(" at {}:{}", place.file(), place.line()));
    PANICKED.set(Some((
        place.unwrap_or_default(),
        Backtrace::force_capture().to_string(),
    )));
}

#[cfg(test)]
#[path = "bug_tests.rs"]
mod tests;
