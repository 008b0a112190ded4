//! `orch init` and `orch add`: a first spec, and further models for it.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::base::fs as bfs;
use crate::base::{named, temporary};
use crate::cli::waiting::waiting;
use crate::cli::{Args, Exit, Printer};
use crate::matrix::Matrix;
use crate::session::{self, Own, Session, UsageError, usage};
use crate::spec::Spec;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct InitArgs {
    /// The folder; it must not have a spec yet
    #[arg(default_value = "specs")]
    dir: PathBuf,
    /// A folder in `save_pretrained` layout, an id of the Hugging Face Hub, or an ONNX file
    #[arg(long, value_name = "FOLDER|ID|FILE.onnx")]
    model: Option<String>,
    /// The row's name [default: that of the folder or file]
    #[arg(long, requires = "model")]
    name: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct AddArgs {
    /// A folder in `save_pretrained` layout, an id of the Hugging Face Hub, or an ONNX file
    #[arg(value_name = "FOLDER|ID|FILE.onnx")]
    model: String,
    /// The spec that gets the row
    #[arg(default_value = "specs/all.yaml")]
    spec: PathBuf,
    /// The row's name [default: that of the folder or file]
    #[arg(long)]
    name: Option<String>,
}

const SPEC: &str = "all.yaml";

/// What a first spec includes.
const INCLUDED: [(&str, &str); 3] = [
    ("targets.yaml", include_str!("../../../specs/targets.yaml")),
    (
        "pipelines.yaml",
        include_str!("../../../specs/pipelines.yaml"),
    ),
    ("schema.json", include_str!("../../../specs/schema.json")),
];

/// A first spec without a model of one's own: a small one, on the targets that every machine has.
const FIRST: &str = include_str!("../../../templates/init/all.yaml");

/// The beginning of one with a model of one's own, on every target that it may have.
const OWN: &str = include_str!("../../../templates/init/own.yaml");

/// How its line with the targets begins.
const TARGETS: &str = "  targets:";

const IGNORED: &str = "# Written by orch: its store, its environments, and what runs copy out.\n/cache/\n/orch-out/\n";

pub(super) fn init(args: &Args, init: &InitArgs, printer: &Printer) -> anyhow::Result<Exit> {
    // Files as they would be written may be what an interrupted `orch init` left.
    let is_other = |name: &str, text: &str| {
        let path = init.dir.join(name);
        let is_same = || std::fs::read(&path).is_ok_and(|bytes| bytes == text.as_bytes());
        path.exists() && !is_same()
    };
    let others = INCLUDED
        .iter()
        .filter(|(name, text)| is_other(name, text))
        .map(|(name, _)| *name);
    let spec = Some(SPEC).filter(|name| init.dir.join(name).exists());
    if let Some(name) = spec.into_iter().chain(others).next() {
        let path = init.dir.join(name);
        let path = path.display();
        usage!(
            "`{path}` is already there; nothing was written\n  hint: `orch add MODEL` adds a model to it"
        );
    }
    let (text, remark) = match &init.model {
        None => (FIRST.to_owned(), String::new()),
        Some(model) => {
            let mut session = Session::open(&args.locations())?;
            let own = waiting(printer, |tell| {
                session.own(model, init.name.as_deref(), &init.dir, tell)
            })?;
            let (text, targets) = on_targets_here(&session, &init.dir, &own)?;
            (text, format!(": {} on {}", own.name, targets.join(", ")))
        }
    };
    for (name, text) in files(&text) {
        let path = init.dir.join(name);
        bfs::write_atomic(&path, text.as_bytes())
            .with_context(|| format!("failed to write `{}`", path.display()))?;
    }
    let ignored = Path::new(".gitignore");
    if !ignored.exists() {
        bfs::write_atomic(ignored, IGNORED.as_bytes()).context("failed to write `.gitignore`")?;
    }
    let spec = init.dir.join(SPEC);
    printer.note(&format!(
        "wrote {0}{remark}; next: `orch run {0}`",
        spec.display()
    ));
    Ok(Exit::Success)
}

/// A first spec on the targets that this machine has and that can run the model; and which those are.
fn on_targets_here(
    session: &Session,
    dir: &Path,
    own: &Own,
) -> anyhow::Result<(String, Vec<String>)> {
    let all = format!("{OWN}{}", own.text);
    let spec = tried(dir, &all)?;
    let is_here = |name: &str| {
        session
            .inventory()
            .iter()
            .any(|backend| backend.name == name && backend.available)
    };
    let mut targets: Vec<String> = Vec::new();
    for case in Matrix::of(&spec).cases {
        let target = &spec.targets[&case.target];
        let can_run = target.runtime.absent.is_none() && is_here(target.backend.name);
        if can_run && !targets.contains(&case.target) {
            targets.push(case.target);
        }
    }
    // Cases come in the order of `targets.yaml`; the list has one of its own.
    let listed = OWN.lines().find(|line| line.starts_with(TARGETS));
    let listed = Vec::from_iter(listed.unwrap_or_default().split(['[', ' ', ',', ']']));
    targets.sort_by_key(|name| listed.iter().position(|word| word == name));
    let written = format!("{TARGETS} [{}]", targets.join(", "));
    let lines = all.lines().map(|line| {
        if line.starts_with(TARGETS) {
            &written
        } else {
            line
        }
    });
    Ok((lines.flat_map(|line| [line, "\n"]).collect(), targets))
}

/// What a first spec includes, and itself.
fn files(text: &str) -> impl Iterator<Item = (&str, &str)> {
    INCLUDED.into_iter().chain([(SPEC, text)])
}

/// Reads the files as a spec before they are one: in a folder as deep as their own, for paths in the spec.
fn tried(dir: &Path, text: &str) -> anyhow::Result<Spec> {
    let beside = session::absolute(dir)?;
    let parent = beside
        .parent()
        .context("a spec cannot be in the root folder")?;
    std::fs::create_dir_all(parent)
        .with_context(|| format!("failed to make `{}`", parent.display()))?;
    temporary::sweep(parent);
    let trial = temporary::make_folder(parent).context("failed to make a folder")?;
    for (name, text) in files(text) {
        bfs::write_new(trial.path().join(name), text)?;
    }
    session::spec(&trial.path().join(SPEC)).map_err(|error| {
        let there = dir.display().to_string();
        let text = format!("{error}").replace(&trial.path().display().to_string(), &there);
        // Such as names of tensors that no spec can hold.
        UsageError(format!("nothing was written: with the model's row, {text}")).into()
    })
}

pub(super) fn add(args: &Args, add: &AddArgs, printer: &Printer) -> anyhow::Result<Exit> {
    let spec = session::spec(&add.spec)?;
    let old = std::fs::read_to_string(&add.spec)
        .with_context(|| format!("failed to read `{}`", add.spec.display()))?;
    let folder = bfs::parent(&add.spec);
    let mut session = Session::open(&args.locations())?;
    let own = waiting(printer, |tell| {
        session.own(&add.model, add.name.as_deref(), folder, tell)
    })?;
    if spec.models.contains_key(&own.name) {
        let path = add.spec.display();
        usage!(
            "`{}` is a model of {path} already; nothing was written\n  hint: `--name NAME` gives the new row another name",
            own.name
        );
    }
    let new = with_row(&old, &own.text).ok_or_else(|| {
        let hint = "hint: write `models:` on its own line, and each row on a line below it";
        UsageError(format!(
            "`{}` has no place for a new row; nothing was written\n  {hint}\n\n{}",
            add.spec.display(),
            own.text
        ))
    })?;
    let trial = temporary::make_ending(&session::absolute(folder)?, ".yaml")?;
    bfs::write_new(trial.path(), &new)?;
    if let Err(error) = session::spec(trial.path()) {
        let message = format!("{error}").replace(
            &trial.path().display().to_string(),
            &add.spec.display().to_string(),
        );
        usage!("nothing was written: with the new row, {message}");
    }
    named::edit_named(&add.spec, new.as_bytes())
        .with_context(|| format!("failed to write `{}`", add.spec.display()))?;
    printer.note(&format!(
        "added to {}:\n{}next: `orch run {0} -m {}`",
        add.spec.display(),
        own.text,
        own.name
    ));
    Ok(Exit::Success)
}

/// The spec with a row at the end of its models, as far in as its first one is; all else stays byte for byte. None where
/// models are written otherwise.
fn with_row(spec: &str, row: &str) -> Option<String> {
    let lines: Vec<&str> = spec.split_inclusive('\n').collect();
    let ending = if lines.first().is_some_and(|line| line.ends_with("\r\n")) {
        "\r\n"
    } else {
        "\n"
    };
    let is_top = |line: &str| line.starts_with(|c: char| !c.is_whitespace() && c != '#');
    let row = row.lines();
    let Some(begin) = lines.iter().position(|line| line.trim_end() == "models:") else {
        let has_other = lines.iter().any(|line| line.starts_with("models:"));
        let rows: String = row.flat_map(|line| [line, ending]).collect();
        let end = if spec.ends_with('\n') { "" } else { ending };
        return (!has_other).then(|| format!("{spec}{end}models:{ending}{rows}"));
    };
    let end = lines[begin + 1..]
        .iter()
        .position(|line| is_top(line))
        .map_or(lines.len(), |at| begin + 1 + at);
    let last = lines[begin..end]
        .iter()
        .rposition(|line| !line.trim().is_empty() && !line.starts_with('#'))?;
    let is_row = |line: &&&str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    let first = lines[begin + 1..end].iter().find(is_row);
    let indent = first.map_or(2, |line| line.len() - line.trim_start().len());
    let indent = " ".repeat(indent);
    let (before, after) = lines.split_at(begin + last + 1);
    let mut all = before.concat();
    if !all.ends_with('\n') {
        all.push_str(ending);
    }
    for line in row {
        all.extend([&indent, &line[2..], ending]);
    }
    all.extend(after.iter().copied());
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: &str = "  b:\n    onnx: b.onnx\n";

    #[test]
    fn a_row_goes_to_the_end_of_the_models_and_nothing_else_changes() {
        let spec = "version: 1\n# mine\nmodels:\n  # first\n  a: {onnx: a.onnx}\n\n# targets\ntargets: {}\n";
        let expected = "version: 1\n# mine\nmodels:\n  # first\n  a: {onnx: a.onnx}\n  b:\n    onnx: b.onnx\n\n# targets\ntargets: {}\n";
        assert_eq!(with_row(spec, ROW).unwrap(), expected);
        let wider = "models:\n    a: {onnx: a.onnx}";
        assert_eq!(
            with_row(wider, ROW).unwrap(),
            "models:\n    a: {onnx: a.onnx}\n    b:\n      onnx: b.onnx\n"
        );
        assert_eq!(
            with_row("version: 1\n", ROW).unwrap(),
            "version: 1\nmodels:\n  b:\n    onnx: b.onnx\n"
        );
        assert_eq!(with_row("models: {a: {onnx: a.onnx}}\n", ROW), None);
        // Whatever ends lines, and an end without one, stays.
        assert_eq!(
            with_row("models:\r\n  a: {onnx: a.onnx} # x\r\nversion: 1", ROW).unwrap(),
            "models:\r\n  a: {onnx: a.onnx} # x\r\n  b:\r\n    onnx: b.onnx\r\nversion: 1"
        );
    }
}
