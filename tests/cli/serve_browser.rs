//! `orch serve` in a real browser: before, during and after a run, with what the page's console says and what it asks whom for.
//!
//! It installs the environment `browser` on first use.

use std::io::{BufRead as _, BufReader, PipeReader, PipeWriter, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use command_fds::{CommandFdExt as _, FdMapping};
use orch::browser::{Adapter, Api, flags};
use serde_json::{Value, json};

use crate::onnx::RIGHT;
use crate::ready_onnx::sandbox;
use crate::serve::{RUN, serving};
use crate::support::{Sandbox, browser, signal};

/// A browser with one page, and what it told of it, by the DevTools protocol over pipes.
struct Browser {
    child: Child,
    commands: PipeWriter,
    events: Receiver<Value>,
    sent: u64,
    session: Value,
    told: Vec<Value>,
}

impl Browser {
    fn start(sandbox: &Sandbox) -> Self {
        let (reader, commands) = std::io::pipe().unwrap();
        let (events, writer) = std::io::pipe().unwrap();
        let program = browser(sandbox);
        let mut command = Command::new(&program);
        command.env("LD_LIBRARY_PATH", program.parent().unwrap().join("lib"));
        command
            .args(flags(Api::Wasm, Adapter::Software))
            .args(["--remote-debugging-pipe", "--no-startup-window"]);
        command.arg(format!(
            "--user-data-dir={}",
            sandbox.path("profile").display()
        ));
        command
            .env("HOME", sandbox.path(""))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let pipe = |parent_fd, child_fd| FdMapping {
            parent_fd,
            child_fd,
        };
        command
            .fd_mappings(vec![pipe(reader.into(), 3), pipe(writer.into(), 4)])
            .unwrap();
        let child = command.spawn().unwrap();
        // The browser's own ends: when it is gone, so are its events.
        drop(command);
        Self {
            child,
            commands,
            events: listen(events),
            sent: 0,
            session: Value::Null,
            told: Vec::new(),
        }
    }

    fn open(&mut self, url: &str) {
        let target =
            self.ask("Target.createTarget", json!({"url": "about:blank"}))["targetId"].clone();
        let attached = self.ask(
            "Target.attachToTarget",
            json!({"targetId": target, "flatten": true}),
        );
        self.session = attached["sessionId"].clone();
        for domain in ["Runtime", "Log", "Network", "Page"] {
            self.ask(&format!("{domain}.enable"), json!({}));
        }
        self.ask("Page.navigate", json!({"url": url}));
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.sent += 1;
        let mut message = json!({"id": self.sent, "method": method, "params": params});
        if !self.session.is_null() {
            message["sessionId"] = self.session.clone();
        }
        self.commands
            .write_all(message.to_string().as_bytes())
            .unwrap();
        self.commands.write_all(&[0]).unwrap();
        loop {
            let answer = self
                .events
                .recv_timeout(Duration::from_secs(60))
                .expect("the browser answers");
            match answer["id"] == self.sent {
                true => return answer["result"].clone(),
                false => self.told.push(answer),
            }
        }
    }

    /// What an expression comes to in the page; null while it loads.
    fn finds(&mut self, expression: &str) -> Value {
        self.ask(
            "Runtime.evaluate",
            json!({"expression": expression, "returnByValue": true}),
        )["result"]["value"]
            .clone()
    }

    fn until(&mut self, what: &str, expression: &str) {
        let begun = Instant::now();
        while self.finds(expression) != true {
            assert!(
                begun.elapsed() < Duration::from_secs(120),
                "{what}: {}",
                self.finds("document.body.innerText")
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn events<'a>(&'a self, method: &'a str) -> impl Iterator<Item = &'a Value> {
        self.told
            .iter()
            .filter(move |event| event["method"] == method)
            .map(|event| &event["params"])
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Messages end with a zero byte.
fn listen(pipe: PipeReader) -> Receiver<Value> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for message in BufReader::new(pipe).split(0).map_while(Result::ok) {
            if sender
                .send(serde_json::from_slice(&message).unwrap())
                .is_err()
            {
                return;
            }
        }
    });
    receiver
}

#[test]
fn an_open_page_follows_a_run_without_errors_and_connects_to_nobody_else() {
    let sandbox = sandbox(RIGHT);
    let (child, port) = serving(&sandbox);
    let mut browser = Browser::start(&sandbox);
    let own = format!("http://127.0.0.1:{port}/");
    browser.open(&own);
    let words = |word: &str| {
        format!(
            "[...document.querySelectorAll('.matrix .word')].filter((it) => it.textContent.includes('{word}')).length === 2"
        )
    };
    browser.until("nothing was run", &words("incomplete"));
    sandbox.run(RUN).success();
    // Nobody reloads it.
    browser.until("the run is shown", &words("ms"));
    browser.finds("document.querySelector('a.cell').click()");
    browser.until(
        "a cell has details",
        "document.querySelector('#panel')?.innerText.includes('linear') === true",
    );
    for page in ["site/", "site/pairs/linear/cpu-fp32.html", "site/how.html"] {
        browser.ask("Page.navigate", json!({"url": format!("{own}{page}")}));
        browser.until(page, &format!("location.href === '{own}{page}' && document.readyState === 'complete' && !!document.querySelector('h1')"));
    }
    let asked: Vec<&str> = browser
        .events("Network.requestWillBeSent")
        .filter_map(|it| it["request"]["url"].as_str())
        .collect();
    assert!(asked.len() >= 5 && asked.contains(&&*own), "{asked:?}");
    assert!(
        asked.iter().all(|url| url.starts_with(&own)
            || url.starts_with("data:")
            || url.starts_with("blob:")),
        "{asked:?}"
    );
    let is_bad = |level: &Value| level == "error" || level == "warning";
    let mut errors: Vec<&Value> = browser.events("Runtime.exceptionThrown").collect();
    errors.extend(
        browser
            .events("Runtime.consoleAPICalled")
            .filter(|it| is_bad(&it["type"])),
    );
    errors.extend(
        browser
            .events("Log.entryAdded")
            .map(|it| &it["entry"])
            .filter(|entry| is_bad(&entry["level"])),
    );
    assert!(errors.is_empty(), "{errors:#?}");
    // What is looked for would be seen.
    browser.finds("console.error('seen')");
    assert_eq!(
        browser
            .events("Runtime.consoleAPICalled")
            .filter(|it| is_bad(&it["type"]))
            .count(),
        1
    );
    signal(&child, libc::SIGINT);
    sandbox.wait(child).success();
}
