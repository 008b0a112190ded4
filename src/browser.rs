//! A browser as a child process: it opens a page of ours, which works and answers over HTTP on 127.0.0.1.
//!
//! The smallest way that holds: no WebDriver and no client of DevTools, which are a hundred crates, but a page that posts
//! its result. A browser for one page gets it on its command line; one that is kept for many gets it by four of DevTools'
//! commands. Knows neither models nor backends: what the page does is its script's affair. The browser stays in the
//! process group of whoever calls, so that whoever ends this process ends all of the browser with it.

#![expect(clippy::disallowed_methods, reason = "finds the version of a browser")]

mod control;
mod files;
mod flags;
mod pages;
mod process;
mod serve;

use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::base::process::high_water_mark;

pub use files::{BINARY, ORT_WEB};
pub use flags::{Adapter, Api, flags};
pub use pages::Pages;
pub use process::Processes;
pub use serve::{Page, Served};

use process::Child;
use serve::{Port, Received, Server};

/// How often the server looks whether the browser still lives.
const TICK: Duration = Duration::from_millis(100);
/// A browser that has not requested its page after so long never will.
const PATIENCE: Duration = Duration::from_secs(60);
/// A page whose device went away with the browser's GPU process says so itself by then, or never.
const GRACE: Duration = Duration::from_secs(2);
/// Looking at all processes takes a millisecond or two, which a measurement should not meet often.
const LOOK: Duration = Duration::from_secs(1);

/// The browser, and how it is started.
#[derive(Debug, Clone)]
pub struct Launch<'a> {
    pub program: &'a Path,
    pub api: Api,
    pub adapter: Adapter,
    /// A folder for the profile, whose content nobody needs afterwards.
    pub scratch: &'a Path,
}

/// What a page answered.
#[derive(Debug, Default)]
pub struct Talk {
    pub answer: Value,
    /// What the page posted as `outputs`.
    pub outputs: Option<Vec<u8>>,
    /// The time from the start of the program, or of the order in a program that has shown other pages, to the request
    /// for the page.
    pub start: Duration,
    pub processes: Processes,
    /// How many pages the browser had shown before; None of one that is for this page alone.
    pub before: Option<u32>,
    /// All flags but those that name a path or an address of this machine.
    pub flags: Vec<String>,
    pub version: Option<String>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// It does not start on this host; with the command that mends it, where there is one.
    #[error("{reason}{}", remedy.as_ref().map_or_else(String::new, |remedy| format!("; hint: {remedy}")))]
    Unavailable {
        reason: String,
        remedy: Option<String>,
    },
    /// It, or the process of its page, died while the page worked.
    #[error("{0}")]
    Died(String),
    /// Anything else, such as a page that never came.
    #[error("{0}")]
    Broken(String),
}

/// Starts the browser with the page and waits for its answer. The caller limits the time, by ending this process.
pub fn open(
    launch: &Launch<'_>,
    page: &Page<'_>,
    progress: &dyn Fn(&str),
) -> Result<Talk, Trouble> {
    let port = Port::open(true).map_err(|e| broken("serve a page to the browser", &e))?;
    let server = Server::of(&port, page);
    let flags = flags(launch.api, launch.adapter);
    let clock = Instant::now();
    let (mut child, ()) = Child::start(launch, &flags, port.number(), |command| {
        command.arg(server.address("127.0.0.1"));
        Ok(())
    })?;
    let heard = hear(
        &mut child,
        &server,
        launch.api,
        clock,
        progress,
        &mut || None,
    )?;
    let processes = child.processes(high_water_mark);
    child.end();
    Ok(Talk {
        processes,
        flags,
        version: version_of(launch.program),
        ..heard
    })
}

/// Waits for the page's answer, and gives what it has written until then. `clock`: when its opening began; `crash` reports how its process ended, where that is known.
fn hear(
    child: &mut Child,
    server: &Server<'_>,
    api: Api,
    clock: Instant,
    progress: &dyn Fn(&str),
    crash: &mut dyn FnMut() -> Option<String>,
) -> Result<Talk, Trouble> {
    let mut start = None;
    let mut outputs = None;
    let mut looked = Instant::now();
    let opened = Instant::now();
    loop {
        match server
            .next(TICK)
            .map_err(|e| broken("answer the browser", &e))?
        {
            Some(Received::Page) => start = Some(clock.elapsed()),
            Some(Received::Progress(text)) => {
                // It has its device by the first word.
                if api != Api::Wasm {
                    child.watch_gpu();
                }
                progress(&text);
            }
            // Standard error is the step's log.
            Some(Received::Uncaught(text)) => {
                let _ = writeln!(std::io::stderr(), "the page: {}", text.trim());
            }
            Some(Received::Trouble(text)) => {
                return Err(Trouble::Broken(format!(
                    "its page failed: {}{}",
                    text.trim(),
                    child.last_words()
                )));
            }
            Some(Received::Outputs(bytes)) => outputs = Some(bytes),
            Some(Received::Answer(answer)) => {
                return Ok(Talk {
                    answer,
                    outputs,
                    start: start.unwrap_or_default(),
                    ..Talk::default()
                });
            }
            Some(Received::Nothing) | None => {}
        }
        child.check(start.is_some())?;
        if let Some(how) = crash() {
            return Err(child.page_died(&format!(" ({how})")));
        }
        if start.is_some() && looked.elapsed() > LOOK {
            child.check_page()?;
            looked = Instant::now();
        }
        if start.is_none() && opened.elapsed() > PATIENCE {
            let words = child.last_words();
            return Err(Trouble::Broken(format!(
                "it did not open its page within {} s{words}",
                PATIENCE.as_secs()
            )));
        }
    }
}

fn broken(what: &str, e: &dyn std::fmt::Display) -> Trouble {
    Trouble::Broken(format!("failed to {what}: {e}"))
}

/// `153.0.8000.1`, from what `--version` prints: the first word with a dot.
pub fn version(printed: &str) -> Option<String> {
    let is_version =
        |word: &&str| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.');
    printed
        .split_whitespace()
        .find(is_version)
        .map(str::to_owned)
}

/// The version of a browser, by a process of its own.
pub fn version_of(program: &Path) -> Option<String> {
    let mut command = std::process::Command::new(program);
    process::with_libraries(&mut command, program);
    let output = command
        .arg("--version")
        .stdin(std::process::Stdio::null())
        .output()
        .ok()?;
    version(&String::from_utf8_lossy(&output.stdout))
}
