//! Checks what users wrote: resolves names, checks values, fills in defaults.
//!
//! Reports everything it finds and goes on; what it returns counts only when nothing was reported. Reads no file but the locks
//! of toolchains.

pub(super) mod commands;
mod inputs;
mod matrix;
mod models;
mod names;
mod source;
mod targets;
mod toolchains;

use names::{good_name, one_line, plain_name};

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use indexmap::IndexMap;

use super::error::{Sink, Span};
use super::load::Source;
use super::raw::{self, File};
use super::shape::{At, Field, List, Rows};
use super::{Pipeline, SourceFile, Spec};
use crate::base::suggest;

/// One row of a section, and the folder that its relative paths start from.
struct Row<'a, T> {
    name: &'a At<String>,
    value: &'a T,
    folder: &'a Path,
}

/// A section over all files.
struct Section<'a, T> {
    rows: Vec<Row<'a, T>>,
    /// Names of all rows. Wrong ones are among them, so that references to them are not reported.
    names: Vec<&'a str>,
}

impl<'a, T> Section<'a, T> {
    /// Every name, with what `of` says of its row. Rows are in the order of the names.
    fn each<V>(&self, of: impl Fn(&Row<'a, T>) -> Option<V>) -> Vec<(&'a str, Option<V>)> {
        let mut rows = self.rows.iter().peekable();
        let mut own = |name: &str| of(rows.next_if(|row| row.name.value == name)?);
        self.names.iter().map(|name| (*name, own(name))).collect()
    }
}

pub(super) fn spec(
    root: PathBuf,
    mut files: Vec<SourceFile>,
    mut sources: Vec<Source>,
    sink: &mut Sink,
) -> Spec {
    let commands = commands::all(&mut sources, sink);
    let raw_pipelines = section(&sources, |file| &file.pipelines, "pipeline", sink);
    let raw_targets = section(&sources, |file| &file.targets, "target", sink);
    let raw_models = section(&sources, |file| &file.models, "model", sink);

    let tolerances = targets::tolerances(
        sources.iter().map(|source| &source.content.tolerances),
        sink,
    );
    let measure = match once(&sources, |file| &file.measure, "measure", sink) {
        Some(given) => targets::general_measure(given, sink),
        None => targets::DEFAULT_MEASURE,
    };
    let mut pipelines = pipelines(&raw_pipelines, sink);
    let raw_toolchains = section(&sources, |file| &file.toolchains, "toolchain", sink);
    let toolchains = toolchains::toolchains(&raw_toolchains, &mut files, sink);
    let targets = targets::targets(&raw_targets, &tolerances, measure, sink);
    let targets = toolchains::columns(targets, &raw_targets, &raw_toolchains, &toolchains, sink);
    for source in &sources {
        at_least_one(&source.content.max_parameters, "max_parameters", sink);
    }
    let most = once(
        &sources,
        |file| &file.max_parameters,
        "max_parameters",
        sink,
    )
    .copied();
    let models = models::models(&raw_models, &raw_pipelines, &tolerances, most, sink);
    if models
        .values()
        .any(|model| model.pipeline == models::TENSORS)
    {
        let name = || models::TENSORS.to_owned();
        let tensors = || Pipeline {
            tasks: vec![name()],
            template: name(),
            tokens: BTreeMap::new(),
        };
        pipelines
            .entry(models::TENSORS.to_owned())
            .or_insert_with(tensors);
    }
    let matrix = once(&sources, |file| &file.matrix, "matrix", sink);
    let names = matrix::Names::of(&raw_models, &raw_targets);
    let matrix = matrix::matrix(matrix, &names, sink);
    let prefer = once(&sources, |file| &file.prefer, "prefer", sink);
    let prefer = prefer
        .map(|rows| matrix::prefer(rows, &names, sink))
        .unwrap_or_default();
    Spec {
        root,
        files,
        models,
        pipelines,
        targets,
        toolchains,
        tolerances,
        measure,
        matrix,
        prefer,
        commands,
    }
}

fn section<'a, T>(
    sources: &'a [Source],
    pick: fn(&File) -> &Field<Rows<T>>,
    what: &str,
    sink: &mut Sink,
) -> Section<'a, T> {
    let mut first: BTreeMap<&str, Span> = BTreeMap::new();
    let mut section = Section {
        rows: Vec::new(),
        names: Vec::new(),
    };
    for source in sources {
        sink.incomplete |= pick(&source.content).is_bad();
        for (name, value) in pick(&source.content).rows().iter() {
            if let Some(&before) = first.get(name.value.as_str()) {
                // Twice in one file is a duplicate key, and was reported as such.
                if before.file != name.span.file {
                    let before = sink.loc(before);
                    sink.error(
                        name.span,
                        format!("{what} `{}` is already declared at {before}", name.value),
                    );
                }
                continue;
            }
            first.insert(&name.value, name.span);
            section.names.push(&name.value);
            good_name(name, what, sink);
            if let Some(value) = value {
                section.rows.push(Row {
                    name,
                    value: &value.value,
                    folder: &source.folder,
                });
            }
        }
    }
    section
}

/// A part that may stand in one file only.
fn once<'a, T>(
    sources: &'a [Source],
    pick: fn(&File) -> &Field<T>,
    what: &str,
    sink: &mut Sink,
) -> Option<&'a T> {
    let mut first: Option<&At<T>> = None;
    for given in sources
        .iter()
        .filter_map(|source| pick(&source.content).given())
    {
        match first {
            Some(before) => {
                let before = sink.loc(before.span);
                sink.error(given.span, format!("`{what}` is already given at {before}"));
            }
            None => first = Some(given),
        }
    }
    first.map(|at| &at.value)
}

fn unknown(what: &str, name: &At<String>, known: &[&str], sink: &mut Sink) {
    let hint = suggest::hint(&name.value, known.iter().copied());
    sink.error_unknown(name.span, format!("unknown {what} `{}`", name.value), hint);
}

fn texts(field: &Field<List<String>>) -> Vec<String> {
    field.items().iter().map(|at| at.value.clone()).collect()
}

/// A path as the user wrote it, made absolute against the file that names it.
fn absolute(folder: &Path, path: &str) -> PathBuf {
    let joined = folder.join(path);
    std::path::absolute(&joined).unwrap_or(joined)
}

fn not_empty<T>(field: &Field<List<T>>, key: &str, sink: &mut Sink) {
    if let Some(list) = field
        .given()
        .filter(|list| list.value.items.is_empty() && list.value.whole)
    {
        sink.error(list.span, format!("`{key}` must not be empty"));
    }
}

fn at_least_one(field: &Field<u64>, key: &str, sink: &mut Sink) {
    field.must(
        sink,
        |value| *value > 0,
        |_| format!("`{key}` must be at least 1"),
    );
}

/// Reports duplicates in a list.
fn repeated<T: PartialEq>(items: &[At<T>], told: impl Fn(&T) -> String, sink: &mut Sink) {
    for (index, item) in items.iter().enumerate() {
        if items[..index]
            .iter()
            .any(|before| before.value == item.value)
        {
            sink.error(item.span, format!("{} is listed twice", told(&item.value)));
        }
    }
}

/// The outputs of tokens by task; each task is one of the pipeline's.
fn tokens(row: &raw::Pipeline, sink: &mut Sink) -> BTreeMap<String, Vec<String>> {
    let tasks = texts(&row.tasks);
    let mut tokens = BTreeMap::new();
    for (task, outputs) in row.tokens.rows() {
        if !row.tasks.is_bad() && !tasks.contains(&task.value) {
            unknown(
                "task",
                task,
                &tasks.iter().map(String::as_str).collect::<Vec<_>>(),
                sink,
            );
        }
        let outputs = outputs.iter().flat_map(|list| &list.value.items);
        tokens.insert(
            task.value.clone(),
            outputs.map(|at| at.value.clone()).collect(),
        );
    }
    tokens
}

fn pipelines(section: &Section<'_, raw::Pipeline>, sink: &mut Sink) -> IndexMap<String, Pipeline> {
    let mut pipelines = IndexMap::new();
    for row in &section.rows {
        let name = row.name.value.clone();
        not_empty(&row.value.tasks, "tasks", sink);
        row.value
            .tasks
            .items()
            .iter()
            .for_each(|task| plain_name(task, "task", sink));
        row.value
            .description
            .given()
            .into_iter()
            .for_each(|text| one_line(text, "description", sink));
        if let Some(template) = row.value.template.given() {
            good_name(template, "template", sink);
        }
        let template = row.value.template.cloned().unwrap_or_else(|| name.clone());
        pipelines.insert(
            name,
            Pipeline {
                tasks: texts(&row.value.tasks),
                template,
                tokens: tokens(row.value, sink),
            },
        );
    }
    pipelines
}
