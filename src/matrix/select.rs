//! What the user asks for on the command line, out of a [`Matrix`].

use std::collections::BTreeSet;
use std::fmt;

use super::query::Term;
use super::{Case, Facet, Matrix, Query};
use crate::base::{glob, suggest};
use crate::spec::{Precision, Spec};

/// A case is selected if it meets all of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Selection {
    /// Globs, of which it meets one, if there are any. By their very names they also add to the matrix.
    pub targets: Vec<String>,
    pub queries: Vec<Query>,
}

/// A selection that names nothing, or nothing that could run: no run may be green because nothing ran.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}\n  hint: {hint}")]
pub struct NothingSelected {
    pub message: String,
    pub hint: String,
}

impl NothingSelected {
    pub(crate) fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: hint.into(),
        }
    }
}

/// Writes one expression; nothing, if it takes everything.
impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Query::All(self.queries()))
    }
}

impl Selection {
    fn queries(&self) -> Vec<Query> {
        let targets =
            (!self.targets.is_empty()).then(|| Query::any_of(Facet::Target, &self.targets));
        self.queries.iter().cloned().chain(targets).collect()
    }
}

impl Matrix {
    /// The part that is requested, exclusions included. An error if a glob matches nothing, or if no case is left.
    pub fn select(&self, spec: &Spec, selection: &Selection) -> Result<Self, NothingSelected> {
        let queries = selection.queries();
        for term in queries.iter().flat_map(Query::terms) {
            self.knows(spec, &term)?;
        }
        let selected = |case: &Case| queries.iter().all(|query| query.holds(spec, case));
        let matrix = Self {
            cases: self
                .cases
                .iter()
                .filter(|case| selected(case))
                .cloned()
                .collect(),
            excluded: self
                .excluded
                .iter()
                .filter(|excluded| selected(&excluded.case))
                .cloned()
                .collect(),
        };
        match (matrix.cases.is_empty(), matrix.excluded.first()) {
            (false, _) => Ok(matrix),
            (true, Some(first)) => Err(NothingSelected::new(
                format!(
                    "every selected case is excluded ({})",
                    matrix.excluded.len()
                ),
                format!("`{}`: {}", first.case.id(), first.reason),
            )),
            // Steps of one's own need no model.
            (true, None) if self.is_empty() && !spec.commands.is_empty() => Ok(matrix),
            (true, None) if self.is_empty() => Err(NothingSelected::new(
                "the spec has no cases",
                "declare at least one of `models` and one of `targets`, or `commands`, or include files that do",
            )),
            (true, None) => Err(NothingSelected::new(
                "no case meets the whole selection",
                "each part matches something, but no case matches all parts",
            )),
        }
    }

    fn is_empty(&self) -> bool {
        self.cases.is_empty() && self.excluded.is_empty()
    }

    fn knows(&self, spec: &Spec, term: &Term<'_>) -> Result<(), NothingSelected> {
        let Term {
            facet,
            glob: pattern,
            is_negated,
        } = term;
        let matches = |word: &str| glob::matches(pattern, word);
        let all = || {
            self.cases
                .iter()
                .chain(self.excluded.iter().map(|excluded| &excluded.case))
        };
        let is_declared = || facet.declared(spec).into_iter().any(matches);
        if all().any(|case| facet.words(spec, case).iter().any(|word| matches(word)))
            || (*is_negated && is_declared())
        {
            return Ok(());
        }
        let is_known =
            |word: &String| *facet != Facet::Target || spec.targets.contains_key(word.as_str());
        let known: BTreeSet<String> = all()
            .flat_map(|case| facet.words(spec, case))
            .filter(is_known)
            .collect();
        let known = || known.iter().map(String::as_str);
        // Its name adds a target that the matrix has no case of.
        let outside = suggest::nearest(pattern, spec.targets.keys().map(String::as_str))
            .filter(|_| *facet == Facet::Target && suggest::nearest(pattern, known()).is_none());
        let hint = match facet {
            Facet::Target if spec.targets.contains_key(*pattern) => {
                format!("the matrix has no case of it; `-t {pattern}` adds them")
            }
            Facet::Target if Precision::WORDS.iter().any(|(word, _)| word == pattern) => {
                format!("that is a precision: `--precision {pattern}` selects by it")
            }
            Facet::Model if pattern.contains('/') => {
                format!("`orch add {pattern}` writes a row for a model of the Hub with this id")
            }
            _ => as_facet(pattern)
                .or_else(|| outside.map(|name| format!("did you mean `{name}`?")))
                .unwrap_or_else(|| suggest::hint(pattern, known())),
        };
        Err(NothingSelected {
            message: format!("no {} matches `{pattern}`", facet.word()),
            hint,
        })
    }
}

/// What to write instead of `precision=fp32`, which is read as the name of a model.
fn as_facet(pattern: &str) -> Option<String> {
    let (name, glob) = pattern.split_once('=')?;
    let (word, _) = Facet::WORDS.iter().find(|(word, _)| *word == name)?;
    Some(format!("`{word}:{glob}` selects by {word}"))
}
