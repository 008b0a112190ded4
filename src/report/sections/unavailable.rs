//! Backends and models that are not there, for what reason, and what would mend it.

use indexmap::IndexSet;

use super::{CaseResult, Item, Outcome, Place, View, counted, one_line};
use crate::report::cause::Cause;

pub(super) fn unavailable<'a>(view: &View<'a>) -> Vec<Item<'a>> {
    let causes = view.causes(|case| case.status == Outcome::SkipUnavailable);
    causes.iter().map(|cause| backend(view, cause)).collect()
}

/// Whether a case is unavailable for want of its model, and not of hardware.
pub(super) fn lacks_model(case: &CaseResult) -> bool {
    case.stage.as_deref() == Some("generate")
}

fn backend<'a>(view: &View<'a>, cause: &Cause<'a>) -> Item<'a> {
    let targets: IndexSet<String> = cause
        .cases
        .iter()
        .map(|(_, case)| Place::from(*case).variant.name())
        .collect();
    let targets = targets.into_iter().collect::<Vec<_>>().join(", ");
    let first = cause.first();
    let whose = format!(
        "unavailable: {targets} ({})",
        counted(cause.cases.len(), "case")
    );
    if lacks_model(first) {
        // The hardware may be there: it is the model that is not.
        return Item {
            label: &first.model,
            whose: Some(whose),
            stage: None,
            repro: None,
            ..Item::of(cause)
        };
    }
    // A backend that is there is not what a case lacks: a target may name a machine that nobody offers.
    let missing = view.backend(first).filter(|backend| !backend.available);
    let label = if missing.is_some() {
        &first.backend
    } else {
        &first.target
    };
    let mut item = Item {
        label,
        whose: Some(whose),
        stage: None,
        repro: None,
        ..Item::of(cause)
    };
    let remedy = missing.and_then(|backend| backend.remedy.as_deref());
    item.lines
        .extend(remedy.map(|remedy| format!("remedy: {}", one_line(remedy))));
    item
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{fixture, text};

    #[test]
    fn a_model_that_is_not_there_is_no_lack_of_its_target() {
        let mut doc = fixture();
        doc.cases
            .retain(|case| case.backend == "cpu" && ["bert", "vit"].contains(&&*case.model));
        for case in &mut doc.cases {
            case.status = Outcome::SkipUnavailable;
            case.stage = Some("generate".to_owned());
            case.reason = Some(format!("`org/{}` cannot be loaded: no network", case.model));
            case.metrics = None;
        }
        let page = text::render(&doc, &text::Styles::plain());
        for expected in [
            "— bert unavailable: ",
            "— vit unavailable: ",
            "`org/bert` cannot be loaded",
        ] {
            assert!(page.contains(expected), "{expected}: {page}");
        }
        assert!(!page.contains("cpu unavailable"), "{page}");
        // The columns are there: their hardware is.
        assert!(page.lines().next().unwrap().contains("cpu-fp32"), "{page}");
    }
}
