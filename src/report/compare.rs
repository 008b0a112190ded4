//! What differs between two reports: broken, fixed, slower, less accurate, larger.
//!
//! Times stand beside each other only where one machine measured both, on real hardware, and both results are right. What
//! is measured in one process varies with the minute (`docs/performance.md`), so a difference of times is a *suspicion*
//! until both sides were measured anew ([`Comparison::remeasured`]). What is too small to suspect anything is known from the
//! history where that has enough executions of the case ([`Noise`]).

mod accepted;
mod pages;
mod times;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use super::format::rounds_of;
use super::head;
use super::view::View;
use super::{Basis, CaseResult, Host, Machine, Metrics, ReportDoc, stats};
use crate::base::words::words;
use crate::record::Outcome;
pub use accepted::{Acceptance, Accepted, figure, is_acceptable};
pub use pages::what;
pub(in crate::report) use pages::{counts, found, times as statistic_line};
pub use pages::{markdown, text};
use times::hidden;
pub use times::{Noise, Noises, Remeasured, Verdict};

/// Times below this share of each other are the same.
const TIME: f64 = 0.03;
/// Peaks of memory below this share of each other are the same,
pub(super) const MEMORY: f64 = 0.10;
/// and so are those of which less than this differs, bytes.
pub(super) const LITTLE: f64 = (16 << 20) as f64;
/// A less accurate result uses this much more of its tolerance, as a share of all of it,
const USED: f64 = 0.1;
/// and so many times as much: near its end every tolerance is used up a little more or less by other weights.
const USED_TIMES: f64 = 1.5;

words! {
    /// How a case changed, the gravest first.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Kind {
        /// It was right, and failed.
        "broken" => Broken,
        /// It was right, and nothing says that it still is.
        "no longer shown to be right" => Lost,
        /// Another failure than before.
        "fails in another way" => FailsElsewhere,
        "less accurate" => LessAccurate,
        "slower" => Slower,
        "more memory" => MoreMemory,
        /// The base does not have it.
        "new" => New,
        /// The head does not have it.
        "gone" => Gone,
        "fixed" => Fixed,
        "more accurate" => MoreAccurate,
        "faster" => Faster,
        "less memory" => LessMemory,
        /// Its times differ, and this machine cannot tell whether that is the change's doing.
        "cannot tell" => CannotTell,
    }
}

impl Kind {
    /// Whether it is one for the worse.
    pub fn is_worse(self) -> bool {
        matches!(
            self,
            Self::Broken | Self::Lost | Self::LessAccurate | Self::Slower | Self::MoreMemory
        )
    }
}

/// How a case stands in one report.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct State {
    pub status: Outcome,
    pub stage: Option<String>,
    pub reason: Option<String>,
    /// Whether its latency may not be read as it stands.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub not_quiet: bool,
}

/// The figures before and now: milliseconds, shares of the tolerance that are used, or bytes.
#[derive(Debug, Clone, Copy, Serialize, schemars::JsonSchema)]
pub struct Figures {
    pub base: f64,
    pub head: f64,
}

#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Change {
    pub kind: Kind,
    pub case: String,
    /// The model's row in a spec.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub row: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<State>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<State>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub figures: Option<Figures>,
    /// The verdict on what is slower, faster, or cannot be decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// The noise of the case, where the history has enough executions of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub noise: Option<Noise>,
    /// The acceptance of a change for the worse that is intended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted: Option<Accepted>,
}

impl Change {
    /// Whether a gate closes on it.
    pub fn is_worse(&self) -> bool {
        self.kind.is_worse()
            && self.accepted.is_none()
            && self
                .verdict
                .is_none_or(|verdict| verdict == Verdict::Confirmed)
    }
}

/// A package that is another one now, by the steps' own account.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
pub struct Package {
    pub name: String,
    pub base: Vec<String>,
    pub head: Vec<String>,
}

impl fmt::Display for Package {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} → {}",
            self.name,
            self.base.join(", "),
            self.head.join(", ")
        )
    }
}

/// The origin of a report.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Side {
    pub name: String,
    pub spec: String,
    pub scope: Option<String>,
    pub orch: String,
    /// The machines that it covers.
    pub machines: Vec<Host>,
    /// What its models compute with, a line each.
    pub weights: Vec<String>,
    /// The moment when its run began, RFC 3339 UTC; None of a report that no run made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The first and the last time at which something was measured, RFC 3339 UTC.
    pub measured: Option<(String, String)>,
}

/// All that differs.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Comparison {
    pub base: Side,
    pub head: Side,
    pub packages: Vec<Package>,
    /// The gravest first, then in the order of the head.
    pub changes: Vec<Change>,
    /// What of the file of accepted changes does not count here, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub acceptances: Vec<String>,
    /// Cases in which nothing differs.
    pub same: usize,
    /// Right cases whose times were compared.
    pub timed: usize,
    /// What the compared times are: `the lowest of 5 rounds`; None where none were compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub statistic: Option<String>,
    /// Those of them whose threshold is by their history; that of the others is fixed.
    pub timed_by_history: usize,
    /// Why times of other right cases were not, and how many those are.
    pub not_timed: BTreeMap<&'static str, usize>,
    /// Right cases whose accuracy was not compared, because CPUs of two kinds computed them.
    pub accuracy_of_unlike_cpus: usize,
    /// Cases of the base that the head, which is a part of a spec, does not cover.
    pub beyond: usize,
    /// Right cases among the same of whose times nobody can say so: stored rounds, or executions of the history, lie too far apart.
    pub unsettled: Vec<Change>,
    /// How many differences of times were gone when both sides were measured anew; None if they were not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refuted: Option<usize>,
    /// All that was seen of each case when both sides were measured anew, so that the rule can be judged by it afterwards.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub rounds: BTreeMap<String, Remeasured>,
}

impl Comparison {
    pub fn of(&self, kind: Kind) -> impl Iterator<Item = &Change> {
        self.changes
            .iter()
            .filter(move |change| change.kind == kind)
    }
}

/// `base` and `head`: a name for people, and the report. `noises`: of the machine of both, as far as there is a history.
pub fn compare(base: (&str, &ReportDoc), head: (&str, &ReportDoc), noises: &Noises) -> Comparison {
    let sides = Sides::new(base.1, head.1);
    let before: BTreeMap<&str, &CaseResult> = base
        .1
        .cases
        .iter()
        .map(|case| (&*case.case, case))
        .collect();
    let mut found = Comparison {
        base: side(base),
        head: side(head),
        packages: packages(base.1, head.1),
        changes: Vec::new(),
        acceptances: Vec::new(),
        same: 0,
        timed: 0,
        statistic: None,
        timed_by_history: 0,
        not_timed: BTreeMap::new(),
        accuracy_of_unlike_cpus: 0,
        beyond: 0,
        unsettled: Vec::new(),
        refuted: None,
        rounds: BTreeMap::new(),
    };
    let mut rounds = Vec::new();
    for case in &head.1.cases {
        let Some(old) = before.get(&*case.case) else {
            found
                .changes
                .push(change(Kind::New, None, Some(case), None));
            continue;
        };
        let mut kinds = sides.differences(old, case);
        found.accuracy_of_unlike_cpus += usize::from(sides.accuracy_is_of_unlike_cpus(old, case));
        let mut noise = None;
        match sides.times(old, case) {
            None => {}
            Some(Err(why)) => *found.not_timed.entry(why).or_default() += 1,
            Some(Ok((figures, basis))) => {
                noise = noises.get(&(case.case.clone(), basis)).copied();
                found.timed += 1;
                rounds.extend(
                    [old, case]
                        .iter()
                        .filter_map(|case| Some(case.metrics.as_ref()?.rounds.len())),
                );
                found.timed_by_history += usize::from(noise.is_some());
                let threshold = noise.map_or(TIME, |noise| noise.threshold());
                let difference = differs(figures, threshold, 0.0, [Kind::Slower, Kind::Faster]);
                if let (None, Some(verdict)) = (difference, hidden(noise, old, case)) {
                    let change = change(Kind::Slower, Some(old), Some(case), Some(figures));
                    found.unsettled.push(Change {
                        verdict: Some(verdict),
                        noise,
                        ..change
                    });
                }
                kinds.extend(difference);
            }
        }
        found.same += usize::from(kinds.is_empty());
        let change = |(kind, figures)| {
            let change = change(kind, Some(old), Some(case), figures);
            Change {
                noise: noise.filter(|_| change.verdict.is_some()),
                ..change
            }
        };
        found.changes.extend(kinds.into_iter().map(change));
    }
    let now: BTreeSet<&str> = head.1.cases.iter().map(|case| &*case.case).collect();
    let gone: Vec<_> = base
        .1
        .cases
        .iter()
        .filter(|case| !now.contains(&*case.case))
        .collect();
    // A part of a spec does not run the rest of it.
    found.beyond = if head.1.scope.is_none() || head.1.scope == base.1.scope {
        0
    } else {
        gone.len()
    };
    found.changes.extend(
        gone.iter()
            .skip(found.beyond)
            .map(|case| change(Kind::Gone, Some(case), None, None)),
    );
    found.changes.sort_by_key(|change| change.kind);
    found.statistic =
        rounds_of(rounds.iter().copied()).map(|rounds| format!("the lowest of {rounds}"));
    found
}

fn change(
    kind: Kind,
    base: Option<&CaseResult>,
    head: Option<&CaseResult>,
    figures: Option<Figures>,
) -> Change {
    let state = |case: &CaseResult| {
        let reason = case.note().or_else(|| case.reason.clone());
        let not_quiet = case
            .metrics
            .as_ref()
            .is_some_and(|metrics| !metrics.is_quiet());
        State {
            status: case.status,
            stage: case.stage.clone(),
            reason,
            not_quiet,
        }
    };
    let CaseResult { case, row, .. } = head.or(base).expect("BUG: a change is of a case").clone();
    let verdict = matches!(kind, Kind::Slower | Kind::Faster).then_some(Verdict::Suspected);
    let mut change = Change {
        kind,
        case,
        row,
        base: base.map(state),
        head: head.map(state),
        figures,
        verdict,
        noise: None,
        accepted: None,
    };
    change.accepted = accepted::by_spec(&change);
    change
}

/// More than a share of the base and more than an amount. `kinds`: of more, of less.
fn differs(
    figures: Figures,
    share: f64,
    amount: f64,
    kinds: [Kind; 2],
) -> Option<(Kind, Option<Figures>)> {
    let Figures { base, head } = figures;
    let is_apart = (head - base).abs() > (base * share).max(amount);
    is_apart.then_some((kinds[usize::from(head < base)], Some(figures)))
}

/// What both reports say of their machines.
struct Sides<'a> {
    base: View<'a>,
    head: View<'a>,
}

impl<'a> Sides<'a> {
    fn new(base: &'a ReportDoc, head: &'a ReportDoc) -> Self {
        Self {
            base: View::new(base),
            head: View::new(head),
        }
    }

    /// The machine that executed the case, of each side.
    fn machines(&self, old: &'a CaseResult, new: &'a CaseResult) -> [Machine<'a>; 2] {
        [
            Machine::of(self.base.doc, old),
            Machine::of(self.head.doc, new),
        ]
    }

    fn on_one_machine(&self, old: &'a CaseResult, new: &'a CaseResult) -> bool {
        let [before, now] = self.machines(old, new);
        before.is(&now)
    }

    /// Why the accuracy of two right results may not be compared: CPUs of another kind have kernels that round otherwise.
    fn accuracy_is_of_unlike_cpus(&self, old: &'a CaseResult, new: &'a CaseResult) -> bool {
        let is_right = old.status.is_made() && new.status.is_made();
        let is_judged = old.numerics.is_some() && new.numerics.is_some();
        let [before, now] = self.machines(old, new);
        is_right && is_judged && !before.has_cpu_of(&now)
    }

    /// The differences besides times.
    fn differences(
        &self,
        old: &'a CaseResult,
        new: &'a CaseResult,
    ) -> Vec<(Kind, Option<Figures>)> {
        let kind = match (old.status.is_made(), new.status.is_made()) {
            (true, true) => {
                return self
                    .accuracy(old, new)
                    .into_iter()
                    .chain(self.memory(old, new))
                    .collect();
            }
            (false, true) => Kind::Fixed,
            (was_right, false) if new.is_failure() && (was_right || !old.is_failure()) => {
                Kind::Broken
            }
            (true, false) => Kind::Lost,
            _ if new.is_failure() && (old.status, &old.stage) != (new.status, &new.stage) => {
                Kind::FailsElsewhere
            }
            _ => return vec![],
        };
        vec![(kind, None)]
    }

    fn accuracy(
        &self,
        old: &'a CaseResult,
        new: &'a CaseResult,
    ) -> Option<(Kind, Option<Figures>)> {
        if self.accuracy_is_of_unlike_cpus(old, new) {
            return None;
        }
        let (before, now) = old.numerics.as_ref().zip(new.numerics.as_ref())?;
        // Both by one tolerance: a spec that asks for less makes no result more accurate.
        let tolerance = now.tolerance.or(before.tolerance)?;
        let figures = Figures {
            base: before.used(&tolerance),
            head: now.used(&tolerance),
        };
        let less = figures.base.min(figures.head);
        let more = figures.base.max(figures.head);
        let is_apart = more - less >= USED && more >= USED_TIMES * less;
        let kind = if figures.head > figures.base {
            Kind::LessAccurate
        } else {
            Kind::MoreAccurate
        };
        is_apart.then_some((kind, Some(figures)))
    }

    fn memory(&self, old: &'a CaseResult, new: &'a CaseResult) -> Option<(Kind, Option<Figures>)> {
        let peak = |case: &CaseResult| {
            case.metrics
                .as_ref()
                .and_then(|m| m.peak_device_bytes.or(m.peak_rss_bytes))
        };
        let (base, head) = peak(old)
            .zip(peak(new))
            .filter(|_| self.on_one_machine(old, new))?;
        let figures = Figures {
            base: base as f64,
            head: head as f64,
        };
        differs(
            figures,
            MEMORY,
            LITTLE,
            [Kind::MoreMemory, Kind::LessMemory],
        )
    }

    /// Milliseconds, both on this basis, or why they may not stand beside each other. None where one of them is not right.
    fn times(
        &self,
        old: &'a CaseResult,
        new: &'a CaseResult,
    ) -> Option<Result<(Figures, Basis), &'static str>> {
        if !old.status.is_made() || !new.status.is_made() {
            return None;
        }
        let (Some(base), Some(head)) = (&old.metrics, &new.metrics) else {
            return Some(Err("not timed"));
        };
        Some(match lowest(base, head) {
            _ if !self.base.comparable(old) || !self.head.comparable(new) => {
                Err("of a stand-in for hardware, of a fallback, or flaky")
            }
            _ if !self.on_one_machine(old, new) => Err("measured on another machine"),
            _ if old.actual_device != new.actual_device => Err("measured on another device"),
            found => found.ok_or("compared with a report that has no rounds"),
        })
    }
}

/// The lowest of each side's rounds, both on the base's basis.
fn lowest(base: &Metrics, head: &Metrics) -> Option<(Figures, Basis)> {
    let basis = stats::basis(&base.rounds);
    let of = |metrics: &Metrics| Some(stats::statistic_on(&metrics.rounds, basis)?.ms);
    Some((
        Figures {
            base: of(base)?,
            head: of(head)?,
        },
        basis,
    ))
}

fn side((name, doc): (&str, &ReportDoc)) -> Side {
    let times = || doc.cases.iter().filter_map(|case| case.measured.clone());
    Side {
        name: name.to_owned(),
        spec: doc.spec.clone(),
        scope: doc.scope.clone(),
        orch: doc.orch.clone(),
        machines: doc.hosts().to_vec(),
        weights: head::all_weights(doc),
        run: doc.run.as_ref().map(|run| run.started.clone()),
        measured: times().min().zip(times().max()),
    }
}

/// Those whose versions differ. A package may have several, in environments of their own.
fn packages(base: &ReportDoc, head: &ReportDoc) -> Vec<Package> {
    let of = |doc: &ReportDoc| {
        let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let versions = doc.cases.iter().flat_map(|case| case.facts.values());
        for (name, version) in versions
            .filter_map(|facts| facts["versions"].as_object())
            .flatten()
        {
            found
                .entry(name.clone())
                .or_default()
                .extend(version.as_str().map(str::to_owned));
        }
        found
    };
    let mut now = of(head);
    let both = of(base)
        .into_iter()
        .filter_map(|(name, old)| now.remove(&name).map(|new| (name, old, new)));
    let listed = |versions: BTreeSet<String>| versions.into_iter().collect();
    let changed = both.filter(|(_, old, new)| old != new);
    changed
        .map(|(name, old, new)| Package {
            name,
            base: listed(old),
            head: listed(new),
        })
        .collect()
}
