//! The user's own steps.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use indexmap::IndexMap;

use super::{Row, Section, absolute, not_empty, texts};
use crate::spec::error::{Sink, Span};
use crate::spec::raw;
use crate::spec::{Command, CommandInput};

const DEFAULT_TIMEOUT_SECONDS: u64 = 600;

pub(super) fn commands(section: &Section<'_, raw::Command>, sink: &mut Sink) -> IndexMap<String, Command> {
    section.rows.iter().map(|row| (row.name.value.clone(), command(row, sink))).collect()
}

fn command(row: &Row<'_, raw::Command>, sink: &mut Sink) -> Command {
    let raw = row.value;
    one_of_two(row, sink);
    not_empty(&raw.argv, "argv", sink);
    not_empty(&raw.outputs, "outputs", sink);
    if let Some(at) = raw.timeout_seconds.given().filter(|at| at.value == 0) {
        sink.error(at.span, "`timeout_seconds` must be at least 1");
    }
    let mut inputs = IndexMap::new();
    for (name, value) in raw.inputs.value().into_iter().flat_map(|rows| &rows.0) {
        inside(&name.value, name.span, sink);
        if let Some(value) = value
            && let Some(input) = input(&value.value, name.span, &name.value, row.folder, sink)
        {
            inputs.insert(name.value.clone(), input);
        }
    }
    for output in raw.outputs.items() {
        inside(&output.value, output.span, sink);
        if inputs.contains_key(&output.value) {
            sink.error(
                output.span,
                format!("`{}` is an input too: a step does not change what it reads", output.value),
            );
        }
    }
    for name in raw.env.items() {
        if name.value.is_empty() || name.value.contains(['=', '\0']) {
            let message = format!("`{}` is no name of an environment variable", name.value);
            sink.error_hint(name.span, message, "give names only; their values come from the environment");
        }
    }
    Command {
        name: row.name.value.clone(),
        loc: sink.loc(row.name.span),
        argv: texts(&raw.argv),
        inputs,
        outputs: texts(&raw.outputs),
        env: texts(&raw.env),
        timeout_seconds: raw.timeout_seconds.value().copied().unwrap_or(DEFAULT_TIMEOUT_SECONDS),
        write: written(raw, sink),
    }
}

/// A program and what it makes, or files of fixed content and nothing else.
fn one_of_two(row: &Row<'_, raw::Command>, sink: &mut Sink) {
    let (name, raw) = (row.name, row.value);
    let also = [
        ("inputs", raw.inputs.given().map(|at| at.span)),
        ("outputs", raw.outputs.given().map(|at| at.span)),
        ("env", raw.env.given().map(|at| at.span)),
        ("timeout_seconds", raw.timeout_seconds.given().map(|at| at.span)),
    ];
    match (raw.argv.is_absent(), raw.write.is_absent()) {
        (true, true) => sink.error_hint(
            name.span,
            format!("`{}` lacks `argv`", name.value),
            "give the program in `argv`, or files of fixed content in `write`",
        ),
        (false, false) => {
            let message = format!("`{}` has both `argv` and `write`", name.value);
            sink.error_hint(name.span, message, "keep one; another step can read what the first one made");
        }
        (true, false) => {
            for (key, span) in also {
                if let Some(span) = span {
                    let message = format!("`{key}` does not go with `write`");
                    sink.error_hint(span, message, "the files that it writes are its outputs, and it reads nothing");
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
fn written(raw: &raw::Command, sink: &mut Sink) -> IndexMap<String, String> {
    let Some(given) = raw.write.given() else { return IndexMap::new() };
    if given.value.0.is_empty() {
        sink.error(given.span, "`write` must not be empty");
    }
    let mut files = IndexMap::new();
    let mut places: BTreeMap<PathBuf, &str> = BTreeMap::new();
    for (path, text) in &given.value.0 {
        inside(&path.value, path.span, sink);
        let place: PathBuf = Path::new(&path.value).components().collect();
        // Sorted by component, a folder stands right before what is in it.
        let before = places.range(..=place.clone()).next_back().filter(|(before, _)| place.starts_with(before));
        let after = places.range(place.clone()..).next().filter(|(after, _)| after.starts_with(&place));
        if let Some((_, other)) = before.or(after) {
            sink.error(path.span, format!("`{}` and `{other}` cannot both be files", path.value));
        }
        places.insert(place, &path.value);
        if let Some(text) = text {
            files.insert(path.value.clone(), text.value.clone());
        }
    }
    files
}

fn input(raw: &raw::CommandInput, span: Span, name: &str, folder: &Path, sink: &mut Sink) -> Option<CommandInput> {
    if raw.file.is_absent() == raw.step.is_absent() {
        sink.error_hint(
            span,
            format!("input `{name}` must have exactly one of `file` and `step`"),
            "write `{file: path}` or `{step: id}`",
        );
        return None;
    }
    match (raw.file.value(), raw.step.value()) {
        (Some(file), _) => Some(CommandInput::File(absolute(folder, file))),
        (_, Some(step)) => Some(CommandInput::Step(step.clone())),
        _ => None,
    }
}

/// A command's files live in its working directory.
fn inside(path: &str, span: Span, sink: &mut Sink) {
    let normal = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
    if path.is_empty() || !normal {
        sink.error_hint(span, format!("`{path}` leaves the working directory"), "use a relative path without `..`");
    }
}
