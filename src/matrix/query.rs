//! `family:vision & target:openvino & !priority:low`: which cases are meant.
//!
//! ```text
//! any  = all ("|" all)*
//! all  = one ("&" one)*
//! one  = "!" one | "(" any ")" | [FACET ":"] GLOB        a glob alone is of models
//! ```

use std::fmt;
use std::str::FromStr;

use super::{Case, Facet};
use crate::base::{glob, suggest};
use crate::spec::Spec;

#[derive(Debug, Clone, PartialEq)]
pub enum Query {
    Is { facet: Facet, glob: String },
    Not(Box<Query>),
    All(Vec<Query>),
    Any(Vec<Query>),
}

/// What an expression asks of one facet.
pub(super) struct Term<'a> {
    pub(super) facet: Facet,
    pub(super) glob: &'a str,
    /// It is left out, not taken.
    pub(super) is_negated: bool,
}

impl Query {
    pub fn any_of(facet: Facet, globs: &[String]) -> Self {
        Self::Any(
            globs
                .iter()
                .map(|glob| Self::Is {
                    facet,
                    glob: glob.clone(),
                })
                .collect(),
        )
    }

    pub(super) fn holds(&self, spec: &Spec, case: &Case) -> bool {
        self.holds_by(&|facet| facet.words(spec, case))
    }

    /// Whether it holds of what has these words of each facet.
    pub fn holds_by(&self, words: &dyn Fn(Facet) -> Vec<String>) -> bool {
        match self {
            Self::Is { facet, glob } => words(*facet).iter().any(|word| glob::matches(glob, word)),
            Self::Not(query) => !query.holds_by(words),
            Self::All(queries) => queries.iter().all(|query| query.holds_by(words)),
            Self::Any(queries) => queries.iter().any(|query| query.holds_by(words)),
        }
    }

    /// All that it names, taken or left out.
    pub fn globs(&self) -> Vec<(Facet, &str)> {
        self.terms()
            .into_iter()
            .map(|term| (term.facet, term.glob))
            .collect()
    }

    pub(super) fn terms(&self) -> Vec<Term<'_>> {
        match self {
            Self::Is { facet, glob } => vec![Term {
                facet: *facet,
                glob,
                is_negated: false,
            }],
            Self::Not(query) => query
                .terms()
                .into_iter()
                .map(|term| Term {
                    is_negated: !term.is_negated,
                    ..term
                })
                .collect(),
            Self::All(queries) | Self::Any(queries) => {
                queries.iter().flat_map(Self::terms).collect()
            }
        }
    }
}

/// Writes an expression that reads back as the same.
impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let joined = |f: &mut fmt::Formatter<'_>, queries: &[Self], mark: &str| {
            for (at, query) in queries.iter().enumerate() {
                f.write_str(if at == 0 { "" } else { mark })?;
                match query {
                    Self::All(below) | Self::Any(below) if below.len() > 1 && queries.len() > 1 => {
                        write!(f, "({query})")?
                    }
                    _ => write!(f, "{query}")?,
                }
            }
            Ok(())
        };
        match self {
            Self::Is { facet, glob } => write!(f, "{}:{glob}", facet.word()),
            Self::Not(query) if matches!(**query, Self::Is { .. }) => write!(f, "!{query}"),
            Self::Not(query) => write!(f, "!({query})"),
            Self::All(queries) => joined(f, queries, " & "),
            Self::Any(queries) => joined(f, queries, " | "),
        }
    }
}

/// An expression that cannot be read, and where.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("{message}\n  {text}\n  {}^", " ".repeat(*column))]
pub struct Mistake {
    text: String,
    /// The column, in characters.
    column: usize,
    message: String,
}

/// More is no expression that anybody wrote, and would take more stack than there is.
const DEEPEST: usize = 100;
const MARKS: &[char] = &['&', '|', '!', '(', ')'];

impl FromStr for Query {
    type Err = Mistake;

    fn from_str(text: &str) -> Result<Self, Mistake> {
        let mut reader = Reader { text, rest: text };
        if text.matches(['(', '!']).count() > DEEPEST {
            return Err(reader.mistake(format!("it has more than {DEEPEST} `(` and `!`")));
        }
        let query = reader.any()?;
        if reader.skipped().is_empty() {
            Ok(query)
        } else {
            Err(reader.mistake("expected `&`, `|` or the end"))
        }
    }
}

type Read = Result<Query, Mistake>;

struct Reader<'a> {
    text: &'a str,
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn any(&mut self) -> Read {
        self.list('|', Query::Any, |reader| {
            reader.list('&', Query::All, Self::one)
        })
    }

    /// Parts with a mark between them; one alone is itself.
    fn list(
        &mut self,
        mark: char,
        of: fn(Vec<Query>) -> Query,
        part: fn(&mut Self) -> Read,
    ) -> Read {
        let mut found = vec![part(self)?];
        while self.takes(mark) {
            found.push(part(self)?);
        }
        Ok(if found.len() == 1 {
            found.remove(0)
        } else {
            of(found)
        })
    }

    fn one(&mut self) -> Read {
        if self.takes('!') {
            return Ok(Query::Not(Box::new(self.one()?)));
        }
        if !self.takes('(') {
            return self.term();
        }
        let query = self.any()?;
        if self.takes(')') {
            Ok(query)
        } else {
            Err(self.mistake("expected `)`"))
        }
    }

    fn term(&mut self) -> Read {
        let start = self.skipped();
        let end = start
            .find(|c: char| c.is_whitespace() || MARKS.contains(&c))
            .unwrap_or(start.len());
        let (name, glob) = start[..end]
            .split_once(':')
            .unwrap_or((Facet::Model.word(), &start[..end]));
        if end == 0 {
            return Err(self.mistake("expected a term, such as `model:bert*`, `!` or `(`"));
        }
        let Some((_, facet)) = Facet::WORDS.iter().find(|(word, _)| *word == name) else {
            let hint = suggest::hint(name, Facet::WORDS.iter().map(|(word, _)| *word));
            return Err(self.mistake(format!("nothing is selected by `{name}`; {hint}")));
        };
        self.rest = &start[end..];
        if glob.is_empty() {
            return Err(self.mistake(format!("expected a value after `{name}:`")));
        }
        Ok(Query::Is {
            facet: *facet,
            glob: glob.to_owned(),
        })
    }

    fn takes(&mut self, mark: char) -> bool {
        let rest = self.skipped().strip_prefix(mark);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// The rest, from where something stands.
    fn skipped(&mut self) -> &'a str {
        self.rest = self.rest.trim_start();
        self.rest
    }

    /// A mistake at the place that was reached.
    fn mistake(&self, message: impl Into<String>) -> Mistake {
        let read = &self.text[..self.text.len() - self.rest.len()];
        Mistake {
            text: self.text.to_owned(),
            column: read.chars().count(),
            message: message.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The query with all parentheses.
    fn shown(query: &Query) -> String {
        let joined =
            |queries: &[Query], mark| queries.iter().map(shown).collect::<Vec<_>>().join(mark);
        match query {
            Query::Is { facet, glob } => format!("{}:{glob}", facet.word()),
            Query::Not(query) => format!("!{}", shown(query)),
            Query::All(queries) => format!("({})", joined(queries, " & ")),
            Query::Any(queries) => format!("({})", joined(queries, " | ")),
        }
    }

    #[test]
    fn not_binds_before_and_and_that_before_or() {
        for (text, whole) in [
            ("model:bert*", "model:bert*"),
            ("bert*", "model:bert*"),
            ("case:bert:cpu-fp32", "case:bert:cpu-fp32"),
            (" a|b&!c ", "(model:a | (model:b & !model:c))"),
            ("!(a | b) & !!c", "(!(model:a | model:b) & !!model:c)"),
            (
                "family:vision & target:openvino & !priority:low",
                "(family:vision & target:openvino & !priority:low)",
            ),
        ] {
            assert_eq!(shown(&text.parse().unwrap()), whole, "{text}");
            let query: Query = text.parse().unwrap();
            assert_eq!(
                query.to_string().parse::<Query>().unwrap(),
                query,
                "{text} reads back from {query}"
            );
        }
    }

    #[test]
    fn a_mistake_shows_its_place() {
        for (text, expected) in [
            (
                "",
                "expected a term, such as `model:bert*`, `!` or `(`\n  \n  ^",
            ),
            (
                "a & ",
                "expected a term, such as `model:bert*`, `!` or `(`\n  a & \n      ^",
            ),
            ("(a | b", "expected `)`\n  (a | b\n        ^"),
            ("a b", "expected `&`, `|` or the end\n  a b\n    ^"),
            ("ä | b)", "expected `&`, `|` or the end\n  ä | b)\n       ^"),
            (
                "a & task: & b",
                "expected a value after `task:`\n  a & task: & b\n           ^",
            ),
            (
                "a & famly:x",
                "nothing is selected by `famly`; did you mean `family`?\n  a & famly:x\n      ^",
            ),
        ] {
            assert_eq!(
                text.parse::<Query>().unwrap_err().to_string(),
                expected,
                "{text}"
            );
        }
        let stranger = "zebra:x".parse::<Query>().unwrap_err().to_string();
        assert!(
            stranger.contains("known: `model`, `type`, `family`, `task`"),
            "{stranger}"
        );
        let deep = "("
            .repeat(100_000)
            .parse::<Query>()
            .unwrap_err()
            .to_string();
        assert!(deep.starts_with("it has more than 100"));
    }
}
