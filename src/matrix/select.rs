//! What the user asks for on the command line, out of a [`Matrix`].

use std::collections::BTreeSet;
use std::fmt;

use super::{Case, Matrix};
use crate::base::{glob, suggest};
use crate::spec::{Model, Spec, Target};

/// Globs; a case is selected if it meets one of every list that is not empty.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    pub models: Vec<String>,
    pub targets: Vec<String>,
    pub families: Vec<String>,
    pub tasks: Vec<String>,
    pub priorities: Vec<String>,
    /// Over the tags of models and of targets.
    pub tags: Vec<String>,
    /// Over [`Case::id`], e.g. `bert:cpu-*`.
    pub cases: Vec<String>,
}

/// A selection that names nothing, or nothing that could run: no run may be green because nothing ran.
#[derive(Debug, Clone, PartialEq)]
pub struct NothingSelected {
    pub message: String,
    pub hint: String,
}

impl fmt::Display for NothingSelected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n  hint: {}", self.message, self.hint)
    }
}

impl std::error::Error for NothingSelected {}

/// One kind of filter: its name, the user's globs, and the words of one case that they are matched with.
struct Filter<'a> {
    what: &'static str,
    globs: &'a [String],
    words: fn(&Case, &Model, &Target) -> Vec<String>,
}

impl Selection {
    fn filters(&self) -> [Filter<'_>; 7] {
        let filter = |what, globs, words| Filter { what, globs, words };
        [
            filter("model", &self.models, |case, _, _| vec![case.model.clone()]),
            filter("target", &self.targets, |case, _, _| vec![case.target.clone()]),
            filter("family", &self.families, |_, model, _| vec![model.family.clone()]),
            filter("task", &self.tasks, |_, model, _| vec![model.task.clone()]),
            filter("priority", &self.priorities, |_, model, _| vec![model.priority.word().to_owned()]),
            filter("tag", &self.tags, |_, model, target| [&model.tags[..], &target.tags[..]].concat()),
            filter("case", &self.cases, |case, _, _| vec![case.id()]),
        ]
    }
}

impl Matrix {
    /// The part that is asked for, exclusions included. An error if a glob matches nothing, or if no case is left.
    pub fn select(&self, spec: &Spec, selection: &Selection) -> Result<Self, NothingSelected> {
        for filter in selection.filters() {
            self.each_glob_matches(spec, &filter)?;
        }
        let filters = selection.filters();
        let selected = |case: &Case| {
            filters
                .iter()
                .filter(|filter| !filter.globs.is_empty())
                .all(|filter| filter.of(spec, case).iter().any(|word| glob::any(filter.globs, word)))
        };
        let matrix = Self {
            cases: self.cases.iter().filter(|case| selected(case)).cloned().collect(),
            excluded: self.excluded.iter().filter(|excluded| selected(&excluded.case)).cloned().collect(),
        };
        match (matrix.cases.is_empty(), matrix.excluded.first()) {
            (false, _) => Ok(matrix),
            (true, Some(first)) => Err(NothingSelected {
                message: format!("every selected case is excluded ({})", matrix.excluded.len()),
                hint: format!("`{}`: {}", first.case.id(), first.reason),
            }),
            // Steps of one's own need no model.
            (true, None) if self.is_empty() && !spec.commands.is_empty() => Ok(matrix),
            (true, None) if self.is_empty() => Err(NothingSelected {
                message: "the spec has no cases".to_owned(),
                hint: "declare at least one of `models` and one of `targets`, or `commands`, or include files that do"
                    .to_owned(),
            }),
            (true, None) => Err(NothingSelected {
                message: "no case meets the whole selection".to_owned(),
                hint: "every part of it matches something, but no case has them all".to_owned(),
            }),
        }
    }

    fn is_empty(&self) -> bool {
        self.cases.is_empty() && self.excluded.is_empty()
    }

    fn each_glob_matches(&self, spec: &Spec, filter: &Filter<'_>) -> Result<(), NothingSelected> {
        if filter.globs.is_empty() {
            return Ok(());
        }
        let all = self.cases.iter().chain(self.excluded.iter().map(|excluded| &excluded.case));
        let known: BTreeSet<String> = all.flat_map(|case| filter.of(spec, case)).collect();
        match filter.globs.iter().find(|pattern| !known.iter().any(|word| glob::matches(pattern, word))) {
            Some(pattern) => Err(NothingSelected {
                message: format!("no {} matches `{pattern}`", filter.what),
                hint: suggest::hint(pattern, known.iter().map(String::as_str)),
            }),
            None => Ok(()),
        }
    }
}

impl Filter<'_> {
    fn of(&self, spec: &Spec, case: &Case) -> Vec<String> {
        (self.words)(case, &spec.models[&case.model], &spec.targets[&case.target])
    }
}
