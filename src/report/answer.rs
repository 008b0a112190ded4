//! The answer that a report gives in words: how much is right, what is fastest, and what changed since earlier runs.

use serde::{Deserialize, Serialize};

use super::compare::{Kind, Noises, compare};
use super::place::Place;
use super::sections;
use super::view::View;
use super::{ReportDoc, Summary};
use crate::base::figures::counted;
use crate::record::Outcome;

/// At most so many cases of a kind are named.
const MAX_NAMED: usize = 3;

/// What changed since an earlier run of the same part of the same spec. Times are left out: `orch compare RUN` knows how much
/// they vary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Since {
    /// The name of that run in the history.
    pub run: String,
    /// The moment when it began, RFC 3339 UTC.
    pub started: String,
    /// The cases that changed, by how they did; the gravest first.
    pub changes: Vec<ChangedCases>,
}

/// Cases that changed in the same way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ChangedCases {
    pub kind: Kind,
    pub cases: Vec<String>,
}

impl Since {
    /// Compares a report with that of an earlier run.
    pub fn between(run: String, started: String, base: &ReportDoc, head: &ReportDoc) -> Self {
        let comparison = compare((&run, base), ("", head), &Noises::new());
        let mut changes: Vec<ChangedCases> = Vec::new();
        for change in comparison.changes {
            if !is_of_results(change.kind) {
                continue;
            }
            match changes.iter_mut().find(|known| known.kind == change.kind) {
                Some(known) => known.cases.push(change.case),
                None => changes.push(ChangedCases {
                    kind: change.kind,
                    cases: vec![change.case],
                }),
            }
        }
        Self {
            run,
            started,
            changes,
        }
    }

    /// `Since the run of 2026-01-31 08:00 UTC: 2 fixed (bert on cpu-fp32, t5 on qnn-fp16), 1 broken (vit on webnn-fp32).`
    fn sentence(&self, doc: &ReportDoc) -> String {
        let minute = self.started.get(..16).unwrap_or(&self.started);
        let run = format!("the run of {} UTC", minute.replace('T', " "));
        if self.changes.is_empty() {
            return format!("No result changed since {run}.");
        }
        let name = |id: &String| {
            let case = doc.cases.iter().find(|case| case.case == *id);
            case.map_or_else(|| id.clone(), |case| Place::from(case).name())
        };
        let changes: Vec<String> = self
            .changes
            .iter()
            .map(|changed| {
                let count = changed.cases.len();
                let names = named(changed.cases.iter().map(name), count);
                format!("{count} {} ({names})", changed.kind.word())
            })
            .collect();
        format!("Since {run}: {}.", changes.join(", "))
    }
}

/// Whether a change is one of what is computed, and not of how fast or with how much memory.
fn is_of_results(kind: Kind) -> bool {
    match kind {
        Kind::Broken
        | Kind::Lost
        | Kind::FailsElsewhere
        | Kind::LessAccurate
        | Kind::New
        | Kind::Gone
        | Kind::Fixed
        | Kind::MoreAccurate => true,
        Kind::Slower | Kind::MoreMemory | Kind::Faster | Kind::LessMemory | Kind::CannotTell => {
            false
        }
    }
}

/// The sentences, each a line.
pub(super) fn sentences(view: &View<'_>) -> Vec<String> {
    let mut lines = vec![correctness(view)];
    lines.extend(changes(view));
    lines
}

/// The sentences on what is fastest and what changed: those that no count of results tells.
pub(super) fn changes(view: &View<'_>) -> Vec<String> {
    let speed = sections::lead(view).map(|lead| lead.sentence());
    let since = view.doc.since.iter().map(|since| since.sentence(view.doc));
    speed.into_iter().chain(since).collect()
}

/// `28 of 30 cases that can run here are right; 2 NUMERICS (bert on qnn-fp16, t5 on qnn-fp16).`
fn correctness(view: &View<'_>) -> String {
    let doc = view.doc;
    let here = if doc.hosts().len() > 1 {
        "on these machines"
    } else {
        "on this machine"
    };
    let mut ran = 0;
    let mut right = 0;
    let mut others: Vec<(Outcome, Vec<usize>)> = Vec::new();
    for (at, case) in doc.cases.iter().enumerate() {
        match case.status {
            Outcome::SkipUnavailable
            | Outcome::SkipUnsupported
            | Outcome::Incomplete
            | Outcome::Mock => continue,
            Outcome::Pass | Outcome::Flaky | Outcome::Xpass => right += 1,
            status => match others.iter_mut().find(|(known, _)| *known == status) {
                Some((_, cases)) => cases.push(at),
                None => others.push((status, vec![at])),
            },
        }
        ran += 1;
    }
    if ran == 0 {
        let Summary {
            cases, incomplete, ..
        } = doc.summary;
        return if incomplete > 0 {
            format!("{} not run yet.", counted_cases(incomplete))
        } else {
            format!("None of {} can run {here}.", counted(cases, "case"))
        };
    }
    let mut sentence = if right == ran {
        match ran {
            1 => format!("The one case that can run {here} is right"),
            _ => format!("All {ran} cases that can run {here} are right"),
        }
    } else {
        format!("{right} of {ran} cases that can run {here} are right")
    };
    let others: Vec<String> = others
        .iter()
        .map(|(outcome, cases)| {
            let names = cases.iter().map(|at| view.place(*at).name());
            let names = named(names, cases.len());
            format!("{} {} ({names})", cases.len(), outcome.label())
        })
        .collect();
    if !others.is_empty() {
        sentence += &format!("; {}", others.join(", "));
    }
    if doc.summary.incomplete > 0 {
        sentence += &format!(
            "; {} not run to the end",
            counted_cases(doc.summary.incomplete)
        );
    }
    sentence + "."
}

/// `1 case was`, `2 cases were`
fn counted_cases(count: u32) -> String {
    let verb = if count == 1 { "was" } else { "were" };
    format!("{} {verb}", counted(count, "case"))
}

/// The first names, and how many more there are.
fn named(names: impl Iterator<Item = String>, count: usize) -> String {
    let mut shown: Vec<String> = names.take(MAX_NAMED).collect();
    if count > shown.len() {
        shown.push(format!("{} more", count - shown.len()));
    }
    shown.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    fn lines(doc: &ReportDoc) -> Vec<String> {
        sentences(&View::new(doc))
    }

    fn all(status: Outcome) -> ReportDoc {
        let mut doc = fixture();
        for case in &mut doc.cases {
            case.status = status;
        }
        doc.summary = Summary::of(&doc.cases, &doc.excluded);
        doc
    }

    #[test]
    fn what_is_right_stands_first_and_what_is_not_has_its_name() {
        let mut doc = all(Outcome::Pass);
        let count = doc.cases.len();
        assert!(
            lines(&doc)[0].starts_with(&format!("All {count} cases that can run on this machine")),
            "{:?}",
            lines(&doc)
        );
        doc.cases[0].status = Outcome::Numerics;
        doc.cases[1].status = Outcome::SkipUnavailable;
        let name = Place::from(&doc.cases[0]).name();
        assert_eq!(
            lines(&doc)[0],
            format!(
                "{} of {} cases that can run on this machine are right; 1 NUMERICS ({name}).",
                count - 2,
                count - 1
            )
        );
    }

    #[test]
    fn nothing_is_called_right_where_nothing_ran() {
        let count = fixture().cases.len();
        assert_eq!(
            lines(&all(Outcome::SkipUnavailable)),
            [format!("None of {count} cases can run on this machine.")]
        );
        assert_eq!(
            lines(&all(Outcome::Incomplete)),
            [format!("{count} cases were not run yet.")]
        );
        for status in [Outcome::Indecisive, Outcome::PassFallback, Outcome::Xfail] {
            let first = lines(&all(status)).remove(0);
            assert!(first.starts_with("0 of "), "{first}");
        }
    }

    #[test]
    fn what_changed_since_a_run_is_shown_by_its_results_alone() {
        let base = all(Outcome::Pass);
        let mut head = base.clone();
        let since = |head: &ReportDoc| {
            Since::between("r".into(), "2026-01-31T08:00:00Z".into(), &base, head)
        };
        head.since = vec![since(&head)];
        assert_eq!(
            changes(&View::new(&head)).last().unwrap(),
            "No result changed since the run of 2026-01-31 08:00 UTC."
        );
        head.cases[0].status = Outcome::Crash;
        head.since = vec![since(&head)];
        let name = Place::from(&head.cases[0]).name();
        assert_eq!(
            changes(&View::new(&head)).last().unwrap(),
            &format!("Since the run of 2026-01-31 08:00 UTC: 1 broken ({name}).")
        );
        let fixed = Since::between("r".into(), "2026".into(), &head, &base);
        assert_eq!(fixed.changes[0].kind, Kind::Fixed);
    }
}
