//! The part of a table that an expression asks for.

use std::collections::{BTreeMap, BTreeSet};

use super::{Case, Subjects, Table};
use crate::base::{glob, suggest};
use crate::matrix::{Facet, NothingSelected, Query};

impl Table {
    /// What is measured of the cases that meet all queries, and what is asserted of families and types on backends that do.
    ///
    /// # Errors
    ///
    /// A glob that nothing in the table matches, or that is of something which the table does not know of its cases.
    pub fn select(&self, queries: &[Query]) -> Result<Self, NothingSelected> {
        for (facet, pattern) in queries.iter().flat_map(Query::globs) {
            self.knows(facet, pattern)?;
        }
        let mut part = self.clone();
        for (run, all) in part.runs.iter_mut().zip(&self.runs) {
            for (model, row) in &mut run.models {
                let old = &all.models[model];
                for (outcome, names) in &mut row.ends {
                    names.retain(|name| {
                        let column = &all.columns[name];
                        let outcome = *outcome;
                        let case = Case {
                            run: all,
                            model,
                            row: old,
                            name,
                            column,
                            outcome,
                        };
                        hold(queries, &|facet| case.words(facet))
                    });
                }
            }
        }
        part.swept();
        let selected = part.clone().counted();
        narrow(
            &mut part.families,
            &selected.families,
            Facet::Family,
            queries,
        );
        narrow(&mut part.types, &selected.types, Facet::Type, queries);
        let part = part.counted();
        if part.families.is_empty() && part.types.is_empty() {
            let hint = "each part matches something, but no case or assertion matches all parts"
                .to_owned();
            return Err(NothingSelected {
                message: "nothing in the table meets the whole selection".to_owned(),
                hint,
            });
        }
        Ok(part)
    }

    /// Drops rows without a result, columns without a row and runs without either.
    pub(super) fn swept(&mut self) {
        for run in &mut self.runs {
            for row in run.models.values_mut() {
                row.ends.retain(|_, names| !names.is_empty());
                row.loosely
                    .retain(|name| row.ends.values().any(|names| names.contains(name)));
            }
            run.models.retain(|_, row| !row.ends.is_empty());
            let used: BTreeSet<_> = run
                .models
                .values()
                .flat_map(|row| row.ends.values().flatten())
                .collect();
            run.columns.retain(|name, _| used.contains(name));
        }
        self.runs.retain(|run| !run.models.is_empty());
    }

    fn knows(&self, facet: Facet, pattern: &str) -> Result<(), NothingSelected> {
        let of_cells = |subjects: &Subjects, of: Facet| -> Vec<String> {
            super::cells(subjects)
                .flat_map(|(name, backend, _)| cell_words(of, name, backend)(facet))
                .collect()
        };
        let mut known: BTreeSet<String> = self.cases().flat_map(|case| case.words(facet)).collect();
        known.extend(of_cells(&self.families, Facet::Family));
        known.extend(of_cells(&self.types, Facet::Type));
        if known.iter().any(|word| glob::matches(pattern, word)) {
            return Ok(());
        }
        let message = format!(
            "nothing in the table has a {} that matches `{pattern}`",
            facet.word()
        );
        Err(NothingSelected {
            message,
            hint: suggest::hint(pattern, known.iter().map(String::as_str)),
        })
    }
}

fn hold(queries: &[Query], words: &dyn Fn(Facet) -> Vec<String>) -> bool {
    queries.iter().all(|query| query.holds_by(words))
}

/// What one cell has of a facet, whatever was measured in it.
fn cell_words<'a>(
    of: Facet,
    name: &'a str,
    backend: &'a str,
) -> impl Fn(Facet) -> Vec<String> + 'a {
    move |facet| match facet {
        Facet::Backend => vec![backend.to_owned()],
        facet if facet == of => vec![name.to_owned()],
        _ => Vec::new(),
    }
}

/// Leaves the cells that are requested themselves, or that have cases which are.
fn narrow(subjects: &mut Subjects, selected: &Subjects, of: Facet, queries: &[Query]) {
    let has_cases = |name: &str, backend: &str| {
        selected
            .get(name)
            .and_then(|cells| cells.get(backend))
            .is_some_and(|cell| !cell.measured.is_empty())
    };
    for (name, cells) in subjects.iter_mut() {
        cells.retain(|backend, _| {
            has_cases(name, backend) || hold(queries, &cell_words(of, name, backend))
        });
    }
    subjects.retain(|_, cells: &mut BTreeMap<_, _>| !cells.is_empty());
}

impl Case<'_> {
    fn words(&self, facet: Facet) -> Vec<String> {
        let one = |word: &str| vec![word.to_owned()];
        match facet {
            Facet::Model => one(self.model),
            Facet::Type => self.row.model_type.iter().cloned().collect(),
            Facet::Family => one(&self.row.family),
            Facet::Task => one(&self.row.task),
            Facet::Target => one(&self.column.target),
            Facet::Backend => one(&self.column.backend),
            Facet::Precision => one(&self.column.precision),
            Facet::Case => vec![format!("{}:{}", self.model, self.name)],
            Facet::Pipeline | Facet::Priority | Facet::Tag => Vec::new(),
        }
    }
}
