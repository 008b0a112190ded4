//! A browser as a child process: it opens one page of ours, which works and answers over HTTP on 127.0.0.1.
//!
//! The smallest way that holds: no WebDriver and no DevTools, whose clients are a hundred crates, but a page that posts
//! its result. Knows neither models nor backends: what the page does is its script's affair. The browser stays in the
//! process group of whoever calls, so that whoever ends this process ends all of the browser with it.

mod files;
mod flags;
mod process;
mod serve;

use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

pub use files::{BINARY, ORT_WEB};
pub use flags::{Adapter, Api, flags};
pub use process::Processes;
pub use serve::{Page, Served};

use process::Child;
use serve::{Said, Server};

/// How often the server looks whether the browser still lives.
const TICK: Duration = Duration::from_millis(100);
/// A browser that has not asked for its page after so long never will.
const PATIENCE: Duration = Duration::from_secs(60);
/// A page whose device went away with the browser's GPU process says so itself by then, or never.
const GRACE: Duration = Duration::from_secs(2);
/// Looking at all processes takes a millisecond or two, which a measurement should not meet often.
const LOOK: Duration = Duration::from_secs(1);

/// Which browser, and how it is started.
#[derive(Debug, Clone)]
pub struct Launch<'a> {
    pub program: &'a Path,
    pub api: Api,
    pub adapter: Adapter,
    /// A folder for the profile, whose content nobody needs afterwards.
    pub scratch: &'a Path,
}

/// What a page answered.
#[derive(Debug)]
pub struct Talk {
    pub answer: Value,
    /// What the page posted as `outputs`.
    pub outputs: Option<Vec<u8>>,
    /// From the start of the program to its asking for the page.
    pub start: Duration,
    pub processes: Processes,
    /// All flags but those that name a path or an address of this machine.
    pub flags: Vec<String>,
}

/// Why there is no answer.
#[derive(Debug)]
pub enum Trouble {
    /// It does not start on this host; with the command that mends it, where there is one.
    Unavailable { reason: String, remedy: Option<String> },
    /// It, or the process of its page, died while the page worked.
    Died(String),
    /// Anything else, such as a page that never came.
    Broken(String),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable { reason, remedy: Some(remedy) } => write!(f, "{reason}; hint: {remedy}"),
            Self::Unavailable { reason, remedy: None } | Self::Died(reason) | Self::Broken(reason) => {
                f.write_str(reason)
            }
        }
    }
}

/// Starts the browser with the page and waits for its answer. The caller limits the time, by ending this process.
pub fn open(launch: &Launch<'_>, page: &Page<'_>, progress: &dyn Fn(&str)) -> Result<Talk, Trouble> {
    let broken = |what: &str, e: &dyn fmt::Display| Trouble::Broken(format!("failed to {what}: {e}"));
    let server = Server::open(page).map_err(|e| broken("serve a page to the browser", &e))?;
    let flags = flags(launch.api, launch.adapter);
    let clock = Instant::now();
    let mut child = Child::start(launch, &flags, &server.address())?;
    let mut start = None;
    let mut outputs = None;
    let mut looked = Instant::now();
    loop {
        match server.next(TICK).map_err(|e| broken("answer the browser", &e))? {
            Some(Said::Page) => start = Some(clock.elapsed()),
            Some(Said::Progress(text)) => {
                // It has its device by the first word.
                if launch.api != Api::Wasm {
                    child.watch_gpu();
                }
                progress(&text);
            }
            Some(Said::Trouble(text)) => {
                return Err(Trouble::Broken(format!("its page failed: {}{}", text.trim(), child.last_words())));
            }
            Some(Said::Outputs(bytes)) => outputs = Some(bytes),
            Some(Said::Answer(answer)) => {
                let processes = child.processes();
                child.end();
                let start = start.unwrap_or_default();
                return Ok(Talk { answer, outputs, start, processes, flags });
            }
            Some(Said::Nothing) | None => {}
        }
        child.check(start.is_some())?;
        if start.is_some() && looked.elapsed() > LOOK {
            child.check_page()?;
            looked = Instant::now();
        }
        if start.is_none() && clock.elapsed() > PATIENCE {
            let said = child.last_words();
            return Err(Trouble::Broken(format!("it did not open its page within {} s{said}", PATIENCE.as_secs())));
        }
    }
}

/// `153.0.8000.1`, from what `--version` prints: the first word with a dot.
pub fn version(printed: &str) -> Option<String> {
    let is_version = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.');
    printed.split_whitespace().find(is_version).map(str::to_owned)
}

/// What a browser says of its version, asked in a process of its own.
pub fn ask_version(program: &Path) -> Option<String> {
    let mut command = std::process::Command::new(program);
    process::with_libraries(&mut command, program);
    let output = command.arg("--version").stdin(std::process::Stdio::null()).output().ok()?;
    version(&String::from_utf8_lossy(&output.stdout))
}
