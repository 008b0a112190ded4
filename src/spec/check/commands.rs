//! The user's own steps. Rows are checked as they are read, because there may be millions.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::not_empty;
use crate::base::tree_path;
use crate::spec::error::{Sink, Span};
use crate::spec::load::Source;
use crate::spec::raw;
use crate::spec::shape::{At, Field, List, Shape};
use crate::spec::yaml::{Key, Node};
use crate::spec::{Command, CommandInput, Commands, Does, Files, Program};

const DEFAULT_TIMEOUT_SECONDS: u64 = 600;

/// The commands of all files.
pub(super) fn all(sources: &mut [Source], sink: &mut Sink) -> Commands {
    let mut parts = sources
        .iter_mut()
        .map(|source| std::mem::take(&mut source.commands))
        .filter(|part| !part.is_empty());
    let mut all = parts.next().unwrap_or_default();
    for (name, command) in parts.flatten() {
        if let Some(before) = all.get(&name) {
            let message = format!("command `{name}` is already declared at {}", before.loc);
            sink.error(sink.span_of(&command.loc, &name), message);
        } else {
            all.insert(name, command);
        }
    }
    all
}

/// Reads and checks one row.
pub(in crate::spec) fn row(key: &Key, node: &Node, folder: &Path, sink: &mut Sink) -> Command {
    let raw = raw::Command::read(node, key, sink);
    let name = At {
        value: Arc::from(&*key.text),
        span: sink.span(key.pos),
    };
    super::good_name(&name, "command", sink);
    // Even a row that could not be read declares its name.
    match raw {
        Some(raw) => command(name, raw, folder, sink),
        None => {
            let loc = sink.loc(name.span);
            Command {
                name: name.value,
                loc,
                does: nothing(),
                inputs: Box::default(),
                timeout_seconds: 1,
                memory: None,
                retries: None,
            }
        }
    }
}

/// Stands for what was reported as wrong; such a spec is not used.
fn nothing() -> Does {
    Does::Write(Arc::new(Files(Box::default())))
}

fn command(name: At<Arc<str>>, raw: raw::Command, folder: &Path, sink: &mut Sink) -> Command {
    one_of_two(&name, &raw, sink);
    not_empty(&raw.argv, "argv", sink);
    not_empty(&raw.outputs, "outputs", sink);
    super::at_least_one(&raw.timeout_seconds, "timeout_seconds", sink);
    let rows = raw.inputs.rows();
    let mut inputs = Vec::with_capacity(rows.len());
    let mut lent = Vec::new();
    for (name, value) in rows {
        inside(&name.value, name.span, sink);
        if let Some(value) = value
            && let Some(input) = input(&value.value, name.span, &name.value, folder, sink)
        {
            inputs.push((name.value.clone(), input));
            if value.value.lend.or(false) {
                lent.push(name.value.clone());
            }
        }
    }
    lent.sort_unstable();
    outputs(&raw, &inputs, sink);
    for name in raw.env.items() {
        if name.value.is_empty() || name.value.contains(['=', '\0']) {
            let message = format!(
                "`{}` is not a valid name of an environment variable",
                name.value
            );
            sink.error_hint(
                name.span,
                message,
                "give names only; their values come from the environment",
            );
        }
    }
    let timeout_seconds = raw.timeout_seconds.or(DEFAULT_TIMEOUT_SECONDS);
    for code in raw
        .transient
        .items()
        .iter()
        .filter(|code| !(1..256).contains(&code.value))
    {
        sink.error(
            code.span,
            format!(
                "{} is not an exit code of a failure: use 1 to 255",
                code.value
            ),
        );
    }
    let retries = raw.retries.cloned();
    let memory = raw.memory.value().map(|memory| memory.0);
    let transient = raw
        .transient
        .items()
        .iter()
        .map(|code| code.value)
        .collect();
    let does = if raw.write.is_absent() {
        // The order of outputs and of variables has no meaning.
        let sorted = |texts: Box<[Arc<str>]>| {
            let mut texts = texts.into_vec();
            texts.sort_unstable();
            texts.dedup();
            texts.into_boxed_slice()
        };
        let outputs = sorted(texts(raw.outputs));
        let env = sorted(texts(raw.env));
        let network = raw.network.or(false);
        let writable = sorted(texts(raw.writable))
            .iter()
            .map(|path| (path.clone(), absolute(folder, path)))
            .collect();
        Does::Run(Arc::new(Program {
            argv: texts(raw.argv),
            outputs,
            env,
            transient,
            network,
            lent: lent.into(),
            writable,
        }))
    } else {
        Does::Write(Arc::new(written(&raw, sink)))
    };
    Command {
        name: name.value,
        loc: sink.loc(name.span),
        does,
        inputs: inputs.into(),
        timeout_seconds,
        memory,
        retries,
    }
}

fn texts(field: Field<List<Arc<str>>>) -> Box<[Arc<str>]> {
    match field {
        Field::Given(at) => at.value.items.into_iter().map(|at| at.value).collect(),
        Field::Absent | Field::Bad => Box::default(),
    }
}

fn outputs(raw: &raw::Command, inputs: &[(Arc<str>, CommandInput)], sink: &mut Sink) {
    // Looking through the inputs for each of many outputs would take the square of their number.
    let many = raw.outputs.items().len() > 8 && inputs.len() > 8;
    let names: HashSet<&str> = if many {
        inputs.iter().map(|(name, _)| &**name).collect()
    } else {
        HashSet::new()
    };
    for output in raw.outputs.items() {
        inside(&output.value, output.span, sink);
        let name = &*output.value;
        if if many {
            names.contains(name)
        } else {
            inputs.iter().any(|(input, _)| &**input == name)
        } {
            sink.error(
                output.span,
                format!("`{name}` is also an input: a step must not change what it reads"),
            );
        }
    }
}

/// A program and what it makes, or files of fixed content and nothing else.
fn one_of_two(name: &At<Arc<str>>, raw: &raw::Command, sink: &mut Sink) {
    match (raw.argv.is_absent(), raw.write.is_absent()) {
        (true, true) => sink.error_hint(
            name.span,
            format!("`{}` lacks `argv`", name.value),
            "give the program in `argv`, or files of fixed content in `write`",
        ),
        (false, false) => {
            let message = format!("`{}` has both `argv` and `write`", name.value);
            sink.error_hint(
                name.span,
                message,
                "keep one; another step can read what the first one made",
            );
        }
        (true, false) => {
            for (key, span) in raw.written().into_iter().filter(|(key, _)| *key != "write") {
                if let Some(span) = span {
                    let message = format!("`{key}` cannot be combined with `write`");
                    sink.error_hint(
                        span,
                        message,
                        "the files that it writes are its outputs, and it reads nothing",
                    );
                }
            }
        }
        (false, true) => {}
    }
    if raw.write.is_absent() && raw.outputs.is_absent() {
        sink.error(name.span, format!("`{}` lacks `outputs`", name.value));
    }
}

/// The files of `write`: inside the step's folder, and none within another.
fn written(raw: &raw::Command, sink: &mut Sink) -> Files {
    let Some(given) = raw.write.given() else {
        return Files(Box::default());
    };
    if given.value.0.is_empty() {
        sink.error(given.span, "`write` must not be empty");
    }
    let mut files = Vec::with_capacity(given.value.0.len());
    let mut places: BTreeMap<PathBuf, &str> = BTreeMap::new();
    for (path, text) in &given.value.0 {
        inside(&path.value, path.span, sink);
        let place: PathBuf = Path::new(&*path.value).components().collect();
        // Sorted by component, a folder comes right before its content.
        let before = places
            .range(..=place.clone())
            .next_back()
            .filter(|(before, _)| place.starts_with(before));
        let after = places
            .range(place.clone()..)
            .next()
            .filter(|(after, _)| after.starts_with(&place));
        if let Some((_, other)) = before.or(after) {
            sink.error(
                path.span,
                format!("`{}` and `{other}` cannot both be files", path.value),
            );
        }
        places.insert(place, &path.value);
        if let Some(text) = text {
            files.push((path.value.clone(), text.value.clone()));
        }
    }
    Files(files.into())
}

fn input(
    raw: &raw::CommandInput,
    span: Span,
    name: &str,
    folder: &Path,
    sink: &mut Sink,
) -> Option<CommandInput> {
    if raw.file.is_absent() == raw.step.is_absent() {
        sink.error_hint(
            span,
            format!("input `{name}` must have exactly one of `file` and `step`"),
            "write `{file: path}` or `{step: id}`",
        );
        return None;
    }
    if raw.step.is_absent() && raw.lend.or(false) {
        sink.error_hint(
            span,
            format!("input `{name}` is a file, and only what a step made can be lent"),
            "leave out `lend`: the program gets a copy",
        );
    }
    match (raw.file.value(), raw.step.value()) {
        (Some(file), _) => Some(CommandInput::File(absolute(folder, file))),
        (_, Some(step)) => Some(CommandInput::Step(step.clone())),
        _ => None,
    }
}

/// [`super::absolute`], and faster for plain paths.
fn absolute(folder: &Path, file: &str) -> Arc<Path> {
    let is_plain = !file.is_empty()
        && !file.starts_with(['/', '.'])
        && !file.contains("/.")
        && !file.contains("//");
    match folder.to_str() {
        Some(folder) if is_plain && !folder.ends_with('/') => {
            Path::new(&[folder, "/", file].concat()).into()
        }
        _ => super::absolute(folder, file).into(),
    }
}

/// A command's files live in its working directory, and in a tree.
fn inside(path: &str, span: Span, sink: &mut Sink) {
    if let Some(what) = tree_path::fault(path) {
        let shown = if path.len() > 100 {
            "this"
        } else {
            &format!("`{}`", path.escape_debug())
        };
        let hint = "use a path relative to the working directory, e.g. `out/a.txt`";
        sink.error_hint(
            span,
            format!("{shown} cannot be the path of a step's file: {what}"),
            hint,
        );
    }
}
