//! The table as text for people: what was measured, on this machine first; then, on request, what others assert, in a colour of its own.
//! Words carry the meaning, and the colour only sets it apart.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use anstyle::{AnsiColor, Style};

use super::coverage::OfFamily;
use super::{Asserted, Cell, Coverage, Measured, Row, Run, Subjects, Table};
use crate::base::figures::{amount, counted};
use crate::device::{BACKENDS, Backend, DeviceKind};
use crate::record::Weights;
use crate::report::format::days;

/// What a backend has where nothing is known.
const NOTHING: &str = "–";

/// What somebody asserts.
const CLAIM: Style = AnsiColor::Yellow.on_default();

/// What is shown.
pub struct PageOptions {
    /// The whole table, including backends without an entry; or only a selection of it.
    pub whole: bool,
    /// Every model type with its tasks and exporters.
    pub types: bool,
    /// What others assert, too.
    pub asserted: bool,
    /// This machine, as the table calls it.
    pub host: String,
}

impl Table {
    /// The page: for each family on each backend what is here now and what was measured, then coverage.
    pub fn page(&self, here: &[Backend], options: &PageOptions) -> String {
        let mut page = String::new();
        let coverage = self.coverage();
        if self.families.is_empty() {
            let hint = "`orch run` measures, `--asserted` shows what others say";
            let _ = writeln!(page, "nothing was measured in this folder yet: {hint}\n");
        }
        for (family, cells) in &self.families {
            let of_family = coverage.families.iter().find(|row| row.family == family);
            let types = of_family.map_or(0, |row| row.types);
            let _ = writeln!(
                page,
                "{family}  ({types} model types of transformers {})",
                coverage.transformers
            );
            let _ = writeln!(page, "  {:15}{:13}measured", "backend", "here");
            let is_shown =
                |name: &&str| cells.contains_key(*name) || (options.whole && options.asserted);
            let mut shown: Vec<_> = BACKENDS
                .iter()
                .map(|row| row.name)
                .filter(is_shown)
                .collect();
            let is_measured_here = |name: &str| {
                cells
                    .get(name)
                    .is_some_and(|cell| cell.measured.iter().any(|line| line.host == options.host))
            };
            shown.sort_by_key(|name| (!is_measured_here(name), available(name, here) == "no"));
            for backend in shown {
                line(
                    &mut page,
                    backend,
                    cells.get(backend).unwrap_or(&Cell::default()),
                    here,
                    options,
                );
            }
            page.push('\n');
        }
        types(&mut page, &self.types, &options.host);
        if !self.runs.is_empty() {
            covered(&mut page, &coverage, &self.families, options.whole);
        }
        if options.types {
            self.rows(&mut page);
        }
        self.foot(&mut page, here, options);
        page
    }

    /// One line for each model type and task with the exporters that worked, and how its columns ended.
    fn rows(&self, page: &mut String) {
        page.push_str("By model type, task and exporter\n");
        let mut lines: BTreeMap<_, Vec<String>> = BTreeMap::new();
        for run in &self.runs {
            for (model, row) in &run.models {
                let key = (
                    row.model_type.as_deref().unwrap_or(model),
                    row.task.as_str(),
                );
                lines
                    .entry(key)
                    .or_default()
                    .push(format!("{}; {}", ends(row), run.day));
            }
        }
        for ((name, task), ends) in lines {
            for ends in ends {
                let _ = writeln!(page, "  {name} {task}: {ends}");
            }
        }
        page.push('\n');
    }

    fn foot(&self, page: &mut String, here: &[Backend], options: &PageOptions) {
        let is_shown = |name: &str| {
            options.whole || super::cells(&self.families).any(|(_, backend, _)| backend == name)
        };
        for backend in here
            .iter()
            .filter(|backend| !backend.available && is_shown(&backend.name))
        {
            let reason = backend
                .reason
                .as_deref()
                .unwrap_or("its prober gave no reason");
            let _ = writeln!(page, "{} is not here: {reason}", backend.name);
        }
        for run in &self.runs {
            let Run {
                day,
                spec,
                host,
                orch,
                ..
            } = run;
            let _ = writeln!(
                page,
                "measured {day}: {} of {spec} on {host}, by orch {orch}; {}",
                cases(run),
                models(run)
            );
        }
        if !options.asserted {
            return;
        }
        for (name, source) in &self.sources {
            let date = source
                .date
                .as_ref()
                .map(|date| format!(", {date}"))
                .unwrap_or_default();
            let _ = writeln!(
                page,
                "{CLAIM}asserted by {name}: {}{date}{CLAIM:#}",
                source.document
            );
        }
        let cells = [&self.families, &self.types]
            .into_iter()
            .flat_map(super::cells);
        let contradicted = cells
            .filter(|(_, _, cell)| cell.contradicted.is_some())
            .count();
        let _ = write!(
            page,
            "runs contradict {contradicted} of what is asserted here"
        );
    }
}

fn line(page: &mut String, backend: &str, cell: &Cell, here: &[Backend], options: &PageOptions) {
    let _ = writeln!(
        page,
        "  {backend:15}{:13}{}",
        available(backend, here),
        measured(cell, &options.host)
    );
    if !cell.measured.is_empty() {
        let _ = writeln!(page, "  {:15}{}", "", columns(&cell.measured));
    }
    if let Some(asserted) = &cell.asserted {
        let _ = writeln!(
            page,
            "  {:15}{CLAIM}asserted: {}{CLAIM:#}",
            "",
            claim(asserted)
        );
    }
}

/// `hardware`, `emulator`, `software` or `no`: the best that is here.
fn available(backend: &str, here: &[Backend]) -> &'static str {
    let Some(found) = here
        .iter()
        .find(|found| found.name == backend && found.available)
    else {
        return "no";
    };
    let kinds = [
        (DeviceKind::Hardware, "hardware"),
        (DeviceKind::Emulator, "emulator"),
        (DeviceKind::Software, "software"),
    ];
    let best = kinds
        .iter()
        .find(|(kind, _)| found.devices.iter().any(|device| device.kind == *kind));
    best.map_or("yes", |(_, word)| word)
}

/// `104 of 108 right, 2026-11-23 here; 52 of 54 right, 2026-11-20 on vm (AMD EPYC, 2 cores)`: a part for each machine, this one first.
fn measured(cell: &Cell, own: &str) -> String {
    let mut machines: BTreeMap<(bool, &str), Vec<&Measured>> = BTreeMap::new();
    for line in &cell.measured {
        machines
            .entry((line.host != own, &line.host))
            .or_default()
            .push(line);
    }
    let texts = machines.into_iter().map(|((is_elsewhere, host), lines)| {
        let (right, count) = lines
            .iter()
            .fold((0, 0), |sum, line| (sum.0 + line.right, sum.1 + line.asked));
        let first = lines
            .iter()
            .map(|line| line.first.as_str())
            .min()
            .unwrap_or_default();
        let last = lines
            .iter()
            .map(|line| line.last.as_str())
            .max()
            .unwrap_or_default();
        let days = days(first, last);
        let place = if is_elsewhere {
            format!("on {host}")
        } else {
            "here".to_owned()
        };
        format!("{right} of {count} right, {days} {place}")
    });
    let text = texts.collect::<Vec<_>>().join("; ");
    match &cell.contradicted {
        Some(what) => format!("CONTRADICTS ({what}): {text}"),
        None if text.is_empty() => NOTHING.to_owned(),
        None => text,
    }
}

/// `cpu-fp32 52 of 54; eager-cpu-fp32 52 of 54`
fn columns(lines: &[Measured]) -> String {
    let each = lines.iter().map(|line| {
        let on = line
            .on
            .as_ref()
            .map(|on| format!(" ({on})"))
            .unwrap_or_default();
        let loosely = if line.loosely == 0 {
            String::new()
        } else {
            format!(" ({} by a looser tolerance)", line.loosely)
        };
        format!(
            "{}{on} {} of {}{loosely}",
            line.column, line.right, line.asked
        )
    });
    each.collect::<Vec<_>>().join("; ")
}

/// Whether it works, how well, notes, hints, and who of the same source disagrees.
fn claim(asserted: &Asserted) -> String {
    let word = if asserted.compatible { "yes" } else { "no" };
    let tier = asserted
        .tier
        .as_ref()
        .map(|tier| format!(", {tier}"))
        .unwrap_or_default();
    let hints =
        (!asserted.hints.is_empty()).then(|| format!("hints: {}", asserted.hints.join(", ")));
    let disputed = (!asserted.disputed_by.is_empty()).then(|| {
        format!(
            "the same source's {} says the opposite",
            asserted.disputed_by.join(", ")
        )
    });
    let first = Some(format!("{word}{tier} ({})", asserted.source));
    first
        .into_iter()
        .chain(asserted.notes.clone())
        .chain(hints)
        .chain(disputed)
        .collect::<Vec<_>>()
        .join("; ")
}

/// What is asserted of single types, where runs say something of it.
fn types(page: &mut String, types: &Subjects, host: &str) {
    let mut cells = super::cells(types)
        .filter(|(_, _, cell)| !cell.measured.is_empty())
        .peekable();
    if cells.peek().is_none() {
        return;
    }
    page.push_str("Asserted of model types, and measured\n");
    for (name, backend, cell) in cells {
        let asserted = cell.asserted.as_ref();
        let word = asserted.map_or("nothing asserted", |asserted| {
            if asserted.compatible { "yes" } else { "no" }
        });
        let _ = writeln!(
            page,
            "  {name} on {backend}: {word}; {}: {}",
            measured(cell, host),
            columns(&cell.measured)
        );
    }
    page.push('\n');
}

/// A share, and of how many types that is: right, of those that were tried.
fn covered(page: &mut String, coverage: &Coverage, families: &Subjects, is_whole: bool) {
    let backends: BTreeSet<_> = coverage
        .families
        .iter()
        .flat_map(|row| row.backends.keys())
        .collect();
    let version = coverage.transformers;
    let _ = writeln!(
        page,
        "Coverage: of the model types of transformers {version}, those with at least one right model"
    );
    // As wide as its name, and as `57.6 % (38/38)`.
    let cell =
        |backend: &str, text: &str| format!("{text:>width$}", width = backend.len().max(16) + 2);
    let heads: String = backends
        .iter()
        .map(|backend| cell(backend, backend))
        .collect();
    let _ = writeln!(page, "  {:20}{:>6}{heads}", "family", "types");
    let is_shown =
        |row: &&OfFamily| (row.family == "all" && is_whole) || families.contains_key(row.family);
    for row in coverage.families.iter().filter(is_shown) {
        let share = |backend: &&String| {
            let covered = row.backends.get(*backend).filter(|share| share.asked > 0);
            let text = covered
                .map(|share| format!("{:.1} % ({}/{})", share.percent, share.right, share.asked));
            cell(backend, text.as_deref().unwrap_or(NOTHING))
        };
        let _ = writeln!(
            page,
            "  {:20}{:>6}{}",
            row.family,
            row.types,
            backends.iter().map(share).collect::<String>()
        );
    }
    page.push('\n');
}

fn cases(run: &Run) -> String {
    counted(
        run.models
            .values()
            .flat_map(|row| row.ends.values())
            .map(BTreeSet::len)
            .sum::<usize>(),
        "case",
    )
}

/// `736 models of 10.5 k to 11.3 M parameters, random weights`: without it the figures would be taken for those of models
/// that people use.
fn models(run: &Run) -> String {
    let sizes = run.models.values().filter_map(|row| row.parameters);
    let of = match (sizes.clone().min(), sizes.max()) {
        (Some(least), Some(most)) => {
            format!(" of {} to {} parameters", amount(least), amount(most))
        }
        _ => String::new(),
    };
    let random = run
        .models
        .values()
        .filter(|row| row.weights == Some(Weights::Random))
        .count();
    let weights = match run.models.len() - random {
        0 => "random weights".to_owned(),
        real => format!("{random} with random weights, {real} with others"),
    };
    format!("{}{of}, {weights}", counted(run.models.len(), "model"))
}

/// `onnx by legacy; PASS cpu-fp32, openvino-fp32; NUMERICS openvino-int8`
fn ends(row: &Row) -> String {
    let exporters = row
        .exporters
        .iter()
        .map(|(form, exporter)| format!("{form} by {exporter}"));
    let ends = row.ends.iter().map(|(outcome, names)| {
        format!(
            "{} {}",
            outcome.label(),
            names.iter().cloned().collect::<Vec<_>>().join(", ")
        )
    });
    exporters.chain(ends).collect::<Vec<_>>().join("; ")
}
