//! The console summary within the width of a terminal: the sections that are brief, then one line of counts.
//!
//! A matrix that fills no screen is left to the other pages: here are its counts. Of many causes the gravest are printed in
//! full, the next in a line each, and the others are counted, so that no run of thousands of cases says thousands of lines.
//!
//! Colour is the caller's: with [`Styles::plain`] the text holds no escape sequence.

mod matrix;

use std::fmt::Write as _;

use anstream::adapter::strip_str;
use anstyle::{AnsiColor, Style};

use super::answer;
use super::cause::MANY;
use super::format::seconds;
use super::head::{self, Count};
use super::names::end_cut;
use super::sections;
use super::shape::{Item, Shape};
use super::view::View;
use super::{ReportDoc, Summary};
use crate::base::figures::counted;

/// The width of a line, where nothing else is given.
pub const WIDTH: usize = 100;
/// The number of causes that are shown in full, if there are many.
const GRAVEST: usize = 3;
/// and so many in a line each.
const LINES: usize = 10;
/// So many cases of a cause are named.
const NAMES: usize = 4;

/// How to mark each kind of text, and how wide it may be.
#[derive(Debug, Clone, Copy, Default)]
pub struct Styles {
    /// The width of a line, in characters.
    pub width: usize,
    pub pass: Style,
    pub fail: Style,
    pub skip: Style,
    pub incomplete: Style,
    pub heading: Style,
}

impl Styles {
    pub fn plain() -> Self {
        Self {
            width: WIDTH,
            ..Self::default()
        }
    }

    pub fn colored() -> Self {
        Self {
            width: WIDTH,
            pass: AnsiColor::Green.on_default(),
            fail: AnsiColor::Red.on_default().bold(),
            skip: Style::new().dimmed(),
            incomplete: AnsiColor::Yellow.on_default(),
            heading: Style::new().bold(),
        }
    }

    fn of(&self, kind: &str) -> Style {
        match kind {
            "pass" => self.pass,
            "incomplete" | "flaky" | "indecisive" | "fallback" | "mock" => self.incomplete,
            "fail" | "xpass" => self.fail,
            _ => self.skip,
        }
    }
}

/// The whole summary, ending in a newline.
pub fn render(doc: &ReportDoc, styles: &Styles) -> String {
    let about = [head::run(doc), head::weights(doc)].into_iter().flatten();
    let about = about
        .map(|line| sentence(&line, styles.skip, styles))
        .collect();
    [
        body(doc, styles),
        about,
        summary_line(&doc.summary, styles),
        "\n".to_owned(),
    ]
    .concat()
}

/// All but the last line.
pub fn body(doc: &ReportDoc, styles: &Styles) -> String {
    let view = View::new(doc);
    let mut out = String::new();
    for section in sections::made(&view, false) {
        match section.shape {
            Shape::Matrix(shape) => {
                matrix::matrix(&mut out, &shape, styles);
                let below: Vec<_> = [
                    shape.statistic,
                    shape.not_quiet,
                    shape.earlier,
                    shape.machines,
                ]
                .into_iter()
                .flatten()
                .collect();
                if !below.is_empty() {
                    out.push('\n');
                    out.extend(below.iter().map(|line| sentence(line, styles.skip, styles)));
                }
            }
            Shape::List(items) => list(&mut out, &view, &items, styles),
            // Figures to look up have pages of their own.
            Shape::Tables(_) | Shape::Charts(_) => {}
        }
    }
    if !out.is_empty() {
        out.push('\n');
    }
    let part = doc.scope.as_deref().map(part);
    out.extend(head::random(doc).map(|random| sentence(&random, styles.skip, styles)));
    out.extend(part.map(|part| sentence(&part, styles.heading, styles)));
    out.extend(
        answer::changes(&view)
            .iter()
            .map(|line| sentence(line, Style::new(), styles)),
    );
    out
}

/// The part of the spec that it is; of a long selection the ends: `matrix.json` has all of it.
pub fn part(scope: &str) -> String {
    let terms: Vec<&str> = scope.split(" | ").collect();
    let shown = match terms.len() {
        0..=12 => scope.to_owned(),
        all => format!(
            "{} | … {} more … | {}",
            terms[..8].join(" | "),
            all - 12,
            terms[all - 4..].join(" | ")
        ),
    };
    format!("{shown}: not the whole spec")
}

/// `45 passed · 2 failed · 75 unavailable   112 steps: 0 executed, 112 up to date   0.4 s`, in lines where that is too wide.
pub fn summary_line(summary: &Summary, styles: &Styles) -> String {
    let counts = head::counts(summary).into_iter().map(
        |Count {
             kind, count, word, ..
         }| {
            let style = if count > 0 {
                styles.of(kind)
            } else {
                Style::new()
            };
            format!("{style}{count} {word}{style:#}")
        },
    );
    // A run of chosen steps or of commands has no cases to count.
    let counts = (summary.cases > 0).then(|| counts.collect::<Vec<_>>().join(" · "));
    let parts = counts
        .into_iter()
        .chain([head::steps(summary, styles.fail), seconds(summary.seconds)]);
    if styles.width >= WIDTH {
        return parts.collect::<Vec<_>>().join("   ");
    }
    parts
        .map(|part| wrapped("", &part, styles))
        .collect::<String>()
        .trim_end()
        .to_owned()
}

/// Writes many items, the gravest in full and the next in a line each. Interrupted steps are not news: lines will do.
fn list(out: &mut String, view: &View<'_>, items: &[Item<'_>], styles: &Styles) {
    let full = match items.len() {
        _ if items.iter().all(|item| item.kind == "incomplete") => 0,
        many if many > MANY => GRAVEST,
        few => few,
    };
    let (gravest, rest) = items.split_at(full);
    for (at, item) in gravest.iter().enumerate() {
        // Never wrapped: it is there to be copied. And only of what is to be mended.
        let repro = item.repro.filter(|_| item.kind == "fail");
        if at == 0 || repro.is_some() || item.whose.is_some() {
            out.push('\n');
        }
        let style = styles.of(item.kind);
        let heading = wrapped("  ", whose(view, item).trim_start(), styles);
        let _ = write!(
            out,
            "{style}{}{style:#} {}",
            item.mark(),
            heading.trim_start()
        );
        if item.whose.is_none() && item.cases.len() > 1 {
            out.push_str(&wrapped("  ", &view.names(&item.cases, NAMES), styles));
        }
        out.extend(item.lines.iter().map(|line| wrapped("  ", line, styles)));
        if let Some(repro) = repro {
            let _ = writeln!(out, "  repro: {repro}");
        }
    }
    if !rest.is_empty() {
        out.push('\n');
    }
    for item in rest.iter().take(LINES) {
        let style = styles.of(item.kind);
        let mark = item.mark();
        let line = format!("{}: {}", whose(view, item), item.lines[0]);
        let line = end_cut(&line, styles.width.saturating_sub(width(&mark)));
        let _ = writeln!(out, "{style}{mark}{style:#}{line}");
    }
    more_than(out, &rest[rest.len().min(LINES)..], styles);
}

/// ` bert on cpu-fp32 at convert`, ` 39 cases at convert`
fn whose(view: &View<'_>, item: &Item<'_>) -> String {
    let stage = item
        .stage
        .map(|stage| format!(" at {stage}"))
        .unwrap_or_default();
    let cases = || match &item.cases[..] {
        [at] => view.place(*at).name(),
        many => format!("{} cases", many.len()),
    };
    format!(" {}{stage}", item.whose.clone().unwrap_or_else(cases))
}

/// How many causes are left out, and of how many cases.
fn more_than(out: &mut String, left: &[Item<'_>], styles: &Styles) {
    let Some(item) = left.first() else { return };
    let style = styles.of(item.kind);
    let cases = counted(
        left.iter().map(|item| item.cases.len()).sum::<usize>(),
        "case",
    );
    let glyph = item.glyph;
    let causes = counted(left.len(), "cause");
    let rest = "more: the report's pages tell all of them";
    let _ = writeln!(
        out,
        "\n{style}{glyph}{style:#} and {cases} of {causes} {rest}"
    );
}

/// A sentence on the report as a whole.
fn sentence(text: &str, style: Style, styles: &Styles) -> String {
    format!("{style}{}{style:#}\n", wrapped("", text, styles).trim_end())
}

/// Lines, each of them ended.
fn wrapped(indent: &str, text: &str, styles: &Styles) -> String {
    let mut out = String::new();
    let mut used = 0;
    for word in text.split(' ') {
        if used > 0 && used + 1 + width(word) > styles.width {
            out.push('\n');
            used = 0;
        }
        out.push_str(if used == 0 { indent } else { " " });
        used += width(word) + if used == 0 { width(indent) } else { 1 };
        out.push_str(word);
    }
    out + "\n"
}

/// The width in columns: what only colours takes none.
fn width(text: &str) -> usize {
    strip_str(text).map(|shown| shown.chars().count()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    #[test]
    fn a_narrow_terminal_gets_narrow_lines() {
        let text = render(
            &fixture(),
            &Styles {
                width: 60,
                ..Styles::plain()
            },
        );
        // Commands are there to be copied.
        let wide: Vec<_> = text
            .lines()
            .filter(|line| width(line) > 60 && !line.contains("repro: "))
            .collect();
        assert!(wide.is_empty(), "{wide:#?}");
    }

    #[test]
    fn of_a_long_selection_the_ends_are_shown() {
        assert_eq!(
            part("model:a | target:b"),
            "model:a | target:b: not the whole spec"
        );
        let models: Vec<_> = (1..=253).map(|n| format!("model:m{n}")).collect();
        let text = part(&models.join(" | "));
        assert!(
            text.contains("model:m8 | … 241 more … | model:m250 | ")
                && text.ends_with("m253: not the whole spec")
        );
    }
}
