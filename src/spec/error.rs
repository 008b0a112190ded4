//! Errors of a spec: each with its place, the line, and a hint.
//!
//! Knows nothing of YAML or of what is checked.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use super::yaml::Pos;
use crate::base::Loc;
use crate::base::figures::counted;
use crate::base::text::{is_unseen, printable};

/// One mistake in a spec.
#[derive(Debug, Clone)]
pub struct SpecError {
    /// None when a file cannot be read at all: the message names it.
    pub loc: Option<Loc>,
    pub message: String,
    /// What to do about it, e.g. "did you mean `cuda`?".
    pub hint: Option<String>,
    excerpt: Option<Excerpt>,
}

/// The line that an error is about, or the part of a long one.
#[derive(Debug, Clone, Default)]
struct Excerpt {
    text: String,
    /// The beginning of the mistake in the line, and its length, in characters.
    at: usize,
    len: usize,
}

/// The most characters that an error shows of a file, and of its own message.
const SHOWN: usize = 160;
const SAID: usize = 2000;
/// The number of errors that are printed in full: what follows mostly repeats them.
const LISTED: usize = 20;

impl Excerpt {
    fn of(line: &str, column: u32, len: u32) -> Self {
        let at = column.saturating_sub(1) as usize;
        let first = if line.chars().nth(SHOWN).is_none() {
            0
        } else {
            at.saturating_sub(SHOWN / 2)
        };
        let mut rest = line.chars().skip(first);
        let mut text: String = if first > 0 {
            "…".into()
        } else {
            String::new()
        };
        // What steers a terminal is not sent to one.
        text.extend(rest.by_ref().take(SHOWN).map(|c| {
            if c.is_control() && c != '\t' {
                '\u{fffd}'
            } else {
                c
            }
        }));
        if rest.next().is_some() {
            text.push('…');
        }
        Self {
            text,
            at: at - first + usize::from(first > 0),
            len: len as usize,
        }
    }
}

/// Every mistake of all files of a spec, in the order of the files and lines.
#[derive(Debug, Clone)]
pub struct SpecErrors(pub Vec<SpecError>);

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.loc {
            Some(loc) => write!(f, "{loc}: {}", printable(&self.message))?,
            None => f.write_str(&printable(&self.message))?,
        }
        if let Some(Excerpt { text, at, len }) = &self.excerpt {
            let before = text.chars().take(*at);
            // Tabs are kept, so that the caret is below its character at any tab width.
            let indent: String = before.map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
            let room = text.chars().count().saturating_sub(*at).max(1);
            // One character for each, so that the caret stays in place.
            let text = text.replace(is_unseen, "\u{fffd}");
            write!(
                f,
                "\n  | {text}\n  | {indent}{}",
                "^".repeat((*len).clamp(1, room))
            )?;
        }
        match &self.hint {
            Some(hint) => write!(f, "\n  hint: {}", printable(hint)),
            None => Ok(()),
        }
    }
}

impl fmt::Display for SpecErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: Vec<_> = self
            .0
            .iter()
            .take(LISTED)
            .map(ToString::to_string)
            .collect();
        f.write_str(&shown.join("\n\n"))?;
        match self.0.len().saturating_sub(LISTED) {
            0 => Ok(()),
            rest => write!(f, "\n\n… and {}", counted(rest, "more error")),
        }
    }
}

impl std::error::Error for SpecError {}
impl std::error::Error for SpecErrors {}

/// A place in one of the files being read.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Span {
    /// Index into [`Sink::files`].
    pub(super) file: u32,
    pub(super) pos: Pos,
}

/// A file's name as the user would write it, and its text.
#[derive(Debug, Clone)]
pub(super) struct Text {
    pub(super) path: Arc<PathBuf>,
    pub(super) text: Arc<String>,
}

/// Collects errors while files are read and checked.
#[derive(Debug, Default)]
pub(super) struct Sink {
    pub(super) files: Vec<Text>,
    /// The one of `files` that is being read.
    pub(super) file: u32,
    /// Some rows could not be read, so unknown names are not reported: those rows may declare them.
    pub(super) incomplete: bool,
    /// Files that a row names and that are not there.
    pub(super) absent: Vec<PathBuf>,
    /// The errors by file, line and column.
    errors: BTreeMap<(u32, u32, u32), Vec<SpecError>>,
    texts: HashSet<Arc<str>>,
}

impl Sink {
    pub(super) fn span(&self, pos: Pos) -> Span {
        Span {
            file: self.file,
            pos,
        }
    }

    pub(super) fn loc(&self, span: Span) -> Loc {
        Loc {
            file: self.files[span.file as usize].path.clone(),
            line: span.pos.line,
            column: span.pos.column,
        }
    }

    /// The place of a name that was read before.
    pub(super) fn span_of(&self, loc: &Loc, name: &str) -> Span {
        let file = self
            .files
            .iter()
            .position(|file| Arc::ptr_eq(&file.path, &loc.file))
            .unwrap_or_default();
        let pos = Pos {
            line: loc.line,
            column: loc.column,
            len: name.chars().count() as u32,
        };
        Span {
            file: file as u32,
            pos,
        }
    }

    pub(super) fn error(&mut self, span: Span, message: impl Into<String>) {
        self.push(span, message.into(), None);
    }

    pub(super) fn error_hint(
        &mut self,
        span: Span,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.push(span, message.into(), Some(hint.into()));
    }

    /// Reports a name that is not declared, unless some rows could not be read.
    pub(super) fn error_unknown(
        &mut self,
        span: Span,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        if !self.incomplete {
            self.error_hint(span, message, hint);
        }
    }

    /// An error of a file that cannot be read.
    pub(super) fn error_nowhere(&mut self, message: impl Into<String>) {
        let error = SpecError {
            loc: None,
            message: message.into(),
            hint: None,
            excerpt: None,
        };
        self.errors.entry((0, 0, 0)).or_default().push(error);
    }

    pub(super) fn push(&mut self, span: Span, mut message: String, hint: Option<String>) {
        if let Some((end, _)) = message.char_indices().nth(SAID) {
            message.replace_range(end.., "…");
        }
        let loc = Some(self.loc(span));
        let here = self
            .errors
            .entry((span.file, span.pos.line, span.pos.column))
            .or_default();
        // An anchor's content is read once for every alias, and reported only once.
        let same =
            |error: &SpecError| error.message == message || (hint.is_some() && error.hint == hint);
        if !here.iter().any(same) {
            let excerpt = Some(Excerpt {
                len: span.pos.len as usize,
                ..Excerpt::default()
            });
            here.push(SpecError {
                loc,
                message,
                hint,
                excerpt,
            });
        }
    }

    /// Shares one allocation among equal texts.
    pub(super) fn share(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return known.clone();
        }
        let new: Arc<str> = text.into();
        self.texts.insert(new.clone());
        new
    }

    /// All errors so far in the order of their places, or nothing if there is none.
    pub(super) fn finish(self) -> Result<(), SpecErrors> {
        if self.errors.is_empty() {
            return Ok(());
        }
        let mut errors = Vec::new();
        // The lines of the file that the errors are in by now.
        let mut lines: (Option<u32>, Vec<&str>) = Default::default();
        for ((file, line, column), here) in self.errors {
            if lines.0 != Some(file) {
                let text = self
                    .files
                    .get(file as usize)
                    .map_or("", |file| file.text.as_str());
                lines = (Some(file), text.lines().collect());
            }
            let line = (line as usize)
                .checked_sub(1)
                .and_then(|at| lines.1.get(at));
            errors.extend(here.into_iter().map(|error| {
                let excerpt = error
                    .excerpt
                    .and_then(|known| Some(Excerpt::of(line?, column, known.len as u32)));
                SpecError { excerpt, ..error }
            }));
        }
        Err(SpecErrors(errors))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_errors_the_first_are_told_and_the_others_counted() {
        let told = |count: usize| {
            let error = |at| SpecError {
                loc: None,
                message: format!("error {at}."),
                hint: None,
                excerpt: None,
            };
            SpecErrors((1..=count).map(error).collect()).to_string()
        };
        assert_eq!(told(2), "error 1.\n\nerror 2.");
        assert!(told(20).ends_with("\n\nerror 20."));
        assert!(told(21).ends_with("\n\nerror 20.\n\n… and 1 more error"));
        assert!(told(301).ends_with("\n\nerror 20.\n\n… and 281 more errors"));
    }
}
