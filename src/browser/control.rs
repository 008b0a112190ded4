//! The browser's own protocol (DevTools), over a pair of pipes: opens and closes pages in a browser that goes on running.
//!
//! Of the protocol it knows four commands and one event. A pipe needs no port, so nobody else can give orders.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, PipeReader, PipeWriter, Write};
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use command_fds::{CommandFdExt, FdMapping};
use serde_json::{Value, json};

use super::Trouble;

/// The descriptors from which a browser with `--remote-debugging-pipe` reads commands and to which it writes answers.
const COMMANDS: i32 = 3;
const EVENTS: i32 = 4;
/// A browser that leaves a command unanswered for so long is none that a page should be opened in.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) struct Control {
    commands: PipeWriter,
    events: Receiver<Value>,
    sent: u64,
    /// Pages whose process is gone, by their targets, and how it ended.
    crashed: BTreeMap<String, String>,
}

impl Control {
    /// Hands the other ends of the pipes to the browser that `command` starts.
    pub(super) fn of(command: &mut Command) -> io::Result<Self> {
        let (reader, commands) = io::pipe()?;
        let (events, writer) = io::pipe()?;
        let mapped = vec![
            FdMapping {
                parent_fd: reader.into(),
                child_fd: COMMANDS,
            },
            FdMapping {
                parent_fd: writer.into(),
                child_fd: EVENTS,
            },
        ];
        command
            .fd_mappings(mapped)
            .map_err(|e| io::Error::other(e.to_string()))?;
        Ok(Self {
            commands,
            events: listen(events)?,
            sent: 0,
            crashed: BTreeMap::new(),
        })
    }

    /// Makes a context: a profile in memory, which no other context sees. From now on crashes are reported.
    pub(super) fn context(&mut self) -> Result<String, Trouble> {
        self.call("Target.setDiscoverTargets", json!({"discover": true}))?;
        let answer = self.call("Target.createBrowserContext", json!({}))?;
        word(&answer, "browserContextId")
    }

    /// Opens a page and gives its target.
    pub(super) fn open(&mut self, context: &str, url: &str) -> Result<String, Trouble> {
        let answer = self.call(
            "Target.createTarget",
            json!({"url": url, "browserContextId": context}),
        )?;
        word(&answer, "targetId")
    }

    pub(super) fn close(&mut self, target: &str) -> Result<(), Trouble> {
        self.call("Target.closeTarget", json!({"targetId": target}))
            .map(drop)
    }

    /// How the process of a page ended, if it has.
    pub(super) fn crash(&mut self, target: &str) -> Option<String> {
        while let Ok(event) = self.events.try_recv() {
            self.note(&event);
        }
        self.crashed.remove(target)
    }

    fn call(&mut self, method: &str, params: Value) -> Result<Value, Trouble> {
        self.sent += 1;
        let mut message = json!({"id": self.sent, "method": method, "params": params})
            .to_string()
            .into_bytes();
        message.push(0);
        let failed = |why: &dyn std::fmt::Display| {
            Trouble::Died(format!("the browser does not answer {method}: {why}"))
        };
        self.commands.write_all(&message).map_err(|e| failed(&e))?;
        let until = Instant::now() + PATIENCE;
        loop {
            let answer = self
                .events
                .recv_timeout(until.saturating_duration_since(Instant::now()));
            let answer = answer.map_err(|e| failed(&e))?;
            if answer["id"] != self.sent {
                self.note(&answer);
                continue;
            }
            return match answer.get("error") {
                Some(error) => Err(Trouble::Broken(format!(
                    "the browser refuses {method}: {error}"
                ))),
                None => Ok(answer["result"].clone()),
            };
        }
    }

    fn note(&mut self, event: &Value) {
        if event["method"] == "Target.targetCrashed" {
            let of = &event["params"];
            let target = of["targetId"].as_str().unwrap_or_default().to_owned();
            self.crashed.insert(
                target,
                format!(
                    "{} {}",
                    of["status"].as_str().unwrap_or("crashed"),
                    of["errorCode"]
                ),
            );
        }
    }
}

/// Messages end with a zero byte.
fn listen(pipe: PipeReader) -> io::Result<Receiver<Value>> {
    let (sender, receiver) = channel();
    std::thread::Builder::new()
        .name("browser-events".into())
        .spawn(move || {
            let mut pipe = BufReader::new(pipe);
            let mut message = Vec::new();
            while pipe.read_until(0, &mut message).is_ok_and(|read| read > 0) {
                message.pop();
                if let Ok(event) = serde_json::from_slice(&message)
                    && sender.send(event).is_err()
                {
                    return;
                }
                message.clear();
            }
        })?;
    Ok(receiver)
}

fn word(answer: &Value, name: &str) -> Result<String, Trouble> {
    let missing = || Trouble::Broken(format!("the browser's answer has no `{name}`: {answer}"));
    answer[name].as_str().map(str::to_owned).ok_or_else(missing)
}
