//! `orch blame`: what makes a case wrong, down to the nodes and the pass of the runtime.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde_json::json;

use crate::base::figures::counted;
use crate::cli::cmd::run::{command_line, on_interrupt};
use crate::cli::console::Console;
use crate::cli::{Args, Exit, Printer};
use crate::session::{Blamed, Finding, OUT_DIR, Pass, Request, Session, Settings, Verdict};

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct BlameArgs {
    /// The case, such as `bit:cpu-fp32`, or a glob that matches exactly one
    #[arg(value_name = "CASE")]
    case: String,
    #[arg(default_value = "specs/all.yaml")]
    spec: PathBuf,
    /// The folder in which `blame/CASE` shows the fault without orch
    #[arg(long, default_value = OUT_DIR, value_name = "DIR")]
    out_dir: PathBuf,
    /// Print one JSON document on stdout
    #[arg(long)]
    json: bool,
}

pub(super) fn blame(args: &Args, asked: &BlameArgs, printer: &Printer) -> anyhow::Result<Exit> {
    let session = Session::open(&args.locations())?;
    on_interrupt(&session.cancel, || {})?;
    let console = Console::new(printer.verbosity());
    let tell = |text: &str| printer.note(text);
    let settings = Settings {
        out_dir: asked.out_dir.clone(),
        command: command_line(),
        ..Settings::default()
    };
    let request = Request::all(&asked.spec);
    let found = session.blame(&request, &asked.case, &settings, (&console, &tell))?;
    let Blamed {
        case,
        finding,
        is_rounded,
        repro,
    } = &found;
    let repro = repro.as_ref().map(|path| path.display().to_string());
    let document =
        || json!({"case": case, "finding": finding, "is_rounded": is_rounded, "repro": repro});
    printer.answer(asked.json, document, || {
        text(case, finding, *is_rounded, repro.as_deref())
    });
    Ok(Exit::Success)
}

/// The answer in words, and what supports it.
fn text(case: &str, finding: &Finding, is_rounded: bool, repro: Option<&str>) -> String {
    let Finding {
        runtime, version, ..
    } = finding;
    let mut out = match finding.verdict {
        Verdict::Runtime => {
            let pass = match &finding.pass {
                Some(Pass {
                    stage,
                    name: Some(name),
                }) => format!("by {name} in its {stage}"),
                Some(Pass { stage, name: None }) => format!("in its {stage}"),
                None => "and which of its passes makes it so cannot be told".to_owned(),
            };
            format!("{case}: {runtime} {version} is wrong, {pass}\n")
        }
        Verdict::File => format!(
            "{case}: the exported file is wrong: ONNX Runtime, node by node and without optimisers, does not give the \
             reference's outputs, and {runtime} {version} computes the file as it does\n"
        ),
        Verdict::Varies => {
            format!("{case}: {runtime} {version} gives other outputs each time\n")
        }
        Verdict::NoWindow => format!(
            "{case}: {runtime} {version} is wrong on the whole graph, and on no part of it that is fed with right values\n"
        ),
        Verdict::NotReproduced => format!(
            "{case}: nothing is wrong: {runtime} {version} computes the file as ONNX Runtime does node by node, which is \
             within the case's tolerance\n"
        ),
    };
    if !finding.nodes.is_empty() {
        let nodes: Vec<_> = finding
            .nodes
            .iter()
            .map(|node| format!("{} {}", node.operator, node.name))
            .collect();
        let total = counted(finding.nodes_in_graph, "node");
        let _ = writeln!(
            out,
            "  {} of {total}: {}",
            finding.nodes.len(),
            nodes.join(", ")
        );
    }
    if finding.places.len() > 1 {
        let places: Vec<_> = finding.places.iter().map(|each| each.join(">")).collect();
        let _ = writeln!(out, "  in {} places: {}", places.len(), places.join(", "));
    }
    if !finding.cleared.is_empty() {
        let cleared: Vec<_> = finding.cleared.iter().map(|each| each.join(">")).collect();
        let _ = writeln!(
            out,
            "  cleared: {}: other answers than the oracle's, which change no output",
            cleared.join(", ")
        );
    }
    if let Some(difference) = &finding.difference {
        let _ = writeln!(out, "  `{}`: {}", difference.output, difference.why);
    }
    if let Some((observed, injected)) = finding.observed.zip(finding.injected) {
        let proof = if finding.is_proven() {
            "proof"
        } else {
            "no proof"
        };
        let _ = writeln!(
            out,
            "  {proof}: in a right run, these values alone make the outputs wrong by {injected:.3e}; the case is wrong by {observed:.3e}"
        );
    }
    if let Some(why) = &finding.file_is_wrong {
        let _ = writeln!(out, "  the file, computed node by node: {why}");
        if is_rounded {
            out += "  the case has less than single precision: rounding alone may do this, and orch cannot tell yet\n";
        }
    }
    if let Some(signature) = &finding.signature {
        let _ = writeln!(out, "  signature: {signature}");
    }
    if let Some(repro) = repro {
        let _ = writeln!(out, "  without orch: {repro} (`python run.py`)");
    }
    out
}
