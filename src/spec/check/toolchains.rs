//! Toolchains, and the columns that targets have by them.

use std::path::Path;
use std::sync::Arc;

use indexmap::IndexMap;

use super::{Row, Section, absolute, not_empty, repeated, unknown};
use crate::base::suggest;
use crate::spec::error::Sink;
use crate::spec::raw;
use crate::spec::shape::At;
use crate::spec::words::Convert;
use crate::spec::{SourceFile, Target};
use crate::toolchain::{EnvName, Locks, Toolchain, locked_release};

/// The toolchain that each target has without naming one: orch's own locks.
pub(super) const DEFAULT: &str = "default";

type Toolchains = IndexMap<String, Arc<Toolchain>>;

/// The toolchains by name. Their locks are read, and noted among the files of the spec.
pub(super) fn toolchains(
    section: &Section<'_, raw::Toolchain>,
    files: &mut Vec<SourceFile>,
    sink: &mut Sink,
) -> Toolchains {
    let mut found = Toolchains::new();
    for row in &section.rows {
        if row.name.value == DEFAULT {
            let hint = "give it another name: `default` stands for orch's own locks";
            let message = "a toolchain cannot be called `default`";
            sink.error_hint(row.name.span, message, hint);
        }
        let locks = locks(row, files, sink);
        let converts = row.value.convert.or(Convert::Own) == Convert::Own;
        let name = row.name.value.clone();
        found.insert(
            name.clone(),
            Arc::new(Toolchain::new(name, locks, converts)),
        );
    }
    found
}

fn locks(row: &Row<'_, raw::Toolchain>, files: &mut Vec<SourceFile>, sink: &mut Sink) -> Locks {
    let mut locks = Locks::default();
    let rows = row.value.locks.rows();
    if rows.iter().next().is_none()
        && let Some(given) = row.value.locks.given()
    {
        sink.error_hint(given.span, "`locks` must not be empty", HINT);
    }
    for (env, path) in rows {
        let Some(name) = environment(env, sink) else {
            continue;
        };
        let Some(path) = path else { continue };
        let at = absolute(row.folder, &path.value);
        if let Some(text) = lock(name, &at, path, sink) {
            locks = locks.with(name, text);
            files.push(SourceFile {
                path: at,
                digest: locks.digest(name),
            });
        }
    }
    locks
}

const HINT: &str = "`orch toolchain add PACKAGE==VERSION` makes one";

/// The Python environment of this name.
fn environment(name: &At<String>, sink: &mut Sink) -> Option<EnvName> {
    let known: Vec<&str> = EnvName::ALL
        .into_iter()
        .filter(|env| env.is_python())
        .map(EnvName::name)
        .collect();
    let found = EnvName::named(&name.value).filter(|env| env.is_python());
    if found.is_none() {
        let message = format!("no locked environment is called `{}`", name.value);
        sink.error_hint(name.span, message, suggest::hint(&name.value, known));
    }
    found
}

/// The text of a lock, or what is wrong with it.
fn lock(env: EnvName, at: &Path, named: &At<String>, sink: &mut Sink) -> Option<String> {
    if !at.is_file() {
        sink.absent.push(at.to_owned());
    }
    let shown = &named.value;
    let text = match Locks::read(at, shown) {
        Ok(text) => text,
        Err(why) => {
            sink.error_hint(named.span, why, HINT);
            return None;
        }
    };
    let about = env.direct_packages().next()?;
    if locked_release(&text, about).is_none() {
        let message = format!("`{shown}` locks no {about}, which the environment `{env}` is for");
        sink.error_hint(named.span, message, HINT);
        return None;
    }
    Some(text)
}

/// Each target once for each toolchain that it names, in their order.
pub(super) fn columns(
    targets: IndexMap<String, Target>,
    rows: &Section<'_, raw::Target>,
    section: &Section<'_, raw::Toolchain>,
    toolchains: &Toolchains,
    sink: &mut Sink,
) -> IndexMap<String, Target> {
    let mut columns = IndexMap::new();
    for row in &rows.rows {
        let named = &row.value.toolchains;
        not_empty(named, "toolchains", sink);
        repeated(named.items(), |name| format!("`{name}`"), sink);
        let names = named.items();
        let has_default = names.is_empty() || names.iter().any(|name| name.value == DEFAULT);
        if let Some(first) = names.first().filter(|_| !has_default) {
            let hint = "list `default` too: its column has the target's own name, to which other rows refer";
            sink.error_hint(first.span, "`toolchains` lacks `default`", hint);
        }
        let others = names.iter().any(|name| name.value != DEFAULT);
        if others {
            decided_here(row.value, sink);
        }
        let Some(target) = targets.get(&row.name.value) else {
            continue;
        };
        columns.insert(target.name.clone(), target.clone());
        for name in names.iter().filter(|name| name.value != DEFAULT) {
            match toolchains.get(&name.value) {
                Some(toolchain) if is_of_use(name, toolchain, target, sink) => {
                    let column = column(target, toolchain);
                    columns.insert(column.name.clone(), column);
                }
                Some(_) => {}
                None if section.names.contains(&name.value.as_str()) => {}
                None => unknown("toolchain", name, &section.names, sink),
            }
        }
    }
    columns
}

fn column(target: &Target, toolchain: &Arc<Toolchain>) -> Target {
    Target {
        name: format!("{}@{}", target.row, toolchain.name()),
        toolchain: Some(toolchain.clone()),
        ..target.clone()
    }
}

/// What asks this machine's own installation, or none of it, has no columns by toolchains.
fn decided_here(raw: &raw::Target, sink: &mut Sink) {
    if let Some(half) = raw.half.given() {
        let hint = "list `precisions` instead: `half` asks the library of orch's own locks";
        sink.error_hint(
            half.span,
            "`half` cannot decide for a target with `toolchains`",
            hint,
        );
    }
    if let Some(properties) = raw.properties.given() {
        let hint = "take one of them out: an executor's worker has the locks of its own orch";
        sink.error_hint(
            properties.span,
            "a target with `properties` has no `toolchains`",
            hint,
        );
    }
}

/// A column that ran with orch's own locks after all would show two versions where there is one.
fn is_of_use(name: &At<String>, toolchain: &Toolchain, target: &Target, sink: &mut Sink) -> bool {
    let Some(env) = target.runtime.on(target.backend).map(|pair| pair.test_env) else {
        return false;
    };
    // Locks that could not be read were reported.
    if toolchain.covers(env) || toolchain.locks().users().next().is_none() {
        return true;
    }
    let has: Vec<_> = toolchain
        .locks()
        .users()
        .map(|env| format!("`{env}`"))
        .collect();
    let message = format!(
        "the toolchain `{}` has no lock of `{env}`, in which `{}` runs",
        name.value, target.row
    );
    sink.error_hint(
        name.span,
        message,
        format!("it has locks of {}", has.join(", ")),
    );
    false
}
