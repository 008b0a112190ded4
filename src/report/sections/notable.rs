//! Cases and the user's own steps that neither failed nor plainly passed.

use super::{Item, Outcome, View, one_line};
use crate::report::FlakyStep;
use crate::report::format::{day, glyph, kind};

pub(super) fn notable<'a>(view: &View<'a>) -> Vec<Item<'a>> {
    let causes = view.causes(|case| case.note().is_some());
    causes
        .iter()
        .map(Item::of)
        .chain(view.doc.flaky_steps.iter().map(flaky))
        .collect()
}

fn flaky(step: &FlakyStep) -> Item<'_> {
    let date = step.executed.as_deref().filter(|_| step.cached);
    let date = date
        .map(|time| format!(" (executed {})", day(time)))
        .unwrap_or_default();
    let line = one_line(step.reason.as_deref().unwrap_or_default()) + &date;
    let kind = kind(Outcome::Flaky);
    let glyph = glyph(Outcome::Flaky);
    Item {
        kind,
        glyph,
        ..Item::about(Outcome::Flaky.label(), step.step.clone(), line)
    }
}
