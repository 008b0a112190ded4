//! Changes for the worse that are intended: named by a file with a reason and a last day, or expected by the spec.

use serde::Serialize;

use super::{Change, Comparison, Kind};
use crate::base::glob;
use crate::record::Outcome;

/// What a file accepts.
#[derive(Debug, Clone)]
pub struct Acceptance {
    /// A glob over cases.
    pub case: String,
    pub kind: Kind,
    /// The greatest figure that is accepted: of times and memory how much more it is than the base's, as a share of that; of
    /// accuracy the share of the tolerance that is used.
    pub up_to: Option<f64>,
    pub reason: String,
    /// The last day on which it counts (UTC), `2026-12-31`.
    pub until: String,
    /// File and line, for people.
    pub place: String,
}

/// Why a gate does not close on a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Accepted {
    pub reason: String,
    /// The last day (UTC). None of what the spec expects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// The file and line that accept it. None of what the spec expects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
}

/// Whether a file can accept changes of this kind. What fails is expected by the spec instead.
pub fn is_acceptable(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Lost | Kind::LessAccurate | Kind::Slower | Kind::MoreMemory
    )
}

/// The figure that an acceptance of the change is about, in its unit ([`Acceptance::up_to`]).
pub fn figure(change: &Change) -> Option<f64> {
    let figures = change.figures?;
    Some(match change.kind {
        Kind::LessAccurate => figures.head,
        _ => figures.head / figures.base - 1.0,
    })
}

/// What the spec expects of the case now.
pub(super) fn by_spec(change: &Change) -> Option<Accepted> {
    let head = change.head.as_ref()?;
    let is_expected = change.kind == Kind::Lost && head.status == Outcome::Xfail;
    is_expected.then(|| Accepted {
        reason: "the spec expects it".to_owned(),
        until: None,
        place: None,
    })
}

impl Comparison {
    /// Marks the changes that are accepted on this day (`2026-12-31`), and notes what of the file does not count.
    pub fn accept(&mut self, acceptances: &[Acceptance], today: &str) {
        for acceptance in acceptances {
            let is_over = acceptance.until.as_str() < today;
            let mut is_met = false;
            let mut exceeded = None;
            for change in &mut self.changes {
                let is_meant =
                    change.kind == acceptance.kind && glob::matches(&acceptance.case, &change.case);
                if !is_meant || change.accepted.is_some() {
                    continue;
                }
                is_met = true;
                let figure = figure(change);
                let is_within = match (acceptance.up_to, figure) {
                    (Some(up_to), Some(figure)) => figure <= up_to,
                    _ => true,
                };
                if !is_within {
                    exceeded = exceeded.or_else(|| Some((change.case.clone(), figure)));
                } else if !is_over {
                    change.accepted = Some(Accepted {
                        reason: acceptance.reason.clone(),
                        until: Some(acceptance.until.clone()),
                        place: Some(acceptance.place.clone()),
                    });
                }
            }
            let Acceptance {
                case,
                kind,
                up_to,
                until,
                place,
                ..
            } = acceptance;
            let percent = |share: f64| format!("{:.0} %", 100.0 * share);
            let what = format!("{place} (`{case}`, {})", kind.word());
            if let Some((case, Some(figure))) = exceeded {
                let up_to = up_to.map(percent).unwrap_or_default();
                let is = percent(figure);
                self.acceptances.push(format!(
                    "{what} accepts up to {up_to}, and {case} is at {is}"
                ));
            } else if is_over {
                self.acceptances.push(format!("{what} ended on {until}"));
            } else if !is_met && self.beyond == 0 {
                // A part of a spec says nothing of the rows of the rest.
                self.acceptances
                    .push(format!("{what} accepts nothing of this comparison"));
            }
        }
    }
}
