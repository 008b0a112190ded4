//! `orch blame`: what makes cases wrong, down to the nodes and the pass of the runtime.

mod sarif;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::base::figures::{bytes, counted};
use crate::base::fs as bfs;
use crate::cli::args::SPEC;
use crate::cli::cmd::run::{command_line, on_interrupt};
use crate::cli::console::Console;
use crate::cli::{Args, Exit, Printer};
use crate::session::{
    Blamed, Choice, Finding, Found, Module, OUT_DIR, Pass, Request, Rounding, Session, Settings,
    Suspects, Verdict, usage,
};

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct BlameArgs {
    /// Cases, such as `bit:cpu-fp32`, or globs of them
    #[arg(value_name = "CASE", required_unless_present = "all")]
    cases: Vec<String>,
    /// Every case that the runtime computed wrongly, refused or crashed by when it ran last, or those of them that CASE
    /// matches
    #[arg(long)]
    all: bool,
    /// The spec
    #[arg(long, default_value = SPEC, value_name = "SPEC")]
    spec: PathBuf,
    /// The folder in which `blame/CASE` shows the fault without orch
    #[arg(long, default_value = OUT_DIR, value_name = "DIR")]
    out_dir: PathBuf,
    /// Write the findings as SARIF, which code hosts show beside the model's row
    #[arg(long, value_name = "FILE")]
    sarif: Option<PathBuf>,
    /// Print one JSON document on stdout
    #[arg(long)]
    json: bool,
}

pub(super) fn blame(args: &Args, asked: &BlameArgs, printer: &Printer) -> anyhow::Result<Exit> {
    let session = Session::open(&args.locations())?;
    on_interrupt(&session.cancel, || {})?;
    let mut console = Console::new(printer.verbosity());
    let tell = |text: &str| printer.note(text);
    let settings = Settings {
        out_dir: asked.out_dir.clone(),
        command: command_line(),
        ..Settings::default()
    };
    let suspects = Suspects {
        globs: &asked.cases,
        only_wrong: asked.all,
    };
    let request = Request::all(&asked.spec);
    let found = session.blame(&request, &suspects, &settings, (&console, &tell));
    console.close();
    let found = found?;
    if found.is_empty() {
        let wrong = if asked.all {
            "no case was wrong when it ran last"
        } else {
            "no case matches"
        };
        usage!(
            "{wrong}\n  hint: `orch matrix {}` lists the cases",
            asked.spec.display()
        );
    }
    if let Some(path) = &asked.sarif {
        let text = serde_json::to_string_pretty(&sarif::log(&found))? + "\n";
        bfs::write_atomic(path, text.as_bytes())
            .with_context(|| format!("failed to write `{}`", path.display()))?;
    }
    printer.answer(asked.json, || document(&found), || texts(&found));
    let is_answered = found.iter().any(|blamed| blamed.answer.is_ok());
    Ok(if is_answered {
        Exit::Success
    } else {
        Exit::Failed
    })
}

/// The cases of each cause that several cases share.
fn causes(found: &[Blamed]) -> BTreeMap<&str, Vec<&str>> {
    let mut causes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for blamed in found {
        let signature = blamed
            .answer
            .as_ref()
            .ok()
            .and_then(|found| found.finding.signature.as_deref());
        if let Some(signature) = signature {
            causes.entry(signature).or_default().push(&blamed.case);
        }
    }
    causes
}

fn document(found: &[Blamed]) -> Value {
    let row = |blamed: &Blamed| {
        let place = blamed.row.as_ref().map(ToString::to_string);
        match &blamed.answer {
            Err(why) => json!({"case": blamed.case, "row": place, "unknown": why}),
            Ok(Found { finding, repro }) => json!({
                "case": blamed.case,
                "row": place,
                "finding": finding,
                "repro": repro.as_ref().map(|path| path.display().to_string()),
            }),
        }
    };
    let causes = causes(found)
        .into_iter()
        .map(|(signature, cases)| json!({"signature": signature, "cases": cases}));
    json!({
        "cases": found.iter().map(row).collect::<Vec<_>>(),
        "causes": causes.collect::<Vec<_>>(),
    })
}

/// The answers in words, and at the end the causes that several cases share.
pub(super) fn texts(found: &[Blamed]) -> String {
    let mut out = String::new();
    for blamed in found {
        match &blamed.answer {
            Err(why) => {
                let _ = writeln!(out, "{}: nothing was found out: {why}", blamed.case);
            }
            Ok(Found { finding, repro }) => {
                let repro = repro.as_ref().map(|path| path.display().to_string());
                out += &text(&blamed.case, finding, repro.as_deref());
            }
        }
    }
    let shared: Vec<_> = causes(found)
        .into_iter()
        .filter(|(_, cases)| cases.len() > 1)
        .collect();
    for (signature, cases) in shared {
        let count = counted(cases.len(), "case");
        let _ = writeln!(
            out,
            "{count}, one cause: {signature}\n  {}",
            cases.join(", ")
        );
    }
    out
}

/// The answer in words, and what supports it.
fn text(case: &str, finding: &Finding, repro: Option<&str>) -> String {
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
        Verdict::Exporter => format!(
            "{case}: {runtime} {version} is wrong about {}{}\n",
            module_name(finding),
            if finding
                .module
                .as_ref()
                .is_some_and(|module| module.is_baked)
            {
                ": its file is right on the inputs that it was made with, and wrong on others"
            } else {
                ""
            }
        ),
        Verdict::ExporterRefuses => {
            let error = error_class(finding);
            let module = module_name(finding);
            format!("{case}: {runtime} {version} makes no file of {module}: {error}\n")
        }
        Verdict::Varies => {
            format!("{case}: {runtime} {version} gives other outputs each time\n")
        }
        Verdict::NoWindow => format!(
            "{case}: {runtime} {version} is wrong on the whole graph, and on no part of it that is fed with right values\n"
        ),
        Verdict::Choice => format!(
            "{case}: another expert, box or code was chosen: {runtime} {version} computes the scores as it should\n"
        ),
        Verdict::Rounding => {
            let precision = precision(finding);
            format!(
                "{case}: the precision is the cause: rounding to {precision} alone makes outputs as wrong\n"
            )
        }
        Verdict::BeyondRounding => {
            let precision = precision(finding);
            format!(
                "{case}: {runtime} {version} is wrong beyond rounding to {precision}; orch cuts windows of it in fp32 alone\n"
            )
        }
        Verdict::Refused => {
            let error = error_class(finding);
            format!("{case}: {runtime} {version} refuses the graph: {error}\n")
        }
        Verdict::Crashed => {
            let error = error_class(finding);
            format!("{case}: {runtime} {version} ends its process: {error}\n")
        }
        Verdict::NotReproduced => format!(
            "{case}: nothing is wrong: {runtime} {version} is within the case's tolerance on both inputs\n"
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
    for Choice {
        operator,
        name,
        changed,
        of,
        margin,
    } in &finding.choices
    {
        let _ = writeln!(
            out,
            "  {operator} {name}: {changed} of {of} choices differ, by a margin of {margin:.1e} of the scores' scale"
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
    }
    if let Some(rounding) = &finding.rounding {
        out += &rounded(rounding);
    }
    if let Some(stopped) = &finding.stopped {
        let _ = writeln!(out, "  {stopped}");
    }
    if let Some(reduced) = &finding.reduced {
        let _ = writeln!(
            out,
            "  reduced in {}: {} to {}",
            reduced.what.join(" and "),
            bytes(reduced.bytes_before),
            bytes(reduced.bytes_after)
        );
    }
    if let Some(signature) = &finding.signature {
        let _ = writeln!(out, "  signature: {signature}");
    }
    if let Some(repro) = repro {
        let _ = writeln!(out, "  without orch: {repro} (`python run.py`)");
    }
    out
}

/// The module that an exporter gets wrong, by its class and path.
fn module_name(finding: &Finding) -> String {
    match &finding.module {
        Some(Module { path, class, .. }) if path.is_empty() => {
            format!("{class}, the whole model")
        }
        Some(Module { path, class, .. }) => format!("{class} `{path}`"),
        None => "a module".to_owned(),
    }
}

fn error_class(finding: &Finding) -> &str {
    finding
        .error
        .as_ref()
        .map_or("without a message", |error| &error.class)
}

fn precision(finding: &Finding) -> &str {
    finding
        .rounding
        .as_ref()
        .map_or("less than fp32", |rounding| &rounding.precision)
}

/// How the error compares with what rounding makes, and where that grows.
fn rounded(rounding: &Rounding) -> String {
    let Rounding {
        output,
        observed,
        noise,
        ratio,
        seeds,
        ..
    } = rounding;
    let times = ratio
        .map(|ratio| format!(", {ratio:.2} times as much"))
        .unwrap_or_default();
    let amount = |error: &Option<f64>| match error {
        Some(error) => format!("off by {error:.3e}"),
        None => "of another shape".to_owned(),
    };
    let mut out = format!(
        "  `{output}` is {}{times}; with weights off by their rounding it is {}, at most of {seeds} seeds\n",
        amount(observed),
        amount(noise)
    );
    if let Some(amplifier) = &rounding.amplifier {
        let _ = writeln!(
            out,
            "  rounding grows most at {} {}: {:.0} times",
            amplifier.operator, amplifier.name, amplifier.times
        );
    }
    if !rounding.choices.is_empty() {
        let _ = writeln!(
            out,
            "  rounding changes what is chosen by {}",
            rounding.choices.join(", ")
        );
    }
    out
}
