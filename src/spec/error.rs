//! What is wrong with a spec: every error with its place, the line it stands on, and a hint.
//!
//! Knows nothing of YAML or of what is checked.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use super::yaml::Pos;
use crate::base::Loc;

/// One mistake in a spec.
#[derive(Debug, Clone)]
pub struct SpecError {
    /// None when a file cannot be read at all: the message names it.
    pub loc: Option<Loc>,
    pub message: String,
    /// What to do about it, e.g. "did you mean `cuda`?".
    pub hint: Option<String>,
    /// The line of the file, and how many characters of it are meant.
    excerpt: Option<(String, u32)>,
}

/// Every mistake of all files of a spec, in the order of the files and lines.
#[derive(Debug, Clone)]
pub struct SpecErrors(pub Vec<SpecError>);

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.loc {
            Some(loc) => write!(f, "{loc}: {}", self.message)?,
            None => f.write_str(&self.message)?,
        }
        if let (Some(loc), Some((line, len))) = (&self.loc, &self.excerpt) {
            let before = line.chars().take(loc.column.saturating_sub(1) as usize);
            // Tabs stay tabs, so that the caret stands below its character whatever a tab's width is.
            let indent: String = before.map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
            let room = (line.chars().count() + 1).saturating_sub(loc.column as usize).max(1);
            write!(f, "\n  | {line}\n  | {indent}{}", "^".repeat((*len as usize).clamp(1, room)))?;
        }
        match &self.hint {
            Some(hint) => write!(f, "\n  hint: {hint}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for SpecErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n\n")?;
            }
            write!(f, "{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for SpecError {}
impl std::error::Error for SpecErrors {}

/// A place in one of the files being read.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Span {
    /// Index into [`Sink::files`].
    pub(super) file: usize,
    pub(super) pos: Pos,
}

/// A file's name as the user would write it, and its text.
#[derive(Debug)]
pub(super) struct Text {
    pub(super) path: Arc<PathBuf>,
    pub(super) lines: Vec<String>,
}

/// Collects errors while files are read and checked.
#[derive(Debug, Default)]
pub(super) struct Sink {
    pub(super) files: Vec<Text>,
    /// Which of `files` is being read.
    pub(super) file: usize,
    /// Some rows could not be read, so a name that is not found may well be declared: that is not reported then.
    pub(super) incomplete: bool,
    errors: Vec<((usize, u32, u32), SpecError)>,
}

impl Sink {
    pub(super) fn span(&self, pos: Pos) -> Span {
        Span { file: self.file, pos }
    }

    pub(super) fn loc(&self, span: Span) -> Loc {
        Loc { file: self.files[span.file].path.clone(), line: span.pos.line, column: span.pos.column }
    }

    pub(super) fn error(&mut self, span: Span, message: impl Into<String>) {
        self.push(span, message.into(), None);
    }

    pub(super) fn error_hint(&mut self, span: Span, message: impl Into<String>, hint: impl Into<String>) {
        self.push(span, message.into(), Some(hint.into()));
    }

    /// A name that is not declared, as far as the files could be read.
    pub(super) fn error_unknown(&mut self, span: Span, message: impl Into<String>, hint: impl Into<String>) {
        if !self.incomplete {
            self.error_hint(span, message, hint);
        }
    }

    /// An error of a file that cannot be read.
    pub(super) fn error_nowhere(&mut self, message: impl Into<String>) {
        let error = SpecError { loc: None, message: message.into(), hint: None, excerpt: None };
        self.errors.push(((0, 0, 0), error));
    }

    fn push(&mut self, span: Span, message: String, hint: Option<String>) {
        let order = (span.file, span.pos.line, span.pos.column);
        // An anchor's content is read once for every alias, and is wrong only once.
        let same = |error: &SpecError| error.message == message || (hint.is_some() && error.hint == hint);
        if self.errors.iter().any(|(at, error)| *at == order && same(error)) {
            return;
        }
        let line = self.files[span.file].lines.get((span.pos.line as usize).wrapping_sub(1));
        let excerpt = line.map(|line| (line.clone(), span.pos.len));
        self.errors.push((order, SpecError { loc: Some(self.loc(span)), message, hint, excerpt }));
    }

    /// All errors so far in the order of their places, or nothing if there is none.
    pub(super) fn finish(mut self) -> Result<(), SpecErrors> {
        self.errors.sort_by_key(|(order, _)| *order);
        if self.errors.is_empty() { Ok(()) } else { Err(SpecErrors(self.errors.into_iter().map(|(_, e)| e).collect())) }
    }
}
