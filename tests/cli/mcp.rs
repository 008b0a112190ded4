//! `orch mcp`, by a client that writes the protocol's lines itself.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use crate::onnx::RIGHT;
use crate::ready_onnx::sandbox;
use crate::support::Sandbox;

const VERSION: &str = "2025-06-18";

/// A client that has shaken hands with a server.
struct Client {
    server: Child,
    answers: BufReader<std::process::ChildStdout>,
    sent: u64,
}

impl Client {
    fn start(sandbox: &Sandbox) -> Self {
        let mut server = sandbox
            .command(["mcp", "specs/all.yaml"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let answers = BufReader::new(server.stdout.take().unwrap());
        let mut client = Self {
            server,
            answers,
            sent: 0,
        };
        let hello = client.ask(
            "initialize",
            json!({"protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}),
        );
        assert_eq!(hello["serverInfo"]["name"], "orch", "{hello}");
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    fn send(&mut self, message: &Value) {
        let stdin = self.server.stdin.as_mut().unwrap();
        writeln!(stdin, "{message}").unwrap();
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.sent += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": self.sent, "method": method, "params": params}));
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(answer["id"], self.sent, "{answer}");
        answer["result"].clone()
    }

    /// Whether a tool failed, and its text.
    fn call(&mut self, tool: &str, arguments: Value) -> (bool, String) {
        let result = self.ask("tools/call", json!({"name": tool, "arguments": arguments}));
        let text = result["content"][0]["text"].as_str().unwrap_or_default();
        (result["isError"] == true, text.to_owned())
    }

    fn json(&mut self, tool: &str, arguments: Value) -> Value {
        let (failed, text) = self.call(tool, arguments);
        assert!(!failed, "{text}");
        serde_json::from_str(&text).unwrap()
    }

    /// Closes the server's input, as a client does that has no more questions.
    fn end(mut self) {
        drop(self.server.stdin.take());
        assert!(self.server.wait().unwrap().success());
    }
}

#[test]
fn an_assistant_reads_what_ran_last() {
    let sandbox = sandbox(RIGHT);
    for again in [&[][..], &["--rerun", "run"]] {
        let run = [&["run", "specs/all.yaml", "-t", "cpu"], again].concat();
        sandbox.run(run).success();
    }
    let mut client = Client::start(&sandbox);

    let tools = client.ask("tools/list", json!({}));
    let tools = tools["tools"].as_array().unwrap();
    let names: Vec<_> = tools.iter().map(|tool| tool["name"].clone()).collect();
    assert_eq!(
        names,
        ["blame", "cell", "cells", "compare", "explain", "log"]
    );
    for tool in tools {
        assert_eq!(tool["annotations"]["readOnlyHint"], true, "{tool}");
    }

    let cells = client.json("cells", json!({}));
    let case = cells["cells"][0]["case"].as_str().unwrap().to_owned();
    assert_eq!(cells["cells"][0]["status"], "PASS", "{cells}");
    let none = client.json("cells", json!({"case": "no such"}));
    assert_eq!(none["found"], 0);

    let cell = client.json("cell", json!({"case": case}));
    assert_eq!(cell["case"], case.as_str());
    assert_eq!(cell["metrics"]["samples_ms"], Value::Null);
    let explained = client.json("explain", json!({"name": case}));
    assert_eq!(explained[0]["verdict"], "up to date", "{explained}");
    let (failed, log) = client.call("log", json!({"name": case}));
    assert!(!failed && log.contains(&format!("run:{case}")), "{log}");
    let blamed = client.json("blame", json!({"case": case}));
    assert_eq!(blamed["finding"], Value::Null);
    let compared = client.json("compare", json!({"base": "2"}));
    assert!(compared["base"].is_object(), "{compared}");
    client.end();
}

#[test]
fn a_name_is_no_option_and_a_failure_is_an_answer() {
    let sandbox = sandbox(RIGHT);
    let mut client = Client::start(&sandbox);
    let (failed, why) = client.call("cells", json!({}));
    assert!(failed && why.contains("orch run"), "{why}");
    let (failed, why) = client.call("log", json!({"name": "--help"}));
    assert!(failed && why.contains("`--help`"), "{why}");
    let (failed, why) = client.call("compare", json!({"base": "--output=written"}));
    assert!(failed, "{why}");
    assert!(!sandbox.path("written").exists());
    client.end();
    assert!(!sandbox.path("orch-out").exists());
}
