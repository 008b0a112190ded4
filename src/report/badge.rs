//! A badge for a README, from `templates/report/badge.svg.j2`: how many of the cases that could run are right.

use serde_json::json;

use super::site::Tally;
use super::{ReportDoc, Summary};
use crate::template::{self, TemplateError};

const GOOD: &str = "#2a7d2a";
const BAD: &str = "#b3261e";
/// Nothing is claimed.
const NOTHING: &str = "#6b6b6b";

/// The badge of the whole report: an SVG of one line, 20 px high.
pub fn render(doc: &ReportDoc) -> Result<String, TemplateError> {
    let (claim, colour) = claim(&doc.summary);
    let label_text = doc
        .scope
        .as_ref()
        .map_or(claim.clone(), |scope| format!("{claim} ({scope})"));
    drawn("orch", &label_text, colour)
}

/// The badge of a part of it, by its name.
pub(super) fn of(label: &str, tally: &Tally) -> Result<String, TemplateError> {
    let colour = match tally {
        Tally { failed: 1.., .. } => BAD,
        Tally { right: 0, .. } => NOTHING,
        _ => GOOD,
    };
    let value = match tally.asked {
        0 => "nothing ran".to_owned(),
        cases => format!("{} of {cases} right", tally.right),
    };
    drawn(label, &value, colour)
}

fn drawn(label: &str, value: &str, colour: &str) -> Result<String, TemplateError> {
    template::render(
        "report/badge.svg.j2",
        json!({"label": label, "told": value, "colour": colour}),
    )
}

fn claim(summary: &Summary) -> (String, &'static str) {
    let Summary {
        passed,
        fallbacks,
        flaky,
        indecisive,
        xfailed,
        failed,
        failed_steps,
        incomplete,
        ..
    } = summary;
    let right = passed + fallbacks + flaky;
    let ran = right + indecisive + xfailed + failed;
    let text = format!("{right} of {ran} passed");
    match (ran, right) {
        _ if *incomplete > 0 => ("incomplete".to_owned(), NOTHING),
        _ if *failed > 0 || *failed_steps > 0 => (text, BAD),
        (0, _) => ("nothing ran".to_owned(), NOTHING),
        (_, 0) => (text, NOTHING),
        _ => (text, GOOD),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_ran_and_is_right_is_green() {
        let green = || Summary {
            passed: 3,
            unavailable: 4,
            ..Summary::default()
        };
        for (summary, expected, colour) in [
            (green(), "3 of 3 passed", GOOD),
            (
                Summary {
                    indecisive: 1,
                    ..green()
                },
                "3 of 4 passed",
                GOOD,
            ),
            (
                Summary {
                    failed: 1,
                    ..green()
                },
                "3 of 4 passed",
                BAD,
            ),
            (
                Summary {
                    failed_steps: 1,
                    ..green()
                },
                "3 of 3 passed",
                BAD,
            ),
            (
                Summary {
                    incomplete: 1,
                    ..green()
                },
                "incomplete",
                NOTHING,
            ),
            (
                Summary {
                    unavailable: 4,
                    ..Summary::default()
                },
                "nothing ran",
                NOTHING,
            ),
            (
                Summary {
                    xfailed: 1,
                    ..Summary::default()
                },
                "0 of 1 passed",
                NOTHING,
            ),
        ] {
            assert_eq!(claim(&summary), (expected.to_owned(), colour));
        }
    }
}
