//! The one place that writes: stdout is data, stderr is narration.

use std::io::Write;

use anstyle::{AnsiColor, Style};

use crate::base::text::{shown, with_colours};
use crate::base::variable;
use crate::report::text::Styles;
use crate::session::RemoteSummary;

/// Colours are taken away by `anstream` where the stream is no terminal, or `NO_COLOR` is set.
pub(super) struct Printer {
    verbosity: Verbosity,
}

/// How much a run reports while it goes on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verbosity {
    /// Failures.
    Quiet,
    /// What took time, too.
    #[default]
    Usual,
    /// Every step.
    Verbose,
    /// Also when each begins, and why.
    Everything,
}

/// What is no terminal has lines as wide as this.
const WIDTH: usize = 100;
/// A terminal's lines are used within these bounds.
const WIDTHS: std::ops::RangeInclusive<usize> = 40..=200;

pub(super) const GOOD: Style = AnsiColor::Green.on_default();
pub(super) const BAD: Style = AnsiColor::Red.on_default().bold();
pub(super) const WARN: Style = AnsiColor::Yellow.on_default();
pub(super) const DIM: Style = Style::new().dimmed();
pub(super) const BOLD: Style = Style::new().bold();

impl Printer {
    pub(super) fn new(verbosity: Verbosity) -> Self {
        Self { verbosity }
    }

    pub(super) fn verbosity(&self) -> Verbosity {
        self.verbosity
    }

    /// How the report looks on stdout.
    pub(super) fn styles(&self) -> Styles {
        Styles {
            width: self.width(),
            ..Styles::colored()
        }
    }

    /// The width of stdout's lines in characters: the terminal's, or `COLUMNS` where stdout is none.
    pub(super) fn width(&self) -> usize {
        let stdout = std::io::stdout();
        let terminal =
            terminal_size::terminal_size_of(&stdout).map(|(width, _)| usize::from(width.0));
        let width = terminal.or_else(|| variable::text("COLUMNS")?.parse().ok());
        width.map_or(WIDTH, |width| width.clamp(*WIDTHS.start(), *WIDTHS.end()))
    }

    /// What people requested. Of what a terminal obeys only colours are left, whoever wrote the text.
    pub(super) fn out(&self, text: &str) {
        self.data(&with_colours(text));
    }

    /// Documents for programs, as they are.
    pub(super) fn data(&self, text: &str) {
        let mut stdout = anstream::stdout();
        // A reader that went away is no error of ours.
        let _ = stdout.write_all(text.as_bytes());
        if !text.ends_with('\n') {
            let _ = stdout.write_all(b"\n");
        }
    }

    /// A file's content, byte by byte.
    pub(super) fn raw(&self, bytes: &[u8]) -> std::io::Result<()> {
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(bytes)?;
        stdout.flush()
    }

    pub(super) fn json(&self, value: &impl serde::Serialize) {
        self.data(&serde_json::to_string_pretty(value).expect("BUG: a document serialises"));
    }

    /// A document for programs, or what people read instead.
    pub(super) fn answer<D: serde::Serialize>(
        &self,
        json: bool,
        document: impl FnOnce() -> D,
        text: impl FnOnce() -> String,
    ) {
        if json {
            self.json(&document())
        } else {
            self.out(&text())
        }
    }

    /// Narration.
    pub(super) fn note(&self, text: &str) {
        let _ = writeln!(anstream::stderr(), "{}", with_colours(text));
    }

    /// Narration that the next such line replaces. Empty removes it. Prints nothing if nobody watches.
    pub(super) fn passing(&self, text: &str) {
        if std::io::IsTerminal::is_terminal(&std::io::stderr()) {
            let _ = write!(anstream::stderr(), "\r\x1b[K{}", with_colours(text));
        }
    }

    /// What a remote store did, where it did something.
    pub(super) fn sharing(&self, summary: Option<RemoteSummary>) {
        if let Some(RemoteSummary { text, is_warning }) = summary {
            let lead = if is_warning {
                format!("{WARN}warning{WARN:#} ")
            } else {
                String::new()
            };
            self.note(&format!("{lead}{text}"));
        }
    }

    pub(super) fn error(&self, error: &anyhow::Error) {
        let mut lines = format!("{BAD}error{BAD:#}: {}", shown(&error.to_string()));
        for cause in error.chain().skip(1) {
            lines.push_str(&format!("\n  caused by: {}", shown(&cause.to_string())));
        }
        self.note(&lines);
    }
}
