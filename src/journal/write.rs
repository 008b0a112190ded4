//! Writing a run's journal: begun with the first step that executes, bounded in number and size.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;

use crate::base::{fs as bfs, lock};
use crate::event::{Event, Listener};
use crate::journal::follow::Ended;
use crate::journal::{End, Follow, Head, KEPT, KEPT_BYTES, Line, path};
use crate::record::Outcome;

pub struct Journal {
    path: PathBuf,
    head: Head,
    state: Mutex<State>,
}

struct State {
    follow: Follow,
    file: Option<File>,
    pending: Vec<u8>,
    outcomes: BTreeMap<Outcome, u32>,
    /// The first thing that went wrong; after it nothing more is written.
    error: Option<io::Error>,
}

impl Journal {
    /// The journal of the run `name`, in the folder `dir`. Nothing is written yet: most runs find everything up to date.
    pub fn new(dir: &Path, name: &str, head: Head, start: Instant) -> Self {
        let state = State {
            follow: Follow::new(start),
            file: None,
            pending: Vec::new(),
            outcomes: BTreeMap::new(),
            error: None,
        };
        Self {
            path: path(dir, name),
            head,
            state: Mutex::new(state),
        }
    }

    /// Writes the last line, if any was written before. Gives what kept the journal from being written.
    pub fn finish(&self, seconds: f64, interrupted: bool, hits: u32) -> io::Result<()> {
        let mut state = lock(&self.state);
        if state.file.is_some() {
            let outcomes = std::mem::take(&mut state.outcomes);
            state.push(&Line::End(End {
                seconds,
                interrupted,
                outcomes,
                hits,
            }));
            state.flush();
        }
        state.error.take().map_or(Ok(()), Err)
    }

    fn open(&self, state: &mut State) {
        match create(&self.path) {
            Ok(file) => {
                state.file = Some(file);
                state.push(&Line::Run(self.head.clone()));
                state.flush();
            }
            Err(e) => state.error = Some(e),
        }
    }
}

impl State {
    fn push(&mut self, line: &Line) {
        serde_json::to_writer(&mut self.pending, line)
            .expect("BUG: a line of the journal serialises");
        self.pending.push(b'\n');
    }

    fn flush(&mut self) {
        if let Some(file) = &mut self.file
            && let Err(e) = file.write_all(&self.pending)
        {
            self.error.get_or_insert(e);
        }
        self.pending.clear();
    }
}

impl Listener for Journal {
    fn tell(&self, event: Event) {
        let is_step = matches!(
            event,
            Event::StepStarted { .. } | Event::StepFinished { .. }
        );
        let is_setup = matches!(
            event,
            Event::SetupStarted { .. } | Event::SetupFinished { .. }
        );
        if !is_step && !is_setup && !matches!(event, Event::StepReturned { .. }) {
            return;
        }
        let mut state = lock(&self.state);
        let ended = state.follow.hear(&event);
        if state.error.is_some() {
            return;
        }
        if state.file.is_none() {
            self.open(&mut state);
        }
        if let Event::StepStarted { step, .. } = event {
            state.push(&Line::Began(step));
        }
        match ended {
            Some(Ended::Step(ran)) => {
                *state.outcomes.entry(ran.outcome).or_default() += 1;
                state.push(&Line::Step(ran));
            }
            // It came to nothing, and is recorded so that nobody takes it for one that was cut off.
            Some(Ended::Returned(ran)) => state.push(&Line::Step(ran)),
            Some(Ended::Setup(installed)) => state.push(&Line::Setup(installed)),
            None => {}
        }
        // At once, and not by the block: what began last is what is looked for after a kill. It costs some microseconds.
        state.flush();
    }
}

/// A new file, locked for as long as this process lives: so a reader knows a run that goes on from one that was killed.
fn create(path: &Path) -> io::Result<File> {
    let dir = bfs::parent(path);
    fs::create_dir_all(dir)?;
    prune(dir)?;
    let file = File::options().append(true).create(true).open(path)?;
    file.lock()?;
    Ok(file)
}

/// Makes room for one more: the oldest go, those that still go on excepted.
fn prune(dir: &Path) -> io::Result<()> {
    let mut bytes = 0;
    for (position, path) in super::files(dir)?.into_iter().enumerate() {
        bytes += fs::metadata(&path).map_or(0, |meta| meta.len());
        let is_over = position + 1 >= KEPT || bytes > KEPT_BYTES;
        if is_over && position > 0 && File::open(&path).is_ok_and(|file| file.try_lock().is_ok()) {
            // Another process that prunes may have been quicker.
            let _ = bfs::remove_file(&path);
        }
    }
    Ok(())
}
