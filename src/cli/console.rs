//! Events → the terminal: bars where there is one, plain lines where not.
//!
//! Each case has one line when its verdict is known, and so has each step that did not succeed. The spec's own commands have a
//! line if they took time or are few. `-v` prints every step. A run of very many steps prints no success, and each cause of
//! failure once; the summary has them all. Where nobody watches bars, a line now and then says that the run goes on.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::io::IsTerminal;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anstream::adapter::strip_str;
use anstream::{AutoStream, ColorChoice};
use indicatif::{MultiProgress, ProgressBar, ProgressState, ProgressStyle};

use crate::base::figures::duration;
use crate::base::lock;
use crate::base::text::{shown, with_colours};
use crate::cli::estimate::Estimate;
use crate::cli::github;
use crate::cli::printer::{BAD, DIM, GOOD, Verbosity, WARN};
use crate::event::{Event, Listener};
use crate::record::Outcome;
use crate::report::alike;

pub(super) struct Console {
    bars: MultiProgress,
    state: Arc<Mutex<State>>,
    interactive: bool,
    verbosity: Verbosity,
    heart: Option<Heart>,
}

/// A command that took less time, in seconds, succeeds without a line.
const LONG: f64 = 1.0;
/// A run of at most so many steps prints a line for short commands, too.
const FEW: u32 = 20;
/// How the name of a step begins that decides a case; the name of the case follows.
const JUDGES: &str = "judge:";
/// How the name of a step begins that runs a case; the name of the case follows.
const RUNS: &str = "run:";
/// How the name of a step begins that the spec itself defines.
const COMMANDS: &str = "command:";
/// The time after which a run that nobody watches says how far it is.
const SILENCE: Duration = Duration::from_secs(30);

/// A run of more steps than this is shown in brief.
const MANY: u32 = 500;
/// A brief run of at most so many cases still prints a line for each.
const MANY_CASES: u32 = 200;

#[derive(Default)]
struct State {
    total: Option<ProgressBar>,
    steps: u32,
    done: u32,
    /// What is installed or executed, and since when.
    begun: BTreeMap<String, Instant>,
    /// How far an installation is, by its own last word.
    installed: BTreeMap<String, String>,
    /// The moment of the last line.
    spoke: Option<Instant>,
    running: BTreeMap<String, ProgressBar>,
    /// The cases that ran and have no line yet.
    undecided: BTreeMap<String, Runs>,
    estimate: Estimate,
    began: Option<Instant>,
    /// The moment at which the run is expected to end. The bar reads it while the rest of the state is locked.
    expected_end: Arc<Mutex<Option<Instant>>>,
    /// Whether each case has a line.
    lists_cases: bool,
    /// The reasons why some steps did not pass, as far as a brief run has printed them; None for other runs.
    brief: Option<HashSet<String>>,
}

/// The runs of one case: a timed one may be measured again.
#[derive(Clone, Copy, Default)]
struct Runs {
    seconds: f64,
    count: u32,
    /// Whether the last of them passed.
    has_passed: bool,
}

impl State {
    /// A line at every twentieth part of a brief run.
    fn part(&self) -> Option<String> {
        let is_brief = self.brief.is_some() && !self.lists_cases;
        let is_due = is_brief && self.done.is_multiple_of(self.steps / 20);
        is_due.then(|| format!("{} of {} steps", self.done, self.steps))
    }

    /// `12 of 150 steps; 41 s of python environment torch`, if nothing was printed for long.
    fn heartbeat(&mut self) -> Option<String> {
        let now = Instant::now();
        if now.duration_since(*self.spoke.get_or_insert(now)) < SILENCE || self.begun.is_empty() {
            return None;
        }
        self.spoke = Some(now);
        let left = self.left().map(remaining).unwrap_or_default();
        let line = |(name, since): (&String, &Instant)| {
            let far = self
                .installed
                .get(name)
                .map(|text| format!(" ({text})"))
                .unwrap_or_default();
            format!("{:.0} s of {name}{far}", since.elapsed().as_secs_f64())
        };
        let begun: Vec<_> = self.begun.iter().map(line).collect();
        Some(format!(
            "{} of {} steps{left}; {}",
            self.done,
            self.steps,
            begun.join(", ")
        ))
    }

    /// The time that the run has left, if the records of earlier runs tell.
    fn left(&self) -> Option<Duration> {
        let left = self.estimate.left(self.began?.elapsed())?;
        Duration::try_from_secs_f64(left).ok()
    }

    fn finish(&mut self, step: &str) {
        self.done += 1;
        self.estimate.finish(step);
        *lock(&self.expected_end) = self.left().map(|left| Instant::now() + left);
    }
}

/// `, about 2 min left`
fn remaining(left: Duration) -> String {
    let seconds = left.as_secs_f64().ceil();
    let text = if seconds < 10.0 {
        format!("{seconds} s")
    } else {
        duration(seconds)
    };
    format!(", about {text} left")
}

/// The bar of a whole run: `━━━━  [12/150] 41s, about 2 min left`.
fn bar_style(expected_end: Arc<Mutex<Option<Instant>>>) -> ProgressStyle {
    ProgressStyle::with_template("{bar:30} [{pos}/{len}] {elapsed}{left}")
        .expect("BUG: a constant template")
        .with_key(
            "left",
            move |_: &ProgressState, out: &mut dyn fmt::Write| {
                if let Some(end) = *lock(&expected_end) {
                    let left = end.saturating_duration_since(Instant::now());
                    let _ = out.write_str(&remaining(left));
                }
            },
        )
}

/// Says now and then that a run goes on.
struct Heart {
    /// Dropped, it ends the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Heart {
    fn start(state: Arc<Mutex<State>>) -> Self {
        let (stop, stopped) = channel();
        let beat = move || {
            while stopped.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout) {
                if let Some(text) = lock(&state).heartbeat() {
                    write(&format!("{DIM}{text}{DIM:#}"));
                }
            }
        };
        Self {
            stop: Some(stop),
            thread: Some(std::thread::spawn(beat)),
        }
    }
}

impl Drop for Heart {
    fn drop(&mut self) {
        drop(self.stop.take());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Writes a text in one call: anstream's own stream hands on each piece between two colours by itself.
fn write(text: &str) {
    use std::io::Write;
    let text = &with_colours(text);
    let is_plain = AutoStream::choice(&std::io::stderr()) == ColorChoice::Never;
    let line = if is_plain {
        format!("{}\n", strip_str(text))
    } else {
        format!("{text}\n")
    };
    let _ = std::io::stderr().write_all(line.as_bytes());
}

impl Console {
    pub(super) fn new(verbosity: Verbosity) -> Self {
        let interactive = std::io::stderr().is_terminal();
        let state: Arc<Mutex<State>> = Arc::default();
        let beats = !interactive && verbosity > Verbosity::Quiet;
        let heart = beats.then(|| Heart::start(state.clone()));
        if github::is_here() {
            write("::group::steps");
        }
        Self {
            bars: MultiProgress::new(),
            state,
            interactive,
            verbosity,
            heart,
        }
    }

    /// Takes the bars away, so that what follows stands alone.
    pub(super) fn close(&mut self) {
        self.heart = None;
        if self.verbosity < Verbosity::Verbose {
            let undecided = lock(&self.state).undecided.clone();
            let same = undecided.iter().filter(|(_, runs)| runs.has_passed);
            same.for_each(|(case, _)| self.same(case));
        }
        if github::is_here() {
            write("::endgroup::");
        }
        let state = lock(&self.state);
        state
            .running
            .values()
            .for_each(ProgressBar::finish_and_clear);
        if let Some(total) = &state.total {
            total.finish_and_clear();
        }
    }

    fn line(&self, text: &str) {
        lock(&self.state).spoke = Some(Instant::now());
        self.bars.suspend(|| write(text));
    }

    /// A line that is left out where only failures are printed.
    fn news(&self, text: &str) {
        if self.verbosity > Verbosity::Quiet {
            self.line(text);
        }
    }

    fn begin(&self, name: &str, text: &str) {
        lock(&self.state)
            .begun
            .insert(name.to_owned(), Instant::now());
        if self.interactive {
            let bar = self.bars.add(ProgressBar::new_spinner());
            // The clock stands where no name, however long, drives it off the line; what is too long for the line is cut.
            let style = ProgressStyle::with_template("  {spinner} {elapsed:>3.dim} {wide_msg}");
            bar.set_style(style.expect("BUG: a constant template"));
            bar.set_message(format!("{name}  {text}"));
            bar.enable_steady_tick(Duration::from_millis(120));
            lock(&self.state).running.insert(name.to_owned(), bar);
        }
    }

    fn progress(&self, name: &str, text: &str) {
        if let Some(bar) = lock(&self.state).running.get(name) {
            bar.set_message(format!("{name}  {}", shown(text)));
        }
    }

    fn end(&self, name: &str, counts: bool) {
        let mut state = lock(&self.state);
        state.begun.remove(name);
        state.installed.remove(name);
        if counts {
            state.finish(name);
        }
        if let Some(bar) = state.running.remove(name) {
            bar.finish_and_clear();
        }
        if counts && let Some(total) = &state.total {
            total.inc(1);
        }
        // For those who watch no bar.
        let part = if counts && !self.interactive {
            state.part()
        } else {
            None
        };
        drop(state);
        if let Some(part) = part {
            self.news(&format!("{DIM}{part}{DIM:#}"));
        }
    }
}

impl Console {
    fn is_brief(&self) -> bool {
        lock(&self.state).brief.is_some()
    }

    /// Whether the end of a step is printed. `way`: how it ended.
    fn prints_end(&self, step: &str, outcome: Outcome, seconds: f64, way: &str) -> bool {
        let state = lock(&self.state);
        let is_short = match self.verbosity {
            Verbosity::Quiet => true,
            Verbosity::Usual => {
                outcome == Outcome::Incomplete
                    || !step.starts_with(COMMANDS)
                    || seconds < LONG && state.steps > FEW
            }
            Verbosity::Verbose | Verbosity::Everything => false,
        };
        // Who interrupted knows it, and the summary counts what did not end.
        let is_news = !matches!(outcome, Outcome::Pass | Outcome::Incomplete);
        let Some(printed) = &state.brief else {
            return is_news || !is_short;
        };
        // Only the first of those that ended in the same way.
        outcome != Outcome::Pass && !printed.contains(way)
    }

    fn ran(&self, case: &str, seconds: f64, has_passed: bool) {
        let mut state = lock(&self.state);
        let runs = state.undecided.entry(case.to_owned()).or_default();
        runs.seconds += seconds;
        runs.count += 1;
        runs.has_passed = has_passed;
    }

    /// Prints the line of a case that did not fail, unless only failures are printed.
    fn decided(&self, case: &str, word: &str) {
        let runs = lock(&self.state).undecided.remove(case);
        // A run that did not simply pass has a line of its own.
        let is_listed = runs.is_some_and(|runs| !runs.has_passed);
        if is_listed || !lock(&self.state).lists_cases {
            return;
        }
        let spent = runs
            .map(|runs| format!(" {DIM}{:.1} s{DIM:#}", runs.seconds))
            .unwrap_or_default();
        self.news(&format!("{word} {case}{spent}"));
    }

    /// Prints the line of a case that ran and kept its output, and so its verdict.
    fn same(&self, case: &str) {
        self.decided(case, &format!("{DIM}same{DIM:#} "));
    }

    /// How many results are still on their way to the remote store.
    pub(super) fn uploads(&self, left: usize) {
        const NAME: &str = "remote store";
        let is_new = !lock(&self.state).running.contains_key(NAME);
        if is_new {
            self.begin(NAME, "");
        }
        self.progress(
            NAME,
            &format!("uploading results: {left} left (Ctrl-C: the next run continues)"),
        );
    }
}

/// Further lines of a text that begins at the sixth column: none of them can be taken for one of orch's own.
fn below(text: &str) -> String {
    shown(text).trim_end().replace('\n', "\n      ")
}

impl Listener for Console {
    fn tell(&self, event: Event) {
        match event {
            Event::Started { to_run, cases, recorded, .. } => {
                let brief = to_run > MANY && self.verbosity < Verbosity::Verbose;
                let mut state = lock(&self.state);
                state.brief = brief.then(HashSet::new);
                let now = Instant::now();
                state.steps = to_run;
                state.lists_cases = state.brief.is_none() || (1..=MANY_CASES).contains(&cases);
                state.spoke = Some(now);
                state.began = Some(now);
                state.estimate = Estimate::new(to_run, recorded);
                let expected_end = state.expected_end.clone();
                drop(state);
                if self.interactive && to_run > 0 {
                    let bar = self.bars.add(ProgressBar::new(to_run.into()));
                    bar.set_style(bar_style(expected_end));
                    bar.enable_steady_tick(Duration::from_millis(500));
                    lock(&self.state).total = Some(bar);
                }
            }
            Event::ToInstall { text } => self.news(&format!("{WARN}to install:{WARN:#} {text}")),
            Event::SetupStarted { what } => {
                self.news(&format!("{WARN}setup{WARN:#} {what}"));
                self.begin(&what, "");
            }
            Event::SetupProgress { what, text } => {
                self.progress(&what, &text);
                lock(&self.state).installed.insert(what, shown(&text));
            }
            Event::SetupFinished { what, seconds, error } => {
                self.end(&what, false);
                match error {
                    None => self.news(&format!("{GOOD}ready{GOOD:#} {what} {DIM}{seconds:.0} s{DIM:#}")),
                    Some(error) => self.line(&format!("{BAD}error{BAD:#} {what}: {}", shown(&error))),
                }
            }
            Event::StepStarted { step, reason, .. } => {
                if self.verbosity == Verbosity::Everything {
                    self.line(&format!("{DIM}begin{DIM:#} {step} {DIM}{reason}{DIM:#}"));
                }
                self.begin(&step, &reason.to_string());
            }
            Event::StepReturned { step, .. } => {
                self.end(&step, false);
                // It is measured again later.
                if let Some(case) = step.strip_prefix(RUNS) {
                    self.ran(case, 0.0, false);
                }
            }
            Event::Fetched { step, made, host } => {
                self.end(&step, true);
                if self.is_brief() {
                    return;
                }
                let what = if self.verbosity < Verbosity::Verbose {
                    let Some(shown) = step.strip_prefix(JUDGES).or(step.starts_with(COMMANDS).then_some(&*step)) else {
                        return;
                    };
                    shown
                } else {
                    &step
                };
                self.news(&format!("{GOOD}got{GOOD:#}   {what} {DIM}made {made} on {host}{DIM:#}"));
            }
            Event::StepProgress { step, text } => self.progress(&step, &text),
            // Also where only failures are printed: nothing else shows that the run stands still.
            Event::StepWaiting { step, text } => self.line(&format!("{WARN}wait{WARN:#}  {step} {DIM}{text}{DIM:#}")),
            Event::StepFinished { step, outcome: Outcome::Pass, .. } if step.starts_with(JUDGES) => {
                self.end(&step, true);
                self.decided(&step[JUDGES.len()..], &format!("{GOOD}ok{GOOD:#}   "));
            }
            Event::StepFinished { step, outcome, reason, seconds, log, repro, .. } => {
                self.end(&step, true);
                let words = reason.as_deref().map(|reason| alike(reason, "")).unwrap_or_default();
                let way = format!("{} {words}", outcome.label());
                if let Some(case) = step.strip_prefix(RUNS) {
                    self.ran(case, seconds, outcome == Outcome::Pass);
                }
                if !self.prints_end(&step, outcome, seconds, &way) {
                    return;
                }
                if let Some(printed) = &mut lock(&self.state).brief {
                    printed.insert(way);
                }
                let (style, word) = match outcome {
                    Outcome::Pass => (GOOD, "ok"),
                    Outcome::Flaky => (WARN, "flaky"),
                    Outcome::Indecisive => (WARN, "?"),
                    Outcome::SkipUnavailable | Outcome::SkipUnsupported | Outcome::Incomplete => (WARN, "skip"),
                    _ => (BAD, "FAIL"),
                };
                let case = step.strip_prefix(JUDGES);
                if let Some(case) = case {
                    lock(&self.state).undecided.remove(case);
                }
                let name = case.unwrap_or(&step);
                let mut text = format!("{style}{word:5}{style:#} {name} {DIM}{seconds:.1} s{DIM:#}");
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
            Event::Unchanged { step } if self.verbosity < Verbosity::Verbose => {
                // The verdict of the output before stands, whatever it is. After a second measurement in this run, the
                // output before may be of this run, and its verdict is still to come.
                if let Some(case) = step.strip_prefix(RUNS)
                    && lock(&self.state).undecided.get(case).is_some_and(|runs| runs.count == 1)
                {
                    self.same(case);
                }
            }
            Event::Unchanged { .. } if self.is_brief() => {}
            Event::Unchanged { step } => {
                self.line(&format!("{DIM}same{DIM:#}  {step} output unchanged; its dependents need not run"))
            }
            Event::Warning { text } => self.line(&format!("{WARN}warning{WARN:#} {}", shown(&text))),
            Event::Interrupted => {
                self.line("interrupted: stopping running steps, keeping finished results (again: stop at once)")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_says_nothing_for_long_says_how_far_it_is() {
        let now = Instant::now();
        let before = |seconds: u64| {
            now.checked_sub(Duration::from_secs(seconds))
                .expect("a clock that has run")
        };
        let mut state = State {
            steps: 150,
            done: 12,
            spoke: Some(before(31)),
            ..State::default()
        };
        assert_eq!(state.heartbeat(), None, "nothing runs");
        state
            .begun
            .insert("python environment `torch`".into(), before(40));
        state.installed.insert(
            "python environment `torch`".into(),
            "1.2 GiB of 4.7 GiB".into(),
        );
        let text = state.heartbeat().unwrap();
        assert!(text.starts_with("12 of 150 steps; 4"), "{text}");
        assert!(
            text.ends_with(" s of python environment `torch` (1.2 GiB of 4.7 GiB)"),
            "{text}"
        );
        assert_eq!(state.heartbeat(), None, "it has just spoken");
        state.spoke = Some(before(10));
        assert_eq!(state.heartbeat(), None, "not long enough");
    }
}
