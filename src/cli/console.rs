//! Events → the terminal: bars where there is one, plain lines where not.
//!
//! In a run of very many steps, successes print nothing and each cause of failure is printed once; the summary has them all.

use std::collections::{BTreeMap, HashSet};
use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::Duration;

use anstream::adapter::strip_str;
use anstream::{AutoStream, ColorChoice};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use crate::base::lock;
use crate::base::text::{shown, with_colours};
use crate::cli::printer::{BAD, DIM, GOOD, WARN};
use crate::event::{Event, Listener};
use crate::record::Outcome;
use crate::report::alike;

pub(super) struct Console {
    bars: MultiProgress,
    state: Mutex<State>,
    interactive: bool,
}

/// A run of more steps than this is shown in brief.
const MANY: u32 = 500;

#[derive(Default)]
struct State {
    total: Option<ProgressBar>,
    running: BTreeMap<String, ProgressBar>,
    /// How many steps are to run, how many of them have ended, and what was told of why some did not pass: of a run that is
    /// told in short.
    brief: Option<Brief>,
}

#[derive(Default)]
struct Brief {
    to_run: u32,
    ended: u32,
    told: HashSet<String>,
}

impl Brief {
    /// Whether to print the end of this step: only the first of those that ended in the same way.
    fn is_told(&mut self, outcome: Outcome, reason: Option<&str>) -> bool {
        self.ended += 1;
        let words = reason.map(|reason| alike(reason, "")).unwrap_or_default();
        outcome != Outcome::Pass && self.told.insert(format!("{} {words}", outcome.label()))
    }

    /// At every twentieth part, for those who watch no bar.
    fn progress(&self) -> Option<String> {
        let is_due = self.ended.is_multiple_of(self.to_run / 20);
        is_due.then(|| format!("{} of {} steps", self.ended, self.to_run))
    }
}

impl Console {
    pub(super) fn new() -> Self {
        let interactive = std::io::stderr().is_terminal();
        Self { bars: MultiProgress::new(), state: Mutex::default(), interactive }
    }

    /// Takes the bars away, so that what follows stands alone.
    pub(super) fn close(&self) {
        let state = lock(&self.state);
        state.running.values().for_each(ProgressBar::finish_and_clear);
        if let Some(total) = &state.total {
            total.finish_and_clear();
        }
    }

    fn line(&self, text: &str) {
        self.bars.suspend(|| {
            use std::io::Write;
            // In one write: anstream's own stream hands on each piece between two colours by itself.
            let text = &with_colours(text);
            let is_plain = AutoStream::choice(&std::io::stderr()) == ColorChoice::Never;
            let line = if is_plain { format!("{}\n", strip_str(text)) } else { format!("{text}\n") };
            let _ = std::io::stderr().write_all(line.as_bytes());
        });
    }

    fn begin(&self, name: &str, text: &str) {
        if self.interactive {
            let bar = self.bars.add(ProgressBar::new_spinner());
            let style = ProgressStyle::with_template("  {spinner} {prefix}  {wide_msg:.dim} {elapsed:.dim}");
            bar.set_style(style.expect("BUG: a constant template"));
            bar.set_prefix(name.to_owned());
            bar.set_message(text.to_owned());
            bar.enable_steady_tick(Duration::from_millis(120));
            lock(&self.state).running.insert(name.to_owned(), bar);
        }
    }

    fn progress(&self, name: &str, text: &str) {
        if let Some(bar) = lock(&self.state).running.get(name) {
            bar.set_message(shown(text));
        }
    }

    fn end(&self, name: &str, counts: bool) {
        let mut state = lock(&self.state);
        if let Some(bar) = state.running.remove(name) {
            bar.finish_and_clear();
        }
        if counts && let Some(total) = &state.total {
            total.inc(1);
        }
    }
}

impl Console {
    fn is_brief(&self) -> bool {
        lock(&self.state).brief.is_some()
    }

    /// Whether the end of a step is printed.
    fn tells_end(&self, outcome: Outcome, reason: Option<&str>) -> bool {
        let mut state = lock(&self.state);
        let Some(brief) = &mut state.brief else { return true };
        let is_told = brief.is_told(outcome, reason);
        let progress = brief.progress().filter(|_| !self.interactive);
        drop(state);
        if let Some(progress) = progress {
            self.line(&format!("{DIM}{progress}{DIM:#}"));
        }
        is_told
    }

    /// How many results are still on their way to the remote store.
    pub(super) fn uploads(&self, left: usize) {
        const NAME: &str = "remote store";
        let is_new = !lock(&self.state).running.contains_key(NAME);
        if is_new {
            self.begin(NAME, "");
        }
        self.progress(NAME, &format!("sending results: {left} left (interrupt: the next run goes on)"));
    }
}

/// Further lines of a text that begins at the sixth column: none of them can be taken for one of orch's own.
fn below(text: &str) -> String {
    shown(text).trim_end().replace('\n', "\n      ")
}

impl Listener for Console {
    fn tell(&self, event: Event) {
        match event {
            Event::Started { to_run, .. } => {
                lock(&self.state).brief = (to_run > MANY).then(|| Brief { to_run, ..Brief::default() });
                if self.interactive && to_run > 0 {
                    let bar = self.bars.add(ProgressBar::new(to_run.into()));
                    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} steps  {elapsed}");
                    bar.set_style(style.expect("BUG: a constant template"));
                    lock(&self.state).total = Some(bar);
                }
            }
            Event::SetupStarted { what } => {
                self.line(&format!("{WARN}setup{WARN:#} {what}"));
                self.begin(&what, "");
            }
            Event::SetupProgress { what, text } => self.progress(&what, &text),
            Event::SetupFinished { what, seconds, error } => {
                self.end(&what, false);
                match error {
                    None => self.line(&format!("{GOOD}ready{GOOD:#} {what} {DIM}{seconds:.0} s{DIM:#}")),
                    Some(error) => self.line(&format!("{BAD}error{BAD:#} {what}: {}", shown(&error))),
                }
            }
            Event::StepStarted { step, reason, .. } => self.begin(&step, &reason.to_string()),
            Event::StepReturned { step, .. } => self.end(&step, false),
            Event::Fetched { step, made, host } => {
                self.end(&step, true);
                if self.is_brief() {
                    return;
                }
                self.line(&format!("{GOOD}got{GOOD:#}   {step} {DIM}made {made} on {host}{DIM:#}"));
            }
            Event::StepProgress { step, text } => self.progress(&step, &text),
            // A verdict takes no time, and the matrix tells it.
            Event::StepFinished { step, outcome: Outcome::Pass, .. } if step.starts_with("judge:") => {
                self.end(&step, true)
            }
            Event::StepFinished { step, outcome, reason, seconds, log, repro, .. } => {
                self.end(&step, true);
                if !self.tells_end(outcome, reason.as_deref()) {
                    return;
                }
                let (style, word) = match outcome {
                    Outcome::Pass => (GOOD, "ok"),
                    Outcome::Flaky => (WARN, "flaky"),
                    Outcome::Indecisive => (WARN, "?"),
                    Outcome::SkipUnavailable | Outcome::SkipUnsupported | Outcome::Incomplete => (WARN, "skip"),
                    _ => (BAD, "FAIL"),
                };
                let mut text = format!("{style}{word:5}{style:#} {step} {DIM}{seconds:.1} s{DIM:#}");
                if outcome != Outcome::Pass {
                    text.push_str(&format!("\n      {}: {}", outcome.label(), below(&reason.unwrap_or_default())));
                    for (label, value) in [("log", log), ("again", repro)] {
                        if let Some(value) = value {
                            text.push_str(&format!("\n      {DIM}{label}:{DIM:#} {value}"));
                        }
                    }
                }
                self.line(&text);
            }
            Event::Unchanged { .. } if self.is_brief() => {}
            Event::Unchanged { step } => self
                .line(&format!("{DIM}same{DIM:#}  {step} came out as it was: what reads it need not run for its sake")),
            Event::Warning { text } => self.line(&format!("{WARN}warning{WARN:#} {}", shown(&text))),
            Event::Interrupted => self.line("interrupted: ending what runs, keeping what is done (again: end at once)"),
        }
    }
}
