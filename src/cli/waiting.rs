//! Shows that long work goes on while it reports nothing: on a terminal a line with the seconds, elsewhere one now and then.

use std::io::IsTerminal as _;
use std::sync::Mutex;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use crate::base::lock;
use crate::cli::Printer;

/// The time between two looks at a terminal's line.
const TICK: Duration = Duration::from_secs(1);
/// The time between two lines where the output is no terminal, as in the log of a CI job.
const APART: u64 = 10;

/// The last thing that the work reported.
struct Last {
    text: String,
    at: Instant,
}

/// Does the work, prints what it reports, and shows for how long it has reported nothing.
pub(super) fn waiting<T>(printer: &Printer, work: impl FnOnce(&dyn Fn(&str)) -> T) -> T {
    let is_terminal = std::io::stderr().is_terminal();
    let last: Mutex<Option<Last>> = Mutex::new(None);
    let set = |text: &str| {
        let mut last = lock(&last);
        printer.passing("");
        printer.note(text);
        *last = Some(Last {
            text: text.to_owned(),
            at: Instant::now(),
        });
    };
    let (end, ended) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let last = &last;
        scope.spawn(move || {
            while ended.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                let last = lock(last);
                let Some(last) = &*last else {
                    continue;
                };
                let seconds = last.at.elapsed().as_secs();
                let line = still(&last.text, seconds);
                if is_terminal {
                    printer.passing(&line);
                } else if seconds > 0 && seconds.is_multiple_of(APART) {
                    printer.note(&line);
                }
            }
            printer.passing("");
        });
        // It is dropped with the work's end, also when the work panics, which ends the thread.
        let _end = end;
        work(&set)
    })
}

/// What a line of waiting shows: the first line of what was reported last, and how long ago.
fn still(text: &str, seconds: u64) -> String {
    let first = text.lines().next().unwrap_or_default();
    format!("  {first} ({seconds} s)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_waiting_names_the_last_thing_and_its_seconds() {
        assert_eq!(
            still("reading the config\n  hint", 12),
            "  reading the config (12 s)"
        );
    }

    #[test]
    fn work_gives_its_result_and_a_panic_passes_through() {
        let printer = Printer::new(Default::default());
        let result = waiting(&printer, |tell| {
            tell("begun");
            3
        });
        assert_eq!(result, 3);
        let panicked = std::panic::catch_unwind(|| {
            waiting(&Printer::new(Default::default()), |_| {
                panic!("BUG: on purpose")
            })
        });
        assert!(panicked.is_err());
    }
}
