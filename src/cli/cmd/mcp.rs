//! `orch mcp`: a server of the Model Context Protocol, by which an assistant reads what orch knows. It changes nothing.
//!
//! Each tool is a command that only looks, started as a process of its own: the answer is what that command prints, and
//! a call that fails ends nothing else.

#![expect(
    clippy::disallowed_methods,
    reason = "starts orch's own commands that only look"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::Context as _;
use rmcp::handler::server::router::tool::ToolRouter;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{CallToolResult, ContentBlock, Implementation, ServerCapabilities, ServerConfig};
use rmcp::{ServerHandler, ServiceExt as _, tool, tool_handler, tool_router};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::base::{program, shell};
use crate::cli::{Args, Exit};

/// The most characters of a log that are returned. The end is kept, which is where errors stand.
const LOG_CHARACTERS: usize = 20_000;

/// The most cases that `cells` returns at once.
const CELLS: usize = 200;

const INSTRUCTIONS: &str = "Results of model tests: which model works on which hardware at which precision, how fast, \
                            and why not. Begin with `cells`; a case's id, such as `bert:cpu-fp32`, is the argument of \
                            the other tools. Nothing is executed: commands that would are named in the answers.";

#[derive(Deserialize, JsonSchema)]
struct CellsFilter {
    /// Text that a case's id contains, such as `bert` or `:openvino-fp16`. All cases by default.
    case: Option<String>,
    /// Statuses, such as `NUMERICS`, `CRASH`, `XFAIL` or `SKIP_UNAVAILABLE`. All by default; each answer counts those that there are.
    #[serde(default)]
    status: Vec<String>,
}

#[derive(Deserialize, JsonSchema)]
struct CaseName {
    /// The id of a case, such as `bert:cpu-fp32`.
    case: String,
}

#[derive(Deserialize, JsonSchema)]
struct StepName {
    /// A case, such as `bert:cpu-fp32`, or a step, such as `convert:bert:openvino-fp16`.
    name: String,
}

#[derive(Deserialize, JsonSchema)]
struct Reports {
    /// The earlier report: a run of the history (`1` is the last, `2` the one before), an age such as `7d`, a git
    /// revision, or the path of a `matrix.json`.
    base: String,
    /// The later report, named as `base` is. What ran last by default.
    head: Option<String>,
}

/// The server: the commands that it starts work in this process's folder, on this spec.
#[derive(Clone)]
struct Server {
    spec: Arc<Path>,
    variables: Arc<[(&'static str, PathBuf)]>,
    tool_router: ToolRouter<Self>,
}

#[tool_router(router = tool_router)]
impl Server {
    /// Lists the cases of what ran last, at most 200 of those that were found: id, status, reason, and the median latency in
    /// milliseconds.
    #[tool(annotations(read_only_hint = true))]
    async fn cells(&self, Parameters(filter): Parameters<CellsFilter>) -> CallToolResult {
        answer(self.matrix().await.map(|matrix| cells(&matrix, &filter)))
    }

    /// Returns all that is known of one case of what ran last: versions, devices, figures, differences from the
    /// reference, and what `orch blame` found.
    #[tool(annotations(read_only_hint = true))]
    async fn cell(&self, Parameters(name): Parameters<CaseName>) -> CallToolResult {
        answer(
            self.matrix()
                .await
                .and_then(|matrix| cell(matrix, &name.case)),
        )
    }

    /// Explains why a case or step would run, or is up to date: what changed, traced to the changed file.
    #[tool(annotations(read_only_hint = true))]
    async fn explain(&self, Parameters(step): Parameters<StepName>) -> CallToolResult {
        answer(self.look_at("explain", &step.name, &["--json"]).await)
    }

    /// Returns the end of what a step printed when it was last executed; of a case: its run, and the steps before it
    /// that failed.
    #[tool(annotations(read_only_hint = true))]
    async fn log(&self, Parameters(step): Parameters<StepName>) -> CallToolResult {
        let log = self.look_at("log", &step.name, &[]).await;
        answer(log.map(|text| end_of(&text, LOG_CHARACTERS).to_owned()))
    }

    /// Lists what differs between two reports: what broke, was fixed, got slower, less accurate or larger.
    #[tool(annotations(read_only_hint = true))]
    async fn compare(&self, Parameters(reports): Parameters<Reports>) -> CallToolResult {
        let mut words = vec!["compare".into(), "--json".into(), "--".into(), reports.base];
        words.extend(reports.head);
        answer(self.output_of(words).await)
    }

    /// Returns what makes a case's outputs wrong, as far as it was found out, and the command that finds it out.
    #[tool(annotations(read_only_hint = true))]
    async fn blame(&self, Parameters(name): Parameters<CaseName>) -> CallToolResult {
        let spec = self.spec.display().to_string();
        answer(
            self.matrix()
                .await
                .and_then(|matrix| blame(&matrix, &name.case, &spec)),
        )
    }
}

#[tool_handler(router = self.tool_router)]
impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let mut config = ServerConfig::new(ServerCapabilities::builder().enable_tools().build());
        config.server_info = Implementation::new("orch", env!("CARGO_PKG_VERSION"));
        config.instructions = Some(INSTRUCTIONS.to_owned());
        config
    }
}

impl Server {
    async fn matrix(&self) -> Result<Value, String> {
        let text = self
            .output_of(vec!["matrix".into(), "--json".into()])
            .await?;
        serde_json::from_str(&text)
            .map_err(|e| format!("`orch matrix --json` printed no JSON: {e}"))
    }

    /// The output of a command on a case or step of the spec. A name is never read as an option.
    async fn look_at(&self, command: &str, name: &str, options: &[&str]) -> Result<String, String> {
        let mut words: Vec<String> = vec![command.into()];
        words.extend(options.iter().map(|option| (*option).to_owned()));
        words.extend(["--".into(), name.into(), self.spec.display().to_string()]);
        self.output_of(words).await
    }

    /// What a command printed on stdout, or on stderr as an error if it printed nothing else.
    async fn output_of(&self, words: Vec<String>) -> Result<String, String> {
        let variables = Arc::clone(&self.variables);
        let ended = tokio::task::spawn_blocking(move || {
            let mut command = Command::new(program::for_workers()?);
            command
                .args(&words)
                .envs(variables.iter().map(|(name, value)| (name, value)))
                .stdin(Stdio::null())
                .output()
        });
        let output = ended
            .await
            .map_err(|e| format!("the command did not end: {e}"))?
            .map_err(|e| format!("failed to start orch: {e}"))?;
        let printed = String::from_utf8_lossy(&output.stdout);
        if printed.trim().is_empty() {
            return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
        }
        Ok(printed.into_owned())
    }
}

/// Serves on stdin and stdout until the client closes them.
pub(super) fn mcp(args: &Args, spec: &Path) -> anyhow::Result<Exit> {
    let server = Server {
        spec: spec.into(),
        variables: args.variables().into(),
        tool_router: Server::tool_router(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("failed to start the server")?;
    runtime.block_on(async {
        let service = server
            .serve(rmcp::transport::stdio())
            .await
            .context("no client spoke the Model Context Protocol on stdin")?;
        service.waiting().await.context("the server ended early")
    })?;
    Ok(Exit::Success)
}

fn answer(found: Result<String, String>) -> CallToolResult {
    match found {
        Ok(text) => CallToolResult::success(vec![ContentBlock::text(text)]),
        Err(why) => CallToolResult::error(vec![ContentBlock::text(why)]),
    }
}

fn cases(matrix: &Value) -> impl Iterator<Item = &Value> {
    matrix["cases"].as_array().into_iter().flatten()
}

fn cells(matrix: &Value, filter: &CellsFilter) -> String {
    let is_wanted = |case: &&Value| {
        let id = case["case"].as_str().unwrap_or_default();
        let status = case["status"].as_str().unwrap_or_default();
        filter.case.as_ref().is_none_or(|part| id.contains(part))
            && (filter.status.is_empty()
                || filter
                    .status
                    .iter()
                    .any(|wanted| wanted.eq_ignore_ascii_case(status)))
    };
    let found: Vec<Value> = cases(matrix)
        .filter(is_wanted)
        .map(|case| {
            json!({
                "case": case["case"],
                "status": case["status"],
                "reason": case["reason"],
                "median_ms": case["metrics"]["median_ms"],
            })
        })
        .collect();
    let mut statuses = BTreeMap::<&str, usize>::new();
    for status in cases(matrix).filter_map(|case| case["status"].as_str()) {
        *statuses.entry(status).or_default() += 1;
    }
    json!({
        "spec": matrix["spec"],
        "scope": matrix["scope"],
        "started": matrix["run"]["started"],
        "statuses": statuses,
        "found": found.len(),
        "cells": &found[..found.len().min(CELLS)],
    })
    .to_string()
}

fn case_of<'a>(matrix: &'a Value, id: &str) -> Result<&'a Value, String> {
    cases(matrix)
        .find(|case| case["case"] == id)
        .ok_or_else(|| format!("what ran last has no case {id:?}; `cells` lists them"))
}

fn cell(matrix: Value, id: &str) -> Result<String, String> {
    let mut case = case_of(&matrix, id)?.clone();
    if let Some(metrics) = case["metrics"].as_object_mut() {
        metrics.remove("samples_ms");
    }
    Ok(case.to_string())
}

fn blame(matrix: &Value, id: &str, spec: &str) -> Result<String, String> {
    let case = case_of(matrix, id)?;
    let command = format!("orch blame {id} --spec {}", shell::word(spec));
    Ok(json!({
        "case": id,
        "status": case["status"],
        "finding": case["facts"][format!("blame:{id}")],
        "command": command,
    })
    .to_string())
}

/// The last characters of a text.
fn end_of(text: &str, most: usize) -> &str {
    let count = text.chars().count();
    let begin = text.char_indices().nth(count.saturating_sub(most));
    begin.map_or("", |(at, _)| &text[at..])
}
