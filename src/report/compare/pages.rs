//! A comparison as text for a terminal, and as Markdown for a pull request.

use std::fmt::Write as _;

use super::{Accepted, Change, Comparison, Figures, Kind, Noise, Side, State, Verdict};
use crate::base::figures::{bytes, counted};
use crate::base::text::padding;
use crate::report::format::{day, days, glyph, moment, ms, one_line};
use crate::report::quiet::MARK;
use crate::report::text::Styles;

/// The number of changes of one kind that a terminal shows.
const SHOWN: usize = 20;
/// GitHub takes 65,536 characters of a comment; so many rows of each kind fit.
const ROWS: usize = 50;

/// The page for a terminal, which ends in the counts.
pub fn text(comparison: &Comparison, styles: &Styles) -> String {
    let mut out = String::new();
    for (which, side) in [("base", &comparison.base), ("head", &comparison.head)] {
        let _ = writeln!(out, "{which}  {}", heading(side));
    }
    for line in weights(comparison).into_iter().chain(times(comparison)) {
        let _ = writeln!(out, "      {line}");
    }
    for package in &comparison.packages {
        let _ = writeln!(out, "      {package}");
    }
    for (title, _, changes) in found(comparison) {
        let style = if changes.iter().any(|change| change.is_worse()) {
            styles.fail
        } else {
            styles.heading
        };
        let _ = writeln!(out, "\n{style}{title}{style:#} ({})", changes.len());
        let width = changes
            .iter()
            .take(SHOWN)
            .map(|change| change.case.chars().count())
            .max()
            .unwrap_or_default();
        for change in changes.iter().take(SHOWN) {
            let padding = padding(&change.case, width);
            let _ = writeln!(out, "  {}{padding}  {}", change.case, what(change));
        }
        if changes.len() > SHOWN {
            let _ = writeln!(out, "  and {} more (--json has all)", changes.len() - SHOWN);
        }
    }
    if !comparison.acceptances.is_empty() {
        out.push('\n');
    }
    for note in &comparison.acceptances {
        let _ = writeln!(out, "note: {note}");
    }
    let _ = writeln!(out, "\n{}", counts(comparison));
    out
}

/// The page for a comment: what is worse is open, the rest folds.
pub fn markdown(comparison: &Comparison) -> String {
    let mut out = format!(
        "### orch: {}\n\n{}\n",
        cell(&comparison.head.spec),
        cell(&counts(comparison))
    );
    let _ = writeln!(
        out,
        "\nBase: {}. Head: {}.",
        cell(&heading(&comparison.base)),
        cell(&heading(&comparison.head))
    );
    for line in weights(comparison).into_iter().chain(times(comparison)) {
        let _ = writeln!(out, "\n{}.", cell(&line));
    }
    if !comparison.packages.is_empty() {
        let packages: Vec<_> = comparison
            .packages
            .iter()
            .map(ToString::to_string)
            .collect();
        let _ = writeln!(out, "\nPackages: {}.", cell(&packages.join("; ")));
    }
    for (title, kind, changes) in found(comparison) {
        let heading = format!("{title} ({})", changes.len());
        let opening = match kind.is_worse() {
            true => format!("#### {heading}"),
            false => format!("<details><summary>{heading}</summary>"),
        };
        let _ = writeln!(out, "\n{opening}\n\n| case | change |\n|---|---|");
        for change in changes.iter().take(ROWS) {
            let _ = writeln!(out, "| {} | {} |", cell(&change.case), cell(&what(change)));
        }
        if changes.len() > ROWS {
            let _ = writeln!(out, "\nand {} more", changes.len() - ROWS);
        }
        if !kind.is_worse() {
            out.push_str("\n</details>\n");
        }
    }
    for note in &comparison.acceptances {
        let _ = writeln!(out, "\n{}.", cell(note));
    }
    out
}

/// The kinds of changes that there are, by their words.
pub(in crate::report) fn found(
    comparison: &Comparison,
) -> impl Iterator<Item = (&'static str, Kind, Vec<&Change>)> {
    let all = Kind::WORDS
        .iter()
        .map(|(title, kind)| (*title, *kind, comparison.of(*kind).collect::<Vec<_>>()));
    all.filter(|(.., changes)| !changes.is_empty())
}

fn heading(side: &Side) -> String {
    let days = side
        .measured
        .as_ref()
        .map(|(first, last)| format!(", measured {}", days(day(first), day(last))));
    let scope = side
        .scope
        .as_ref()
        .map(|scope| format!(" ({scope})"))
        .unwrap_or_default();
    let run = side
        .run
        .as_ref()
        .map(|began| format!(", the run of {}", moment(began)))
        .unwrap_or_default();
    let Side {
        name,
        spec,
        orch,
        machines,
        ..
    } = side;
    let days = days.unwrap_or_default();
    let machines: Vec<String> = machines
        .iter()
        .map(|host| format!("{} ({})", host.name, host.cpu))
        .collect();
    format!(
        "{name}{run}: {spec}{scope}, {}, orch {orch}{days}",
        machines.join(" and ")
    )
}

/// What the models compute with, once if both sides say the same.
fn weights(Comparison { base, head, .. }: &Comparison) -> Vec<String> {
    if base.weights == head.weights {
        return head.weights.clone();
    }
    let of = |name: &str, side: &Side| {
        side.weights
            .iter()
            .map(|line| format!("{name}: {line}"))
            .collect::<Vec<_>>()
    };
    [of("base", base), of("head", head)].concat()
}

/// What its times are: other figures than the medians of a matrix.
pub(in crate::report) fn times(comparison: &Comparison) -> Option<String> {
    Some(format!(
        "times: {} of each side, and not the medians that a matrix shows",
        comparison.statistic.as_ref()?
    ))
}

/// A change in words: before, now, and whether it is accepted.
pub fn what(change: &Change) -> String {
    let own = change_in_words(change);
    match &change.accepted {
        None => own,
        Some(Accepted {
            reason,
            until: Some(until),
            ..
        }) => format!("{own}; accepted until {until}: {}", one_line(reason)),
        Some(Accepted { reason, .. }) => format!("{own}; accepted: {}", one_line(reason)),
    }
}

fn change_in_words(change: &Change) -> String {
    let Some(figures) = change.figures else {
        return match (&change.base, &change.head) {
            (Some(base), Some(head)) => format!("{} → {}", state(base, false), state(head, true)),
            (None, Some(one)) | (Some(one), None) => state(one, false),
            (None, None) => String::new(),
        };
    };
    let Figures { base, head } = figures;
    let share = || format!("{:+.1} %", (head / base - 1.0) * 100.0);
    match change.kind {
        Kind::LessAccurate | Kind::MoreAccurate => {
            let percent = |share: f64| format!("{:.0} %", 100.0 * share);
            format!(
                "{} → {} of its tolerance used",
                percent(base),
                percent(head)
            )
        }
        Kind::MoreMemory | Kind::LessMemory => format!(
            "{} → {} ({})",
            bytes(base as u64),
            bytes(head as u64),
            share()
        ),
        _ => {
            let known = known(change.verdict);
            let noise = change.noise.map(by_history).unwrap_or_default();
            // Both sides that were measured anew speak for themselves.
            let is_stored = matches!(
                change.verdict,
                Some(Verdict::Suspected | Verdict::Unsettled)
            );
            let is_marked = |side: &Option<State>| {
                is_stored && side.as_ref().is_some_and(|state| state.not_quiet)
            };
            let mark = |side| if is_marked(side) { MARK } else { "" };
            let [before, after] = [mark(&change.base), mark(&change.head)];
            format!(
                "{before}{} → {after}{} ({}){known}{noise}",
                ms(base),
                ms(head),
                share()
            )
        }
    }
}

/// The words on how the history supports a suspicion.
fn by_history(noise: Noise) -> String {
    let percent = 100.0 * noise.threshold();
    let executions = counted(noise.executions, "execution");
    format!(" (above {percent:.1} % by {executions} of the history)")
}

/// What is known of a difference of times.
fn known(verdict: Option<Verdict>) -> String {
    match verdict {
        None | Some(Verdict::Confirmed) => String::new(),
        Some(Verdict::Suspected | Verdict::Unsettled) => ", not confirmed".to_owned(),
        Some(Verdict::CannotTell(below)) => format!(", cannot tell below {:.0} %", below * 100.0),
    }
}

fn state(state: &State, whole: bool) -> String {
    let stage = state
        .stage
        .as_ref()
        .filter(|_| whole)
        .map(|stage| format!(" at {stage}"))
        .unwrap_or_default();
    let reason = state
        .reason
        .as_deref()
        .filter(|_| whole)
        .map(|reason| format!(": {}", one_line(reason)));
    format!(
        "{} {}{stage}{}",
        glyph(state.status),
        state.status.label(),
        reason.unwrap_or_default()
    )
}

pub(in crate::report) fn counts(comparison: &Comparison) -> String {
    let some = |count: usize, what: &str| (count > 0).then(|| format!("{count} {what}"));
    let mut counts: Vec<_> = found(comparison)
        .filter_map(|(title, _, changes)| some(changes.len(), title))
        .collect();
    let accepted = comparison
        .changes
        .iter()
        .filter(|change| change.accepted.is_some())
        .count();
    counts.extend(some(accepted, "of them accepted"));
    counts.push(format!("{} the same", comparison.same));
    counts.extend(some(comparison.beyond, "outside of this part"));
    counts.extend(
        comparison
            .refuted
            .map(|count| format!("{count} of them only before both were measured again")),
    );
    let by_history = some(
        comparison.timed_by_history,
        "by how much they vary over the history",
    );
    let by_history = by_history
        .map(|note| format!(", {note}"))
        .unwrap_or_default();
    counts.push(format!(
        "times of {} compared{by_history}",
        counted(comparison.timed, "case")
    ));
    let varying = comparison
        .unsettled
        .iter()
        .filter(|change| change.noise.is_some())
        .count();
    counts.extend(some(
        comparison.unsettled.len() - varying,
        "with rounds too far apart to tell",
    ));
    counts.extend(some(varying, "that vary too much over the history to tell"));
    counts.extend(
        comparison
            .not_timed
            .iter()
            .filter_map(|(why, count)| some(*count, why)),
    );
    counts.extend(some(
        comparison.accuracy_of_unlike_cpus,
        "whose accuracy was not compared: computed on another kind of CPU",
    ));
    counts.join(" · ")
}

/// Text in a table of Markdown.
fn cell(text: &str) -> String {
    crate::report::markdown::text(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::compare::{Noises, Remeasured, compare};
    use crate::report::{Round, fixture};

    /// Rounds of which the lowest is `ms`, and the others lie so far above it.
    fn rounds(ms: f64, apart: f64) -> Vec<Round> {
        (0..5)
            .map(|at| Round {
                min_ms: ms * (1.0 + apart * f64::from(at)),
                ..Round::default()
            })
            .collect()
    }

    #[test]
    fn a_comparison_says_what_the_weights_are() {
        let base = fixture();
        let pages = |head: &crate::report::ReportDoc| {
            let comparison = compare(("base", &base), ("head", head), &Noises::new());
            let json = serde_json::to_value(&comparison).unwrap()["head"]["weights"].clone();
            (
                text(&comparison, &Styles::plain()),
                markdown(&comparison),
                json,
            )
        };
        let random = "random weights: 15 models of 57.1 k to 1.2 M parameters; the figures are theirs, not those of trained models";
        let (page, comment, json) = pages(&base);
        assert_eq!(
            (
                page.matches(random).count(),
                comment.matches(random).count()
            ),
            (1, 1),
            "{page}{comment}"
        );
        assert_eq!(json, serde_json::json!([random]));
        let mut trained = base.clone();
        trained
            .cases
            .iter_mut()
            .for_each(|case| case.weights = Some(crate::record::Weights::Hub));
        let (page, comment, _) = pages(&trained);
        for part in [
            &*format!("base: {random}"),
            "head: weights from the Hub: 15 models",
        ] {
            assert!(
                page.contains(part) && comment.contains(part),
                "{page}{comment}"
            );
        }
    }

    #[test]
    fn what_is_undecided_is_not_reported_as_slower() {
        let mut base = fixture();
        base.cases.retain(|case| {
            ["bert:cpu-fp32", "bert:openvino-fp32", "roberta:cpu-fp32"].contains(&&*case.case)
        });
        let of = |ms: f64| {
            let mut doc = base.clone();
            doc.cases
                .iter_mut()
                .for_each(|case| case.metrics.as_mut().unwrap().rounds = rounds(ms, 0.0));
            doc
        };
        let mut comparison = compare(("base", &of(1.0)), ("head", &of(1.5)), &Noises::new());
        assert_eq!(comparison.of(Kind::Slower).count(), 3);
        let cases = base.cases.iter().map(|case| case.case.clone());
        let each = [
            [rounds(1.0, 0.0), rounds(1.5, 0.0)],
            [rounds(1.0, 0.2), rounds(1.1, 0.2)],
            [rounds(1.0, 0.0), rounds(1.0, 0.0)],
        ];
        comparison.remeasured(
            cases
                .zip(each.map(|[base, head]| Remeasured { base, head }))
                .collect(),
        );
        let page = text(&comparison, &Styles::plain());
        assert!(
            page.contains("\nslower (1)\n") && page.contains("\ncannot tell (1)\n"),
            "{page}"
        );
        assert!(
            page.contains("1 slower · 1 cannot tell · 1 the same"),
            "{page}"
        );
        assert!(
            page.contains("(+10.0 %), cannot tell below 120 %"),
            "{page}"
        );
        let comment = markdown(&comparison);
        assert!(comment.contains("#### slower (1)\n"), "{comment}");
        assert!(
            comment.contains("<summary>cannot tell (1)</summary>")
                && !comment.contains("#### cannot"),
            "{comment}"
        );
        let undecided: Vec<_> = comparison.of(Kind::CannotTell).collect();
        assert!(undecided.iter().all(|change| !change.is_worse()) && undecided.len() == 1);
        // All that the rule saw, also of what it took for the same.
        let json = serde_json::to_value(&comparison).unwrap();
        assert_eq!(json["changes"][1]["kind"], "cannot_tell");
        assert_eq!(json["rounds"].as_object().unwrap().len(), 3);
        let all = json["rounds"].as_object().unwrap().values();
        assert!(
            all.clone()
                .all(|sides| sides["base"].as_array().unwrap().len() == 5),
            "{json:#}"
        );
        assert!(
            all.flat_map(|sides| sides["head"].as_array().unwrap())
                .all(|round| round["min_ms"].is_f64())
        );
    }
}
